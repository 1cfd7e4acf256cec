"""Restoring over a database, with each step failing in turn: the old messages are there or the new ones, whole.

The old database is that of a killed server: its messages are in the log.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.errors import DataDirectoryError
from storage.lock import DATABASE_NAME
from storage.options import StorageOptions
from storage.restore import REPLACED, restore
from storage.sqlite import open_offline, open_store
from storage.verify import verify_file
from tests.contract.builders import append, create, entry

OLD, NEW = 5, 2
"""How many messages each of the databases has."""

STEPS = ("replace", "unlink", "fsync")
MOST_STEPS = 60


def unheard(pages: int, total: int) -> None:
    """Take no notice of progress."""


@pytest.fixture
async def backup(tmp_path: Path) -> Path:
    async with open_store(StorageOptions(data_dir=tmp_path / "origin")) as store:
        inbox = await create(store, "new")
        await append(store, inbox.inbox_id, [entry(n + 1) for n in range(NEW)])
        await store.back_up(tmp_path / "backup.db", unheard)
    return tmp_path / "backup.db"


@pytest.fixture
async def killed(tmp_path: Path) -> Path:
    """The data directory of a killed server."""
    async with open_store(StorageOptions(data_dir=tmp_path / "running")) as store:
        inbox = await create(store, "old")
        await append(store, inbox.inbox_id, [entry(n + 1) for n in range(OLD)])
        shutil.copytree(tmp_path / "running", tmp_path / "killed")
    assert log_of(tmp_path / "killed").stat().st_size
    return tmp_path / "killed"


class Steps:
    """Lets the n-th step on the file system fail; if `dead`, every one after it as well, as nothing follows a kill."""

    def __init__(self, patch: pytest.MonkeyPatch, n: int, *, dead: bool) -> None:
        self.taken = 0
        self.failed = False
        for name in STEPS:
            patch.setattr(os, name, self._failing(getattr(os, name), n, dead))

    def _failing(self, real: Callable[..., Any], n: int, dead: bool) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            self.taken += 1
            if self.taken == n or (dead and self.taken > n):
                self.failed = True
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*args, **more)

        return step


def log_of(data: Path) -> Path:
    return data / f"{DATABASE_NAME}-wal"


def interrupted(backup: Path, data: Path, n: int, *, dead: bool) -> bool:
    """Restore with a failing n-th step; False when there are not so many."""
    with pytest.MonkeyPatch.context() as patch:
        steps = Steps(patch, n, dead=dead)
        with contextlib.suppress(DataDirectoryError, OSError):
            restore(backup, data, force=True, progress=unheard)
        return steps.failed


def messages(data: Path) -> tuple[str, int]:
    with open_offline(StorageOptions(data_dir=data)) as store:
        found: tuple[str, int] = store._upkeep.db.execute(
            "SELECT (SELECT slug FROM inbox), count(*) FROM entry"
        ).get
    assert verify_file(data / DATABASE_NAME, lambda name: None).findings == ()
    return found


@pytest.mark.parametrize("dead", [False, True], ids=["fails", "killed"])
async def test_a_restore_that_fails_at_any_step_leaves_the_old_messages_or_the_new(
    backup: Path, killed: Path, tmp_path: Path, dead: bool
) -> None:
    seen = []
    for n in range(1, MOST_STEPS):
        data = tmp_path / f"data{n}"
        shutil.copytree(killed, data)
        if not interrupted(backup, data, n, dead=dead):
            break
        seen.append(messages(data))
        shutil.rmtree(data)
    assert set(seen) == {("old", OLD), ("new", NEW)}
    assert seen == sorted(seen, reverse=True), "once the new database is there it stays"


@pytest.mark.parametrize("dead", [False, True], ids=["fails", "killed"])
async def test_an_old_database_that_cannot_be_opened_is_put_back_with_its_log(
    backup: Path, killed: Path, tmp_path: Path, dead: bool
) -> None:
    content = b"damaged" + (killed / DATABASE_NAME).read_bytes()[7:]
    log = b"a damaged log" + log_of(killed).read_bytes()[13:]
    (killed / DATABASE_NAME).write_bytes(content)
    log_of(killed).write_bytes(log)
    outcomes = set()
    for n in range(1, MOST_STEPS):
        data = tmp_path / f"data{n}"
        shutil.copytree(killed, data)
        if not interrupted(backup, data, n, dead=dead):
            assert not list(data.glob(f"{REPLACED}*"))
            break
        database = data / DATABASE_NAME
        if not database.exists():
            outcomes.add("aside")
            assert dead, "a restore that lives puts back what it moved"
            assert (data / REPLACED).read_bytes() == content
            assert log in [log_of(data).read_bytes() if log_of(data).exists() else None] + [
                file.read_bytes() for file in data.glob(f"{REPLACED}-wal")
            ]
            with pytest.raises(DataDirectoryError), open_offline(StorageOptions(data_dir=data), create=True):
                pass
        elif database.read_bytes() == content:
            outcomes.add("old")
            assert log_of(data).read_bytes() == log
        else:
            outcomes.add("new")
            assert messages(data) == ("new", NEW)
        restore(backup, data, force=True, progress=unheard)
        assert messages(data) == ("new", NEW)
        assert not list(data.glob(f"{REPLACED}*"))
        shutil.rmtree(data)
    assert outcomes == {"old", "new"} | ({"aside"} if dead else set())


async def test_a_log_beside_an_emptied_database_is_kept_until_the_new_one_is_there(
    backup: Path, killed: Path
) -> None:
    (killed / DATABASE_NAME).write_bytes(b"")
    log = log_of(killed).read_bytes()
    assert interrupted(backup, killed, 6, dead=False)
    assert log_of(killed).read_bytes() == log
    restore(backup, killed, force=True, progress=unheard)
    assert messages(killed) == ("new", NEW)


async def test_a_restore_that_fails_before_the_new_database_is_there_begins_no_new_life(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "origin"

    def fail(*args: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(DataDirectoryError, match="could not be restored"):
            restore(backup, data, force=True, progress=unheard)
    with open_offline(StorageOptions(data_dir=data)) as store:
        assert store.new_life == ()
