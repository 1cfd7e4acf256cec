"""The mail of agents in the in-memory store: `storage.mail_protocols` as parts of `MemoryTx` and `MemorySnapshot`."""

import heapq
from collections.abc import Sequence

from msgspec.structs import replace

from storage.errors import InboxGone
from storage.mail_records import (
    AgentRecord,
    BeaconRecord,
    Delivered,
    Drain,
    NewDelivery,
    ReaderRecord,
    Receipt,
    Recipient,
    Sent,
)
from storage.memory_mesh import MemoryMeshChanges, MemoryMeshReads, drained
from storage.memory_state import MemoryEntry, MemoryInbox, MemoryState


class MemoryMailReads(MemoryMeshReads):
    """What a unit and a look both read."""

    _state: MemoryState

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return an agent."""
        return self._state.agents.get(agent_id)

    def beacons(self, agent_id: str | None = None) -> list[BeaconRecord]:
        """Return the beacons of one agent, or of all, in the order of agents and names."""
        known = self._state.beacons
        return [known[key] for key in sorted(known) if agent_id is None or key[0] == agent_id]

    def reader(self, inbox_id: int, name: str) -> ReaderRecord | None:
        """Return a reader of an inbox, None when there is none of that name."""
        inbox = self._state.alive(inbox_id)
        return None if inbox is None else inbox.readers.get(name)

    def window(self, inbox_id: int, floor: int, limit: int, body_limit: int) -> Drain:
        """Return the first `limit` retained rows above a floor. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        seqs = self.seqs_after(inbox_id, floor, limit + 1)
        rows = [drained(self._state, inbox_id, inbox.rows[seq], body_limit) for seq in seqs[:limit]]
        return Drain(inbox.head, rows, len(seqs) > limit)

    def seqs_after(self, inbox_id: int, floor: int, limit: int) -> list[int]:
        """Return the first `limit` retained seqs above a floor. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        wanted = (seq for seq in inbox.rows if seq > floor and inbox.visible(seq))
        return heapq.nsmallest(limit, wanted)

    def next_seq(self, inbox_id: int, after: int) -> int:
        """Return the first retained seq above one, one past the latest when there is none. Raises `InboxGone`."""
        following = self.seqs_after(inbox_id, after, 1)
        return following[0] if following else self._state.live(inbox_id).head.latest_seq + 1

    def floor_at(self, inbox_id: int, at_us: int) -> int:
        """Return the seq above which all is later than a moment. Raises `InboxGone`."""
        head = self._state.live(inbox_id).head
        rows = self._state.live(inbox_id).rows
        floor = head.first_seq - 1
        for seq in self.seqs_after(inbox_id, floor, head.live_rows + 1):
            if rows[seq].received_at > at_us:
                return floor
            floor = seq
        return head.latest_seq

    def deliveries(self, inbox_id: int, seqs: Sequence[int], body_limit: int) -> list[Delivered]:
        """Return what is shown of entries that are retained, in the order given. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        found = (inbox.visible(seq) for seq in seqs)
        return [self._delivered(inbox_id, entry, body_limit) for entry in found if entry is not None]

    def _delivered(self, inbox_id: int, entry: MemoryEntry, body_limit: int) -> Delivered:
        message = entry.message
        home = self._state.alive(message.home_inbox)
        return Delivered(
            entry.seq,
            entry.received_at,
            entry.delivery,
            entry.expires_at,
            entry.origin == inbox_id,
            message.id,
            message.received_at,
            message.size,
            message.facts,
            message.said,
            message.body_kind,
            entry.body(body_limit),
            message.body_id,
            entry.event_type,
            entry.verified,
            None if home is None else home.record.slug,
            message.home_seq,
            message.home_epoch,
        )

    def receipts(self, mid: int) -> list[Receipt]:
        """Return what became of a message at its recipients, in the order of their inboxes."""
        known = self._state.receipts.get(mid, {})
        return [known[inbox_id] for inbox_id in sorted(known)]


class MemoryMailChanges(MemoryMeshChanges, MemoryMailReads):
    """What a unit changes."""

    _now: int

    @property
    def last_mid(self) -> int:
        """The mid of the newest message, those of this unit included."""
        return self._state.last_mid

    def undelivered(self, inbox_id: int, mids: Sequence[int]) -> set[int]:
        """Return those of the messages that may still be delivered to an inbox."""
        state = self._state
        known = (state.messages.get(mid) for mid in mids)
        return {
            message.mid
            for message in known
            if message is not None
            and message.home_inbox != inbox_id
            and state.home_entry(message) is not None
            and inbox_id not in state.delivered.get(message.mid, {})
            and not self._has_closed(message.mid, inbox_id)
        }

    def _has_closed(self, mid: int, inbox_id: int) -> bool:
        """Whether a message has come to an inbox that has it no more, and is not to be given it again."""
        receipt = self._state.receipts.get(mid, {}).get(inbox_id)
        return receipt is not None and receipt.seq is not None

    def copies(self, inbox_id: int, seq: int) -> list[tuple[int, int]]:
        """Return where a message that is at home in this entry was delivered to and can still be read."""
        state = self._state
        row = state.live(inbox_id).rows.get(seq)
        if row is None or not row.home:
            return []
        found = sorted(state.delivered.get(row.message.mid, {}).items())
        return [
            (other, at)
            for other, at in found
            if (inbox := state.inboxes.get(other)) is not None and inbox.alive and at >= inbox.head.first_seq
        ]

    def deliver(self, inbox_id: int, deliveries: Sequence[NewDelivery]) -> None:
        """Insert deliveries, and fill in the receipts that wait for them. Raises `ValueError` when a seq is taken, or a
        message was delivered before or is not there.
        """
        state = self._state
        inbox = state.live(inbox_id)
        for new in deliveries:
            places = state.delivered.setdefault(new.mid, {})
            if new.seq in inbox.rows or inbox_id in places or new.mid not in state.messages:
                raise ValueError(f"inbox {inbox_id} cannot be given message {new.mid} as {new.seq}")
            entry = MemoryEntry(
                new.seq,
                state.messages[new.mid],
                new.delivered_at,
                new.event_type,
                new.verified,
                False,
                new.origin,
                new.expires_at,
                new.delivery,
            )
            self._insert(inbox.rows, new.seq, entry)
            self._insert(places, inbox_id, new.seq)
            receipt = state.receipts.get(new.mid, {}).get(inbox_id)
            if receipt is not None and receipt.seq is None:
                stored = replace(receipt, seq=new.seq, stored_at=new.delivered_at)
                self._insert(state.receipts[new.mid], inbox_id, stored)

    def put_reader(self, inbox_id: int, name: str, reader: ReaderRecord) -> None:
        """Store a reader. Raises `InboxGone`."""
        self._insert(self._state.live(inbox_id).readers, name, reader)

    def add_recipients(self, mid: int, recipients: Sequence[Recipient]) -> None:
        """Write down to whom a message is sent. Raises `ValueError` when one is there already."""
        known = self._state.receipts.setdefault(mid, {})
        for one in recipients:
            if one.inbox_id in known:
                raise ValueError(f"message {mid} has a receipt of inbox {one.inbox_id}")
            self._insert(
                known,
                one.inbox_id,
                Receipt(one.inbox_id, one.seq, one.stored_at, None, None, None),
            )

    def sent(self, sender: int, key: bytes) -> Sent | None:
        """Return what was answered to a request."""
        return self._state.sent.get((sender, key))

    def remember_sent(self, sender: int, key: bytes, sent: Sent) -> None:
        """Remember an answer."""
        self._insert(self._state.sent, (sender, key), sent)

    def create_agent(self, agent_id: str, inbox_id: int, machine: str | None = None) -> AgentRecord:
        """Create an agent. Raises `InboxGone`; `ValueError` when it, or the agent of this inbox, exists."""
        self._state.live(inbox_id)
        if any(one.agent_id == agent_id or one.inbox_id == inbox_id for one in self._state.agents.values()):
            raise ValueError(f"agent {agent_id} exists, or inbox {inbox_id} has one")
        agent = AgentRecord(agent_id, inbox_id, machine, self._now)
        self._insert(self._state.agents, agent_id, agent)
        return agent

    def put_beacon(self, beacon: BeaconRecord) -> None:
        """Store a beacon. Raises `InboxGone` when its agent is gone."""
        if beacon.agent_id not in self._state.agents:
            raise InboxGone(f"agent {beacon.agent_id} does not exist")
        self._insert(self._state.beacons, (beacon.agent_id, beacon.name), beacon)

    def drop_beacon(self, agent_id: str, name: str) -> bool:
        """Remove a beacon; False when there is none of that name."""
        found = (agent_id, name) in self._state.beacons
        if found:
            self._remove(self._state.beacons, (agent_id, name))
        return found

    def count_beacon(self, agent_id: str, name: str, day: int, delivered: int, overflow: int) -> None:
        """Count for a beacon; a later day begins at zero."""
        beacon = self._state.beacons.get((agent_id, name))
        if beacon is None:
            return
        if day > beacon.day:
            beacon = replace(beacon, day=day, delivered=0, overflow=0)
        counted = replace(beacon, delivered=beacon.delivered + delivered, overflow=beacon.overflow + overflow)
        self._insert(self._state.beacons, (agent_id, name), counted)

    def routed(self, mid: int) -> None:
        """Move the router's cursor forward."""
        self._set(self._state, "routed_mid", max(mid, self._state.routed_mid))

    # -- what goes with others -------------------------------------------------------------------------------
    def _leave_agent(self, inbox_id: int, inbox: MemoryInbox) -> None:
        """Remove the readers of a deleted inbox, its machine or its agent, and what is kept of that agent."""
        self._set(inbox, "readers", {})
        agent = next((one for one in self._state.agents.values() if one.inbox_id == inbox_id), None)
        self._leave_mesh(inbox_id, agent)
        if agent is not None:
            self._remove(self._state.agents, agent.agent_id)
            for beacon in self.beacons(agent.agent_id):
                self.drop_beacon(agent.agent_id, beacon.name)

    def _forget_pending(self, mid: int) -> None:
        """Remove what is still to be delivered of a message that left its home."""
        known = self._state.receipts.get(mid, {})
        for receipt in [one for one in known.values() if one.seq is None]:
            self._remove(known, receipt.inbox_id)
