"""A look at a whole table leaves nothing of it in the page cache of its reader, and the cache as large as it was."""

from pathlib import Path

import apsw

from storage.engine import connect_reader, passing_pages

ROWS = 2_000
ROW_BYTES = 1_000
MOST_KEPT_BYTES = 256 * 1024


def kept(reader: apsw.Connection) -> int:
    return reader.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0]


def look(reader: apsw.Connection) -> None:
    assert reader.execute("SELECT count(*) FROM t WHERE zeroblob(0) <> data").get == ROWS


def test_a_passing_look_keeps_no_pages_and_the_next_one_does(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    writer = apsw.Connection(str(database))
    writer.execute("CREATE TABLE t (data)")
    with writer:
        writer.executemany("INSERT INTO t VALUES (zeroblob(?))", [(ROW_BYTES,)] * ROWS)
    reader = connect_reader(database)
    with passing_pages(reader):
        look(reader)
    assert kept(reader) <= MOST_KEPT_BYTES
    look(reader)
    assert kept(reader) > ROWS * ROW_BYTES
    reader.close()
    writer.close()
