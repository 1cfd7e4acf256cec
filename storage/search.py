"""Search on SQLite: which entries have the words, and what an index still has to be given.

A search goes through its inbox block by block (`storage.search_index`), newest first, until it has enough or its time
is up; then it says from where to look on. The rows come from the same snapshot as the head, and only those that the
head says are kept: what is dropped and not swept yet is never found.

What a person wrote reaches FTS5 as words in quotation marks and in no other way: `expression` puts them there, and
makes sure of it.
"""

import time
from contextlib import closing

from storage.pages import COLUMNS
from storage.records import StoredMessage
from storage.rows import head_of
from storage.search_index import BLOCK_BITS, index_of, row_id, token_prefix
from storage.search_records import Indexable, IndexState, Phrase, SearchPage, SearchQuery, Unindexed
from storage.sql import Sql

SEARCH_SECONDS = 0.05
"""After so long a look has found enough; at least one block is looked at."""

MATCHING = (
    "SELECT rowid FROM search_words WHERE search_words MATCH ? AND rowid BETWEEN ? AND ?"
    " ORDER BY rowid DESC LIMIT ?"
)
"""Bindings: expression, lowest and highest rowid, limit."""

_ROW = f"{COLUMNS} FROM entry e CROSS JOIN message m ON m.mid = e.mid WHERE e.inbox_id = ? AND e.seq = ?"

UNINDEXED = """
SELECT e.seq, e.event_type, m.said, m.body_kind, CASE WHEN m.body_id IS NULL THEN substr(m.body, 1, ?1)
  ELSE (SELECT substr(bytes, 1, ?1) FROM body_chunk WHERE body_id = m.body_id AND n = 0) END
FROM entry e CROSS JOIN message m ON m.mid = e.mid WHERE e.inbox_id = ?2 AND e.seq BETWEEN ?3 AND ?4 ORDER BY e.seq
LIMIT ?5
"""
"""Bindings: body limit, inbox id, lowest and highest seq, limit."""


def expression(prefix: str, query: SearchQuery) -> str:
    """Return what FTS5 is asked, about tokens with this prefix. Raises `ValueError` for a query without words, and for
    words that are none.
    """
    wanted = " AND ".join(_quoted(prefix, phrase) for phrase in query.wanted)
    if not wanted:
        raise ValueError("a search is about at least one word")
    if not query.unwanted:
        return wanted
    unwanted = " OR ".join(_quoted(prefix, phrase) for phrase in query.unwanted)
    return f"({wanted}) NOT ({unwanted})"


def _quoted(prefix: str, phrase: Phrase) -> str:
    for word in phrase.words:
        if not word or any(char < "\x80" and not char.isalnum() for char in word):
            raise ValueError("a word of a search has letters and digits only")
    if not phrase.words:
        raise ValueError("a phrase has at least one word")
    tokens = " ".join(prefix + word for word in phrase.words)
    return f'"{tokens}"*' if phrase.prefix else f'"{tokens}"'


def search(sql: Sql, query: SearchQuery) -> SearchPage:
    """Return what a query finds, as `SearchReads.search` says. Raises `InboxGone`."""
    head = head_of(sql, query.inbox_id)
    found = index_of(sql, query.inbox_id)
    if found is None:
        return SearchPage(head, [], None, None)
    index_id, indexed_seq = found
    high = min(indexed_seq, head.latest_seq)
    if query.before is not None:
        high = min(high, query.before - 1)
    seqs: list[int] = []
    ends = time.monotonic() + SEARCH_SECONDS
    while high >= head.first_seq and len(seqs) <= query.limit:
        low = max(head.first_seq, high >> BLOCK_BITS << BLOCK_BITS)
        asked = expression(token_prefix(index_id, high), query)
        limits = row_id(index_id, low), row_id(index_id, high)
        matches = sql.rows(MATCHING, (asked, *limits, query.limit + 1 - len(seqs)))
        seqs += [rowid - row_id(index_id, 0) for (rowid,) in matches]
        high = low - 1
        if time.monotonic() >= ends:
            break
    rows, through = _rows(sql, query, seqs)
    resume = through if through is not None else high + 1 if high >= head.first_seq else None
    return SearchPage(head, rows, resume, indexed_seq)


def _rows(sql: Sql, query: SearchQuery, seqs: list[int]) -> tuple[list[StoredMessage], int | None]:
    """Return the entries of these seqs, as many as the page may have, and the last seq of it when others follow.

    One that is in the index alone is a defect, which `verify` tells of, and no reason to find nothing.
    """
    rows: list[StoredMessage] = []
    weight = 0
    for place, seq in enumerate(seqs, 1):
        row = sql.row(_ROW, (0, query.inbox_id, seq))
        if row is not None:
            message = StoredMessage(*row)
            rows.append(message)
            weight += len(message.facts) + len(message.said)
        if place < len(seqs) and (place == query.limit or weight > query.byte_budget):
            return rows, seq
    return rows, None


def indexes(sql: Sql) -> list[IndexState]:
    """Return how far each index has come."""
    found = sql.rows(
        "SELECT s.inbox_id, s.indexed_seq, h.latest_seq FROM search_index s"
        " JOIN inbox_head h ON h.inbox_id = s.inbox_id ORDER BY s.inbox_id"
    )
    return [IndexState(*row) for row in found]


def unindexed(sql: Sql, inbox_id: int, limit: int, body_limit: int, byte_budget: int) -> Unindexed | None:
    """Return what an index is to be given next, as `SearchReads.unindexed` says."""
    found = index_of(sql, inbox_id)
    if found is None:
        return None
    after = found[1]
    head = head_of(sql, inbox_id)
    rows: list[Indexable] = []
    weight = 0
    bindings = (body_limit, inbox_id, max(head.first_seq, after + 1), head.latest_seq, limit)
    with closing(sql.each(UNINDEXED, bindings)) as each:
        for row in each:
            one = Indexable(*row)
            rows.append(one)
            weight += len(one.event_type) + len(one.said) + len(one.body or b"")
            if weight > byte_budget or len(rows) == limit:
                return Unindexed(after, rows, one.seq, one.seq < head.latest_seq)
    return Unindexed(after, rows, max(after, head.latest_seq), False)
