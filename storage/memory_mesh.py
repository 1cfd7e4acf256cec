"""Agents on machines in the in-memory store: `storage.mesh_protocols` as parts of `MemoryTx` and `MemorySnapshot`."""

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec
from msgspec.structs import replace

from storage.errors import InboxGone
from storage.mail_records import AgentRecord, DrainRow, Receipt
from storage.memory_journal import Journal
from storage.memory_state import MemoryEntry, MemoryInbox, MemoryMessage, MemorySent, MemoryState
from storage.mesh_protocols import SENT_RECEIPTS, UNREAD_SCANNED
from storage.mesh_records import MachineRecord, PresenceRecord, SentMessage, Unread, WakeTarget


def drained(state: MemoryState, inbox_id: int, entry: MemoryEntry, body_limit: int) -> DrainRow:
    """Return what draining looks at of an entry."""
    origin = state.alive(entry.origin)
    parts = (entry.message.facts, entry.message.said, entry.delivery, entry.body(body_limit))
    return DrainRow(
        entry.seq,
        0.0 if entry.delivery is None else float(msgspec.json.decode(entry.delivery).get("score", 0)),
        entry.expires_at,
        None if origin is None else origin.record.slug,
        None if origin is None else origin.record.kind,
        entry.origin == inbox_id,
        sum(len(part or b"") for part in parts),
    )


def _expired(expires_at: int | None, now_us: int) -> bool:
    return expires_at is not None and expires_at <= now_us


class MemoryMeshReads:
    """What a unit and a look both read."""

    _state: MemoryState

    def seqs_of_ids(self, inbox_id: int, ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return under which seqs messages stand in an inbox. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        found: dict[bytes, int] = {}
        for id in ids:
            mid = self._state.message_ids.get(id)
            if mid is None:
                continue
            message = self._state.messages[mid]
            delivered = self._state.delivered.get(mid, {}).get(inbox_id)
            seq = message.home_seq if message.home_inbox == inbox_id else delivered
            if seq is not None and inbox.visible(seq) is not None:
                found[id] = seq
        return found

    def rows_at(self, inbox_id: int, seqs: Sequence[int]) -> list[DrainRow]:
        """Return rows that are retained, in the order of their seqs. Raises `InboxGone`."""
        found = map(self._state.live(inbox_id).visible, sorted(set(seqs)))
        return [drained(self._state, inbox_id, entry, 0) for entry in found if entry is not None]

    def unread(
        self, inbox_id: int, after: int, acked: Sequence[tuple[int, int]], now_us: int, limit: int
    ) -> list[Unread]:
        """Count what is unread by where it comes from. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        done = {seq for low, high in acked for seq in range(low, high + 1)}
        open_ = (seq for seq in sorted(inbox.rows) if seq > after and seq not in done)
        looked_at = (inbox.rows[seq] for seq in open_ if inbox.visible(seq) is not None)
        alive = (row for row in islice(looked_at, UNREAD_SCANNED) if not _expired(row.expires_at, now_us))
        counts: dict[int, int] = {}
        for row in islice(alive, limit):
            counts[row.origin] = counts.get(row.origin, 0) + 1
        return [self._unread(inbox_id, origin, counts[origin]) for origin in sorted(counts)]

    def _unread(self, inbox_id: int, origin: int, count: int) -> Unread:
        found = self._state.alive(origin)
        slug, kind = (None, None) if found is None else (found.record.slug, found.record.kind)
        return Unread(slug, kind, origin == inbox_id, count)


class MemoryMeshChanges(Journal):
    """What a unit changes."""

    _state: MemoryState
    _now: int

    # -- machines and who is there ------------------------------------------------------------------------
    def create_machine(self, name: str, inbox_id: int) -> MachineRecord:
        """Create a machine. Raises `InboxGone`; `ValueError` when it, or the machine of this inbox, exists."""
        self._state.live(inbox_id)
        if any(one.name == name or one.inbox_id == inbox_id for one in self._state.machines.values()):
            raise ValueError(f"machine {name} exists, or inbox {inbox_id} has one")
        machine = MachineRecord(name, inbox_id, self._now)
        self._insert(self._state.machines, name, machine)
        return machine

    def machine_agents(self, name: str) -> list[tuple[AgentRecord, int | None]]:
        """Return the agents of a machine, in the order of their ids, each with its `gone_at`."""
        state = self._state
        found = [state.agents[agent_id] for agent_id in sorted(state.agents)]
        return [
            (agent, known.gone_at if (known := state.presences.get(agent.agent_id)) is not None else None)
            for agent in found
            if agent.machine == name
        ]

    def put_presence(self, presence: PresenceRecord) -> None:
        """Store a presence. Raises `InboxGone` when its agent is gone."""
        self._require_agent(presence.agent_id)
        self._insert(self._state.presences, presence.agent_id, presence)

    def touch_presences(self, presences: Iterable[PresenceRecord]) -> None:
        """Move times of activity forward; agents that are gone are passed over."""
        for presence in presences:
            if presence.agent_id not in self._state.agents:
                continue
            stored = self._state.presences.get(presence.agent_id, presence)
            at = max(stored.last_activity_at, presence.last_activity_at)
            self._insert(self._state.presences, presence.agent_id, replace(stored, last_activity_at=at))

    def put_wake_target(self, target: WakeTarget) -> None:
        """Store a wake target. Raises `InboxGone` when its agent is gone."""
        self._require_agent(target.agent_id)
        self._insert(self._state.wake_targets, target.agent_id, target)

    def drop_wake_target(self, agent_id: str) -> bool:
        """Remove an agent's wake target; False when there is none."""
        found = agent_id in self._state.wake_targets
        if found:
            self._remove(self._state.wake_targets, agent_id)
        return found

    def _require_agent(self, agent_id: str) -> None:
        if agent_id not in self._state.agents:
            raise InboxGone(f"agent {agent_id} does not exist")

    # -- receipts -----------------------------------------------------------------------------------------
    def mark_receipts_served(self, inbox_id: int, seqs: Sequence[int], at_us: int) -> None:
        """Note that entries were served."""
        for mid, receipt, _ in self._open(inbox_id, seqs):
            if receipt.served_at is None:
                served = replace(receipt, served_at=_not_before(receipt, at_us))
                self._insert(self._state.receipts[mid], inbox_id, served)

    def mark_receipts_acked(self, inbox_id: int, seqs: Sequence[int], at_us: int) -> None:
        """Note that entries were acknowledged one by one."""
        for mid, receipt, _ in self._open(inbox_id, seqs):
            self._insert(self._state.receipts[mid], inbox_id, _acked(receipt, at_us))

    def mark_receipts_passed(self, inbox_id: int, after_seq: int, through_seq: int, at_us: int) -> None:
        """Note that entries were acknowledged by a cursor."""
        inbox = self._state.alive(inbox_id)
        if inbox is None:
            return
        seqs = [seq for seq in inbox.rows if after_seq < seq <= through_seq and seq >= inbox.head.first_seq]
        for mid, receipt, entry in self._open(inbox_id, seqs):
            late = _expired(entry.expires_at, at_us)
            passed = replace(receipt, expired_at=entry.expires_at) if late else _acked(receipt, at_us)
            self._insert(self._state.receipts[mid], inbox_id, passed)

    def remember_sent_log(
        self, sender: int, id: bytes, mid: int, sent_at: int, event_type: str, expires_at: int | None = None
    ) -> None:
        """Note that an agent has sent a message. Raises `ValueError` when that is noted already."""
        if mid in self._state.sent_log:
            raise ValueError(f"message {mid} is in the list of what was sent")
        sent = MemorySent(sender, id, mid, sent_at, event_type, expires_at, None)
        self._insert(self._state.sent_log, mid, sent)

    def _open(self, inbox_id: int, seqs: Iterable[int]) -> list[tuple[int, Receipt, MemoryEntry]]:
        """Return the open receipts of entries, each with its mid and the entry."""
        inbox = self._state.inboxes.get(inbox_id)
        rows = {} if inbox is None else inbox.rows
        entries = [entry for seq in dict.fromkeys(seqs) if (entry := rows.get(seq)) is not None]
        found = [
            (entry.message.mid, self._state.receipts.get(entry.message.mid, {}).get(inbox_id), entry)
            for entry in entries
        ]
        return [
            (mid, receipt, entry)
            for mid, receipt, entry in found
            if receipt is not None
            and receipt.seq == entry.seq
            and receipt.acked_at is None
            and receipt.expired_at is None
        ]

    # -- what goes with others ----------------------------------------------------------------------------
    def _leave_mesh(self, inbox_id: int, agent: AgentRecord | None) -> None:
        """Remove the machine of a deleted inbox, and what is kept of its agent."""
        for machine in [one for one in self._state.machines.values() if one.inbox_id == inbox_id]:
            self._remove(self._state.machines, machine.name)
        if agent is not None:
            self.drop_wake_target(agent.agent_id)
            if agent.agent_id in self._state.presences:
                self._remove(self._state.presences, agent.agent_id)

    def _entry_dropped(self, inbox_id: int, inbox: MemoryInbox, entry: MemoryEntry) -> None:
        """Note that nobody will acknowledge an entry any more; in an inbox that is gone nobody asks."""
        mid = entry.message.mid
        if not inbox.alive and inbox_id in self._state.receipts.get(mid, {}):
            self._remove(self._state.receipts[mid], inbox_id)
        for _, receipt, _ in self._open(inbox_id, [entry.seq]):
            expires_at = self._now if entry.expires_at is None else entry.expires_at
            dropped = replace(receipt, expired_at=min(self._now, expires_at))
            self._insert(self._state.receipts[mid], inbox_id, dropped)

    def _message_gone(self, message: MemoryMessage) -> None:
        """Remove the receipts of a message, unless its sender may still ask."""
        sent = self._state.sent_log.get(message.mid)
        if sent is not None:
            self._insert(self._state.sent_log, message.mid, replace(sent, gone_at=self._now))
        elif message.mid in self._state.receipts:
            self._remove(self._state.receipts, message.mid)

    def _forget_sent(self, before_us: int, max_rows: int) -> int:
        """Forget messages that have been gone since before a moment, oldest first; return how many rows that were."""
        old = [
            (one.gone_at, mid)
            for mid, one in self._state.sent_log.items()
            if one.gone_at is not None and one.gone_at < before_us
        ]
        left = max_rows
        for _, mid in sorted(old):
            receipts = self._state.receipts.get(mid, {})
            for inbox_id in list(receipts)[:left]:
                self._remove(receipts, inbox_id)
                left -= 1
            if left == 0:
                break
            self._forget_note(mid)
            left -= 1
        return max_rows - left

    def _forget_sender(self, sender: int) -> None:
        """Forget what a sender that is gone has sent."""
        for mid in [mid for mid, one in self._state.sent_log.items() if one.sender == sender]:
            self._forget_note(mid)

    def _forget_note(self, mid: int) -> None:
        self._remove(self._state.sent_log, mid)
        if mid not in self._state.messages and mid in self._state.receipts:
            self._remove(self._state.receipts, mid)


def _acked(receipt: Receipt, at_us: int) -> Receipt:
    acked_at = _not_before(receipt, at_us)
    served_at = acked_at if receipt.served_at is None else receipt.served_at
    return replace(receipt, acked_at=acked_at, served_at=served_at)


def _not_before(receipt: Receipt, at_us: int) -> int:
    """Return a moment, or the last one that is noted, whichever is later: the clock may have been set back."""
    return max(at_us, receipt.stored_at or 0, receipt.served_at or 0)


class MemoryMeshLog:
    """What is read as a whole, and what was sent."""

    _state: MemoryState

    def machines(self) -> list[MachineRecord]:
        """Return every machine, in the order of their names."""
        return [self._state.machines[name] for name in sorted(self._state.machines)]

    def presences(self) -> list[PresenceRecord]:
        """Return every presence, in the order of the agents' ids."""
        return [self._state.presences[agent_id] for agent_id in sorted(self._state.presences)]

    def wake_targets(self) -> list[WakeTarget]:
        """Return every wake target, in the order of the agents' ids."""
        return [self._state.wake_targets[agent_id] for agent_id in sorted(self._state.wake_targets)]

    def sent_by(
        self,
        sender: int,
        before_id: bytes | None,
        limit: int,
        now_us: int,
        receipt_limit: int = SENT_RECEIPTS,
    ) -> list[SentMessage]:
        """Return the newest messages that an agent has sent."""
        mine = [one for one in self._state.sent_log.values() if one.sender == sender]
        wanted = sorted((one for one in mine if before_id is None or one.id < before_id), key=lambda s: s.id)
        found: list[SentMessage] = []
        receipts = 0
        for sent in reversed(wanted):
            if len(found) == limit or receipts > receipt_limit:
                break
            found.append(self._sent(sent, now_us))
            receipts += len(found[-1].receipts)
        return found

    def _sent(self, sent: MemorySent, now_us: int) -> SentMessage:
        known = self._state.receipts.get(sent.mid, {})
        here = {agent.inbox_id for agent in self._state.agents.values()}
        over = sent.expires_at if _expired(sent.expires_at, now_us) else None
        receipts = [
            replace(one, expired_at=over) if over is not None and _late(one, over) else one
            for inbox_id, one in sorted(known.items())
            if inbox_id in here
        ]
        return SentMessage(sent.id, sent.mid, sent.sent_at, sent.event_type, tuple(receipts))


def _late(receipt: Receipt, over: int) -> bool:
    """Whether a receipt of a message that had expired at `over` was not closed by then."""
    return receipt.expired_at is None and (receipt.acked_at is None or receipt.acked_at > over)
