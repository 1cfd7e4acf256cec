"""What has become durable in a run, written down commit by commit, and what must be true of it after each of them.

The ledger sees every unit that takes effect, so it knows at any moment what readers may be shown: `Life` is one life of
an inbox, with everything that was ever in it. What is wrong is a *finding*: it is kept, and the run ends.
`tests.simulation.promises` compares what clients were told with this.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import trio

from actors.commands import Erase, Purge
from actors.turn import Turn, TurnResult
from storage.mail_records import SELF
from storage.memory_state import MemoryInbox, MemoryState
from storage.protocols import Unit
from storage.records import Head, Retention

LOG_LINES = 20_000
"""More than any run has: a server that goes round in circles must not fill the memory."""


class Entry(NamedTuple):
    """One entry of an inbox. `since`: when it became durable, by the virtual clock; `mid`: of its message."""

    id: bytes
    at: int
    event_type: str
    mid: int
    since: float


class Life:
    """One life of an inbox. `entries`: everything that ever stood in it, by seq."""

    def __init__(self, inbox: MemoryInbox) -> None:
        self.inbox_id = inbox.record.inbox_id
        self.slug = inbox.record.slug
        self.kind = inbox.record.kind
        self.epoch = inbox.head.epoch
        self.head: Head = inbox.head
        self.entries: dict[int, Entry] = {}
        self.erased: set[int] = set()
        self.purged = 0  # up to here by an administrator
        self.ended_at: float | None = None
        self.ack_cursor = 0

    def kept(self) -> list[tuple[int, bytes]]:
        """Return seq and id of what must still be there."""
        first, latest = self.head.first_seq, self.head.latest_seq
        return [(seq, self.entries[seq].id) for seq in range(first, latest + 1) if seq not in self.erased]


class Ledger:
    """Everything that was stored, and what was found to be wrong."""

    def __init__(self, now: Callable[[], int]) -> None:
        """`now`: the machine's time of day, in µs."""
        self.now = now
        self.lines: list[str] = []
        self.findings: list[str] = []
        self.found = trio.Event()
        self.lives: dict[str, Life] = {}
        self.homes: dict[bytes, tuple[Life, int]] = {}
        self._present: dict[int, Life] = {}

    # -- what happens ---------------------------------------------------------------------------------------
    def note(self, text: str) -> None:
        """Write a line into the log of the run."""
        if len(self.lines) < LOG_LINES:
            self.lines.append(f"{trio.current_time() - 1_000:9.4f} {text}")

    def find(self, text: str) -> None:
        """Take note of something wrong; the run ends."""
        self.findings.append(text)
        self.note(f"FOUND {text}")
        self.found.set()

    def now_living(self, slug: str) -> Life | None:
        """Return the present life of an inbox."""
        return next((life for life in self._present.values() if life.slug == slug), None)

    @property
    def present(self) -> list[Life]:
        """The inboxes that there are."""
        return list(self._present.values())

    # -- what is stored -------------------------------------------------------------------------------------
    def committed(self, state: MemoryState, unit: Unit[Any], result: Any) -> None:
        """Look at the store, of which this unit has just become a part."""
        turn = unit if isinstance(unit, Turn) else None
        if turn is not None:
            self._erasures(turn, result)
        for inbox_id, inbox in state.inboxes.items():
            life = self._present.get(inbox_id)
            if life is None:
                if inbox.alive:
                    self._begin(inbox)
            elif not inbox.alive:
                self._end(life, result if turn is not None and turn.inbox_id == inbox_id else None)
            else:
                if inbox.head is not life.head:
                    ours = turn is not None and turn.inbox_id == inbox_id
                    self._moved(life, inbox, turn if ours else None, result if ours else None)
                self._reader(life, inbox)
                if turn is None or turn.inbox_id == inbox_id:
                    self._complete(life, inbox)
        for inbox_id in [known for known in self._present if known not in state.inboxes]:
            self.find(f"{self._present[inbox_id].slug} was swept alive")
            del self._present[inbox_id]

    def _begin(self, inbox: MemoryInbox) -> None:
        life = Life(inbox)
        if life.epoch in self.lives:
            self.find(f"the epoch {life.epoch} of {life.slug} was used before")
        if inbox.head.latest_seq:
            self.find(f"{life.slug} begins with {inbox.head.latest_seq} entries")
        self.lives[life.epoch] = life
        self._present[life.inbox_id] = life
        self.note(f"store: {life.slug} begins, {life.epoch}")

    def _end(self, life: Life, result: TurnResult | None) -> None:
        for entry in () if result is None else result.entries:  # what came in the turn that has ended it
            self._home(life, entry.seq, entry.id)
        life.ended_at = trio.current_time()
        del self._present[life.inbox_id]
        self.note(f"store: {life.slug} ends, {life.epoch}")

    def _erasures(self, turn: Turn, result: TurnResult) -> None:
        life = self._present.get(turn.inbox_id)
        for command, outcome in zip(turn.commands, result.outcomes, strict=True):
            if life is not None and isinstance(command, Erase) and outcome == ():
                life.erased.add(command.seq)

    def _moved(self, life: Life, inbox: MemoryInbox, turn: Turn | None, result: TurnResult | None) -> None:
        """Compare a head with the one before."""
        before, head = life.head, inbox.head
        if head.epoch != before.epoch:
            self.find(f"{life.slug} changed its epoch in the middle of a life")
        if head.latest_seq < before.latest_seq or head.first_seq < before.first_seq:
            self.find(f"{life.slug} went back from {before} to {head}")
        new = {entry.seq: entry for entry in result.entries} if result is not None else {}
        for seq in range(before.latest_seq + 1, head.latest_seq + 1):
            row = inbox.rows.get(seq)
            if row is not None:
                message = row.message
                life.entries[seq] = Entry(
                    message.id, row.received_at, row.event_type, message.mid, trio.current_time()
                )
                if row.home:
                    self._home(life, seq, message.id)
            elif seq in new and seq in life.erased:  # it came and went in one turn
                life.entries[seq] = Entry(
                    new[seq].id, new[seq].received_at, new[seq].event_type, 0, trio.current_time()
                )
                self._home(life, seq, new[seq].id)
            else:
                self.find(f"{life.slug} has no entry {seq}: its numbers have a hole")
                return
            earlier = life.entries.get(seq - 1)
            if earlier is not None and earlier.at >= life.entries[seq].at:
                self.find(f"{life.slug}: {seq} came no later than {seq - 1}")
            self.note(f"store: {life.slug} {seq} {life.entries[seq].id.hex()[-6:]}")
        if head.first_seq > before.first_seq:
            self._dropped(life, head, turn, result)
        life.head = head

    def _home(self, life: Life, seq: int, one: bytes) -> None:
        if one in self.homes:
            self.find(f"the message {one.hex()} is stored twice")
        self.homes[one] = (life, seq)

    def _dropped(self, life: Life, head: Head, turn: Turn | None, result: TurnResult | None) -> None:
        """Ask why an inbox has let go of its oldest entries."""
        self.note(f"store: {life.slug} begins at {head.first_seq}")
        if turn is not None and any(isinstance(command, Purge) for command in turn.commands):
            life.purged = head.first_seq - 1
            return
        kept = Retention() if result is None else result.retention
        crowded = kept.max_messages is not None and head.live_rows >= kept.max_messages
        gone = [seq for seq in range(life.head.first_seq, head.first_seq) if seq not in life.erased]
        age_us = (kept.max_age_seconds or 0) * 1_000_000
        aged = not gone or (age_us and life.entries[gone[-1]].at + age_us <= self.now())
        if not (crowded or aged):
            self.find(f"{life.slug} let go of messages before {head.first_seq} for no reason: {head}")

    def _reader(self, life: Life, inbox: MemoryInbox) -> None:
        reader = inbox.readers.get(SELF)
        if reader is None:
            return
        if reader.ack_cursor < life.ack_cursor:
            self.find(f"the cursor of {life.slug} went back to {reader.ack_cursor}")
        if reader.ack_cursor > inbox.head.latest_seq:
            self.find(f"the cursor of {life.slug} is ahead of everything: {reader.ack_cursor}")
        life.ack_cursor = reader.ack_cursor

    def _complete(self, life: Life, inbox: MemoryInbox) -> None:
        lost = [seq for seq, _ in life.kept() if seq not in inbox.rows]
        if lost:
            self.find(f"{life.slug} has lost {lost}")
        if inbox.head.live_rows != len(life.kept()):
            self.find(f"{life.slug} counts {inbox.head.live_rows} entries and has {len(life.kept())}")
