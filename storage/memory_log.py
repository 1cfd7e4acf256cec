"""The log of the in-memory store: `storage.mail_protocols.LogReads` as a part of `MemorySnapshot`."""

import heapq
from collections.abc import Iterable, Sequence

from storage.mail_records import ROUTABLE_KINDS, AgentRecord, Content, LogSlice, Pending, Routable
from storage.memory_mesh import MemoryMeshLog
from storage.memory_state import MemoryEntry, MemoryInbox, MemoryMessage, MemoryState


class MemoryLogReads(MemoryMeshLog):
    """What the router reads."""

    _state: MemoryState

    def agents(self) -> list[AgentRecord]:
        """Return every agent, in the order of their ids."""
        return [self._state.agents[agent_id] for agent_id in sorted(self._state.agents)]

    def routed_mid(self) -> int:
        """Return up to where the log was routed."""
        return self._state.routed_mid

    def last_mid(self) -> int:
        """Return the mid of the last message, whether or not it still exists."""
        return self._state.last_mid

    def routable(self, after_mid: int, limit: int) -> LogSlice:
        """Look at the `limit` messages that follow a mid."""
        mids = heapq.nsmallest(limit, (mid for mid in self._state.messages if mid > after_mid))
        last = self._state.last_mid
        if len(mids) < limit:
            return LogSlice(self._routable(mids), max(after_mid, last), False)
        return LogSlice(self._routable(mids), mids[-1], mids[-1] < last)

    def routable_before(self, before_mid: int, limit: int) -> LogSlice:
        """Look at the `limit` messages in front of a mid, newest first."""
        mids = heapq.nlargest(limit, (mid for mid in self._state.messages if mid < before_mid))
        if len(mids) < limit:
            return LogSlice(self._routable(mids), 1, False)
        return LogSlice(self._routable(mids), mids[-1], True)

    def _routable(self, mids: Iterable[int]) -> list[Routable]:
        found = []
        for message in (self._state.messages[mid] for mid in mids):
            inbox, entry = self._state.alive(message.home_inbox), self._state.home_entry(message)
            if inbox is not None and entry is not None and inbox.record.kind in ROUTABLE_KINDS:
                found.append(_routable(message, inbox, entry))
        return found

    def contents(self, mids: Sequence[int], body_limit: int, byte_budget: int) -> list[Content]:
        """Return what is matched of messages, in the order of their mids."""
        found: list[Content] = []
        for mid in sorted(set(mids) & self._state.messages.keys()):
            if byte_budget < 0:
                break
            message = self._state.messages[mid]
            start = self._start(message)[:body_limit] or None
            found.append(Content(mid, message.facts, message.said, message.body_kind, start, message.size))
            byte_budget -= len(message.facts) + len(message.said) + len(start or b"")
        return found

    def _start(self, message: MemoryMessage) -> bytes:
        """Return a body, or the first piece of a large one."""
        if message.body_id is None:
            return message.body or b""
        return self._state.bodies[message.body_id].pieces[0]

    def pending(self, after: tuple[int, int], through_mid: int, limit: int) -> list[Pending]:
        """Return recipients that are still to be delivered to."""
        state = self._state
        waiting = [
            (mid, receipt.inbox_id)
            for mid, known in state.receipts.items()
            for receipt in known.values()
            if receipt.seq is None and after < (mid, receipt.inbox_id) and mid <= through_mid
        ]
        found: list[Pending] = []
        for mid, inbox_id in sorted(waiting):
            message = state.messages.get(mid)
            entry = None if message is None else state.home_entry(message)
            if entry is not None and state.alive(inbox_id) is not None and len(found) < limit:
                found.append(_pending(entry, inbox_id))
        return found


def _routable(message: MemoryMessage, inbox: MemoryInbox, entry: MemoryEntry) -> Routable:
    return Routable(
        message.mid,
        message.id,
        message.home_inbox,
        inbox.record.slug,
        inbox.record.kind,
        message.home_seq,
        message.received_at,
        entry.event_type,
        entry.verified,
        message.size,
        entry.expires_at,
    )


def _pending(entry: MemoryEntry, inbox_id: int) -> Pending:
    return Pending(
        entry.message.mid,
        inbox_id,
        entry.message.home_inbox,
        entry.event_type,
        entry.verified,
        entry.message.size,
        entry.expires_at,
        entry.delivery,
    )
