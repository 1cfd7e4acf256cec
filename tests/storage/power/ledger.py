"""What clients were told, and what a database must therefore hold: the promises of the three outcomes, kept as a book.

*Stored* is there, with the same bytes, until something that was answered has removed it. *Not stored* is nowhere, ever.
*Unknown* is there whole or not at all; whichever it is, it stays so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from storage.protocols import Snapshot
from storage.records import BodyKind, Head, PageQuery, StoredMessage

PAGE_ROWS = 1_000
PAGE_BYTES = 1 << 30


class Broken(AssertionError):
    """A promise was broken."""


def digest(body: bytes) -> bytes:
    """Return what a body is known by."""
    return blake2b(body, digest_size=16).digest()


@dataclass
class Box:
    """What is known of one inbox. `kept`: id and digest by seq. `keys`: id and seq of what was stored, by delivery id,
    and `open_keys` ids of unknown outcome. `cursors`, `names`: one of these. `wavers`: a turn of unknown outcome may
    have changed it.
    """

    inbox_id: int
    slug: str
    head: Head
    is_agent: bool = False
    kept: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    keys: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    open_keys: dict[bytes, bytes] = field(default_factory=dict)
    cursors: set[int] = field(default_factory=lambda: {0})
    names: set[str] = field(default_factory=set)
    maybe_erased: set[int] = field(default_factory=set)
    wavers: bool = False
    may_be_gone: bool = False

    def let_go(self) -> None:
        """Forget what the head says is gone."""
        for seq in [seq for seq in self.kept if seq < self.head.first_seq]:
            del self.kept[seq]


@dataclass
class Ledger:
    """Everything that clients were told."""

    boxes: dict[int, Box] = field(default_factory=dict)
    commits: int = 0
    refused: set[bytes] = field(default_factory=set)
    unknown: set[bytes] = field(default_factory=set)
    sent: dict[bytes, bytes] = field(default_factory=dict)
    """Digests by id, of everything that was ever sent."""
    kept_unknown: int = 0
    lost_unknown: int = 0
    """How many messages of unknown outcome were found after all, and how many not."""
    deleted: set[str] = field(default_factory=set)

    def compare(self, snapshot: Snapshot) -> None:
        """Hold a recovered store against the book, and write down what became of the unknown. Raises `Broken`."""
        found: set[bytes] = set()
        for box in list(self.boxes.values()):
            listing = snapshot.inbox_by_slug(box.slug)
            if listing is None:
                if not box.may_be_gone:
                    raise Broken(f"inbox {box.slug} is gone")
                del self.boxes[box.inbox_id]
                continue
            if box.names and listing.record.name not in box.names:
                raise Broken(f"inbox {box.slug} is called {listing.record.name!r}, not one of {box.names}")
            box.names = {listing.record.name}
            found |= self._compare_box(box, listing.head, snapshot)
        for slug in self.deleted:
            if snapshot.inbox_by_slug(slug) is not None:
                raise Broken(f"inbox {slug} is back")
        if found & self.refused:
            raise Broken("a message is there that was not stored")
        self.kept_unknown += len(self.unknown & found)
        self.lost_unknown += len(self.unknown - found)
        self.unknown.clear()

    def _compare_box(self, box: Box, head: Head, snapshot: Snapshot) -> set[bytes]:
        if not box.wavers and head != box.head:
            raise Broken(f"the head of {box.slug} is {head}, and was {box.head}")
        if (head.epoch, True) != (box.head.epoch, head.latest_seq >= box.head.latest_seq):
            raise Broken(f"inbox {box.slug} fell back from {box.head} to {head}")
        rows = {row.seq: row for row in _rows(snapshot, box.inbox_id)}
        for seq, (message_id, body) in box.kept.items():
            row = rows.get(seq)
            if row is None:
                if seq >= head.first_seq and seq not in box.maybe_erased:
                    raise Broken(f"message {seq} of {box.slug} is lost")
            elif (row.id, digest(_body(row, snapshot))) != (message_id, body):
                raise Broken(f"message {seq} of {box.slug} is another one")
        for seq in rows.keys() - box.kept.keys():
            row = rows[seq]
            known = self.sent.get(row.id)
            if not box.wavers or known is None or known != digest(_body(row, snapshot)):
                raise Broken(f"message {seq} of {box.slug} is not what anybody has sent there")
            if not box.is_agent and row.id not in self.unknown:
                raise Broken(f"message {seq} of {box.slug} is there, and its sender was told otherwise")
        reader = snapshot.reader(box.inbox_id, "self") if box.is_agent else None
        cursor = reader.ack_cursor if reader else 0
        if box.is_agent and cursor not in box.cursors and not box.wavers:
            raise Broken(f"the cursor of {box.slug} is {cursor}, not one of {box.cursors}")
        box.cursors, box.wavers, box.may_be_gone = {cursor}, False, False
        box.maybe_erased.clear()
        box.head = head
        places = {row.id: seq for seq, row in rows.items()}
        box.keys.update((key, (of, places[of])) for key, of in box.open_keys.items() if of in places)
        box.open_keys.clear()
        box.kept = {seq: (row.id, digest(_body(row, snapshot))) for seq, row in rows.items()}
        return {row.id for row in rows.values()}


def _rows(snapshot: Snapshot, inbox_id: int) -> Iterable[StoredMessage]:
    after = 0
    while True:
        page = snapshot.page(
            PageQuery(inbox_id, PAGE_ROWS, after=after, body_limit=PAGE_BYTES, byte_budget=PAGE_BYTES)
        )
        yield from page.rows
        if page.exhausted:
            return
        after = page.rows[-1].seq


def _body(row: StoredMessage, snapshot: Snapshot) -> bytes:
    if row.body_kind == BodyKind.LARGE and row.body_id is not None:
        return snapshot.body(row.body_id, row.size)
    return row.body or b""
