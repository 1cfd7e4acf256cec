"""What the readers of one agent's mail were told, and what they must never be told again: the promises of the contracts
themselves, which know nothing of how a server keeps them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """One agent's mail. `handed_out`, `acked`: ids, of plain reads and of acknowledgements. `cursor`: the pulls'."""

    handed_out: set[bytes] = field(default_factory=set)
    acked: set[bytes] = field(default_factory=set)
    cursor: int = 0

    def plain(self, ids: Sequence[bytes]) -> None:
        assert not self.handed_out & set(ids), "a plain read repeats"
        assert not self.acked & set(ids), "a plain read serves what was acknowledged"
        assert len(set(ids)) == len(ids)
        self.handed_out |= set(ids)

    def peek(self, ids: Sequence[bytes]) -> None:
        assert not self.acked & set(ids), "a peek serves what was acknowledged"
        assert len(set(ids)) == len(ids)

    def pull(self, ids: Sequence[bytes], cursor: int, *, since: bool) -> None:
        assert since or not self.acked & set(ids), "a pull serves what was acknowledged"
        assert len(set(ids)) == len(ids)
        self.moved(cursor)

    def moved(self, cursor: int) -> None:
        assert cursor >= self.cursor, "the cursor moves back"
        self.cursor = cursor


@dataclass
class Pager:
    """A client that keeps its cursor itself, of one inbox, and one kind of messages (empty: all)."""

    token: str
    slug: str
    kinds: tuple[str, ...] = ()
    after: int = 0
    epoch: str | None = None
    life: object = None
    read: set[bytes] = field(default_factory=set)

    def page(self, ids: Sequence[bytes], seqs: Sequence[int], next_after: int, epoch: str) -> None:
        assert not self.read & set(ids), "a page repeats"
        assert list(seqs) == sorted(set(seqs))
        assert all(self.after < seq <= next_after for seq in seqs)
        self.read |= set(ids)
        self.after, self.epoch = next_after, epoch

    def begin_anew(self) -> None:
        self.after, self.epoch = 0, None
        self.read.clear()
