"""The search index on SQLite: what a look costs, what a slice takes, what is left in the tables, what the disk does."""

import secrets
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from storage import search, search_index, sweep
from storage.engine import connect_reader, connect_writer
from storage.errors import NotStored, StorageFull
from storage.lock import DATABASE_NAME
from storage.records import InboxRecord, InboxSettings
from storage.search_records import IndexRow, Phrase, SearchPage, SearchQuery
from storage.sql import Sql
from tests.contract.builders import entry, new_inbox, put
from tests.storage.remains import remains
from tests.storage.rig import Rig, checked, tidy
from tests.storage.test_full_disk import fill
from tests.storage.test_sweep import drop, slice_of

SEARCHED = InboxSettings(search=True)
AT_ONCE = 100


def searched(rig: Rig, texts: Sequence[str], slug: str = "demo") -> InboxRecord:
    """Make an inbox with as many entries as there are texts, and index them."""
    inbox: InboxRecord = rig.one(lambda tx: tx.create_inbox(new_inbox(slug, settings=SEARCHED)))
    add_indexed(rig, inbox, texts, 0)
    return inbox


def add_indexed(rig: Rig, inbox: InboxRecord, texts: Sequence[str], after: int) -> None:
    """Append and index entries in units of a hundred."""
    for start in range(0, len(texts), AT_ONCE):
        part = texts[start : start + AT_ONCE]
        first = after + start + 1
        rows = [IndexRow(seq, text) for seq, text in enumerate(part, first)]
        entries = [entry(row.seq) for row in rows]
        rig.one(lambda tx, entries=entries: put(tx, inbox.inbox_id, entries))
        unit = tidy(lambda tx, rows=rows: tx.index(inbox.inbox_id, rows[0].seq - 1, rows, rows[-1].seq))
        assert rig.one(unit)


def look(rig: Rig, inbox: InboxRecord, word: str, **fields: Any) -> SearchPage:
    query = SearchQuery(inbox.inbox_id, (Phrase((word,)),), **fields)
    page: SearchPage = rig.see(lambda snapshot: snapshot.search(query))
    return page


def found(rig: Rig, inbox: InboxRecord, word: str, **fields: Any) -> list[int]:
    return [row.seq for row in look(rig, inbox, word, **fields).rows]


def rows_of_index(rig: Rig) -> list[tuple[int, int]]:
    """Return number of index and seq of every row that the table of words has."""
    bits = search_index.SEQ_BITS
    return [
        (row_id >> bits, row_id & (1 << bits) - 1)
        for (row_id,) in rig.rows("SELECT id FROM search_words_docsize ORDER BY id")
    ]


# -- what a look costs -----------------------------------------------------------------------------------


def test_the_sqlite_at_hand_has_what_the_index_is_made_of(rig: Rig) -> None:
    options = {row[0] for row in rig.rows("PRAGMA compile_options")}
    assert "ENABLE_FTS5" in options
    assert dict(rig.rows("SELECT k, v FROM search_words_config")) == {
        "version": 4,
        "automerge": 0,
        "crisismerge": 1000,
        "usermerge": 8,
    }


def test_matches_come_in_order_without_being_sorted(rig: Rig) -> None:
    steps = [row[3] for row in rig.rows(f"EXPLAIN QUERY PLAN {search.MATCHING}", ["x", 1, 2, 3])]
    assert not [step for step in steps if "TEMP B-TREE" in step], steps
    steps = [row[3] for row in rig.rows(f"EXPLAIN QUERY PLAN {search.UNINDEXED}", [1] * 5)]
    assert any("SEARCH e USING PRIMARY KEY (inbox_id=? AND seq>? AND seq<?)" in step for step in steps)
    assert not [step for step in steps if "TEMP B-TREE" in step or "SCAN" in step], steps


def test_blocks_are_looked_at_newest_first_until_there_is_enough(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (search, search_index):
        monkeypatch.setattr(module, "BLOCK_BITS", 4)
    inbox = searched(rig, ["rare common" if seq % 40 == 0 else "common" for seq in range(1, 201)])
    asked: list[str] = []
    expression = search.expression

    def counted(prefix: str, query: SearchQuery) -> str:
        asked.append(prefix)
        return expression(prefix, query)

    monkeypatch.setattr(search, "expression", counted)
    assert found(rig, inbox, "common", limit=5) == [200, 199, 198, 197, 196]
    assert asked == ["1:c:"]
    asked.clear()
    page = look(rig, inbox, "rare", limit=2)
    assert ([row.seq for row in page.rows], page.resume) == ([200, 160], 160)
    assert asked == [
        "1:c:",
        "1:b:",
        "1:a:",
        "1:9:",
        "1:8:",
        "1:7:",
    ]  # one match more tells that there are more
    asked.clear()
    page = look(rig, inbox, "rare", before=page.resume, limit=10)
    assert ([row.seq for row in page.rows], page.resume) == ([120, 80, 40], None)
    assert len(asked) == 10


def test_a_look_ends_when_its_time_is_up_and_says_where_to_go_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (search, search_index):
        monkeypatch.setattr(module, "BLOCK_BITS", 4)
    monkeypatch.setattr(search, "SEARCH_SECONDS", 0.0)
    inbox = searched(rig, ["needle" if seq == 3 else "hay" for seq in range(1, 101)])
    looks = 0
    before: int | None = None
    while True:
        looks += 1
        page = look(rig, inbox, "needle", before=before)
        if page.rows or page.resume is None:
            break
        before = page.resume
        assert before % 16 == 0, "a look ends between two blocks"
    assert [row.seq for row in page.rows] == [3]
    assert looks == 7
    assert page.resume is None


def test_a_search_reads_the_words_of_its_own_inbox_alone(rig: Rig) -> None:
    crowd = searched(rig, [f"shared w{seq} " + f"w{seq}y " * 20 for seq in range(1, 3_001)], "crowd")
    alone = searched(rig, ["shared w1"], "alone")
    while rig.one(tidy(lambda tx: tx.merge_index())):
        pass
    rig.upkeep.close()

    def bytes_read(inbox: InboxRecord) -> int:
        db = connect_writer(rig.directory / DATABASE_NAME, 0, rig.disk.name)
        before = rig.disk.bytes_read
        with db:
            query = SearchQuery(inbox.inbox_id, (Phrase(("w",), prefix=True),), limit=1)
            assert search.search(Sql(db), query).rows
        db.close()
        return rig.disk.bytes_read - before

    of_one, of_crowd = bytes_read(alone), bytes_read(crowd)
    assert of_one < of_crowd / 2, (of_one, of_crowd)


def test_a_look_leaves_nothing_open_that_would_hold_up_a_checkpoint(rig: Rig) -> None:
    inbox = searched(rig, ["word"] * 50)
    db = connect_reader(rig.directory / DATABASE_NAME)
    query = SearchQuery(inbox.inbox_id, (Phrase(("wo",), prefix=True),), limit=5)
    for _ in range(2):
        db.execute("BEGIN")
        assert search.search(Sql(db), query).rows
        db.execute("ROLLBACK")
        assert db.txn_state("main") == apsw.SQLITE_TXN_NONE
        add_indexed(rig, inbox, ["word"], look(rig, inbox, "word").head.latest_seq)
        busy, _, _ = rig.upkeep.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
        assert not busy
    db.close()


# -- what a slice takes ----------------------------------------------------------------------------------


def test_rows_leave_the_index_with_their_entries_slice_by_slice(rig: Rig) -> None:
    inbox = searched(rig, ["word"] * 200)
    drop(rig, inbox.inbox_id, 151)
    taken = slice_of(rig, max_rows=60).rows  # on a busy machine fewer: a slice is bounded by time as well
    assert 0 < taken <= 60
    assert rows_of_index(rig) == [(1, seq) for seq in range(taken + 1, 201)]
    while slice_of(rig).more:
        pass
    assert rows_of_index(rig) == [(1, seq) for seq in range(151, 201)]


def test_an_erased_entry_leaves_no_row_whether_it_was_indexed_or_not(rig: Rig) -> None:
    inbox = searched(rig, ["one", "two", "three"])
    rig.one(lambda tx: tx.erase(inbox.inbox_id, 2))
    assert rows_of_index(rig) == [(1, 1), (1, 3)]
    rig.one(lambda tx: put(tx, inbox.inbox_id, [entry(4), entry(5)]))
    rig.one(lambda tx: tx.erase(inbox.inbox_id, 4))
    late = [IndexRow(4, "four"), IndexRow(5, "five")]
    assert rig.one(lambda tx: tx.index(inbox.inbox_id, 3, late, 5))
    assert rows_of_index(rig) == [(1, 1), (1, 3), (1, 5)]


def test_a_dropped_index_is_taken_away_slice_by_slice_and_its_number_not_used_again(rig: Rig) -> None:
    inbox = searched(rig, ["word"] * 100)
    rig.one(lambda tx: tx.change_inbox(inbox.inbox_id, "", InboxSettings()))
    rig.one(lambda tx: tx.change_inbox(inbox.inbox_id, "", SEARCHED))
    assert rig.rows("SELECT index_id, inbox_id FROM search_index") == [(1, None), (2, inbox.inbox_id)]
    assert rig.one(lambda tx: tx.index(inbox.inbox_id, 0, [IndexRow(1, "word")], 100))
    slices = [slice_of(rig, max_rows=40)]
    while slices[-1].more:
        slices.append(slice_of(rig, max_rows=40))
    assert [one.rows for one in slices] == [40, 40, 20]
    assert rows_of_index(rig) == [(2, 1)]
    assert rig.rows("SELECT index_id, inbox_id FROM search_index") == [(2, inbox.inbox_id)]
    assert found(rig, inbox, "word") == [1]


def test_a_slice_over_an_index_is_bounded_by_time_too(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "SLICE_SECONDS", 0.0)
    inbox = searched(rig, ["word"] * 100)
    drop(rig, inbox.inbox_id, 101)
    most = search_index.FORGOTTEN_AT_ONCE
    swept = slice_of(rig)
    assert (swept.rows, swept.more) == (most, True)
    rig.one(lambda tx: tx.delete_inbox(inbox.inbox_id))
    left = [len(rows_of_index(rig))]
    while slice_of(rig).more:
        left.append(len(rows_of_index(rig)))
        assert len(left) < 100
    assert max(before - after for before, after in pairwise(left)) <= most
    assert rows_of_index(rig) == []
    assert rig.rows("SELECT * FROM search_index") == []


def merge(rig: Rig) -> None:
    """Tidy until there is nothing to tidy."""
    merges = 0
    while rig.one(tidy(lambda tx: tx.merge_index())):
        merges += 1
        assert merges < 1_000


def test_merging_keeps_the_segments_few_and_gives_back_what_removed_rows_took(rig: Rig) -> None:
    inbox = searched(rig, [])

    def segments() -> int:
        return int(rig.rows("SELECT count(DISTINCT segid) FROM search_words_idx")[0][0])

    for n in range(30):
        texts = [" ".join(f"w{n}x{seq}y{k}" for k in range(20)) for seq in range(5)]
        add_indexed(rig, inbox, texts, 5 * n)
    assert segments() == 30
    merge(rig)
    assert segments() < 16
    full = rig.rows("SELECT sum(length(block)) FROM search_words_data")[0][0]
    drop(rig, inbox.inbox_id, 151)
    while slice_of(rig).more:
        pass
    merge(rig)
    assert rig.rows("SELECT sum(length(block)) FROM search_words_data")[0][0] < full / 10
    assert checked(rig.upkeep.db) == "ok"


@pytest.mark.parametrize("others", [0, 40, 3_000], ids=["alone", "in one segment", "in many segments"])
@pytest.mark.parametrize("when", ["indexed", "merged", "while it is rewritten"])
def test_what_is_erased_leaves_the_file_with_its_words(
    make_rig: Callable[..., Rig], tmp_path: Path, others: int, when: str
) -> None:
    words = [secrets.token_hex(16) for _ in range(3)]
    values = [word.encode() for word in words]
    rig = make_rig()
    inbox = searched(rig, [f"common{n} other{n}" for n in range(others)])
    for seq, word in enumerate(words, others + 1):
        body = word.encode() * (1 if seq % 2 else 2_000)  # in a row of the table, and on pages of its own
        rig.one(lambda tx, seq=seq, body=body: put(tx, inbox.inbox_id, [entry(seq, body=body)]))
        row = IndexRow(seq, f"{word} common")
        assert rig.one(tidy(lambda tx, row=row: tx.index(inbox.inbox_id, row.seq - 1, [row], row.seq)))
    if when == "merged":
        merge(rig)
    rig.one(lambda tx: tx.erase(inbox.inbox_id, others + 1))
    if when == "while it is rewritten":
        assert rig.one(tidy(lambda tx: tx.merge_index()))
    for seq in (others + 2, others + 3):
        rig.one(lambda tx, seq=seq: tx.erase(inbox.inbox_id, seq))
    merge(rig)
    assert not rig.one(tidy(lambda tx: tx.merge_index())), "and it is not done again"
    assert found(rig, inbox, "common0") == ([1] if others else [])
    assert checked(rig.upkeep.db) == "ok"
    rig.upkeep.close()
    assert remains(values, tmp_path) == []


# -- what the disk may do --------------------------------------------------------------------------------


def test_a_fault_while_indexing_leaves_cursor_and_words_as_they_were(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    inbox = searched(rig, ["one"])
    rig.one(lambda tx: put(tx, inbox.inbox_id, [entry(seq) for seq in range(2, 12)]))
    rig.spill()
    rows = [IndexRow(seq, " ".join(f"t{seq}x{n}" for n in range(2_000))) for seq in range(2, 12)]
    rig.disk.fail("write", file="wal")
    with pytest.raises(NotStored):
        rig.one(lambda tx: tx.index(inbox.inbox_id, 1, rows, 11))
    rig.disk.heal()
    rig.seconds += 2
    assert rows_of_index(rig) == [(1, 1)]
    assert found(rig, inbox, "one") == [1]
    assert rig.one(lambda tx: tx.index(inbox.inbox_id, 1, rows, 11))
    assert found(rig, inbox, "t5x77") == [5]
    assert checked(rig.upkeep.db) == "ok"


def test_on_a_full_disk_nothing_is_indexed_and_everything_can_be_removed(
    make_rig: Callable[..., Rig],
) -> None:
    rig = make_rig()
    inbox = searched(rig, ["word"] * 50)
    rig.one(lambda tx: put(tx, inbox.inbox_id, [entry(51)]))
    fill(rig)
    with pytest.raises(StorageFull):
        rig.one(lambda tx: tx.index(inbox.inbox_id, 50, [IndexRow(51, "more")], 51))
    assert found(rig, inbox, "word", limit=1) == [50]
    drop(rig, inbox.inbox_id, 52)
    assert slice_of(rig).rows == 51
    assert rows_of_index(rig) == []
