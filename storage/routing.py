"""The log as the router reads it: messages by `mid`, in the order of commits, slice by slice.

A slice looks at a bounded number of messages whatever they are, so that its cost is known: private ones are looked at,
passed over and counted in `through`. It reads no content; that is fetched for the messages which something could match.

Message and home entry are one: a message whose home entry was erased or swept is not routed any more, one that is
merely below the inbox's `first_seq` still is. Retention of its home takes no delivery away when the sweep waits for the
router (`storage.sweep`).
"""

from collections.abc import Sequence
from contextlib import closing

from storage.mail_records import ROUTABLE_KINDS, Content, LogSlice, Routable
from storage.sql import Sql, in_groups, shaped

_LOG = """
SELECT m.mid, m.id, m.home_inbox, i.slug, i.kind, m.home_seq, m.received_at, e.event_type, e.verified, m.size,
  e.expires_at
FROM message m LEFT JOIN inbox i ON i.inbox_id = m.home_inbox
LEFT JOIN entry e ON e.inbox_id = m.home_inbox AND e.seq = m.home_seq
"""
FORWARD = f"{_LOG} WHERE m.mid > ? ORDER BY m.mid LIMIT ?"
BACKWARD = f"{_LOG} WHERE m.mid < ? ORDER BY m.mid DESC LIMIT ?"
"""Bindings of both: mid, how many messages to look at."""

contents_statement = shaped(
    lambda marks: (
        "SELECT m.mid, m.facts, m.said, m.body_kind, CASE WHEN ? THEN CASE WHEN m.body_id IS NULL"  # noqa: S608 — question marks only # nosec B608
        " THEN substr(m.body, 1, ?)"
        " ELSE (SELECT substr(bytes, 1, ?) FROM body_chunk WHERE body_id = m.body_id AND n = 0) END END, m.size"
        f" FROM message m WHERE m.mid IN ({marks}) ORDER BY m.mid"
    )
)
"""Bindings: body limit, three times; the mids."""


def routed_mid(sql: Sql) -> int:
    """Return up to where the log was routed."""
    return int(sql.value("SELECT routed_mid FROM server"))


def last_mid(sql: Sql) -> int:
    """Return the mid of the last message of the log, whether or not it still exists."""
    return int(sql.value("SELECT last_mid FROM server"))


def routed(sql: Sql, mid: int) -> None:
    """Move the router's cursor forward."""
    sql.change("UPDATE server SET routed_mid = ?1 WHERE routed_mid < ?1", (mid,))


def routable(sql: Sql, after_mid: int, limit: int) -> LogSlice:
    """Return the next slice of the log, as `LogReads.routable` says."""
    found = sql.rows(FORWARD, (after_mid, limit))
    if len(found) < limit:
        return LogSlice(_routable(found), max(after_mid, last_mid(sql)), False)
    through = found[-1][0]
    return LogSlice(_routable(found), through, through < last_mid(sql))


def routable_before(sql: Sql, before_mid: int, limit: int) -> LogSlice:
    """Return a slice of the log backwards, as `LogReads.routable_before` says."""
    found = sql.rows(BACKWARD, (before_mid, limit))
    if len(found) < limit:
        return LogSlice(_routable(found), 1, False)
    return LogSlice(_routable(found), found[-1][0], True)


def _routable(rows: Sequence[tuple[object, ...]]) -> list[Routable]:
    """Return those rows that are at home in a live inbox of a routable kind, and whose home entry is still there."""
    return [
        Routable(*row)  # type: ignore[arg-type]  # in the order of the columns of _LOG
        for row in rows
        if row[3] is not None and row[4] in ROUTABLE_KINDS and row[7] is not None
    ]


def contents(sql: Sql, mids: Sequence[int], body_limit: int, byte_budget: int) -> list[Content]:
    """Return what is matched of messages, as `LogReads.contents` says."""
    found: list[Content] = []
    weight = 0
    for group in in_groups(sorted(set(mids))):
        bindings = (body_limit, body_limit, body_limit, *group)
        with closing(sql.each(contents_statement(len(group)), bindings)) as rows:
            for row in rows:
                if weight > byte_budget:
                    return found
                content = Content(*row)
                found.append(content)
                weight += len(content.facts) + len(content.said) + len(content.body or b"")
    return found
