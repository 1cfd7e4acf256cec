"""The data directory: its permissions, its lock, and the store without a server."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from storage.errors import DataDirectoryError, SlugTaken
from storage.lock import DirectoryLock
from storage.options import StorageOptions
from storage.records import TokenRecord
from storage.sqlite import open_offline
from tests.contract.builders import Do, See, new_inbox

HOLD = """
import sys
from pathlib import Path
from storage.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
lock.note("127.0.0.1:9")
print("held", flush=True)
sys.stdin.read()
"""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_directory_and_its_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "data"
    umask = os.umask(0)
    try:
        with open_offline(StorageOptions(data_dir=directory), create=True) as store:
            store.commit(Do(lambda tx: tx.create_inbox(new_inbox())))
            modes = {path.name: mode(path) for path in directory.iterdir()}
    finally:
        os.umask(umask)
    assert mode(directory) == 0o700
    assert set(modes) == {f"postroom.{end}" for end in ("db", "db-wal", "db-shm", "life", "lock", "reserve")}
    assert set(modes.values()) == {0o600}


def test_an_existing_directory_with_other_files_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "somebody's").touch()
    tmp_path.chmod(0o755)
    with open_offline(StorageOptions(data_dir=tmp_path), create=True):
        pass
    assert mode(tmp_path) == 0o755
    assert mode(tmp_path / "postroom.db") == 0o600


def test_a_command_does_not_make_a_database_by_accident(tmp_path: Path) -> None:
    directory = tmp_path / "typo"
    options = StorageOptions(data_dir=directory)
    with pytest.raises(DataDirectoryError, match="no Postroom database"), open_offline(options):
        pass
    assert not directory.exists()


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    options = StorageOptions(data_dir=tmp_path / "file" / "data")
    refused = pytest.raises(DataDirectoryError, match=r"cannot be used: .*\.$")
    with refused, open_offline(options, create=True):
        pass


def test_an_offline_command_changes_and_reads_under_the_lock(tmp_path: Path) -> None:
    options = StorageOptions(data_dir=tmp_path)
    token = TokenRecord("t1", b"h" * 32, "admin", inboxes=None, machines=("m",), created_at=5)
    with open_offline(options, create=True) as store:
        store.commit(Do(lambda tx: tx.put_token(token)))
        with pytest.raises(DataDirectoryError, match="in use"), open_offline(options):
            pass
        store.commit(Do(lambda tx: tx.create_inbox(new_inbox())))
        with pytest.raises(SlugTaken):
            store.commit(Do(lambda tx: tx.create_inbox(new_inbox())))
    with open_offline(options) as store:
        assert store.read(See(lambda snapshot: snapshot.tokens())) == [token]


def test_another_process_holds_the_lock_until_it_ends_however_it_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(DataDirectoryError, match=rf"process {child.pid} at 127\.0\.0\.1:9"):
            DirectoryLock(tmp_path)
        child.send_signal(signal.SIGKILL)
        child.wait(5)
    lock = DirectoryLock(tmp_path)
    lock.release()
    lock.release()
