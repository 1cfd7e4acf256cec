"""Inboxes and messages as the rules of agents' mail say it, in plain Python: what the three contracts are played
against, together with `contracts_house`.

It shares nothing with the server but the words of the rules. Every inbox is a dictionary of rows, whatever its kind;
what is acknowledged and what was handed out are sets.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.fuzz.drain_model import DrainModel, ModelRow

Visible = frozenset[str] | None
"""The slugs that a token sees; None: every webhook and topic inbox."""


@dataclass
class Receipt:
    """What became of a message at one recipient. Not `stored`: still to be delivered."""

    stored: int | None = None
    served: int | None = None
    acked: int | None = None
    expired: int | None = None

    @property
    def is_open(self) -> bool:
        return self.stored is not None and self.acked is None and self.expired is None

    def hand_out(self, now: int) -> None:
        if self.is_open and self.stored is not None and self.served is None:
            self.served = max(now, self.stored)

    def acknowledge(self, now: int) -> None:
        if self.is_open:
            self.hand_out(now)
            self.acked = max(now, self.served or 0)

    def drop(self, now: int, expires_at: int | None) -> None:
        if self.is_open:
            self.expired = now if expires_at is None else min(now, expires_at)


@dataclass(eq=False)
class Message:
    """A message. `n`: its place in the log of all. `places`: where it still has a row, dropped ones included.
    `listed_by`: the inbox of the agent in whose list of what it sent it stands. `came_to`: who has had it.
    """

    n: int
    id: bytes
    kind: str
    sender: str | None
    size: int
    salience: float
    expires_at: int | None
    listed_by: "Box | None" = None
    home: "Box" = field(init=False)
    sent_at: int = 0
    receipts: dict[str, Receipt] = field(default_factory=dict)
    places: "set[Box]" = field(default_factory=set)
    came_to: set[str] = field(default_factory=set)
    had_receipts: bool = False

    def sent_to(self, agents: Iterable[str]) -> None:
        """Give it a receipt for each of these agents."""
        self.had_receipts = True
        for agent in agents:
            self.receipts.setdefault(agent, Receipt())

    def left(self, box: "Box") -> None:
        """Say that it has no row there any more."""
        self.places.remove(box)
        if box is self.home:
            self.receipts = {who: one for who, one in self.receipts.items() if one.stored is not None}
        self.forget()

    def forget(self) -> None:
        if not self.places and self.listed_by is None:
            self.receipts.clear()


@dataclass(frozen=True)
class Mail(ModelRow):
    """A row. `origin` None: it was sent to the inbox's own agent."""

    message: Message
    via: str | None


class Box(DrainModel):
    """One life of an inbox. `owner`: the agent whose private inbox it is. `passed_on`: what plain reads handed out."""

    def __init__(self, slug: str, kind: str, clock: Callable[[], int], sizes: tuple[int, int]) -> None:
        super().__init__(*sizes)
        self.slug = slug
        self.kind = kind
        self.owner = slug.removeprefix("agent.") if kind == "agent" else None
        self.first = 1
        self.most: int | None = None
        self.gone = False
        self.passed_on: set[int] = set()
        self._clock = clock
        self._last_at = 0
        self._dropped: dict[int, Mail] = {}

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    # -- what comes and goes ------------------------------------------------------------------------------
    def put(self, message: Message, via: str | None, score: float = 0.0, origin: str | None = None) -> int:
        """Add a row and return its time."""
        self._last_at = max(self._clock(), self._last_at + 1)
        self.add(Mail(score, origin, message.expires_at, self._last_at, message.size, message, via))
        message.places.add(self)
        return self._last_at

    def trim(self) -> None:
        """Keep as many as it may."""
        if self.most is not None:
            self._drop(sorted(self.rows)[: max(0, len(self.rows) - self.most)])

    def purge(self) -> None:
        self._drop(sorted(self.rows))
        self.first = self.latest + 1

    def _drop(self, seqs: Sequence[int]) -> None:
        self._dropped |= {seq: self._row(seq) for seq in seqs}
        for seq in seqs:
            del self.rows[seq]
        if seqs:
            self.first = min(self.rows, default=self.latest + 1)

    def erase(self, seq: int) -> None:
        """Take one row out. If the message only came here, it is never to come again."""
        row = self._row(seq)
        del self.rows[seq]
        self._lose(row)
        message, owner = row.message, self.owner
        if owner is None or message.home is self or not message.places or owner in message.receipts:
            return
        message.sent_to([owner])
        message.receipts[owner] = Receipt(stored=row.delivered_at, expired=self._clock())

    def sweep(self, routed: int) -> bool:
        """Let go of what was dropped, up to the first that is not routed. Return whether nothing is left."""
        for seq in sorted(self._dropped):
            if self._dropped[seq].message.n > routed:
                return False
            self._lose(self._dropped.pop(seq))
        return True

    def delete(self) -> None:
        self.gone = True
        self._drop(sorted(self.rows))

    def _lose(self, row: Mail) -> None:
        receipt = self._receipt(row)
        if receipt is not None:
            receipt.drop(self._clock(), row.expires_at)
        row.message.left(self)

    def _row(self, seq: int) -> Mail:
        row = self.rows[seq]
        assert isinstance(row, Mail)
        return row

    def _receipt(self, row: Mail) -> Receipt | None:
        return None if self.owner is None else row.message.receipts.get(self.owner)

    # -- what a reader sees -------------------------------------------------------------------------------
    def may_see(self, seq: int, visible: Visible) -> bool:
        row = self._row(seq)
        if row.origin is None:
            return True
        return not row.message.home.gone and (visible is None or row.origin in visible)

    def seen(self, seq: int, visible: Visible, now: int) -> bool:
        expires_at = self.rows[seq].expires_at
        return self.may_see(seq, visible) and not (expires_at is not None and expires_at <= now)

    def kept(self, visible: Visible) -> list[int]:
        """Return what whoever pages through it may see: expired messages, too."""
        return [seq for seq in sorted(self.rows) if self.may_see(seq, visible)]

    def message(self, seq: int) -> Message:
        return self._row(seq).message

    def via(self, seq: int) -> str | None:
        return self._row(seq).via

    def unacked(self, visible: Visible) -> list[int]:
        return [
            seq
            for seq in self.above(self.cursor)
            if seq not in self.acked and self.seen(seq, visible, self._clock())
        ]

    def read(self, visible: Visible, limit: int, budget: int, *, peek: bool) -> list[int]:
        """Return what `agent_inbox` serves."""
        wanted = [seq for seq in self.unacked(visible) if peek or seq not in self.passed_on][:limit]
        fits, taken = 0, 0
        for seq in wanted:
            taken += self.row_bytes + self.rows[seq].size
            if fits and taken > budget:
                break
            fits += 1
        return wanted[:fits]

    # -- what it marks ------------------------------------------------------------------------------------
    def hand_out(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            self.passed_on.add(seq)
            self._mark(seq, Receipt.hand_out)

    def ack(self, ack: int) -> None:
        before = self.cursor
        super().ack(ack)
        for seq in [seq for seq in self.rows if before < seq <= self.cursor]:
            expires_at, receipt = self.rows[seq].expires_at, self._receipt(self._row(seq))
            if receipt is not None and expires_at is not None and expires_at <= self._clock():
                receipt.drop(self._clock(), expires_at)
            else:
                self._mark(seq, Receipt.acknowledge)

    def ack_ids(self, ids: Sequence[bytes], visible: Visible) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """Return what was acknowledged now, before, and what is unknown."""
        found = {self.message(seq).id: seq for seq in self.kept(visible)}
        now, before, _ = self.ack_each([found[one] for one in ids if one in found])
        for seq in now:
            self._mark(seq, Receipt.acknowledge)
        return (
            [one for one in ids if found.get(one) in now],
            [one for one in ids if found.get(one) in before],
            [one for one in ids if one not in found],
        )

    def _mark(self, seq: int, mark: Callable[[Receipt, int], None]) -> None:
        receipt = self._receipt(self._row(seq))
        if receipt is not None:
            mark(receipt, self._clock())
