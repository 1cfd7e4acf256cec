"""The newest entries of an inbox, in memory: what a waiter that is up to date is answered from, without a read.

A tail belongs to its actor, which alone adds to it, in the step that applies a commit. It is a plain copy of committed
rows and may be cut from its old end at any time: `covers` says whether it can answer for a cursor, and who gets a no
reads a page from the store. Every tail holds at most `TAIL_ENTRIES`; all tails together hold at most the bytes of one
`TailBudget`, where the inbox that was written to least lately gives way first (study, section 3).
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from storage.records import Head, NewEntry, Page, StoredMessage

TAIL_ENTRIES = 128
"""Entries of one inbox: more than the largest page (100), and than one turn can add (64), so that everybody woken by it
finds all of it here. A page from here takes half of the processor time of one from the store.
"""

ENTRY_OVERHEAD_BYTES = 512
"""About what an entry costs in memory besides its texts."""


class TailEntry:
    """One entry; `fragments` is where a renderer keeps its encodings of it, each made once for all readers."""

    __slots__ = ("cost", "fragments", "row", "tail")

    def __init__(self, row: StoredMessage, cost: int, tail: "Tail") -> None:
        self.row = row
        self.cost = cost
        self.tail: Tail | None = tail  # None: a reader still has the entry, the tail has not
        self.fragments: dict[object, bytes] = {}

    def keep(self, variant: object, fragment: bytes) -> None:
        """Keep an encoding with the entry, at the expense of its tail."""
        self.fragments[variant] = fragment
        if self.tail is not None:
            self.tail.grow(self, len(fragment))


class Tail:
    """One inbox's newest entries: dense, from `base` + 1 to the head's `latest_seq`. Cold until the first turn."""

    __slots__ = ("_budget", "_entries", "base", "bytes", "head")

    def __init__(self, budget: "TailBudget") -> None:
        self._budget = budget
        self._entries: deque[TailEntry] = deque()
        self.base: int | None = None
        self.head: Head | None = None
        self.bytes = 0

    def covers(self, after: int) -> bool:
        """Whether everything after this cursor is here (also when that is nothing).

        Not for a cursor beyond the head: a page of the store may show a commit that the actor has not applied yet, and
        whoever has read that page is ahead of this tail for a moment.
        """
        return self.base is not None and self.head is not None and self.base <= after <= self.head.latest_seq

    def extend(self, head: Head, entries: Sequence[NewEntry]) -> None:
        """Take what a turn has committed: the new head, and the entries it added in order."""
        self.head = head
        if self.base is None or (entries and not self._ends_before(entries[0].seq)):
            self.clear()
            self.base = head.latest_seq - len(entries)
        for entry in entries:
            self._add(entry)
        while self._entries and self._entries[0].row.seq < head.first_seq:
            self.drop_oldest()
        while len(self._entries) > TAIL_ENTRIES:
            self.drop_oldest()
        self._budget.note(self)

    def skip(self, head: Head) -> None:
        """Take a head whose newest entries are not known here: the tail begins behind them, with nothing."""
        self.clear()
        self.head = head
        self.base = head.latest_seq

    def remove(self, seq: int) -> None:
        """Forget one entry whose content was erased; what is older goes with it, because a tail has no holes."""
        while self._entries and self._entries[0].row.seq <= seq:
            self.drop_oldest()

    def clear(self) -> None:
        """Become cold: the next turn begins anew. Readers go to the store meanwhile."""
        self._budget.forget(self)
        for entry in self._entries:
            entry.tail = None
        self._entries.clear()
        self.base = None
        self.bytes = 0

    def drop_oldest(self) -> None:
        """Forget the oldest entry."""
        gone = self._entries.popleft()
        gone.tail = None
        self.base = gone.row.seq
        self.bytes -= gone.cost
        self._budget.bytes -= gone.cost

    def grow(self, entry: TailEntry, count: int) -> None:
        """Count more bytes for an entry; the budget is kept to at the next write."""
        entry.cost += count
        self.bytes += count
        self._budget.bytes += count

    def look(self, after: int, types: frozenset[str] | None, limit: int) -> tuple[Page, list[TailEntry]]:
        """Return what lies after a cursor that `covers` has said yes to, as a reader would have found it.

        The page and its head are of one moment; the entries are the page's rows with their fragments.
        """
        assert self.head is not None  # noqa: S101 - `covers` was asked # nosec B101
        found: list[TailEntry] = []
        exhausted = True
        for entry in self._after(after):
            if types is not None and entry.row.event_type not in types:
                continue
            if len(found) == limit:
                exhausted = False
                break
            found.append(entry)
        return Page(self.head, [entry.row for entry in found], exhausted), found

    def look_back(
        self, before: int | None, types: frozenset[str] | None, limit: int
    ) -> tuple[Page, list[TailEntry]] | None:
        """Return what lies before a cursor (None: the newest), newest first, as a reader would have found it; None when
        the store may have more of the page than is here.
        """
        if self.base is None or self.head is None:
            return None
        found: list[TailEntry] = []
        for entry in reversed(self._entries):
            row = entry.row
            if (before is not None and row.seq >= before) or (
                types is not None and row.event_type not in types
            ):
                continue
            if len(found) == limit:
                return Page(self.head, [one.row for one in found], False), found
            found.append(entry)
        if self.base >= self.head.first_seq:
            return None
        return Page(self.head, [one.row for one in found], True), found

    def _after(self, after: int) -> Iterable[TailEntry]:
        """Return the entries after a cursor, found from the newest end: that is where readers are."""
        newer: list[TailEntry] = []
        for entry in reversed(self._entries):
            if entry.row.seq <= after:
                break
            newer.append(entry)
        newer.reverse()
        return newer

    def _ends_before(self, seq: int) -> bool:
        return bool(self._entries) and self._entries[-1].row.seq + 1 == seq

    def _add(self, entry: NewEntry) -> None:
        body = entry.body if entry.body is not None and len(entry.body) <= self._budget.body_limit else None
        row = StoredMessage(
            entry.seq,
            entry.id,
            entry.received_at,
            entry.size,
            entry.facts,
            entry.said,
            entry.body_kind,
            body,
            entry.body_id,
            entry.event_type,
            entry.verified,
        )
        cost = ENTRY_OVERHEAD_BYTES + len(row.facts) + len(row.said) + (len(body) if body else 0)
        self._entries.append(TailEntry(row, cost, self))
        self.bytes += cost
        self._budget.bytes += cost


class TailBudget:
    """The bytes that all tails may hold together, and who gives way. `body_limit`: larger bodies are not kept, because
    no page ever shows them.
    """

    def __init__(self, limit_bytes: int, body_limit: int) -> None:
        self.limit_bytes = limit_bytes
        self.body_limit = body_limit
        self.bytes = 0
        self._by_use: OrderedDict[Tail, None] = OrderedDict()

    def note(self, tail: Tail) -> None:
        """Note that a tail was written to; the others give way, the least lately written first, then itself."""
        self._by_use[tail] = None
        self._by_use.move_to_end(tail)
        while self.bytes > self.limit_bytes:
            victim = next(iter(self._by_use))
            while victim.bytes and self.bytes > self.limit_bytes:
                victim.drop_oldest()
            if not victim.bytes:
                del self._by_use[victim]

    def forget(self, tail: Tail) -> None:
        """Give back the bytes of a tail that is cleared."""
        self._by_use.pop(tail, None)
        self.bytes -= tail.bytes
