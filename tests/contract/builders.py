"""Makes what the tests of a store need: inboxes, entries, drafts, units and looks. For every suite.

Message ids count up, so that no two messages of a run share one; everything else is said by the caller or has
a plain default.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from actors.commands import Draft
from storage.protocols import Lane, Log, Snapshot, Tx
from storage.records import (
    BodyKind,
    Head,
    InboxRecord,
    InboxSettings,
    NewEntry,
    NewInbox,
    Page,
    PageQuery,
    Secret,
    Swept,
    Verdict,
)
from storage.secret import SecretBytes

T = TypeVar("T")

START_US = 1_760_000_000_000_000
"""When the clock of made-up messages begins: some day in October 2025."""

_ids = itertools.count(1)


@dataclass(frozen=True)
class Do(Generic[T]):
    """A unit made of a plain function of the transaction."""

    of: Callable[[Tx], T]
    lane: Lane = Lane.ANSWERS
    cost: int = 1_024
    grows: bool = True

    def run(self, tx: Tx) -> T:
        return self.of(tx)


@dataclass(frozen=True)
class See(Generic[T]):
    """A look made of a plain function of the snapshot."""

    of: Callable[[Snapshot], T]
    slow: bool = False

    def run(self, snapshot: Snapshot) -> T:
        return self.of(snapshot)


# -- values ---------------------------------------------------------------------------------------------
def message_id() -> bytes:
    """Return 16 bytes that no other message of this run has, later ones greater."""
    return next(_ids).to_bytes(16, "big")


def secret(name: str, value: bytes = b"key", added_at: int = START_US) -> Secret:
    return Secret(name, SecretBytes(value), added_at)


def new_inbox(slug: str = "demo", kind: str = "webhook", **fields: Any) -> NewInbox:
    """Return what creates an inbox called after its slug, with default settings."""
    return NewInbox(
        slug=slug,
        kind=kind,
        name=fields.get("name", slug.upper()),
        settings=fields.get("settings", InboxSettings()),
        secrets=fields.get("secrets", ()),
    )


def entry(seq: int, **fields: Any) -> NewEntry:
    """Return an entry with a small text body of its own, received `seq` µs after `START_US`."""
    body = fields.pop("body", b"body of %d" % seq)
    values: dict[str, Any] = {
        "seq": seq,
        "id": message_id(),
        "received_at": START_US + seq,
        "size": len(body or b""),
        "facts": b'{"method":"POST"}',
        "said": b'{"path":"/%d"}' % seq,
        "body_kind": BodyKind.TEXT if body else BodyKind.EMPTY,
        "body": body,
        "body_id": None,
        "event_type": "push",
        "verified": Verdict.VERIFIED,
    }
    return NewEntry(**{**values, **fields})


def large_entry(seq: int, body_id: int, size: int) -> NewEntry:
    """Return an entry whose body was staged in pieces."""
    return entry(seq, body=None, body_id=body_id, body_kind=BodyKind.LARGE, size=size)


def draft(body: bytes = b"hello", **fields: Any) -> Draft:
    """Return a message that its inbox has not numbered yet."""
    values: dict[str, Any] = {
        "id": message_id(),
        "size": len(body),
        "facts": b'{"method":"POST"}',
        "said": b'{"path":""}',
        "body_kind": BodyKind.TEXT if body else BodyKind.EMPTY,
        "body": body or None,
        "body_id": None,
        "event_type": "push",
        "verified": Verdict.VERIFIED,
    }
    return Draft(**{**values, **fields})


# -- what a unit does with an inbox ---------------------------------------------------------------------
def head_after(head: Head, entries: Sequence[NewEntry]) -> Head:
    """Return the head that an inbox has once these entries were appended."""
    return Head(
        epoch=head.epoch,
        latest_seq=entries[-1].seq,
        first_seq=head.first_seq,
        last_at=entries[-1].received_at,
        live_rows=head.live_rows + len(entries),
        live_bytes=head.live_bytes + sum(one.size for one in entries),
        dropped_rows=head.dropped_rows,
        dropped_bytes=head.dropped_bytes,
    )


def head_without(head: Head, rows: int, size: int, first_seq: int | None = None) -> Head:
    """Return the head of an inbox that lost so many rows and bytes, and begins at `first_seq` from now on."""
    return Head(
        epoch=head.epoch,
        latest_seq=head.latest_seq,
        first_seq=head.first_seq if first_seq is None else first_seq,
        last_at=head.last_at,
        live_rows=head.live_rows - rows,
        live_bytes=head.live_bytes - size,
        dropped_rows=head.dropped_rows + rows,
        dropped_bytes=head.dropped_bytes + size,
    )


def put(tx: Tx, inbox_id: int, entries: Sequence[NewEntry]) -> None:
    """Append entries and advance the head, as a turn does."""
    head = tx.head(inbox_id)
    tx.append(inbox_id, head.epoch, entries)
    tx.advance(inbox_id, head, head_after(head, entries))


def stage(tx: Tx, pieces: Sequence[bytes]) -> int:
    """Stage a large body and return its id."""
    body_id = tx.stage_body()
    for n, piece in enumerate(pieces):
        tx.put_chunk(body_id, n, piece)
    return body_id


# -- whole steps ----------------------------------------------------------------------------------------
async def create(log: Log, slug: str = "demo", kind: str = "webhook", **fields: Any) -> InboxRecord:
    return await log.commit(Do(lambda tx: tx.create_inbox(new_inbox(slug, kind, **fields))))


async def delete(log: Log, inbox_id: int) -> None:
    await log.commit(Do(lambda tx: tx.delete_inbox(inbox_id), grows=False))


async def append(log: Log, inbox_id: int, entries: Sequence[NewEntry]) -> Sequence[NewEntry]:
    """Append entries in one unit and return them."""
    await log.commit(Do(lambda tx: put(tx, inbox_id, entries)))
    return entries


async def fill(log: Log, inbox_id: int, count: int) -> Sequence[NewEntry]:
    """Append the first `count` entries of an empty inbox."""
    return await append(log, inbox_id, [entry(seq) for seq in range(1, count + 1)])


async def erase(log: Log, inbox_id: int, seq: int) -> int | None:
    """Erase one entry and count it in the head, as a turn does."""

    def run(tx: Tx) -> int | None:
        size = tx.erase(inbox_id, seq)
        if size is not None:
            head = tx.head(inbox_id)
            tx.advance(inbox_id, head, head_without(head, 1, size))
        return size

    return await log.commit(Do(run, grows=False))


async def drop_before(log: Log, inbox_id: int, seq: int, rows: int, size: int = 0) -> None:
    """Drop the entries below `seq`, which are so many rows and bytes, and count them in the head."""

    def run(tx: Tx) -> None:
        head = tx.head(inbox_id)
        tx.drop_before(inbox_id, seq)
        tx.advance(inbox_id, head, head_without(head, rows, size, first_seq=seq))

    await log.commit(Do(run, grows=False))


async def sweep(log: Log, max_rows: int = 1_000, max_bytes: int = 1 << 30) -> Swept:
    """Sweep one slice."""
    return await log.commit(Do(lambda tx: tx.sweep(max_rows, max_bytes), Lane.HOUSEKEEPING, grows=False))


async def sweep_all(log: Log, max_rows: int = 1_000, max_bytes: int = 1 << 30) -> list[Swept]:
    """Sweep slice by slice until nothing is left to do, and return the slices."""
    slices = [await sweep(log, max_rows, max_bytes)]
    while slices[-1].more:
        assert len(slices) < 10_000, "sweeping does not end"
        slices.append(await sweep(log, max_rows, max_bytes))
    return slices


async def head(log: Log, inbox_id: int) -> Head:
    return await log.read(See(lambda snapshot: snapshot.head(inbox_id)))


async def page(log: Log, inbox_id: int, **query: Any) -> Page:
    """Read one page; forward from the start, up to 1,000 rows, unless the caller says otherwise."""
    if "before" not in query:
        query.setdefault("after", 0)
    query.setdefault("limit", 1_000)
    return await log.read(See(lambda snapshot: snapshot.page(PageQuery(inbox_id, **query))))


async def seqs(log: Log, inbox_id: int, **query: Any) -> list[int]:
    """Return the seqs of one page."""
    return [row.seq for row in (await page(log, inbox_id, **query)).rows]
