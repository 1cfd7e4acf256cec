"""What is in front of an agent besides windows: rows by id and by seq, and how many are unread.

Counting is bounded: it looks at the rows between what was acknowledged one by one, as many as are wanted, and an inbox
that holds a million of them costs no more than one that holds as many as are counted.
"""

from collections.abc import Iterator, Sequence

import msgspec

from storage.drains import DRAINED, drained
from storage.mail_records import DrainRow
from storage.mesh_protocols import UNREAD_SCANNED
from storage.mesh_records import Unread
from storage.rows import head_of
from storage.sql import Sql, in_groups, shaped

ids_statement = shaped(
    lambda marks: (
        "SELECT m.id, e.seq FROM message m CROSS JOIN entry e ON e.inbox_id = ?1"  # noqa: S608 — question marks only # nosec B608
        " AND e.seq = CASE WHEN m.home_inbox = ?1 THEN m.home_seq ELSE (SELECT seq FROM entry INDEXED BY entry_once"
        " WHERE mid = m.mid AND inbox_id = ?1 AND home = 0) END"
        f" WHERE e.seq BETWEEN ?2 AND ?3 AND m.id IN ({marks})"
    )
)
"""Bindings: inbox id, lowest and highest seq, the ids."""

at_statement = shaped(
    lambda marks: (
        f"{DRAINED} WHERE e.inbox_id = ? AND e.seq IN ({marks}) AND e.seq BETWEEN ? AND ? ORDER BY e.seq"
    )
)
"""Bindings: body limit, inbox id, the seqs, lowest and highest seq."""

UNREAD = """
SELECT i.slug, i.kind, u.origin = ?1, u.n FROM (
  SELECT origin, count(*) AS n FROM (
    SELECT origin FROM (
      SELECT e.origin, e.expires_at FROM json_each(?2) gap CROSS JOIN entry e
      WHERE e.inbox_id = ?1 AND e.seq BETWEEN gap.value ->> 0 AND gap.value ->> 1 LIMIT ?5)
    WHERE expires_at IS NULL OR expires_at > ?3 LIMIT ?4)
  GROUP BY origin) u
LEFT JOIN inbox i ON i.inbox_id = u.origin ORDER BY u.origin
"""
"""Bindings: inbox id, JSON of the gaps [[low, high], …], the moment, how many to count, how many to look at."""


def seqs_of_ids(sql: Sql, inbox_id: int, ids: Sequence[bytes]) -> dict[bytes, int]:
    """Return under which seqs messages stand in an inbox, as `MeshReads.seqs_of_ids` says. Raises `InboxGone`."""
    head = head_of(sql, inbox_id)
    found: dict[bytes, int] = {}
    for group in in_groups(ids):
        rows = sql.rows(ids_statement(len(group)), (inbox_id, head.first_seq, head.latest_seq, *group))
        found.update(rows)
    return found


def rows_at(sql: Sql, inbox_id: int, seqs: Sequence[int]) -> list[DrainRow]:
    """Return rows in the order of their seqs, as `MeshReads.rows_at` says. Raises `InboxGone`."""
    head = head_of(sql, inbox_id)
    found: list[DrainRow] = []
    for group in in_groups(sorted(set(seqs))):
        bindings = (-1, inbox_id, *group, head.first_seq, head.latest_seq)
        found += map(drained, sql.rows(at_statement(len(group)), bindings))
    return found


def unread(
    sql: Sql, inbox_id: int, after: int, acked: Sequence[tuple[int, int]], now_us: int, limit: int
) -> list[Unread]:
    """Count what is unread by where it comes from, as `MeshReads.unread` says. Raises `InboxGone`."""
    head = head_of(sql, inbox_id)
    between = list(gaps(max(after, head.first_seq - 1), head.latest_seq, acked))
    if not between:
        return []
    found = sql.rows(UNREAD, (inbox_id, msgspec.json.encode(between), now_us, limit, UNREAD_SCANNED))
    return [Unread(slug, None if slug is None else kind, own == 1, count) for slug, kind, own, count in found]


def gaps(after: int, latest: int, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield what lies between runs, above `after` and up to `latest`, as runs (low, high). `runs` ascend."""
    low = after + 1
    for run_low, run_high in runs:
        if run_low > low:
            yield low, min(run_low - 1, latest)
        low = max(low, run_high + 1)
        if low > latest:
            return
    if low <= latest:
        yield low, latest
