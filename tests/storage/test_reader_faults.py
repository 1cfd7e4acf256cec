"""Readers over a disk that fails: one fault costs nobody an answer, and a lasting one only as long as it lasts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest
import trio

from storage.errors import StorageError
from storage.options import StorageOptions
from storage.protocols import Snapshot
from storage.sqlite import SqliteStore, open_store
from tests.contract.builders import See, create, fill, seqs
from tests.storage.faulty_vfs import ALWAYS, FaultyDisk

BOUND_SECONDS = 5.0


def read_error() -> apsw.Error:
    error = apsw.IOError("the disk cannot read")
    error.extendedresult = apsw.SQLITE_IOERR_READ  # type: ignore[attr-defined]  # set by name, read by apsw
    return error


def cannot_open() -> apsw.Error:
    return apsw.CantOpenError("gone")


@asynccontextmanager
async def store_on(disk: FaultyDisk, directory: Path) -> AsyncIterator[tuple[SqliteStore, int]]:
    """Yield a store with an inbox of three messages, which its readers have not read yet."""
    options = StorageOptions(data_dir=directory, reserve_bytes=0)
    try:
        with trio.fail_after(BOUND_SECONDS):
            async with open_store(options, vfs=disk.name) as store:
                inbox = await create(store)
                await fill(store, inbox.inbox_id, 3)
                yield store, inbox.inbox_id
                disk.heal()
    finally:
        disk.unregister()


async def test_a_look_whose_connection_broke_is_run_again_on_a_new_one(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with store_on(disk, tmp_path) as (store, inbox_id):
        disk.fail("read", "", read_error)
        assert await seqs(store, inbox_id) == [1, 2, 3]
        assert store.health.readers_reopened == 1


async def test_looks_fail_while_the_disk_does_and_no_longer(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with store_on(disk, tmp_path) as (store, inbox_id):
        disk.fail("read", "", read_error, times=ALWAYS)
        disk.fail("open", "", cannot_open, times=ALWAYS)
        for _ in range(3):
            with pytest.raises(StorageError, match="could not be read"):
                await seqs(store, inbox_id)
        disk.heal()
        for _ in range(3):
            assert await seqs(store, inbox_id) == [1, 2, 3]


async def test_a_look_that_fails_by_itself_costs_no_connection(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with store_on(disk, tmp_path) as (store, _):

        def broken(_: Snapshot) -> None:
            raise apsw.SQLError("no such table")

        with pytest.raises(StorageError, match="could not be read"):
            await store.read(See(broken))
        assert store.health.readers_reopened == 0
