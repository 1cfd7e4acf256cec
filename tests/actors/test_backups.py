"""Backups on request: one at a time, each kept for its time, and never anything left behind. On virtual time."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.backups import KEEP_SECONDS, PREFIX, Backups, BackupUnderWay
from storage.errors import StorageClosed, StorageFull


class Copier:
    """A store whose copies are finished, or fail, when the test says so."""

    def __init__(self) -> None:
        self.go = trio.Event()
        self.error: Exception | None = None

    async def back_up(self, target: Path, progress: Callable[[int, int], None]) -> None:
        progress(1, 2)
        await self.go.wait()
        if self.error is not None:
            raise self.error
        write(target)


def write(target: Path) -> None:
    target.write_bytes(b"copy")


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[tuple[Backups, Copier]]:
    copier = Copier()
    backups = Backups(copier, directory, lambda: 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(backups.run)
        yield backups, copier
        nursery.cancel_scope.cancel()


async def test_one_is_made_at_a_time_and_a_finished_one_makes_room(tmp_path: Path) -> None:
    async with running(tmp_path) as (backups, copier):
        first = backups.start()
        await wait_all_tasks_blocked()
        assert (first.state, first.pages, first.total) == ("copying", 1, 2)
        with pytest.raises(BackupUnderWay):
            backups.start()
        copier.go.set()
        await wait_all_tasks_blocked()
        assert (first.state, first.size) == ("ready", 4)
        first.readers += 1
        with pytest.raises(BackupUnderWay):
            backups.start()
        first.readers -= 1
        second = backups.start()
        assert backups.get(first.id) is None
        assert backups.get(second.id) is second
        await first.ended.wait()
        assert not first.file.exists()


async def test_a_failure_is_told_and_ends_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path) as (backups, copier):
        copier.error = StorageFull("no room")
        copier.go.set()
        failed = backups.start()
        await wait_all_tasks_blocked()
        assert (failed.state, str(failed.error), failed.size) == ("failed", "no room", None)
        copier.error = None
        assert backups.start() is not failed
        await wait_all_tasks_blocked()


async def test_a_finished_copy_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    async with running(tmp_path) as (backups, copier):
        failed = backups.start()
        await wait_all_tasks_blocked()
        failed.file = tmp_path / "nowhere" / "copy"
        failed.file.parent.touch()
        copier.go.set()
        await wait_all_tasks_blocked()
        assert failed.state == "failed"
        assert str(failed.error) == "The finished copy cannot be read: Not a directory."


async def test_what_nobody_fetches_is_deleted_after_its_time(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with running(tmp_path) as (backups, copier):
        copier.go.set()
        backup = backups.start()
        await backup.ended.wait()
        assert trio.current_time() >= KEEP_SECONDS
        assert backups.get(backup.id) is None
        assert not backup.file.exists()


async def test_dropping_waits_until_nothing_is_left(tmp_path: Path) -> None:
    async with running(tmp_path) as (backups, _):
        backup = backups.start()
        await wait_all_tasks_blocked()
        with trio.fail_after(5):
            await backups.drop(backup)
        assert backup.ended.is_set()
        assert backups.get(backup.id) is None


async def test_copies_of_an_earlier_process_and_of_this_one_do_not_outlive_it(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}old.partial"
    left.touch()
    async with running(tmp_path) as (backups, copier):
        assert not left.exists()
        copier.go.set()
        backup = backups.start()
        await wait_all_tasks_blocked()
        assert backup.file.exists()
    assert not backup.file.exists()
    with pytest.raises(StorageClosed):
        backups.start()
