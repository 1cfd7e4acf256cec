"""The write-ahead log stays small: traps 8 and 22 of the field notes."""

from collections.abc import Callable

import apsw

from storage.engine import connect_reader
from storage.records import PageQuery
from storage.resealing import PLAIN
from storage.snapshot import SqliteSnapshot
from storage.upkeep import IDLE_CHECKPOINT_SECONDS
from tests.storage.rig import Rig, add_much

MIB = 1024 * 1024


def test_the_log_is_truncated_when_the_store_is_idle(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1))
    assert rig.health.wal_bytes > MIB
    assert rig.upkeep.seconds_until_due() == IDLE_CHECKPOINT_SECONDS
    rig.upkeep.tick()
    assert rig.health.wal_bytes > MIB, "not idle yet"
    rig.seconds += IDLE_CHECKPOINT_SECONDS
    rig.upkeep.tick()
    assert rig.health.wal_bytes == 0
    assert rig.upkeep.seconds_until_due() is None


def test_a_burst_keeps_the_log_within_its_limit_while_pages_are_read(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(wal_limit_bytes=4 * MIB)
    inbox = rig.inbox()
    db = connect_reader(rig.directory / "postroom.db")
    most = 0
    try:
        for n in range(40):
            rig.one(add_much(inbox, 1 + 20 * n))
            rig.seconds += 0.3
            with db:
                page = SqliteSnapshot(db, PLAIN).page(
                    PageQuery(inbox.inbox_id, 100, after=20 * n, body_limit=MIB)
                )
            assert page.rows
            most = max(most, rig.health.wal_bytes)
    finally:
        db.close()
    assert most < 12 * MIB, "autocheckpoint at 8 MiB, and one transaction"


def test_a_reader_in_the_way_only_delays_the_truncation(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(wal_limit_bytes=MIB)
    inbox = rig.inbox()
    db = connect_reader(rig.directory / "postroom.db")
    try:
        db.execute("BEGIN")
        assert db.execute("SELECT count(*) FROM entry").get == 0
        for n in range(4):
            rig.one(add_much(inbox, 1 + 20 * n))
            rig.seconds += 1
        assert rig.health.wal_bytes > MIB
        assert rig.health.checkpoint_errors == 0, "a busy log is no error"
        db.execute("COMMIT")
        rig.seconds += IDLE_CHECKPOINT_SECONDS
        rig.upkeep.tick()
        assert rig.health.wal_bytes == 0
    finally:
        db.close()


def test_a_page_holds_no_cursor(rig: Rig) -> None:
    """A half-read statement would keep its snapshot, and the log with it, after the look."""
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1))
    db = connect_reader(rig.directory / "postroom.db")
    try:
        db.execute("BEGIN")
        page = SqliteSnapshot(db, PLAIN).page(
            PageQuery(inbox.inbox_id, 20, after=0, body_limit=MIB, byte_budget=1)
        )
        assert len(page.rows) == 1
        db.execute("COMMIT")
        assert not db.in_transaction
        rig.upkeep.db.set_busy_timeout(0)
        rig.upkeep.db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        db.close()


def test_a_failed_checkpoint_loses_nothing_and_is_tried_again(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1))
    rig.disk.fail("sync", ".db")
    rig.seconds += IDLE_CHECKPOINT_SECONDS
    rig.upkeep.tick()
    assert rig.health.checkpoint_errors == 1
    assert len(rig.stored()) == 20
    rig.seconds += IDLE_CHECKPOINT_SECONDS
    rig.upkeep.tick()
    assert rig.health.wal_bytes == 0
    assert len(rig.stored()) == 20
