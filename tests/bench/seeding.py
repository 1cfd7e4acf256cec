"""Large inboxes without sending each message: written through the storage layer, as a turn would have.

The rows are those of a webhook as `web.ingest` stores it, so a page of them costs what a page of received ones costs.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from storage.options import StorageOptions
from storage.protocols import Lane, Tx
from storage.records import BodyKind, InboxRecord, InboxSettings, NewEntry, NewInbox, Verdict
from storage.sqlite import open_offline
from tests.bench.harness import LoadFailed
from tests.bench.signed import BODY_BYTES, ORDINARY_EVENT, Deliveries, headers_of
from web import claims
from web.verify.model import MISMATCH, Judgement

BATCH_ROWS = 1_000
"""Rows of one transaction; larger ones are hardly faster and hold more in memory."""

START_US = 1_760_000_000_000_000
"""When the first message was received: some day in October 2025."""

INTERVAL_US = 1_000_000
"""Between two messages."""

RARE_TYPE = "release"

RARE_COUNT = 200
"""Messages of the rare type, and messages that were not verified, spread evenly: as many in a large inbox as in a small
one, so that the large one must not cost more.
"""

ROW_BYTES = 800
"""What one message takes on the disk, indexes included."""

SPARE_BYTES = 1 << 30
"""On the disk, beside what is written."""


class Inbox(msgspec.Struct, frozen=True):
    """What an inbox is to hold."""

    slug: str
    messages: int

    def rare_every(self) -> int:
        """Return the distance between two messages of the rare type, in seqs."""
        return self.messages // RARE_COUNT


class NotEnoughRoom(LoadFailed):
    """The disk has not enough room for the case."""


class MakeInboxes(msgspec.Struct, frozen=True):
    """Make inboxes."""

    inboxes: Sequence[NewInbox]
    lane: Lane = Lane.ANSWERS
    cost: int = 0
    grows: bool = True

    def run(self, tx: Tx) -> None:
        """Do it."""
        for new in self.inboxes:
            tx.create_inbox(new)


class Write(msgspec.Struct, frozen=True):
    """Append the next rows of an inbox, or make it when it has no record yet."""

    new: NewInbox | None = None
    inbox_id: int = 0
    entries: Sequence[NewEntry] = ()
    lane: Lane = Lane.ANSWERS
    cost: int = BATCH_ROWS * BODY_BYTES
    grows: bool = True

    def run(self, tx: Tx) -> InboxRecord | None:
        """Do it."""
        if self.new is not None:
            return tx.create_inbox(self.new)
        tx.routed(append(tx, self.inbox_id, self.entries)[-1])  # as the router leaves them
        return None


def append(tx: Tx, inbox_id: int, entries: Sequence[NewEntry]) -> range:
    """Append the next rows of an inbox and return the mids of their messages."""
    mids = tx.append(inbox_id, tx.head(inbox_id).epoch, entries)
    advance(tx, inbox_id, entries[-1].received_at, [entry.size for entry in entries])
    return mids


def advance(tx: Tx, inbox_id: int, last_at: int, sizes: Sequence[int]) -> None:
    """Move an inbox's head over rows of these sizes, the last of them of this moment (µs)."""
    head = tx.head(inbox_id)
    tx.advance(
        inbox_id,
        head,
        msgspec.structs.replace(
            head,
            latest_seq=head.latest_seq + len(sizes),
            last_at=last_at,
            live_rows=head.live_rows + len(sizes),
            live_bytes=head.live_bytes + sum(sizes),
        ),
    )


def need_room(directory: Path, messages: int) -> None:
    """Raise `NotEnoughRoom` unless the disk takes so many messages."""
    needed, free = messages * ROW_BYTES + SPARE_BYTES, shutil.disk_usage(directory).free
    if free < needed:
        raise NotEnoughRoom(
            f"{messages:,} messages need {needed / 1e9:.1f} GB in {directory}, where {free / 1e9:.1f} GB are free: "
            "choose another --directory, or other cases with --only."
        )


def seed(
    data_dir: Path,
    inboxes: Sequence[Inbox],
    progress: Callable[[int], None],
    empty: Sequence[NewInbox] = (),
) -> None:
    """Make a database with these inboxes, and with others that are empty; `progress` is told how many messages each
    transaction wrote.
    """
    with open_offline(StorageOptions(data_dir=data_dir), create=True) as store:
        for start in range(0, len(empty), BATCH_ROWS):
            store.commit(MakeInboxes(empty[start : start + BATCH_ROWS]))
        for wanted in inboxes:
            new = NewInbox(wanted.slug, "webhook", wanted.slug, InboxSettings())
            record = store.commit(Write(new))
            assert record is not None
            for entries in batches(wanted, record.inbox_id):
                store.commit(Write(inbox_id=record.inbox_id, entries=entries))
                progress(len(entries))


def batches(wanted: Inbox, inbox_id: int) -> Iterator[list[NewEntry]]:
    """Yield the rows of an inbox in batches."""
    common, rare, failed = _templates(wanted.slug)
    every = wanted.rare_every()

    def template(seq: int) -> NewEntry:
        place = seq % every
        return rare if place == 0 else failed if place == every // 2 else common

    for first in range(1, wanted.messages + 1, BATCH_ROWS):
        last = min(first + BATCH_ROWS - 1, wanted.messages)
        yield [numbered(template(seq), inbox_id, seq) for seq in range(first, last + 1)]


def received_at(seq: int) -> str:
    """Return when a seeded message was received, as RFC 3339."""
    moment = datetime.fromtimestamp((START_US + seq * INTERVAL_US) / 1e6, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _templates(slug: str) -> tuple[NewEntry, NewEntry, NewEntry]:
    """Return an ordinary message, one of the rare type, and one that was not verified."""
    body = b'{"action":"opened"}'

    def template(event_type: str, error: str | None = None) -> NewEntry:
        wanted = Deliveries(8025, slug, "secret", "seeded", 1, event_type)
        headers = [(name.encode(), value.encode()) for name, value in headers_of(wanted, 0, body)]
        judgement = Judgement(error is None, error, event_type, None)
        return NewEntry(
            seq=0,
            id=b"",
            received_at=0,
            size=len(body),
            facts=claims.facts("POST", "127.0.0.1", len(body), judgement, "github"),
            said=claims.said(b"", b"", headers, judgement),
            body_kind=BodyKind.JSON,
            body=body,
            body_id=None,
            event_type=event_type,
            verified=Verdict.VERIFIED if error is None else Verdict.FAILED,
        )

    return template(ORDINARY_EVENT), template(RARE_TYPE), template(ORDINARY_EVENT, MISMATCH)


def numbered(template: NewEntry, inbox_id: int, seq: int) -> NewEntry:
    """Return a message like the template as one row of an inbox, with an id and a time of its own."""
    moment = START_US + seq * INTERVAL_US
    return NewEntry(
        seq,
        # As a ULID: the time in ms, then what makes it unique.
        (moment // 1000).to_bytes(6, "big") + inbox_id.to_bytes(4, "big") + seq.to_bytes(6, "big"),
        moment,
        template.size,
        template.facts,
        template.said,
        template.body_kind,
        template.body,
        None,
        template.event_type,
        template.verified,
    )
