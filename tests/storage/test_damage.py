"""A database that is damaged, empty or gone is refused, never answered from and never founded anew."""

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from storage.engine import connect_writer
from storage.errors import DataDirectoryError
from storage.lifefile import LIFE_NAME
from storage.lock import DATABASE_NAME, LOCK_NAME, prepare_directory
from storage.opening import open_upkeep
from storage.options import StorageOptions
from storage.restore import restore
from storage.space import RESERVE_NAME
from storage.sqlite import open_offline
from tests.contract.builders import Do, new_inbox
from tests.storage.faulty_vfs import FaultyDisk, io_error
from tests.storage.rig import add

KIB = 1024
WAL_NAME = f"{DATABASE_NAME}-wal"


def options(directory: Path) -> StorageOptions:
    return StorageOptions(data_dir=directory, reserve_bytes=KIB)


def opened(directory: Path) -> None:
    """Open and close, as a start does."""
    with open_offline(options(directory), create=True):
        pass


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """Return a directory with messages, closed in order."""
    directory = tmp_path / "used"
    with open_offline(options(directory), create=True) as store:
        inbox = store.commit(Do(lambda tx: tx.create_inbox(new_inbox())))
        for seq in range(1, 20):
            store.commit(Do(add(inbox, seq, body=bytes(8_000))))
    return directory


@pytest.fixture
def killed(tmp_path: Path, used: Path) -> Path:
    """Return what `kill -9` leaves of it: a part is in the log."""
    directory = tmp_path / "killed"
    with open_offline(options(used)) as store:
        store.commit(Do(lambda tx: tx.create_inbox(new_inbox("more"))))
        shutil.copytree(used, directory)
    (directory / f"{DATABASE_NAME}-shm").unlink()
    assert (directory / WAL_NAME).stat().st_size > 0
    return directory


# -- damaged ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [600, 4_096, 8_192, 20_000, 20_480])
@pytest.mark.parametrize("state", ["used", "killed"])
def test_a_database_that_was_cut_off_is_called_damaged(
    request: pytest.FixtureRequest, state: str, size: int
) -> None:
    directory: Path = request.getfixturevalue(state)
    with (directory / DATABASE_NAME).open("r+b") as file:
        file.truncate(size)
    with pytest.raises(DataDirectoryError, match="is damaged; restore a backup") as refused:
        opened(directory)
    assert str(directory) in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE schema_step",
        "DELETE FROM schema_step",
        "DELETE FROM schema_step WHERE n = 1",
        "DELETE FROM server",
    ],
)
def test_a_database_that_cannot_say_what_it_is_is_called_damaged(used: Path, change: str) -> None:
    db = apsw.Connection(str(used / DATABASE_NAME))
    db.execute(change).fetchall()
    db.close()
    with pytest.raises(DataDirectoryError, match="is damaged; restore a backup"):
        opened(used)


def test_a_file_of_another_kind_is_not_called_damaged(used: Path) -> None:
    (used / DATABASE_NAME).write_bytes(b"a letter to my mother" * 1_000)
    with pytest.raises(DataDirectoryError, match=r"not a (Postroom|SQLite) database"):
        opened(used)


@pytest.mark.parametrize("name", [LIFE_NAME, LOCK_NAME])
def test_a_file_that_is_something_else_is_said_in_one_sentence(used: Path, name: str) -> None:
    (used / name).unlink()
    (used / name).mkdir()
    with pytest.raises(DataDirectoryError, match=r"cannot be (opened|locked): is a directory\.$") as refused:
        opened(used)
    assert str(used) in str(refused.value)


# -- emptied ------------------------------------------------------------------------------------------------
def emptied(directory: Path) -> None:
    (directory / DATABASE_NAME).write_bytes(b"")


def nearly_emptied(directory: Path) -> None:
    """Leave less than SQLite's header, which it takes for nothing."""
    (directory / DATABASE_NAME).write_bytes(b"S")


def gone(directory: Path) -> None:
    (directory / DATABASE_NAME).unlink()


def replaced(directory: Path) -> None:
    """Put a database without tables in its place."""
    (directory / DATABASE_NAME).unlink()
    connect_writer(directory / DATABASE_NAME, KIB).close()


@pytest.mark.parametrize("loss", [emptied, nearly_emptied, gone, replaced])
@pytest.mark.parametrize("left", [LIFE_NAME, RESERVE_NAME])
def test_an_empty_database_in_a_used_directory_is_not_founded_anew(
    used: Path, loss: Callable[[Path], None], left: str
) -> None:
    loss(used)
    for name in {LIFE_NAME, RESERVE_NAME} - {left}:
        (used / name).unlink()
    for _ in range(2):
        with pytest.raises(DataDirectoryError, match=f"{left} beside it show that it was in use") as refused:
            opened(used)
    assert str(used) in str(refused.value)


@pytest.mark.parametrize("loss", [emptied, nearly_emptied])
def test_the_log_beside_an_empty_database_is_kept(killed: Path, loss: Callable[[Path], None]) -> None:
    """It may hold all that is left of the messages; SQLite would delete it."""
    loss(killed)
    for name in (LIFE_NAME, RESERVE_NAME):
        (killed / name).unlink()
    log = (killed / WAL_NAME).read_bytes()
    with pytest.raises(DataDirectoryError, match=WAL_NAME):
        opened(killed)
    assert (killed / WAL_NAME).read_bytes() == log


def test_restoring_leads_out(used: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    shutil.copy(used / DATABASE_NAME, backup)
    gone(used)
    with pytest.raises(DataDirectoryError, match="restore --force"):
        opened(used)
    restore(backup, used, force=True, progress=lambda *_: None)
    opened(used)


# -- a first start that was cut off -------------------------------------------------------------------------
def test_a_first_start_that_got_no_further_than_its_lock_goes_on(tmp_path: Path) -> None:
    prepare_directory(tmp_path, create=True)
    (tmp_path / LOCK_NAME).write_text("process 1")  # as `kill -9` leaves it
    opened(tmp_path)


@pytest.mark.parametrize("operation", ["open", "write", "sync"])
def test_a_first_start_that_was_cut_off_anywhere_goes_on(tmp_path: Path, operation: str) -> None:
    cuts = 0
    while True:
        directory = tmp_path / str(cuts)
        prepare_directory(directory, create=True)
        disk = FaultyDisk()
        disk.fail(operation, "", io_error, after=cuts, times=1 << 30)
        try:
            open_upkeep(options(directory), vfs=disk.name).close()
            break
        except DataDirectoryError:
            opened(directory)
            cuts += 1
        finally:
            disk.unregister()
    assert cuts > 1
