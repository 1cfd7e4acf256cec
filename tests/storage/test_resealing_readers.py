"""Sealing while another reads the database: it holds, and what is left in the files is said and made up for later."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

import storage.resealing
from storage.engine import connect_reader
from storage.lock import DATABASE_NAME
from storage.options import StorageOptions
from storage.resealing import Resealed
from storage.secret import SecretBytes
from storage.sqlite import open_offline
from tests.contract.builders import new_inbox, secret
from tests.storage.remains import remains
from tests.storage.rig import Rig

KEY = SecretBytes(b"the key of these tests, 32 bytes and more")
NEW_KEY = SecretBytes(b"the new key of these tests, just as long.")
VALUE = b"a secret that must leave the files" * 50
STILL_THERE = "is still in postroom.db and its log"

pytestmark = pytest.mark.usefixtures("quick_scrypt")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nobody longer than SQLite itself does."""
    monkeypatch.setattr(storage.resealing, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr("storage.engine.WRITER_BUSY_MS", 1)


def crashed(directory: Path, key: SecretBytes | None = None) -> None:
    """Leave a database with one secret behind whose log was not folded in."""
    rig = Rig(directory, secret_key=key, reserve_bytes=0)
    rig.one(lambda tx: tx.create_inbox(new_inbox("demo", secrets=(secret("one", VALUE),))))
    rig.upkeep.abandon()


@contextmanager
def reader(directory: Path) -> Iterator[None]:
    """Read the database as another process would, from now on."""
    db = connect_reader(directory / DATABASE_NAME)
    try:
        db.execute("BEGIN")
        assert db.execute("SELECT count(*) FROM secret").get == 1
        yield
    finally:
        db.close()


def start(directory: Path, key: SecretBytes | None) -> bytes:
    """Start a server on it, stop that again and return the secret that it had."""
    rig = Rig(directory, secret_key=key, reserve_bytes=0)
    record = rig.see(lambda snapshot: snapshot.inbox_by_slug("demo").record)
    rig.close()
    return bytes(record.secrets[0].value.reveal())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return found


def test_a_reader_does_not_prevent_the_sealing_and_every_start_says_what_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crashed(tmp_path)
    caplog.set_level(logging.INFO)
    with reader(tmp_path):
        for _ in range(2):
            assert start(tmp_path, KEY) == VALUE
            [line] = warnings(caplog)
            assert STILL_THERE in line
            assert remains([VALUE], tmp_path) == [VALUE]
    assert start(tmp_path, KEY) == VALUE
    assert warnings(caplog) == []
    assert remains([VALUE], tmp_path) == []
    assert start(tmp_path, KEY) == VALUE
    assert warnings(caplog) == []


def test_a_start_waits_for_a_reader_that_is_soon_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed(tmp_path)
    monkeypatch.setattr(storage.resealing, "SETTLE_SECONDS", 60.0)
    other = reader(tmp_path)
    other.__enter__()
    pauses: list[float] = []

    def end(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            other.__exit__(None, None, None)

    monkeypatch.setattr(storage.resealing.time, "sleep", end)
    assert start(tmp_path, KEY) == VALUE
    assert len(pauses) == 3
    assert warnings(caplog) == []
    assert remains([VALUE], tmp_path) == []


def test_a_crash_between_the_sealing_and_the_cleaning_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed(tmp_path)

    def killed(db: apsw.Connection) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(storage.resealing, "settle", killed)
        with (
            reader(tmp_path),
            pytest.raises(KeyboardInterrupt),
        ):  # the reader keeps the closing from folding the log in
            start(tmp_path, KEY)
    assert remains([VALUE], tmp_path) == [VALUE]
    rig = Rig(tmp_path, secret_key=KEY, reserve_bytes=0)
    assert remains([VALUE], tmp_path) == [], "while the server runs"
    rig.close()


@pytest.mark.parametrize("new", [NEW_KEY, None], ids=["new", "plain"])
def test_another_key_is_in_force_although_the_old_rows_are_still_there(
    tmp_path: Path, new: SecretBytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    crashed(tmp_path, KEY)
    db = apsw.Connection(str(tmp_path / DATABASE_NAME))
    old = [value for (value,) in db.execute("SELECT value FROM secret")]
    db.close()
    sealed = new is not None
    with reader(tmp_path), open_offline(StorageOptions(data_dir=tmp_path, reserve_bytes=0)) as store:
        assert store.reseal(KEY, new) == Resealed(1, sealed=sealed, owed=True)
        again = store.reseal(KEY, new)
        assert again == Resealed(1, sealed=sealed, changed=False, owed=True)
    assert remains(old, tmp_path) == old
    assert start(tmp_path, new) == VALUE
    assert warnings(caplog) == []
    assert remains(old, tmp_path) == []
