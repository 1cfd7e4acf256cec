"""Migrations: whole steps or nothing, forward only, nobody else's database."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from actors.units import Reading
from storage.errors import DataDirectoryError
from storage.mail_records import ReaderRecord, Recipient
from storage.migrate import APPLICATION_ID, Step, migrate, steps
from storage.options import StorageOptions
from storage.protocols import Tx
from storage.sqlite import open_offline
from tests.contract.builders import Do, See, entry, new_inbox, put
from tests.contract.mail import DELIVERY, make_agent
from tests.storage.faulty_vfs import ALWAYS, FaultyDisk
from tests.storage.older import go_back
from tests.storage.rig import checked

KNOWN = len(steps())
NEXT = Step(
    KNOWN + 1,
    "labels",
    "ALTER TABLE inbox ADD COLUMN label TEXT NOT NULL DEFAULT 'none'; CREATE TABLE extra (x) ",
)
BROKEN = Step(KNOWN + 2, "broken", "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1)")


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    made = FaultyDisk()
    yield made
    made.unregister()


def options(tmp_path: Path) -> StorageOptions:
    return StorageOptions(data_dir=tmp_path, reserve_bytes=0)


def connect(tmp_path: Path, disk: FaultyDisk | None = None) -> apsw.Connection:
    return apsw.Connection(str(tmp_path / "postroom.db"), vfs=disk.name if disk else None)


def test_steps_are_numbered_from_one_without_holes() -> None:
    assert [step.n for step in steps()] == list(range(1, len(steps()) + 1))


def test_a_new_database_says_whose_it_is_and_how_it_is_laid_out(tmp_path: Path) -> None:
    with open_offline(options(tmp_path), create=True, clock=lambda: 77):
        pass
    db = connect(tmp_path)
    assert db.pragma("application_id") == APPLICATION_ID
    assert db.pragma("page_size") == 8_192
    assert db.pragma("auto_vacuum") == 2
    assert db.pragma("journal_mode") == "wal"
    recorded = db.execute("SELECT n, name, applied_at FROM schema_step ORDER BY n").fetchall()
    assert recorded == [(step.n, step.name, 77) for step in steps()]
    assert len(db.execute("SELECT lineage FROM server").get) == 16
    db.close()


def test_a_step_keeps_the_data_and_is_applied_once(tmp_path: Path) -> None:
    with open_offline(options(tmp_path), create=True) as store:
        store.commit(Do(lambda tx: tx.create_inbox(new_inbox())))
    db = connect(tmp_path)
    for _ in range(2):
        migrate(db, [*steps(), NEXT], lambda: 5, "here")
    assert db.execute("SELECT slug, label FROM inbox").fetchall() == [("demo", "none")]
    later = db.execute("SELECT n, applied_at FROM schema_step WHERE n > ?", (KNOWN,)).fetchall()
    assert later == [(KNOWN + 1, 5)]
    db.close()


def test_a_step_that_fails_leaves_the_steps_before_it_and_nothing_of_itself(tmp_path: Path) -> None:
    with open_offline(options(tmp_path), create=True) as store:
        store.commit(Do(lambda tx: tx.create_inbox(new_inbox())))
    db = connect(tmp_path)
    with pytest.raises(apsw.SQLError):
        migrate(db, [*steps(), NEXT, BROKEN], lambda: 5, "here")
    assert db.execute("SELECT max(n) FROM schema_step").get == KNOWN + 1
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").get == 0
    assert db.execute("SELECT slug, label FROM inbox").fetchall() == [("demo", "none")]
    db.close()


def test_an_interruption_at_any_write_leaves_whole_steps_and_the_next_start_goes_on(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    with open_offline(options(tmp_path), create=True) as store:
        store.commit(Do(lambda tx: tx.create_inbox(new_inbox())))
    known = [
        *steps(),
        NEXT,
        Step(KNOWN + 2, "more", "CREATE TABLE more (x); UPDATE inbox SET label = 'three'"),
    ]
    for writes in itertools.count():
        disk.heal()
        disk.fail("write", after=writes, times=ALWAYS)
        db = connect(tmp_path, disk)
        try:
            migrate(db, known, lambda: 5, "here")
            reached = KNOWN + 2
        except apsw.Error:
            reached = 0
        finally:
            disk.heal()
            db.close(True)
        db = connect(tmp_path)
        assert checked(db) == "ok"
        applied = db.execute("SELECT max(n) FROM schema_step").get
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
        assert ("extra" in tables, "more" in tables) == (
            applied >= KNOWN + 1,
            applied >= KNOWN + 2,
        )
        assert db.execute("SELECT slug FROM inbox").get == "demo"
        db.close()
        if reached:
            break
    assert writes > 2
    assert applied == KNOWN + 2


def test_a_newer_schema_is_refused_untouched(tmp_path: Path) -> None:
    with open_offline(options(tmp_path), create=True):
        pass
    db = connect(tmp_path)
    migrate(db, [*steps(), NEXT], lambda: 5, "here")
    db.close()
    with pytest.raises(DataDirectoryError, match="newer Postroom"), open_offline(options(tmp_path)):
        pass


def test_somebody_elses_database_is_refused_untouched(tmp_path: Path) -> None:
    db = connect(tmp_path)
    db.execute("CREATE TABLE theirs (x); PRAGMA application_id = 7").fetchall()
    db.close()
    with pytest.raises(DataDirectoryError, match="not a Postroom database"), open_offline(options(tmp_path)):
        pass
    db = connect(tmp_path)
    assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]
    db.close()


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    file = tmp_path / "postroom.db"
    file.write_bytes(b"not a database, but long enough to look at. " * 100)
    with pytest.raises(DataDirectoryError, match="database"), open_offline(options(tmp_path)):
        pass
    assert file.read_bytes().startswith(b"not a database")


def test_inboxes_from_before_retention_are_looked_at_once_and_keep_their_content(tmp_path: Path) -> None:
    with open_offline(options(tmp_path), create=True) as store:
        kept = store.commit(Do(lambda tx: tx.create_inbox(new_inbox("kept")))).inbox_id
        empty = store.commit(Do(lambda tx: tx.create_inbox(new_inbox("empty")))).inbox_id
    db = connect(tmp_path)
    go_back(db, 1)
    db.execute("UPDATE inbox_head SET live_rows = 3 WHERE inbox_id = ?", (kept,))
    db.close()
    with open_offline(options(tmp_path)) as store:
        assert store.read(Reading(lambda snapshot: snapshot.due(1, 10))) == [kept]
        assert store.read(Reading(lambda snapshot: snapshot.head(kept))).live_rows == 3
        assert store.read(Reading(lambda snapshot: snapshot.head(empty))).due_at is None


def test_agents_from_before_machines_go_on_where_they_were(tmp_path: Path) -> None:
    def use(tx: Tx) -> int:
        reader = make_agent(tx, "r", "m")
        for seq in (1, 2, 3):
            put(tx, reader.inbox_id, [entry(seq, delivery=DELIVERY)])
            tx.add_recipients(tx.last_mid, [Recipient(reader.inbox_id, seq, 5)])
        tx.put_reader(reader.inbox_id, "self", ReaderRecord(1, 3, 0, ((3, 3),)))
        return reader.inbox_id

    with open_offline(options(tmp_path), create=True) as store:
        reader = store.commit(Do(use))
    db = connect(tmp_path)
    go_back(db, 4)
    db.close()
    with open_offline(options(tmp_path)) as store:
        found = store.read(See(lambda snapshot: snapshot.reader(reader, "self")))
        assert found == ReaderRecord(1, 3, 0, ((3, 3),), ())
        on = store.commit(Do(lambda tx: tx.machine_agents("m")))
        assert [(agent.agent_id, gone_at) for agent, gone_at in on] == [("r", None)]
        store.commit(Do(lambda tx: tx.mark_receipts_passed(reader, 1, 3, 9)))
        acked = store.read(See(lambda snapshot: [snapshot.receipts(mid)[0].acked_at for mid in (1, 2, 3)]))
        assert acked == [None, 9, 9]
