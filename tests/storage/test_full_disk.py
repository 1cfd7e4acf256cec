"""A full disk at the start and under what does not grow: the reserve is there for both (engineering study, S3).

The same on a real file system: `tests/live/test_full_disk.py`.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from storage.errors import DataDirectoryError, StorageFull
from storage.lock import DirectoryLock
from storage.protocols import Tx
from storage.space import BATCH_ROOM_BYTES, RESERVE_NAME, Space
from tests.contract.builders import entry
from tests.storage.faulty_vfs import ALWAYS, full, io_error
from tests.storage.rig import RESERVE_BYTES, Rig, add, add_much, checked, tidy

MIB = 1024 * 1024
WHOLE = 16 * MIB
SIZE = entry(1).size


def cannot_open() -> apsw.Error:
    return apsw.CantOpenError("no room for the index of the log")


def no_room(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill(rig: Rig) -> None:
    """Fold the log in, so that the next write needs room, and leave none."""
    rig.seconds += 2
    rig.upkeep.tick()
    assert rig.health.wal_bytes == 0
    rig.disk.capacity = rig.disk.used()


# -- at the start -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("error", [full, io_error, cannot_open])
def test_the_reserve_is_given_up_when_the_database_cannot_be_opened_without_it(
    make_rig: Callable[..., Rig], error: Callable[[], apsw.Error]
) -> None:
    first = make_rig()
    inbox = first.inbox()
    first.one(add(inbox, 1))
    first.close()
    rig = make_rig(capacity=RESERVE_BYTES + MIB, arm=lambda disk: disk.fail("open", "-wal", error))
    assert rig.health.state == "full"
    assert not (rig.directory / RESERVE_NAME).exists()
    assert isinstance(rig.batch(add(inbox, 2))[0], StorageFull)
    rig.one(tidy(lambda tx: tx.erase(inbox.inbox_id, 1)))
    rig.disk.capacity = None
    assert rig.one(add(inbox, 2)) == 2
    assert (rig.health.state, (rig.directory / RESERVE_NAME).stat().st_size) == ("open", RESERVE_BYTES)


def test_a_disk_with_room_is_not_what_keeps_a_database_closed(make_rig: Callable[..., Rig]) -> None:
    make_rig().close()
    with pytest.raises(DataDirectoryError, match=r"cannot be opened: broken disk\.$"):
        make_rig(arm=lambda disk: disk.fail("open", "-wal", io_error))


def test_a_full_disk_without_a_reserve_is_said_in_one_sentence(
    make_rig: Callable[..., Rig], tmp_path: Path
) -> None:
    make_rig().close()
    (tmp_path / RESERVE_NAME).unlink()
    with pytest.raises(DataDirectoryError, match=r"because the disk is full; make room for 4 MiB") as refused:
        make_rig(capacity=MIB, arm=lambda disk: disk.fail("open", "-wal", io_error, times=ALWAYS))
    assert str(tmp_path) in str(refused.value)


def test_a_life_file_that_cannot_be_written_is_said_in_one_sentence(
    make_rig: Callable[..., Rig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.lifefile.LifeFile.create", no_room)
    with pytest.raises(DataDirectoryError, match=r"cannot be opened: no space left on device\.$") as refused:
        make_rig()
    assert str(tmp_path) in str(refused.value)


def test_the_lock_is_taken_and_let_go_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.lock.os.pwrite", no_room)
    lock = DirectoryLock(tmp_path)
    lock.note("127.0.0.1:9")
    with pytest.raises(DataDirectoryError, match="in use by another Postroom; stop"):
        DirectoryLock(tmp_path)
    lock.release()
    DirectoryLock(tmp_path).release()


def test_the_note_in_the_lock_never_needs_new_room(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    size = (tmp_path / "postroom.lock").stat().st_size
    lock.note("127.0.0.1:9")
    lock.release()
    assert (tmp_path / "postroom.lock").stat().st_size == size > 0


# -- the reserve of an earlier process ------------------------------------------------------------------------
def space(directory: Path, free: int, reserve: int = WHOLE) -> Space:
    return Space(directory, reserve, None, lambda _: free)


def test_a_restart_counts_the_reserve_that_is_there(make_rig: Callable[..., Rig]) -> None:
    first = make_rig()
    inbox = first.inbox()
    first.close()
    rig = make_rig(capacity=RESERVE_BYTES + BATCH_ROOM_BYTES + MIB)
    assert rig.health.state == "open"
    assert rig.one(add(inbox, 1)) == 1


def test_a_reserve_that_is_there_needs_no_room(tmp_path: Path) -> None:
    space(tmp_path, 2 * WHOLE).restore()
    again = space(tmp_path, BATCH_ROOM_BYTES)
    assert (again.held_bytes, again.whole, again.shortage(0)) == (WHOLE, True, "")
    assert space(tmp_path, BATCH_ROOM_BYTES - 1).shortage(0)


def test_a_reserve_that_was_configured_larger_is_cut(tmp_path: Path) -> None:
    space(tmp_path, 2 * WHOLE).restore()
    smaller = space(tmp_path, BATCH_ROOM_BYTES, WHOLE // 2)
    assert smaller.whole
    assert (tmp_path / RESERVE_NAME).stat().st_size == WHOLE // 2


def test_a_reserve_that_was_configured_smaller_counts_and_grows_when_there_is_room(tmp_path: Path) -> None:
    space(tmp_path, 2 * WHOLE, WHOLE // 2).restore()
    larger = space(tmp_path, BATCH_ROOM_BYTES)
    assert (larger.held_bytes, larger.whole) == (WHOLE // 2, False)
    assert larger.shortage(0)
    larger.restore()
    assert larger.held_bytes == WHOLE // 2, "what is left is the room for one transaction"
    space(tmp_path, WHOLE).restore()
    assert (tmp_path / RESERVE_NAME).stat().st_size == WHOLE


def test_the_holes_of_a_copied_reserve_are_filled_or_it_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = tmp_path / RESERVE_NAME
    reserve.touch()
    os.truncate(reserve, WHOLE)
    assert reserve.stat().st_blocks == 0
    assert space(tmp_path, 2 * WHOLE).whole
    assert reserve.stat().st_blocks * 512 >= WHOLE
    os.truncate(reserve, 0)
    os.truncate(reserve, WHOLE)
    monkeypatch.setattr("storage.space.os.posix_fallocate", no_room)
    assert space(tmp_path, 2 * WHOLE).held_bytes == 0
    assert not reserve.exists()


def test_what_was_given_up_is_taken_back_but_for_the_room_of_a_transaction(tmp_path: Path) -> None:
    shrunk = space(tmp_path, 2 * WHOLE)
    shrunk.restore()
    assert shrunk.give_up() is True
    shrunk._free = lambda _: WHOLE
    shrunk.restore()
    assert shrunk.held_bytes == (tmp_path / RESERVE_NAME).stat().st_size == WHOLE - BATCH_ROOM_BYTES
    assert not shrunk.whole
    shrunk._free = lambda _: BATCH_ROOM_BYTES
    assert shrunk.shortage(0), "nothing may grow until all of it fits again"
    assert shrunk.give_up() is True
    assert shrunk.give_up() is False


# -- what does not grow ---------------------------------------------------------------------------------------
def test_what_does_not_grow_succeeds_on_a_full_disk_at_the_first_try(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add(inbox, 1))
    fill(rig)
    outcomes = rig.batch(
        tidy(lambda tx: tx.erase(inbox.inbox_id, 1)),
        tidy(lambda tx: tx.change_inbox(inbox.inbox_id, "new", inbox.settings)),
    )
    assert outcomes == [SIZE, None]
    assert rig.stored() == []
    assert rig.health.state == "full"
    assert not (rig.directory / RESERVE_NAME).exists()


def test_a_unit_that_meets_the_full_disk_before_the_commit_gets_its_second_try_as_well(rig: Rig) -> None:
    inbox = rig.inbox()
    fill(rig)
    rig.spill()
    rig.disk.capacity = rig.disk.used() + BATCH_ROOM_BYTES
    rig.disk.fail("write", "-wal", full)
    tokens, after = rig.batch(tidy(add_much(inbox, 1)), tidy(lambda tx: tx.now() > 0))
    assert (tokens, after) == (1, True)
    assert len(rig.stored()) == 20


def test_what_grows_is_refused_where_what_does_not_grow_goes_on(rig: Rig) -> None:
    """Somebody else filled the disk between the look at its room and the COMMIT."""
    inbox = rig.inbox()
    rig.one(add(inbox, 1))
    fill(rig)
    told = iter([BATCH_ROOM_BYTES])  # the look just before
    rig.upkeep._space._free = lambda _: next(told, 0)
    refused, erased = rig.batch(add(inbox, 2), tidy(lambda tx: tx.erase(inbox.inbox_id, 1)))
    assert isinstance(refused, StorageFull)
    assert erased == SIZE
    assert rig.stored() == []
    assert checked(rig.upkeep.db) == "ok"


def test_with_nothing_left_to_give_up_even_that_is_refused_and_the_writer_goes_on(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add(inbox, 1))
    fill(rig)
    rig.upkeep._space.give_up()
    rig.disk.capacity = rig.disk.used()

    def erase(tx: Tx) -> int | None:
        return tx.erase(inbox.inbox_id, 1)

    (refused,) = rig.batch(tidy(erase))
    assert isinstance(refused, StorageFull)
    rig.disk.capacity = None
    assert rig.one(tidy(erase)) == SIZE


def test_a_full_disk_that_sqlite_calls_an_io_error_is_left_in_the_same_way(rig: Rig) -> None:
    """The index of the log that cannot grow: SQLITE_IOERR_SHMSIZE."""
    inbox = rig.inbox()
    rig.one(add(inbox, 1))
    rig.spill()
    rig.upkeep._space._free = lambda _: 0
    rig.disk.fail("write", "-wal", io_error)
    rig.disk.fail("open", "-wal", io_error)
    assert rig.batch(tidy(add_much(inbox, 2))) == [2]
    assert rig.health.state == "full"
    assert not (rig.directory / RESERVE_NAME).exists()


def test_nobody_is_refused_for_the_room_that_the_log_takes(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1))
    rig.disk.capacity = rig.disk.used() + BATCH_ROOM_BYTES - 1
    assert rig.one(add(inbox, 21)) == 21
    assert (rig.health.state, rig.health.refused_full) == ("open", 0)
    assert rig.health.wal_bytes < SIZE + 100_000
