"""Deliveries: entries of private inboxes for messages that are at home elsewhere, and the recipients of direct mail.

A message is delivered to an inbox at most once: `entry_once` is unique over (mid, inbox). So whoever delivers asks
first which of the messages are still to come (`undelivered`), numbers these, and a repeat after a
crash changes nothing.

A message that an agent sends to named others has a `receipt` for each of them, written with it. A receipt without a seq
is work for the router; the delivery fills it in, in the same transaction. Receipts go with their message, or a while
later (`storage.mesh_receipts`), and what is still to be delivered goes with the message's own entry. Of any other
message there is a receipt where a delivery of it was erased: whoever has one with a seq is not given the message again.
"""

from collections.abc import Sequence

from storage import mesh_receipts
from storage.mail_records import NewDelivery, Pending, Receipt, Recipient
from storage.sql import Sql, in_groups, shaped

undelivered_statement = shaped(
    lambda marks: (
        f"SELECT m.mid FROM message m WHERE m.mid IN ({marks}) AND m.home_inbox != ?"  # noqa: S608 — question marks only # nosec B608
        " AND EXISTS (SELECT 1 FROM entry WHERE inbox_id = m.home_inbox AND seq = m.home_seq)"
        " AND NOT EXISTS (SELECT 1 FROM entry INDEXED BY entry_once WHERE mid = m.mid AND inbox_id = ? AND home = 0)"
        " AND NOT EXISTS (SELECT 1 FROM receipt WHERE mid = m.mid AND inbox_id = ? AND seq IS NOT NULL)"
    )
)
stored_statement = shaped(
    lambda marks: (
        "UPDATE receipt SET (seq, stored_at) = (SELECT seq, received_at FROM entry INDEXED BY entry_once"  # noqa: S608 — question marks only # nosec B608
        " WHERE mid = receipt.mid AND inbox_id = receipt.inbox_id AND home = 0)"
        f" WHERE mid IN ({marks}) AND inbox_id = ? AND seq IS NULL"
    )
)

# Both indexes are used by name and the joins are CROSS: the order is that of `receipt_pending`, read as far as wanted.
PENDING = """
SELECT r.mid, r.inbox_id, m.home_inbox, e.event_type, e.verified, e.size, e.expires_at, e.delivery
FROM receipt r INDEXED BY receipt_pending
CROSS JOIN inbox_head h ON h.inbox_id = r.inbox_id
CROSS JOIN message m ON m.mid = r.mid
CROSS JOIN entry e ON e.inbox_id = m.home_inbox AND e.seq = m.home_seq
WHERE r.seq IS NULL AND (r.mid, r.inbox_id) > (?, ?) AND r.mid <= ?
ORDER BY r.mid, r.inbox_id LIMIT ?
"""


def undelivered(sql: Sql, inbox_id: int, mids: Sequence[int]) -> set[int]:
    """Return those of these messages that may still be delivered to an inbox, as `MailChanges.undelivered` says."""
    found: set[int] = set()
    for group in in_groups(mids):
        found.update(
            mid
            for (mid,) in sql.rows(undelivered_statement(len(group)), (*group, inbox_id, inbox_id, inbox_id))
        )
    return found


def keep_out(sql: Sql, mid: int, inbox_id: int, seq: int, stored_at: int, now: int) -> None:
    """Note that a delivery was erased: a router that comes by the message again must not bring it back."""
    sql.change(
        "INSERT INTO receipt (mid, inbox_id, seq, stored_at, expired_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (mid, inbox_id, seq, stored_at, now),
    )


COPIES = """
SELECT c.inbox_id, c.seq FROM entry e
CROSS JOIN entry c INDEXED BY entry_once ON c.mid = e.mid AND c.home = 0
CROSS JOIN inbox_head h ON h.inbox_id = c.inbox_id AND c.seq >= h.first_seq
WHERE e.inbox_id = ? AND e.seq = ? AND e.home = 1 ORDER BY c.inbox_id
"""


def copies(sql: Sql, inbox_id: int, seq: int) -> list[tuple[int, int]]:
    """Return where a message was delivered to, as `MailChanges.copies` says."""
    return [(other, at) for other, at in sql.rows(COPIES, (inbox_id, seq))]


def deliver(sql: Sql, inbox_id: int, new: Sequence[NewDelivery]) -> None:
    """Insert deliveries, and note them in the receipts that wait for them."""
    sql.insert(
        "INSERT INTO entry (inbox_id, seq, mid, received_at, event_type, verified, size, home, origin, expires_at,"
        " delivery)",
        [
            (
                inbox_id,
                d.seq,
                d.mid,
                d.delivered_at,
                d.event_type,
                d.verified,
                d.size,
                0,
                d.origin,
                d.expires_at,
                d.delivery,
            )
            for d in new
        ],
    )
    for group in in_groups([d.mid for d in new]):
        sql.change(stored_statement(len(group)), (*group, inbox_id))


def add_recipients(sql: Sql, mid: int, recipients: Sequence[Recipient]) -> None:
    """Write down to whom a message was sent."""
    sql.insert(
        "INSERT INTO receipt (mid, inbox_id, seq, stored_at)",
        [(mid, one.inbox_id, one.seq, one.stored_at) for one in recipients],
    )


def pending(sql: Sql, after: tuple[int, int], through_mid: int, limit: int) -> list[Pending]:
    """Return recipients that are still to be delivered to, as `LogReads.pending` says."""
    return [Pending(*row) for row in sql.rows(PENDING, (*after, through_mid, limit))]


def receipts(sql: Sql, mid: int) -> list[Receipt]:
    """Return what became of a message at its recipients, in the order of their inboxes."""
    rows = sql.rows(
        "SELECT inbox_id, seq, stored_at, served_at, acked_at, expired_at FROM receipt WHERE mid = ?"
        " ORDER BY inbox_id",
        (mid,),
    )
    return [Receipt(*row) for row in rows]


_at_one = shaped(lambda marks: f"DELETE FROM receipt WHERE mid IN ({marks}) AND inbox_id = ?")  # noqa: S608 — question marks only # nosec B608
_waiting = shaped(
    lambda marks: f"DELETE FROM receipt INDEXED BY receipt_pending WHERE mid IN ({marks}) AND seq IS NULL"  # noqa: S608 — question marks only # nosec B608
)


AMONG = (
    "SELECT 1 FROM receipt WHERE mid BETWEEN ?1 AND ?2"
    " UNION ALL SELECT 1 FROM sent_log INDEXED BY sent_log_mid WHERE mid BETWEEN ?1 AND ?2 LIMIT 1"
)
"""Bindings: lowest and highest mid."""


def _have_receipts(sql: Sql, mids: Sequence[int]) -> bool:
    """Whether any of these messages may have a receipt: most of those that are swept come from outside."""
    return bool(mids) and sql.value(AMONG, (min(mids), max(mids))) is not None


def forget_receipts(sql: Sql, mids: Sequence[int], now_us: int) -> None:
    """Delete the receipts of messages that are gone, or leave them to `mesh_receipts.forget`."""
    if _have_receipts(sql, mids):
        mesh_receipts.message_gone(sql, mids, now_us)


def forget_pending(sql: Sql, mids: Sequence[int]) -> None:
    """Delete what is still to be delivered of messages that have left their home: nothing is known of them there."""
    if _have_receipts(sql, mids):
        for group in in_groups(mids):
            sql.change(_waiting(len(group)), group)


def forget_recipient(sql: Sql, inbox_id: int, mids: Sequence[int]) -> None:
    """Delete the receipts of an inbox that is gone."""
    for group in in_groups(mids):
        sql.change(_at_one(len(group)), (*group, inbox_id))
