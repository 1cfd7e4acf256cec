"""Tidying, in slices: rows that nobody can read any more, and the pages that they leave behind.

`sweep_todo` is the whole plan: dropping a prefix or deleting an inbox writes one row there and readers are told at
once by the head; what is left is found again after a restart. Every inbox loses only its own prefix, and a message goes
when its last entry goes (engineering study, S14): retention of one inbox never takes another's unread mail.
A slice is bounded by rows, by bytes of bodies and by time, so that no commit waits behind it.

The router reads a message where it is at home, and knows by an entry what it has delivered. A sweep that is told how
far the router has durably come leaves all entries of messages beyond: an inbox that keeps little loses nobody a
delivery, and nothing that was read and dropped comes once more after a crash.
"""

import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Literal

from storage import deliveries, mesh_receipts, search_index
from storage.records import Swept
from storage.sql import MAX_IN, Row, Sql, in_groups, shaped

EVERYTHING = (1 << 63) - 1
"""`below_seq` of an inbox that is deleted as a whole."""

SLICE_SECONDS = 0.005
"""The guaranteed slice of housekeeping (S20); checked between groups of rows, so at least one group is done."""

VACUUM_PAGES = 64
"""Pages given back per slice: 0.8 ms."""

SPARE_PAGES = 1_024
"""Free pages worth keeping (8 MiB): ingest takes them again sooner than the file can shrink and grow."""

_orphans = shaped(
    lambda marks: (
        f"SELECT m.mid, m.body_id FROM message m WHERE m.mid IN ({marks})"  # noqa: S608 — question marks only # nosec B608
        " AND NOT EXISTS (SELECT 1 FROM entry WHERE inbox_id = m.home_inbox AND seq = m.home_seq)"
        " AND NOT EXISTS (SELECT 1 FROM entry INDEXED BY entry_once WHERE mid = m.mid AND home = 0)"
    )
)
DOOMED = "SELECT seq, mid, size, home FROM entry WHERE inbox_id = ? AND seq < ? ORDER BY seq LIMIT ?"
"""Bindings: inbox id, highest seq + 1, limit."""

_ERASED_BELOW = (
    "DELETE FROM erased WHERE inbox_id = ?1 AND seq IN"
    " (SELECT seq FROM erased WHERE inbox_id = ?1 AND seq < ?2 ORDER BY seq LIMIT ?3)"
)
_SEEN_BY = (
    "DELETE FROM seen_delivery WHERE inbox_id = ?1 AND key IN"
    " (SELECT key FROM seen_delivery WHERE inbox_id = ?1 ORDER BY key LIMIT ?2)"
)
_SENT_ONCE_BY = (
    "DELETE FROM sent_once WHERE sender = ?1 AND key IN"
    " (SELECT key FROM sent_once WHERE sender = ?1 ORDER BY key LIMIT ?2)"
)

_chunks_of = shaped(lambda marks: f"DELETE FROM body_chunk WHERE body_id IN ({marks})")  # noqa: S608 — question marks only # nosec B608
_messages = shaped(lambda marks: f"DELETE FROM message WHERE mid IN ({marks})")  # noqa: S608 — question marks only # nosec B608


def drop_orphans(sql: Sql, mids: Sequence[int], now: int) -> None:
    """Delete those of these messages that have no entry left, with their bodies."""
    for group in in_groups(mids):
        orphans = sql.rows(_orphans(len(group)), group)
        for bodies in in_groups([body_id for _, body_id in orphans if body_id is not None]):
            sql.change(_chunks_of(len(bodies)), bodies)
        for gone in in_groups([mid for mid, _ in orphans]):
            sql.change(_messages(len(gone)), gone)
        deliveries.forget_receipts(sql, [mid for mid, _ in orphans], now)


def erase(sql: Sql, inbox_id: int, seq: int, now: int) -> int | None:
    """Delete one entry as `Tx.erase` says."""
    row = sql.row(
        "SELECT e.mid, e.size, e.home, e.received_at FROM entry e"
        " JOIN inbox_head h ON h.inbox_id = e.inbox_id AND e.seq >= h.first_seq WHERE e.inbox_id = ? AND e.seq = ?",
        (inbox_id, seq),
    )
    if row is None:
        return None
    mid, size, home, received_at = row
    mesh_receipts.mark_dropped(sql, inbox_id, seq, seq, now)
    sql.change("DELETE FROM entry WHERE inbox_id = ? AND seq = ?", (inbox_id, seq))
    sql.change("INSERT INTO erased VALUES (?, ?, ?)", (inbox_id, seq, now))
    search_index.forget_erased(sql, inbox_id, seq)
    if home:
        deliveries.forget_pending(sql, [mid])
    else:
        deliveries.keep_out(sql, mid, inbox_id, seq, received_at, now)
    drop_orphans(sql, [mid], now)
    return int(size)


def leave(sql: Sql, inbox_id: int, below_seq: int) -> None:
    """Note that rows of an inbox below a seq may be swept."""
    sql.change(
        "INSERT INTO sweep_todo VALUES (?, ?) ON CONFLICT (inbox_id)"
        " DO UPDATE SET below_seq = max(below_seq, excluded.below_seq)",
        (inbox_id, below_seq),
    )


class Slice:
    """One call of `Tx.sweep`: what it may still take, and what it has taken."""

    def __init__(
        self, sql: Sql, max_rows: int, max_bytes: int, now: int, routed_mid: int | None = None
    ) -> None:
        """`now`: when this is, in µs. `routed_mid`: up to where the router has durably come; None waits for nobody."""
        self._sql = sql
        self._now = now
        self._routed_mid = routed_mid
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._ends = time.monotonic() + SLICE_SECONDS
        self._rows = 0
        self._bytes = 0

    def run(self, stale_body_id: int, *, shrink: bool) -> Swept:
        """Sweep. Bodies staged up to `stale_body_id` are rubbish of an earlier start; `shrink`: keep no spare pages."""
        more = self._staged(stale_body_id) or self._inboxes() or self._indexes()
        if not more:
            more = vacuum(self._sql, 0 if shrink else SPARE_PAGES)
        return Swept(self._rows, self._bytes, more)

    def _spent(self) -> bool:
        if self._rows >= self._max_rows:
            return True
        return self._rows > 0 and (self._bytes >= self._max_bytes or time.monotonic() >= self._ends)

    def _most(self) -> int:
        """How many rows the next group may have."""
        return min(MAX_IN, self._max_rows - self._rows)

    def _fitting(self, sizes: Sequence[int]) -> int:
        """Count a group of rows in, as far as the bytes allow (the first row of a slice always fits)."""
        for n, size in enumerate(sizes):
            if self._rows and self._bytes + size > self._max_bytes:
                return n
            self._rows += 1
            self._bytes += size
        return len(sizes)

    def _staged(self, stale_body_id: int) -> bool:
        """Delete staged bodies of an earlier start; True when some are left."""
        while True:
            body_id = self._sql.value(
                "SELECT body_id FROM body_staged WHERE body_id <= ? ORDER BY body_id LIMIT 1",
                (stale_body_id,),
            )
            if body_id is None:
                return False
            if self._spent():
                return True
            pieces = self._sql.rows(
                "SELECT n, length(bytes) FROM body_chunk WHERE body_id = ? ORDER BY n DESC LIMIT ?",
                (body_id, self._most()),
            )
            taken = self._fitting([size for _, size in pieces])
            if taken:
                self._sql.change(
                    "DELETE FROM body_chunk WHERE body_id = ? AND n >= ?", (body_id, pieces[taken - 1][0])
                )
            elif not pieces:
                self._rows += self._sql.change("DELETE FROM body_staged WHERE body_id = ?", (body_id,))
            else:
                return True

    def _inboxes(self) -> bool:
        """Work through `sweep_todo`; True when something is left."""
        inbox_id = 0
        while True:
            row = self._sql.row(
                "SELECT inbox_id, below_seq FROM sweep_todo WHERE inbox_id > ? ORDER BY inbox_id LIMIT 1",
                (inbox_id,),
            )
            if row is None:
                return False
            inbox_id, below_seq = row
            if self._spent():
                return True
            left = self._entries(inbox_id, below_seq)
            if left == "held":
                if (
                    time.monotonic() >= self._ends
                ):  # however many wait: the router comes, and so does the next slice
                    return False
                continue
            if left == "more" or self._rest(inbox_id, below_seq):
                return True
            self._sql.change("DELETE FROM sweep_todo WHERE inbox_id = ?", (inbox_id,))
            if below_seq == EVERYTHING:
                self._sql.change("DELETE FROM inbox WHERE inbox_id = ?", (inbox_id,))

    def _entries(self, inbox_id: int, below_seq: int) -> Literal["none", "more", "held"]:
        """Delete entries below a seq, oldest first; say whether some are left, or held back for the router."""
        indexed = search_index.index_of(self._sql, inbox_id)
        most_at_once = MAX_IN if indexed is None else search_index.FORGOTTEN_AT_ONCE
        while True:
            most = max(1, min(self._most(), most_at_once))
            found = self._sql.rows(DOOMED, (inbox_id, below_seq, most))
            if not found:
                return "none"
            entries = self._routed(found)
            if not entries:
                return "held"
            if self._spent():
                return "more"
            taken = entries[: self._fitting([size for _, _, size, _ in entries])]
            if not taken:
                return "more"
            mesh_receipts.mark_dropped(self._sql, inbox_id, taken[0][0], taken[-1][0], self._now)
            self._sql.change("DELETE FROM entry WHERE inbox_id = ? AND seq <= ?", (inbox_id, taken[-1][0]))
            if indexed is not None:
                search_index.forget(self._sql, indexed[0], taken[0][0], taken[-1][0])
            mids = [mid for _, mid, *_ in taken]
            deliveries.forget_pending(self._sql, [mid for _, mid, _, home in taken if home])
            if below_seq == EVERYTHING:
                deliveries.forget_recipient(self._sql, inbox_id, mids)
            drop_orphans(self._sql, mids, self._now)

    def _indexes(self) -> bool:
        """Take away search indexes that were dropped; True when something is left."""
        while (index_id := search_index.dropped(self._sql)) is not None:
            if self._spent():
                return True
            self._rows += search_index.take_away(self._sql, index_id, self._most())
        return False

    def _routed(self, entries: list[Row]) -> list[Row]:
        """Return those in front of the first that the router may still need."""
        routed_mid = self._routed_mid
        if routed_mid is None:
            return entries
        return list(takewhile(lambda entry: entry[1] <= routed_mid, entries))

    def _rest(self, inbox_id: int, below_seq: int) -> bool:
        """Delete what else hangs on dropped rows, or on a deleted inbox; True when some is left."""
        sql = self._sql
        steps: list[Callable[[int], int]] = [
            lambda most: sql.change(_ERASED_BELOW, (inbox_id, below_seq, most)),
        ]
        if below_seq == EVERYTHING:
            steps += [
                lambda most: sql.change(_SEEN_BY, (inbox_id, most)),
                lambda most: sql.change(_SENT_ONCE_BY, (inbox_id, most)),
                lambda most: mesh_receipts.forget_sender(sql, inbox_id, most),
            ]
        for step in steps:
            while not self._spent():
                most = self._most()
                gone = step(most)
                self._rows += gone
                if gone < most:
                    break
            else:
                return True
        return False


def vacuum(sql: Sql, spare_pages: int) -> bool:
    """Give a few free pages back to the file system; True when more should follow.

    A quarter of the file may stay free, and `spare_pages` in any case: shrinking below what ingest fills again is
    work for nothing. With 0 nothing is kept (the disk is full and others need the room).
    """
    free = sql.value("PRAGMA freelist_count")
    if free and free > spare_pages:
        kept = max(spare_pages, sql.value("PRAGMA page_count") // 4) if spare_pages else 0
        if free > kept:
            sql.rows(f"PRAGMA incremental_vacuum({min(VACUUM_PAGES, free - kept)})")
            return bool(free - kept > VACUUM_PAGES)
    return False


def forget_seen(sql: Sql, before_us: int, max_rows: int) -> int:
    """Forget dedupe keys, oldest first, as `Tx.forget_seen` says."""
    return sql.change(
        "DELETE FROM seen_delivery WHERE (inbox_id, key) IN"
        " (SELECT inbox_id, key FROM seen_delivery WHERE seen_at < ? ORDER BY seen_at LIMIT ?)",
        (before_us, max_rows),
    )
