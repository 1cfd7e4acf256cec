"""The search index on SQLite: what is in it, how it comes in and out, and how it is kept quick.

One FTS5 table serves all inboxes. A row is an entry: its rowid is the number of the inbox's index and the seq
(`row_id`). A token is a word behind the index and the *block* of seqs that it stands in (`token_prefix`): `3:0:refund`.
So a search reads the words of its own inbox alone, neither its result nor its time tells of others, and one block at a
time, which bounds what a search costs that matches everywhere or nowhere: FTS5 itself can be interrupted in none of its
loops.

- The table is contentless: it holds no text, and forgets a row by a tombstone, for which no text is needed.
- Every entry up to the cursor has a row, also one without words, so that `verify` can compare.
- Whatever removes an entry removes its row in the same unit. A dropped index is a row of `search_index` without an
  inbox, which `sweep` takes away slice by slice; if the inbox gets another one meanwhile, that has another number.
- Segments are merged by slices of our own (`merge`); FTS5's automatic merges are off (`0006_search.sql`).
- Behind a tombstone the words are still there, until its segment is merged. Those of an erased entry must go: then all
  segments are merged into one, slice by slice, and what that frees is overwritten.
"""

from collections.abc import Sequence

from storage.search_records import IndexRow
from storage.sql import Sql

SEQ_BITS = 40
"""Of a rowid; the rest numbers indexes: 10^12 messages in an inbox, and 8 million times that search is switched on."""

BLOCK_BITS = 14
"""Of a seq, those that do not count for its block: 16,384 entries. The worst search of one takes some 20 ms; a rare
word is looked for in 20 blocks in 1 ms.
"""

MERGE_PAGES = 16
"""Pages of 4 KiB that one slice of merging writes, about: 1 to 2 ms."""

FORGOTTEN_AT_ONCE = 32
"""Rows that leave the index in one statement, in about 1 ms."""

MERGED = 2
"""Fewer changes than so many rows: FTS5's sign that there was nothing to merge."""

ERASED, REWRITING = 1, 2
"""Of `search_upkeep.erased`; 0 is nothing to do."""

_FORGET = "DELETE FROM search_words WHERE rowid BETWEEN ? AND ?"
_FORGET_SOME = (
    "DELETE FROM search_words WHERE rowid IN"
    " (SELECT id FROM search_words_docsize WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?)"
)
_STILL_THERE = "SELECT seq FROM entry WHERE inbox_id = ? AND seq BETWEEN ? AND ? AND seq >= ?"


def row_id(index_id: int, seq: int) -> int:
    """Return the rowid of an entry in the table of words."""
    return index_id << SEQ_BITS | seq


def token_prefix(index_id: int, seq: int) -> str:
    """Return what stands in front of a word of this entry. No word has a colon in it."""
    return f"{index_id:x}:{seq >> BLOCK_BITS:x}:"


def index_of(sql: Sql, inbox_id: int) -> tuple[int, int] | None:
    """Return the number of an inbox's index and its cursor; None when it has none."""
    row = sql.row("SELECT index_id, indexed_seq FROM search_index WHERE inbox_id = ?", (inbox_id,))
    return None if row is None else (row[0], row[1])


def switch(sql: Sql, inbox_id: int, on: bool) -> None:
    """Begin an inbox's index, or drop it; nothing happens when it is as asked."""
    if not on:
        sql.change("UPDATE search_index SET inbox_id = NULL WHERE inbox_id = ?", (inbox_id,))
    else:
        sql.change(
            "INSERT INTO search_index (inbox_id, indexed_seq) VALUES (?, 0) ON CONFLICT (inbox_id) DO NOTHING",
            (inbox_id,),
        )


def index(sql: Sql, inbox_id: int, after: int, rows: Sequence[IndexRow], through: int) -> bool:
    """Put entries into the index, as `SearchChanges.index` says."""
    found = index_of(sql, inbox_id)
    if found is None or found[1] != after:
        return False
    index_id = found[0]
    if rows:
        first_seq = sql.value("SELECT first_seq FROM inbox_head WHERE inbox_id = ?", (inbox_id,))
        bindings = (inbox_id, rows[0].seq, rows[-1].seq, first_seq)
        there = {seq for (seq,) in sql.rows(_STILL_THERE, bindings)}
        sql.insert(
            "INSERT INTO search_words (rowid, words)",
            [(row_id(index_id, row.seq), _tokens(index_id, row)) for row in rows if row.seq in there],
        )
    sql.change("UPDATE search_index SET indexed_seq = ? WHERE index_id = ?", (through, index_id))
    return True


def _tokens(index_id: int, row: IndexRow) -> str:
    """Return what the table is given of an entry's words."""
    prefix = token_prefix(index_id, row.seq)
    return prefix + row.words.replace(" ", " " + prefix) if row.words else ""


def forget(sql: Sql, index_id: int, low: int, high: int) -> None:
    """Remove entries of an index, by their first and their last seq."""
    sql.change(_FORGET, (row_id(index_id, low), row_id(index_id, high)))


def forget_erased(sql: Sql, inbox_id: int, seq: int) -> None:
    """Remove an entry from the index of its inbox, if that has one."""
    found = index_of(sql, inbox_id)
    if found is not None and sql.change(_FORGET, (row_id(found[0], seq), row_id(found[0], seq))):
        sql.change("UPDATE search_upkeep SET erased = ?", (ERASED,))


def dropped(sql: Sql) -> int | None:
    """Return the number of an index that is to be taken away, None when there is none."""
    index_id = sql.value("SELECT min(index_id) FROM search_index WHERE inbox_id IS NULL")
    return None if index_id is None else int(index_id)


def take_away(sql: Sql, index_id: int, most: int) -> int:
    """Remove at most `most` rows of a dropped index, which is gone when there are none left; return how many."""
    limits = row_id(index_id, 0), row_id(index_id + 1, 0) - 1
    most = min(most, FORGOTTEN_AT_ONCE)
    rows = sql.change(_FORGET_SOME, (*limits, most))
    if rows < most:
        sql.change("DELETE FROM search_index WHERE index_id = ?", (index_id,))
    return rows


def merge(sql: Sql) -> bool:
    """Merge a slice of the index's segments, as `SearchChanges.merge_index` says."""
    erased = sql.value("SELECT erased FROM search_upkeep")
    # Always: what a merge leaves on a page that it frees may be erased later, and would not be found there any more.
    with sql.overwriting():
        if not erased:
            return _merge(sql, MERGE_PAGES)
        if erased == ERASED:
            sql.change("UPDATE search_upkeep SET erased = ?", (REWRITING,))
            _merge(sql, -MERGE_PAGES)  # FTS5's sign that all segments are to become one, however few they are
            return True
        # At the end once more: a merge that was under way already may have carried words over before they were erased.
        more = _merge(sql, MERGE_PAGES) or _merge(sql, -MERGE_PAGES)
        if not more:
            sql.change("UPDATE search_upkeep SET erased = 0")
        return more


def _merge(sql: Sql, pages: int) -> bool:
    """Return whether there was something to merge."""
    before = sql.db.total_changes()
    sql.change("INSERT INTO search_words (search_words, rank) VALUES ('merge', ?)", (pages,))
    return sql.db.total_changes() - before >= MERGED
