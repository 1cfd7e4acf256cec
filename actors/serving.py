"""Handing out an agent's mail message by message: what a read finds, what it marks, and acknowledging by ids.

A plain read is a look and then a turn. The look, one snapshot on a reader's thread, finds what was not handed out yet
and makes the page; the turn marks those of its messages that nobody else has taken meanwhile, and only these are shown.
So a read that finds nothing costs no commit, two at once never get the same message, and no content is read while
others wait for the writer. A peek is the look alone, of everything that is not acknowledged.

Rules and marks are those of draining (`actors/rules/draining.py`), so both ways of acknowledging meet in one state.
"""

from functools import partial
from itertools import islice

import msgspec

from actors.commands import AckedIds, AckIds, MarkServed
from actors.pulling import Sight, as_pairs, page_of, put_reader, reader_of, refusing_holes, shown
from actors.rules import draining
from actors.rules.draining import Reader
from actors.rules.scope import Scope, seen_by
from storage.mail_protocols import MailChanges, MailReads
from storage.mail_records import SELF, Delivered, DrainRow

UNREAD_COUNTED = 10_000
"""Unread messages are counted exactly up to here; more are told as this number."""

SCAN_WINDOW, LARGEST_WINDOW = 100, 1_000
"""Rows that are looked at in the first step, at least, and in each of the later ones, at most."""


class Looked(msgspec.Struct, frozen=True):
    """What a look at an agent's mail found, oldest first; the rest as in `actors.mesh.MailRead`."""

    rows: list[Delivered]
    unread: int
    epoch: str


def look(reads: MailReads, inbox_id: int, sight: Sight, *, peek: bool, now_us: int) -> Looked:
    """Return the first rows that are not acknowledged, and unless it is a peek, were not handed out either. Raises
    `InboxGone`.

    However many rows its caller may not see: those in front of what it sees are passed over each time.
    """
    _, reader = reader_of(reads, inbox_id, SELF)
    scope = seen_by(sight.visible)
    taken = reader.has_acked if peek else reader.was_served
    found: list[DrainRow] = []
    floor = reader.ack_cursor
    step = max(sight.limit, SCAN_WINDOW)
    while True:
        drain = reads.window(
            inbox_id, draining.passed(reader, floor, unserved=not peek), step, sight.body_limit
        )
        wanted = (row for row in drain.rows if not taken(row.seq) and shown(row, scope, now_us))
        found += islice(wanted, sight.limit - len(found))
        if not drain.has_more or len(found) == sight.limit:
            break
        floor = drain.rows[-1].seq
        step = max(step, min(2 * step, LARGEST_WINDOW))
    page, _ = page_of(reads, inbox_id, sight, found)
    return Looked(page, _unread(reads, inbox_id, reader, scope, now_us), drain.head.epoch)


def unread(reads: MailReads, inbox_id: int, scope: Scope, now_us: int) -> int:
    """Return how many messages are not acknowledged, of those that are seen, up to `UNREAD_COUNTED`. Raises
    `InboxGone`.
    """
    _, reader = reader_of(reads, inbox_id, SELF)
    return _unread(reads, inbox_id, reader, scope, now_us)


def _unread(reads: MailReads, inbox_id: int, reader: Reader, scope: Scope, now_us: int) -> int:
    acked = as_pairs(reader.acked)
    counted = reads.unread(inbox_id, reader.ack_cursor, acked, now_us, UNREAD_COUNTED)
    return sum(one.count for one in counted if one.own or scope.sees(one.origin, one.origin_kind))


# -- in a turn ----------------------------------------------------------------------------------------------
def mark_served(tx: MailChanges, inbox_id: int, command: MarkServed, now_us: int) -> tuple[int, ...]:
    """Mark rows as handed out, and return those that were not before. Raises `Refusal("conflict")`."""
    record, reader = reader_of(tx, inbox_id, command.reader)
    there = (row.seq for row in tx.rows_at(inbox_id, command.seqs))
    fresh = tuple(seq for seq in there if not reader.was_served(seq))
    with refusing_holes():
        after = draining.mark_served(reader, fresh, partial(tx.next_seq, inbox_id))
    put_reader(tx, inbox_id, command.reader, record, reader, after)
    tx.mark_receipts_served(inbox_id, fresh, now_us)
    return fresh


def ack_ids(tx: MailChanges, inbox_id: int, command: AckIds, now_us: int) -> AckedIds:
    """Acknowledge messages by their ids. Raises `Refusal("conflict")`, which has changed nothing."""
    record, reader = reader_of(tx, inbox_id, command.reader)
    scope = seen_by(command.visible)
    ids = tuple(dict.fromkeys(command.ids))
    seqs = tx.seqs_of_ids(inbox_id, ids)
    rows = tx.rows_at(inbox_id, list(seqs.values()))
    seen = {row.seq for row in rows if row.own or scope.sees(row.origin, row.origin_kind)}
    known = {one: seq for one, seq in seqs.items() if seq in seen}
    acked = tuple(one for one in ids if one in known and not reader.has_acked(known[one]))
    fresh = [known[one] for one in acked]
    with refusing_holes():
        after = draining.acknowledge_each(reader, fresh, partial(tx.next_seq, inbox_id))
    put_reader(tx, inbox_id, command.reader, record, reader, after)
    tx.mark_receipts_acked(inbox_id, fresh, now_us)
    return AckedIds(
        acked,
        tuple(one for one in ids if one in known and reader.has_acked(known[one])),
        tuple(one for one in ids if one not in known),
        after.ack_cursor,
    )
