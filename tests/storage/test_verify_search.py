"""What `verify` finds in a search index, as `test_verify_mail` for agents' mail; and how older databases get one."""

import shutil
from pathlib import Path

import apsw
import pytest

from storage.lock import DATABASE_NAME
from storage.options import StorageOptions
from storage.protocols import Tx
from storage.records import InboxSettings
from storage.search_records import IndexRow
from storage.sqlite import open_offline
from storage.verify import verify_file
from tests.contract.builders import Do, See, entry, head_without, new_inbox, put
from tests.storage.older import go_back

SEARCHED = InboxSettings(search=True)


def use(tx: Tx) -> None:
    """Fill three inboxes: 1 has ten entries, of which eight are indexed, the first two dropped and the fifth erased;
    2 had its search switched off; 3 is searched and empty; 4 was deleted.
    """
    for slug in ("used", "off", "empty", "gone"):
        tx.create_inbox(new_inbox(slug, settings=SEARCHED))
    for inbox_id in (1, 2, 4):
        put(tx, inbox_id, [entry(seq) for seq in range(1, 11)])
        assert tx.index(inbox_id, 0, [IndexRow(seq, f"word w{seq}") for seq in range(1, 9)], 8)
    tx.drop_before(1, 3)
    size = tx.erase(1, 5) or 0
    dropped = 2 * entry(1).size
    tx.advance(1, tx.head(1), head_without(tx.head(1), 3, dropped + size, 3))
    tx.change_inbox(2, "", InboxSettings())
    tx.delete_inbox(4)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("used")
    with open_offline(StorageOptions(data_dir=directory), create=True) as store:
        store.commit(Do(use))
    return directory / DATABASE_NAME


@pytest.fixture
def file(used: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(used, tmp_path / DATABASE_NAME))


def findings(file: Path) -> tuple[str, ...]:
    return verify_file(file, lambda name: None).findings


def spoil(file: Path, statement: str) -> None:
    db = apsw.Connection(str(file))
    db.execute(statement).fetchall()
    db.close()


def test_nothing_is_found_where_search_was_used(used: Path, file: Path) -> None:
    assert findings(used) == ()
    with open_offline(StorageOptions(data_dir=file.parent)) as store:
        while store.commit(Do(lambda tx: tx.sweep(7, 1 << 20), grows=False)).more:
            pass
    assert findings(file) == ()
    db = apsw.Connection(str(file))
    assert db.execute("SELECT count(*) FROM search_words_docsize").get == 5
    assert db.execute("SELECT count(*) FROM search_index").get == 2
    db.close()


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (
            "INSERT INTO search_index (inbox_id, indexed_seq) VALUES (77, 0)",
            "inbox 77: it has a search index and does not exist",
        ),
        (
            "UPDATE search_index SET inbox_id = NULL WHERE inbox_id = 3",
            "inbox empty: its search is on, and it has no index",
        ),
        (
            "INSERT INTO search_index (inbox_id, indexed_seq) VALUES (2, 0)",
            "inbox off: its search is off, and it has an index",
        ),
        (
            "UPDATE search_index SET indexed_seq = 1 WHERE inbox_id = 3",
            "inbox 3: its search index has come to 1, the last number is 0",
        ),
        (
            "DELETE FROM search_words WHERE rowid = (1 << 40 | 4)",
            "inbox 1: message 4 should be in the search index and is not",
        ),
        (
            "UPDATE search_index SET indexed_seq = 9 WHERE inbox_id = 1",
            "inbox 1: message 9 should be in the search index and is not",
        ),
        (
            "INSERT INTO search_words (rowid, words) VALUES (1 << 40 | 9, '')",
            "search index 1: it has message 9, which is gone or was not reached yet",
        ),
        (
            "INSERT INTO search_words (rowid, words) VALUES (1 << 40 | 5, '1:0:word')",
            "search index 1: it has message 5, which is gone or was not reached yet",
        ),
        (
            "DELETE FROM search_index WHERE index_id = 2",
            "search index 2: it has message 1, which is gone or was not reached yet",
        ),
    ],
)
def test_what_does_not_fit_is_told(file: Path, statement: str, finding: str) -> None:
    spoil(file, statement)
    assert findings(file)[0] == finding


def test_damaged_words_are_found_by_sqlite_itself(file: Path) -> None:
    spoil(file, "UPDATE search_words_data SET block = zeroblob(length(block)) WHERE id > 10")
    [finding, *_] = findings(file)
    assert finding.startswith("SQLite: ")


def test_an_older_database_gets_indexes_where_search_was_on_already(file: Path) -> None:
    db = apsw.Connection(str(file))
    go_back(db, 5)
    db.close()
    with open_offline(StorageOptions(data_dir=file.parent)) as store:
        states = store.read(See(lambda snapshot: snapshot.indexes()))
        assert [(one.inbox_id, one.indexed_seq) for one in states] == [(1, 0), (3, 0)]
    assert findings(file) == ()


def test_indexes_whose_words_were_taken_in_the_old_way_are_made_anew(file: Path) -> None:
    db = apsw.Connection(str(file))
    go_back(db, 6)
    old = {row[0] for row in db.execute("SELECT index_id FROM search_index")}
    db.close()
    with open_offline(StorageOptions(data_dir=file.parent)) as store:
        states = store.read(See(lambda snapshot: snapshot.indexes()))
        assert [(one.inbox_id, one.indexed_seq) for one in states] == [(1, 0), (3, 0)]
        rest = store.read(See(lambda snapshot: snapshot.unindexed(1, 100, 100, 1_000)))
        assert rest is not None
        assert [row.seq for row in rest.rows] == [3, 4, 6, 7, 8, 9, 10]
    db = apsw.Connection(str(file))
    dropped = {row[0] for row in db.execute("SELECT index_id FROM search_index WHERE inbox_id IS NULL")}
    assert dropped == old, "to be swept"
    db.close()
    assert findings(file) == ()


def test_a_database_from_before_search_is_checked_without_it(file: Path) -> None:
    spoil(file, "DELETE FROM search_index WHERE index_id = 2")
    db = apsw.Connection(str(file))
    go_back(db, 5)
    db.close()
    assert findings(file) == ()
