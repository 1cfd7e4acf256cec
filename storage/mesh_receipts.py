"""What became of agents' messages: the marks in their receipts, and the list of what an agent has sent.

A receipt is *open* from the moment at which it has a seq until it was acknowledged or its entry was dropped unread;
`receipt_open` has these alone, by inbox and seq, so that whoever acknowledges webhooks finds nothing to look at.
Its times are in order, stored, served, acknowledged, also when the clock was set back between them.

Receipts go with their message, except for those of a message in `sent_log`: its sender may still ask. These stay until
the note does, a while after the message has left its last inbox.
"""

from collections.abc import Sequence

import msgspec

from storage.mail_records import Receipt
from storage.mesh_records import SentMessage
from storage.sql import Sql, in_groups, shaped

_OPEN = "acked_at IS NULL AND expired_at IS NULL"

served_statement = shaped(
    lambda marks: (
        "UPDATE receipt INDEXED BY receipt_open SET served_at = max(?, stored_at)"  # noqa: S608 — constants and question marks # nosec B608
        f" WHERE inbox_id = ? AND seq IN ({marks}) AND served_at IS NULL AND {_OPEN}"
    )
)
"""Bindings: the moment, inbox id, the seqs."""

acked_statement = shaped(
    lambda marks: (
        "UPDATE receipt INDEXED BY receipt_open SET acked_at = max(?1, coalesce(served_at, stored_at)),"  # noqa: S608 — constants and question marks # nosec B608
        " served_at = coalesce(served_at, max(?1, stored_at))"
        f" WHERE inbox_id = ?2 AND seq IN ({marks}) AND {_OPEN}"
    )
)
"""Bindings: the moment, inbox id, the seqs."""

# Below the head's `first_seq` nothing was acknowledged: the sweep will note that it was dropped.
PASSED = f"""
UPDATE receipt INDEXED BY receipt_open SET (served_at, acked_at, expired_at) = (
  SELECT CASE WHEN late THEN receipt.served_at ELSE coalesce(receipt.served_at, max(?4, receipt.stored_at)) END,
    CASE WHEN NOT late THEN max(?4, coalesce(receipt.served_at, receipt.stored_at)) END,
    CASE WHEN late THEN expires_at END
  FROM (SELECT expires_at, coalesce(expires_at <= ?4, false) AS late FROM entry
    WHERE inbox_id = receipt.inbox_id AND seq = receipt.seq))
WHERE inbox_id = ?1 AND seq > max(?2, (SELECT first_seq - 1 FROM inbox_head WHERE inbox_id = ?1)) AND seq <= ?3
  AND {_OPEN}
"""  # noqa: S608 — constants # nosec B608
"""Bindings: inbox id, the seq after which and the one up to which, the moment."""

# Before the entries go: it asks them when they had expired.
DROPPED = f"""
UPDATE receipt INDEXED BY receipt_open SET expired_at = (SELECT min(coalesce(expires_at, ?4), ?4) FROM entry
  WHERE inbox_id = receipt.inbox_id AND seq = receipt.seq)
WHERE inbox_id = ?1 AND seq BETWEEN ?2 AND ?3 AND {_OPEN}
"""  # noqa: S608 — constants # nosec B608
"""Bindings: inbox id, the first and the last seq, the moment."""

SENT_BY = (
    "SELECT id, mid, sent_at, event_type, expires_at FROM sent_log WHERE sender = ? AND id < ?"
    " ORDER BY id DESC LIMIT ?"
)
"""Bindings: sender, an id or `NEWEST`, limit."""

NEWEST = b"\xff" * 17
"""Greater than every id: those have 16 bytes."""

RECEIPTS_OF = (
    "SELECT r.inbox_id, r.seq, r.stored_at, r.served_at, r.acked_at, r.expired_at FROM receipt r"
    " CROSS JOIN agent a ON a.inbox_id = r.inbox_id WHERE r.mid = ? ORDER BY r.inbox_id"
)
"""Bindings: mid. Of recipients that still exist."""

FORGOTTEN = "SELECT mid FROM sent_log INDEXED BY sent_log_gone WHERE gone_at < ? ORDER BY gone_at LIMIT ?"
"""Bindings: a moment, limit."""

SENT_OF = "SELECT mid, gone_at IS NOT NULL FROM sent_log WHERE sender = ? LIMIT ?"
"""Bindings: sender, limit."""

gone_statement = shaped(
    lambda marks: f"UPDATE sent_log SET gone_at = ? WHERE mid IN ({marks})"  # noqa: S608 — question marks only # nosec B608
)
unnoted_statement = shaped(
    lambda marks: (
        f"DELETE FROM receipt WHERE mid IN ({marks})"  # noqa: S608 — question marks only # nosec B608
        " AND NOT EXISTS (SELECT 1 FROM sent_log WHERE mid = receipt.mid)"
    )
)


# -- marks --------------------------------------------------------------------------------------------------
def mark_served(sql: Sql, inbox_id: int, seqs: Sequence[int], at_us: int) -> None:
    """Note that entries were served, as `MeshChanges.mark_receipts_served` says."""
    for group in in_groups(seqs):
        sql.change(served_statement(len(group)), (at_us, inbox_id, *group))


def mark_acked(sql: Sql, inbox_id: int, seqs: Sequence[int], at_us: int) -> None:
    """Note that entries were acknowledged one by one, as `MeshChanges.mark_receipts_acked` says."""
    for group in in_groups(seqs):
        sql.change(acked_statement(len(group)), (at_us, inbox_id, *group))


def mark_passed(sql: Sql, inbox_id: int, after_seq: int, through_seq: int, at_us: int) -> None:
    """Note that a cursor was moved over entries, as `MeshChanges.mark_receipts_passed` says."""
    if through_seq > after_seq:
        sql.change(PASSED, (inbox_id, after_seq, through_seq, at_us))


def mark_dropped(sql: Sql, inbox_id: int, first_seq: int, last_seq: int, at_us: int) -> None:
    """Note that entries are dropped: those that nobody has acknowledged never will be. Called before they go."""
    sql.change(DROPPED, (inbox_id, first_seq, last_seq, at_us))


# -- what was sent ------------------------------------------------------------------------------------------
def remember(
    sql: Sql, sender: int, id: bytes, mid: int, sent_at: int, event_type: str, expires_at: int | None
) -> None:
    """Note that an agent has sent a message."""
    sql.change(
        "INSERT INTO sent_log (sender, id, mid, sent_at, event_type, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
        (sender, id, mid, sent_at, event_type, expires_at),
    )


def sent_by(
    sql: Sql, sender: int, before_id: bytes | None, limit: int, now_us: int, receipt_limit: int
) -> list[SentMessage]:
    """Return the newest messages of a sender, as `MeshLog.sent_by` says."""
    found: list[SentMessage] = []
    receipts = 0
    for id, mid, sent_at, event_type, expires_at in sql.rows(SENT_BY, (sender, before_id or NEWEST, limit)):
        over = None if expires_at is None or expires_at > now_us else expires_at
        rows = [late(Receipt(*row), over) for row in sql.rows(RECEIPTS_OF, (mid,))]
        found.append(SentMessage(id, mid, sent_at, event_type, tuple(rows)))
        receipts += len(rows)
        if receipts > receipt_limit:
            break
    return found


def late(receipt: Receipt, over: int | None) -> Receipt:
    """Return a receipt of a message that has expired at `over` (None: it has not), as its sender sees it."""
    acked_before = receipt.acked_at is not None and (over is None or receipt.acked_at <= over)
    if over is None or receipt.expired_at is not None or acked_before:
        return receipt
    return msgspec.structs.replace(receipt, expired_at=over)


# -- the end of it ------------------------------------------------------------------------------------------
def message_gone(sql: Sql, mids: Sequence[int], now_us: int) -> None:
    """Delete the receipts of messages that are gone, or have `forget` do so later where a sender may still ask."""
    for group in in_groups(mids):
        sql.change(gone_statement(len(group)), (now_us, *group))
        sql.change(unnoted_statement(len(group)), group)


def forget(sql: Sql, before_us: int, max_rows: int) -> int:
    """Forget messages that have been gone since before a moment, oldest first, with their receipts.

    At most `max_rows` rows; returns how many.
    """
    mids = [(mid, True) for (mid,) in sql.rows(FORGOTTEN, (before_us, max_rows))]
    return _forget(sql, mids, max_rows)


def forget_sender(sql: Sql, sender: int, max_rows: int) -> int:
    """Forget what a sender that is gone has sent, at most `max_rows` rows; return how many. Receipts of messages that
    are still there go with these.
    """
    return _forget(sql, [(mid, gone == 1) for mid, gone in sql.rows(SENT_OF, (sender, max_rows))], max_rows)


def _forget(sql: Sql, notes: Sequence[tuple[int, bool]], max_rows: int) -> int:
    left = max_rows
    for mid, gone in notes:
        if gone:
            left -= sql.change(
                "DELETE FROM receipt WHERE mid = ?1"
                " AND inbox_id IN (SELECT inbox_id FROM receipt WHERE mid = ?1 LIMIT ?2)",
                (mid, left),
            )
        if left == 0:
            break
        left -= sql.change("DELETE FROM sent_log WHERE mid = ?", (mid,))
        if left == 0:
            break
    return max_rows - left
