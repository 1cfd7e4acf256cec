"""Backups and restoring: whole and current, out of the way of ingest, and nothing left of one that failed."""

import errno
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

from storage.backup import NO_ROOM, PARTIAL, Copying, back_up
from storage.errors import DataDirectoryError, StorageClosed, StorageError, StorageFull
from storage.lifefile import LIFE_NAME
from storage.lock import DATABASE_NAME, LOCK_NAME, DirectoryLock
from storage.options import StorageOptions
from storage.restore import RESTORING, restore
from storage.sqlite import SqliteStore, open_offline, open_store
from storage.upkeep import Upkeep
from storage.verify import verify_file
from tests.contract.builders import append, create, entry
from tests.storage.faulty_vfs import io_error
from tests.storage.rig import Rig, add, add_much, checked

MIB = 1024 * 1024
BLOCKED_SECONDS = 0.1
"""What a backup may hold up ingest for at most."""


def unheard(pages: int, total: int) -> None:
    """Take no notice of progress."""


def copied(rig: Rig, path: Path, between: Callable[[int], None] = lambda n: None) -> Copying:
    """Make a copy slice by slice; `between` is called after the n-th."""
    copying = Copying(path)
    n = 0
    while not copying.step(rig.upkeep):
        n += 1
        assert n < 10_000
        between(n)
    return copying


def rows(path: Path, statement: str) -> list[Any]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        assert checked(db) == "ok"
        return db.execute(statement).fetchall()
    finally:
        db.close()


# -- the writer's side --------------------------------------------------------------------------------------
def test_a_copy_has_what_was_written_while_it_was_made_and_never_starts_over(
    rig: Rig, tmp_path: Path
) -> None:
    inbox = rig.inbox()
    for n in range(20):
        rig.one(add_much(inbox, 1 + 20 * n))
    seen: list[int] = []

    def write(n: int) -> None:
        seen.append(copying_pages())
        rig.one(add(inbox, 400 + n, body=bytes(40_000)))
        rig.seconds += 0.4
        rig.upkeep.trim_log()

    target = tmp_path / "backup.db"
    copying = Copying(tmp_path / "copy")

    def copying_pages() -> int:
        return copying.copied

    n = 0
    while not copying.step(rig.upkeep):
        n += 1
        write(n)
    copying.finish(target)
    assert n > 3
    assert seen == sorted(seen), "it never started over"
    assert rows(target, "SELECT count(*), max(seq) FROM entry") == [(400 + n, 400 + n)]
    assert rig.health.checkpoint_errors == 0


def test_a_transaction_that_is_rolled_back_is_not_in_the_copy(rig: Rig, tmp_path: Path) -> None:
    inbox = rig.inbox()
    for n in range(10):
        rig.one(add_much(inbox, 1 + 20 * n))

    def fail(n: int) -> None:
        if n == 2:
            rig.spill()
            rig.disk.fail("write", "-wal", after=5)
            (outcome,) = rig.batch(add_much(inbox, 201))
            assert isinstance(outcome, Exception)

    try:
        copying = copied(rig, tmp_path / "copy", fail)
    except StorageError:
        return  # the writer had to replace its connection: no copy is as good as a right one
    copying.finish(tmp_path / "backup.db")
    assert rows(tmp_path / "backup.db", "SELECT count(*) FROM entry") == [(200,)]


def test_a_backup_is_one_plain_file_for_its_owner_with_a_lineage_of_its_own(rig: Rig, tmp_path: Path) -> None:
    rig.inbox()
    target = tmp_path / "backup.db"
    copied(rig, tmp_path / "copy").finish(target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("copy*"))
    assert rows(target, "PRAGMA journal_mode") == [("delete",)]
    assert rows(target, "SELECT lineage FROM server") != rig.rows("SELECT lineage FROM server")
    assert verify_file(target, lambda name: None).findings == ()


def test_a_backup_never_takes_the_room_that_ingest_needs(
    make_rig: Callable[..., Rig], tmp_path: Path
) -> None:
    rig = make_rig(capacity=24 * MIB)
    inbox = rig.inbox()
    for n in range(8):
        rig.one(add_much(inbox, 1 + 20 * n))
    copying = Copying(tmp_path / "copy")
    with pytest.raises(StorageFull, match=NO_ROOM):
        copying.step(rig.upkeep)
    assert not (tmp_path / "copy").exists()
    rig.disk.capacity = 40 * MIB
    assert not copying.step(rig.upkeep)
    rig.disk.capacity = 18 * MIB
    with pytest.raises(StorageFull, match=NO_ROOM):
        all(not copying.step(rig.upkeep) for _ in range(100))
    copying.abandon()
    copying.delete()
    assert not (tmp_path / "copy").exists()


def test_a_writer_that_replaced_its_connection_ends_the_copy(rig: Rig, tmp_path: Path) -> None:
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1))
    copying = Copying(tmp_path / "copy")
    assert not copying.step(rig.upkeep)
    rig.disk.fail("sync", "-wal", io_error)
    rig.batch(add(inbox, 21))
    assert rig.health.reopened == 1
    with pytest.raises(StorageError):
        copying.step(rig.upkeep)
    copying.abandon()
    copying.delete()
    assert not list(tmp_path.glob("copy*"))
    assert rig.one(add(inbox, rig.stored()[-1][1] + 1))


def test_a_slow_disk_makes_slices_smaller(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = rig.inbox()
    for n in range(10):
        rig.one(add_much(inbox, 1 + 20 * n))
    ticking = iter(range(10**6))
    monkeypatch.setattr("storage.backup.time.monotonic", lambda: next(ticking) * 1.0)
    copying = Copying(tmp_path / "copy")
    sizes = []
    for _ in range(8):
        before = copying.copied
        copying.step(rig.upkeep)
        sizes.append(copying.copied - before)
    assert sizes == [32, 16, 8, 4, 2, 1, 1, 1]
    copying.abandon()


# -- the task's side ------------------------------------------------------------------------------------------
async def large(store: SqliteStore, mib: int) -> int:
    """Fill an inbox with about so many MiB."""
    inbox = await create(store, "large")
    for n in range(mib):
        await append(store, inbox.inbox_id, [entry(1 + 20 * n + i, body=bytes(52_000)) for i in range(20)])
    return 20 * mib


async def test_ingest_goes_on_while_a_backup_is_made(tmp_path: Path) -> None:
    async with open_store(StorageOptions(data_dir=tmp_path / "data")) as store:
        await large(store, 40)
        busy = await create(store, "busy")
        done = trio.Event()
        times: list[float] = []
        sent, wal = 0, 0
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:

                async def make() -> None:
                    await store.back_up(tmp_path / "backup.db", unheard)
                    done.set()

                nursery.start_soon(make)
                while not done.is_set():
                    sent += 1
                    began = time.perf_counter()
                    await append(store, busy.inbox_id, [entry(sent)])
                    times.append(time.perf_counter() - began)
                    wal = max(wal, store.health.wal_bytes)
        assert sent > 5
        # The slowest of all says more about the machine: without a backup, too, one may wait for it.
        assert sorted(times)[-1 - len(times) // 50] < BLOCKED_SECONDS
        assert wal < 16 * MIB
    kept = rows(tmp_path / "backup.db", "SELECT count(*) FROM entry")[0][0]
    assert 800 < kept <= 800 + sent
    assert verify_file(tmp_path / "backup.db", lambda name: None).findings == ()


async def test_progress_is_told_and_ends_at_the_whole(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    async with open_store(StorageOptions(data_dir=tmp_path / "data")) as store:
        await large(store, 3)
        await store.back_up(tmp_path / "backup.db", lambda pages, total: told.append((pages, total)))
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == rows(tmp_path / "backup.db", "PRAGMA page_count")[0][0]


async def test_a_cancelled_backup_leaves_nothing_and_disturbs_nobody(tmp_path: Path) -> None:
    async with open_store(StorageOptions(data_dir=tmp_path / "data")) as store:
        count = await large(store, 4)
        with trio.CancelScope() as scope, trio.fail_after(5):
            await store.back_up(tmp_path / "backup.db", lambda pages, total: scope.cancel())
        assert scope.cancelled_caught
        assert not any(name.startswith("backup") for name in os.listdir(tmp_path))
        await append(store, (await create(store, "after")).inbox_id, [entry(1)])
        await store.back_up(tmp_path / "backup.db", unheard)
    assert rows(tmp_path / "backup.db", "SELECT count(*) FROM entry") == [(count + 1,)]


async def test_a_backup_of_a_store_that_closes_ends_as_closed_and_leaves_nothing(tmp_path: Path) -> None:
    async with open_store(StorageOptions(data_dir=tmp_path / "data")) as store:
        await large(store, 2)
        with pytest.raises(StorageClosed):
            await store.back_up(tmp_path / "backup.db", lambda pages, total: store.close())
    assert not any(name.startswith("backup") for name in os.listdir(tmp_path))


async def test_a_directory_that_cannot_be_written_to_is_a_failed_backup(tmp_path: Path) -> None:
    async with open_store(StorageOptions(data_dir=tmp_path / "data")) as store:
        with pytest.raises(StorageError):
            await store.back_up(tmp_path / "nowhere" / "backup.db", unheard)
        await create(store, "after")


async def test_a_copy_is_synced_as_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        synced.append(os.fstat(fd).st_size)
        real(fd)

    monkeypatch.setattr("storage.backup.os.fdatasync", fdatasync)
    monkeypatch.setattr("storage.backup.SYNC_BYTES", MIB)
    async with open_store(StorageOptions(data_dir=tmp_path / "data")) as store:
        await large(store, 6)
        await store.back_up(tmp_path / "backup.db", unheard)
    assert len(synced) > 3
    assert synced == sorted(synced)


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (errno.EIO, StorageError, "syncing it failed: input/output error"),
        (errno.ENOSPC, StorageFull, NO_ROOM),
    ],
)
async def test_a_copy_that_cannot_be_synced_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[StorageError], said: str
) -> None:
    def fdatasync(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("storage.backup.os.fdatasync", fdatasync)
    async with open_store(StorageOptions(data_dir=tmp_path / "data")) as store:
        await create(store, "one")
        with pytest.raises(kind, match=said):
            await store.back_up(tmp_path / "backup.db", unheard)
    assert os.listdir(tmp_path) == ["data"]


async def test_a_failure_on_the_writers_thread_reaches_the_caller_and_cleans_up(tmp_path: Path) -> None:
    calls: list[str] = []

    async def between(of: Callable[[Upkeep], Any]) -> Any:
        calls.append(of.__name__)
        if len(calls) == 1:
            raise StorageError("the disk")
        return None

    bound: Callable[[Callable[[Upkeep], Any]], Awaitable[Any]] = between
    with pytest.raises(StorageError, match="the disk"):
        await back_up(bound, tmp_path / "backup.db", unheard)
    assert calls == ["step", "abandon"]
    assert not (tmp_path / f"backup.db{PARTIAL}").exists()


# -- restoring ------------------------------------------------------------------------------------------------
async def backed_up(directory: Path) -> Path:
    """Return a backup of a store with one inbox of 40 messages."""
    async with open_store(StorageOptions(data_dir=directory / "origin")) as store:
        await large(store, 2)
        await store.back_up(directory / "backup.db", unheard)
    return directory / "backup.db"


def epoch(data_dir: Path) -> str:
    with open_offline(StorageOptions(data_dir=data_dir)) as store:
        assert store.new_life == (), "restoring is the new life, not the start after it"
        return str(store._upkeep.db.execute("SELECT epoch FROM inbox_head").get)


async def test_a_restored_backup_is_whole_and_another_life_each_time(tmp_path: Path) -> None:
    backup = await backed_up(tmp_path)
    content = backup.read_bytes()
    told: list[tuple[int, int]] = []
    epochs = {epoch(tmp_path / "origin")}
    for name in ("one", "two"):
        done = restore(backup, tmp_path / name, force=False, progress=lambda at, of: told.append((at, of)))
        assert (done.inboxes, done.messages) == (1, 40)
        epochs.add(epoch(tmp_path / name))
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700
        assert (tmp_path / name / DATABASE_NAME).stat().st_mode & 0o777 == 0o600
        assert verify_file(tmp_path / name / DATABASE_NAME, lambda name: None).findings == ()
    assert len(epochs) == 3
    assert told[-1][0] == told[-1][1]
    assert backup.read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == ["backup.db", "one", "origin", "two"]


async def test_a_directory_in_use_is_replaced_only_by_force(tmp_path: Path) -> None:
    backup = await backed_up(tmp_path)
    data = tmp_path / "data"
    with open_offline(StorageOptions(data_dir=data), create=True):
        pass
    before = (data / DATABASE_NAME).read_bytes()
    with pytest.raises(DataDirectoryError, match="is not empty"):
        restore(backup, data, force=False, progress=unheard)
    assert (data / DATABASE_NAME).read_bytes() == before
    (data / f"{DATABASE_NAME}-wal").write_bytes(b"the log of the old one")
    restore(backup, data, force=True, progress=unheard)
    assert not (data / f"{DATABASE_NAME}-wal").exists()
    assert not (data / RESTORING).exists()
    assert epoch(data)


async def test_a_directory_with_a_server_on_it_is_never_touched(tmp_path: Path) -> None:
    backup = await backed_up(tmp_path)
    lock = DirectoryLock(tmp_path / "origin")
    try:
        with pytest.raises(DataDirectoryError, match="in use by another Postroom"):
            restore(backup, tmp_path / "origin", force=True, progress=unheard)
    finally:
        lock.release()


@pytest.mark.parametrize("harm", ["truncated", "damaged", "foreign", "newer", "absent"])
async def test_what_cannot_be_restored_changes_nothing(tmp_path: Path, harm: str) -> None:
    backup = await backed_up(tmp_path)
    before = epoch(tmp_path / "origin")
    content = backup.read_bytes()
    if harm == "truncated":
        backup.write_bytes(content[: len(content) // 2])
    elif harm == "damaged":
        page = content.rindex(b"large") // 8192
        backup.write_bytes(content[: page * 8192 + 1] + b"\xff" * 60 + content[page * 8192 + 61 :])
    elif harm == "absent":
        backup.unlink()
    else:
        db = apsw.Connection(str(backup))
        change = (
            "PRAGMA application_id = 7"
            if harm == "foreign"
            else "INSERT INTO schema_step VALUES (99, 'x', 0)"
        )
        db.execute(change).fetchall()
        db.close()
    with pytest.raises(DataDirectoryError):
        restore(backup, tmp_path / "origin", force=True, progress=unheard)
    assert epoch(tmp_path / "origin") == before
    with pytest.raises(DataDirectoryError):
        restore(backup, tmp_path / "new", force=False, progress=unheard)
    assert not (tmp_path / "new" / DATABASE_NAME).exists()


async def test_a_backup_that_is_put_back_by_hand_is_another_life(tmp_path: Path) -> None:
    backup = await backed_up(tmp_path)
    database = tmp_path / "origin" / DATABASE_NAME
    database.write_bytes(backup.read_bytes())
    with open_offline(StorageOptions(data_dir=tmp_path / "origin")) as store:
        assert store.new_life == ("lineage",)
    assert (tmp_path / "origin" / LIFE_NAME).exists()
    assert (tmp_path / "origin" / LOCK_NAME).exists()
