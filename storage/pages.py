"""Pages: which rows a `PageQuery` names, in one statement whose cost is that of the page, not of the inbox.

The rows come in the order of exactly one index and are fetched one by one, until there are enough of them: of the
bodies behind the byte budget at most one is read.

- A row below the head's `first_seq` is never returned, though its deletion may still be under way.
- `types` and `verified` use the index that the study pins by name (S12): left alone, the planner scans the whole
  primary key for a rare type. Without a filter on `verified` all three verdicts are listed, for the same reason.
- `since_us` and `until_us` become a range of seqs by bisection, because times strictly increase within an inbox.
- `limit` + 1 rows are asked for: `exhausted` is therefore exact. A page cut by its byte budget is never exhausted.
- `byte_budget`: the row that passes it is the last one. A row weighs its `facts`, its `said` and the body it brings.
"""

from contextlib import closing

from storage.records import Head, Page, PageQuery, StoredMessage
from storage.rows import head_of
from storage.sql import Sql, padded

# The smallest seq whose entry is at or after a moment (one past the latest when there is none). An erased seq counts
# as the next one that exists.
SEQ_AT = """
WITH RECURSIVE b(lo, hi) AS (SELECT ?1, ?2 + 1 UNION ALL
  SELECT CASE WHEN (SELECT received_at FROM entry WHERE inbox_id = ?3 AND seq >= (b.lo + b.hi) / 2
                    ORDER BY seq LIMIT 1) < ?4 THEN (b.lo + b.hi) / 2 + 1 ELSE b.lo END,
         CASE WHEN (SELECT received_at FROM entry WHERE inbox_id = ?3 AND seq >= (b.lo + b.hi) / 2
                    ORDER BY seq LIMIT 1) < ?4 THEN b.hi ELSE (b.lo + b.hi) / 2 END
  FROM b WHERE b.lo < b.hi) SELECT min(hi) FROM b
"""

COLUMNS = (
    "SELECT e.seq, m.id, e.received_at, m.size, m.facts, m.said, m.body_kind,"
    " CASE WHEN m.size <= ? THEN m.body END, m.body_id, e.event_type, e.verified"
)
"""The members of a `StoredMessage`, in their order. `received_at` is when it came to this inbox, so that times strictly
increase there also among deliveries.
"""


def page_statement(types: int, verdicts: bool, backward: bool) -> str:
    """Return the statement for the rows of a page.

    Bindings: body limit, inbox id, the types (`types` of them, already padded), the verdict if `verdicts`, lowest
    seq, highest seq, limit; with a filter, the inbox id once more.
    """
    order = "DESC" if backward else "ASC"
    if not types and not verdicts:
        return (
            f"{COLUMNS} FROM entry e CROSS JOIN message m ON m.mid = e.mid"
            f" WHERE e.inbox_id = ?2 AND e.seq BETWEEN ?3 AND ?4 ORDER BY e.seq {order} LIMIT ?5"
        ).replace("m.size <= ?", "m.size <= ?1")
    index = "entry_type" if types else "entry_verified"
    of_type = f" AND event_type IN ({', '.join('?' * types)})" if types else ""
    of_verdict = " AND verified = ?" if verdicts else " AND verified IN (0, 1, 2)"
    return (
        f"{COLUMNS} FROM (SELECT seq FROM entry INDEXED BY {index}"  # noqa: S608 — constants and question marks # nosec B608
        f" WHERE inbox_id = ?{of_type}{of_verdict}"
        f" AND seq BETWEEN ? AND ? ORDER BY seq {order} LIMIT ?) k"
        " CROSS JOIN entry e ON e.inbox_id = ? AND e.seq = k.seq CROSS JOIN message m ON m.mid = e.mid"
        f" ORDER BY e.seq {order}"
    )


_cached: dict[tuple[int, bool, bool], str] = {}


def _rows(sql: Sql, query: PageQuery, low: int, high: int) -> tuple[list[StoredMessage], bool]:
    """Return the rows in the order of reading, and whether there are no more of them."""
    types = padded(query.types) if query.types else []
    shape = (len(types), query.verified is not None, query.after is None)
    statement = _cached.get(shape)
    if statement is None:
        statement = _cached[shape] = page_statement(*shape)
    verdict = [] if query.verified is None else [query.verified]
    again = [query.inbox_id] if types or verdict else []
    bindings = [query.body_limit, query.inbox_id, *types, *verdict, low, high, query.limit + 1, *again]
    found: list[StoredMessage] = []
    weight = 0
    with closing(sql.each(statement, bindings)) as rows:
        for row in rows:
            if len(found) == query.limit or weight > query.byte_budget:
                return found, False
            message = StoredMessage(*row)
            found.append(message)
            weight += len(message.facts) + len(message.said) + len(message.body or b"")
    return found, True


def _range(sql: Sql, query: PageQuery, head: Head) -> tuple[int, int]:
    """Return the lowest and the highest seq that the query may return."""
    low, high = head.first_seq, head.latest_seq
    if query.after is not None:
        low = max(low, query.after + 1)
    elif query.before is not None:
        high = min(high, query.before - 1)
    if query.since_us is not None and low <= high:
        low = max(low, sql.value(SEQ_AT, (low, high, query.inbox_id, query.since_us)))
    if query.until_us is not None and low <= high:
        high = min(high, sql.value(SEQ_AT, (low, high, query.inbox_id, query.until_us)) - 1)
    return low, high


def page(sql: Sql, query: PageQuery) -> Page:
    """Return the page of a query, with the head of the same moment. Raises `InboxGone`."""
    head = head_of(sql, query.inbox_id)
    low, high = _range(sql, query, head)
    if low > high:
        return Page(head, [], True)
    rows, exhausted = _rows(sql, query, low, high)
    return Page(head, rows, exhausted)


def message(sql: Sql, inbox_id: int, seq: int, body_limit: int) -> tuple[Head, StoredMessage | None]:
    """Return one entry and the head of the same moment, None when it is not there. Raises `InboxGone`."""
    head = head_of(sql, inbox_id)
    if not head.first_seq <= seq <= head.latest_seq:
        return head, None
    row = sql.row(
        f"{COLUMNS} FROM entry e CROSS JOIN message m ON m.mid = e.mid WHERE e.inbox_id = ? AND e.seq = ?",
        (body_limit, inbox_id, seq),
    )
    return head, None if row is None else StoredMessage(*row)
