"""Draining an inbox: how far its readers have come, the rows in front of them, and what is shown of a row.

The two are read apart (surface, section 7). A window has every row above a floor, also those that its reader may not
see, and of each what the rules decide by; the content is read of those that are shown. So a row that is passed over
costs no body, and neither costs more in a large inbox than in a small one.
"""

from collections.abc import Sequence

import msgspec

from storage.mail_records import Delivered, Drain, DrainRow, ReaderRecord
from storage.pages import SEQ_AT
from storage.rows import head_of
from storage.sql import Row, Sql, in_groups, shaped


class _Scored(msgspec.Struct):
    """What draining needs of a delivery record."""

    score: float = 0.0


_score = msgspec.json.Decoder(_Scored)
_runs = msgspec.json.Decoder(tuple[tuple[int, int], ...])

DRAINED = """
SELECT e.seq, e.delivery, e.expires_at, i.slug, i.kind, e.origin = e.inbox_id,
  length(m.facts) + length(m.said) + coalesce(length(e.delivery), 0)
  + CASE WHEN m.body_id IS NULL AND m.size <= ? THEN m.size ELSE 0 END
FROM entry e CROSS JOIN message m ON m.mid = e.mid LEFT JOIN inbox i ON i.inbox_id = e.origin
"""
"""The columns of `drained`. Bindings: body limit."""

WINDOW = f"{DRAINED}WHERE e.inbox_id = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?"
"""Bindings: body limit, inbox id, floor, highest seq, limit."""

NEXT = "SELECT seq FROM entry WHERE inbox_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
"""Bindings: inbox id, floor, highest seq, limit."""

shown_statement = shaped(
    lambda marks: (
        "SELECT e.seq, e.received_at, e.delivery, e.expires_at, e.origin = e.inbox_id, m.id, m.received_at, m.size,"  # noqa: S608 — question marks only # nosec B608
        " m.facts, m.said, m.body_kind, CASE WHEN m.size <= ? THEN m.body END, m.body_id, e.event_type, e.verified,"
        " i.slug, m.home_seq, m.home_epoch"
        " FROM entry e CROSS JOIN message m ON m.mid = e.mid LEFT JOIN inbox i ON i.inbox_id = m.home_inbox"
        f" WHERE e.inbox_id = ? AND e.seq IN ({marks}) AND e.seq >= ?"
    )
)
"""Bindings: body limit, inbox id, the seqs, lowest seq."""


def reader(sql: Sql, inbox_id: int, name: str) -> ReaderRecord | None:
    """Return a reader of an inbox, None when there is none of that name."""
    row = sql.row(
        "SELECT ack_cursor, served_high, start_seq, acked, served FROM reader WHERE inbox_id = ? AND name = ?",
        (inbox_id, name),
    )
    if row is None:
        return None
    ack_cursor, served_high, start_seq, acked, served = row
    return ReaderRecord(ack_cursor, served_high, start_seq, _runs.decode(acked), _runs.decode(served))


def put_reader(sql: Sql, inbox_id: int, name: str, record: ReaderRecord) -> None:
    """Store a reader. Raises `InboxGone`."""
    head_of(sql, inbox_id)
    sql.change(
        "INSERT INTO reader (inbox_id, name, ack_cursor, served_high, start_seq, acked, served)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (inbox_id, name) DO UPDATE SET ack_cursor = excluded.ack_cursor,"
        " served_high = excluded.served_high, start_seq = excluded.start_seq, acked = excluded.acked,"
        " served = excluded.served",
        (
            inbox_id,
            name,
            record.ack_cursor,
            record.served_high,
            record.start_seq,
            msgspec.json.encode(record.acked),
            msgspec.json.encode(record.served),
        ),
    )


def window(sql: Sql, inbox_id: int, floor: int, limit: int, body_limit: int) -> Drain:
    """Return the first rows above a floor, as `MailReads.window` says. Raises `InboxGone`."""
    head = head_of(sql, inbox_id)
    found = sql.rows(
        WINDOW, (body_limit, inbox_id, max(floor, head.first_seq - 1), head.latest_seq, limit + 1)
    )
    return Drain(head, [drained(row) for row in found[:limit]], len(found) > limit)


def drained(row: Row) -> DrainRow:
    """Return the row in the columns of `DRAINED`."""
    seq, delivery, expires_at, slug, kind, own, weight = row
    return DrainRow(
        seq,
        0.0 if delivery is None else _score.decode(delivery).score,
        expires_at,
        slug,
        None if slug is None else kind,
        own == 1,
        weight,
    )


def seqs_after(sql: Sql, inbox_id: int, floor: int, limit: int) -> list[int]:
    """Return the first retained seqs above a floor. Raises `InboxGone`."""
    head = head_of(sql, inbox_id)
    found = sql.rows(NEXT, (inbox_id, max(floor, head.first_seq - 1), head.latest_seq, limit))
    return [seq for (seq,) in found]


def next_seq(sql: Sql, inbox_id: int, after: int) -> int:
    """Return the first retained seq after one, one past the latest when there is none. Raises `InboxGone`."""
    head = head_of(sql, inbox_id)
    found = sql.value(NEXT, (inbox_id, max(after, head.first_seq - 1), head.latest_seq, 1))
    return head.latest_seq + 1 if found is None else int(found)


def floor_at(sql: Sql, inbox_id: int, at_us: int) -> int:
    """Return the seq above which all is later than a moment, as `MailReads.floor_at` says. Raises `InboxGone`."""
    head = head_of(sql, inbox_id)
    return int(sql.value(SEQ_AT, (head.first_seq, head.latest_seq, inbox_id, at_us + 1))) - 1


def deliveries(sql: Sql, inbox_id: int, seqs: Sequence[int], body_limit: int) -> list[Delivered]:
    """Return what is shown of entries, as `MailReads.deliveries` says. Raises `InboxGone`."""
    head = head_of(sql, inbox_id)
    found: dict[int, Delivered] = {}
    for group in in_groups(seqs):
        rows = sql.rows(shown_statement(len(group)), (body_limit, inbox_id, *group, head.first_seq))
        for seq, delivered_at, delivery, expires_at, own, *rest in rows:
            found[seq] = Delivered(seq, delivered_at, delivery, expires_at, own == 1, *rest)
    return [found[seq] for seq in seqs if seq in found]
