"""Draining an inbox as the rules say it, in plain Python on sets: what the real one is compared with.

It shares nothing with the server but the words of the rules: rows are a dictionary, what is acknowledged is a set, and
every question is answered by going through all of it.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ModelRow:
    """A delivery. `origin` None: the reader's own mail."""

    score: float
    origin: str | None
    expires_at: int | None
    delivered_at: int
    size: int


@dataclass(frozen=True)
class Answer:
    """What a pull must answer."""

    items: tuple[int, ...]
    cursor: int
    window_high: int
    has_more: bool


@dataclass
class DrainModel:
    """One inbox with one reader."""

    max_batch: int
    row_bytes: int
    rows: dict[int, ModelRow] = field(default_factory=dict)
    latest: int = 0
    cursor: int = 0
    served_high: int = 0
    acked: set[int] = field(default_factory=set)
    gone_origins: set[str] = field(default_factory=set)
    looked_at: set[int] = field(default_factory=set)

    def add(self, row: ModelRow) -> int:
        self.latest += 1
        self.rows[self.latest] = row
        return self.latest

    def drop_to(self, most: int) -> None:
        """Keep the newest `most` rows."""
        for seq in sorted(self.rows)[: max(0, len(self.rows) - most)]:
            del self.rows[seq]

    def seen(self, seq: int, visible: frozenset[str] | None, now: int) -> bool:
        row = self.rows[seq]
        if row.expires_at is not None and row.expires_at <= now:
            return False
        if row.origin is None:
            return True
        return row.origin not in self.gone_origins and (visible is None or row.origin in visible)

    def above(self, floor: int) -> list[int]:
        return [seq for seq in sorted(self.rows) if seq > floor]

    def ack(self, ack: int) -> None:
        examined = self.above(self.cursor)[: self.max_batch]
        ceiling = max([self.served_high, self.cursor, *examined])
        if min(ack, ceiling) > self.cursor:
            passed = set(range(self.cursor + 1, min(ack, ceiling) + 1)) & set(self.rows)
            assert passed <= self.looked_at | set(examined), "an acknowledgement passes what nobody looked at"
            self.cursor = min(ack, ceiling)
        self._fold()

    def ack_each(self, seqs: Iterable[int]) -> tuple[set[int], set[int], set[int]]:
        """Return what was acknowledged now, before, and what is unknown."""
        now, before, unknown = set(), set(), set()
        for seq in seqs:
            if seq not in self.rows:
                unknown.add(seq)
            elif seq <= self.cursor or seq in self.acked:
                before.add(seq)
            else:
                now.add(seq)
        self.acked |= now
        self._fold()
        return now, before, unknown

    def _fold(self) -> None:
        while self.cursor < self.latest and (
            self.cursor + 1 in self.acked or self.cursor + 1 not in self.rows
        ):
            self.cursor += 1

    def pull(
        self,
        visible: frozenset[str] | None,
        now: int,
        budget: int,
        *,
        ack: int | None = None,
        since: int | None = None,
        limit: int | None = None,
        note: bool = True,
    ) -> Answer:
        """Answer a pull. Without `note`, what it serves is not noted yet: `served` does that."""
        if ack is not None:
            self.ack(ack)
        floor = self.cursor if since is None else since
        above = self.above(floor)
        window: list[int] = []
        items: list[int] = []
        taken = 0
        for seq in above[: min(limit or self.max_batch, self.max_batch)]:
            served = self.seen(seq, visible, now) and (
                since is not None or (seq > self.cursor and seq not in self.acked)
            )
            if served:
                taken += self.row_bytes + self.rows[seq].size
                if items and taken > budget:
                    break
                items.append(seq)
            window.append(seq)
        high = window[-1] if window else self.cursor
        if note:
            self.served(floor, high, window)
        items.sort(key=lambda seq: (-self.rows[seq].score, seq))
        return Answer(tuple(items), self.cursor, high, len(window) < len(above))

    def served(self, floor: int, high: int, window: Iterable[int]) -> None:
        """Note what a pull has served."""
        if floor <= max(self.cursor, self.served_high):
            self.served_high = max(self.served_high, high)
            self.looked_at |= set(window)

    def after_moment(
        self, visible: frozenset[str] | None, now: int, after_us: int, limit: int
    ) -> tuple[list[int], bool]:
        """Return what `inbox` serves, and whether rows lie beyond."""
        later = [seq for seq in sorted(self.rows) if self.rows[seq].delivered_at > after_us]
        shown = [seq for seq in later if self.seen(seq, visible, now)][:limit]
        if len(shown) < limit:
            return shown, False
        return shown, shown[-1] != later[-1]

    def copy(self) -> "DrainModel":
        return copy.deepcopy(self)
