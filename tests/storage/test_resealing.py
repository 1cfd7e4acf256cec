"""Another key, no key, a lost key: all secrets in one transaction; whatever fails leaves the old state or the new."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from storage.errors import DataDirectoryError
from storage.lock import DATABASE_NAME
from storage.migrate import steps
from storage.opening import open_upkeep
from storage.options import StorageOptions
from storage.resealing import Forget, Names, Resealed
from storage.secret import SecretBytes
from storage.sqlite import OfflineStore, open_offline
from storage.verify import verify_file
from tests.contract.builders import Do, new_inbox, secret
from tests.storage.faulty_vfs import FaultyDisk, full, io_error
from tests.storage.older import go_back
from tests.storage.remains import remains
from tests.storage.rig import Rig

KEY = SecretBytes(b"the key of these tests, 32 bytes and more")
NEW_KEY = SecretBytes(b"the new key of these tests, just as long.")
FORGETS: tuple[Forget, ...] = ("nothing", "damaged", "all")
WRONG_KEY = SecretBytes(b"a key that nothing was ever sealed with!!")

VALUES = {"one": b"the first of two secrets", "two": b"the second of two secrets" * 100}

pytestmark = pytest.mark.usefixtures("quick_scrypt")


def options(directory: Path, key: SecretBytes | None = None) -> StorageOptions:
    return StorageOptions(data_dir=directory, reserve_bytes=0, secret_key=key)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a directory with two sealed secrets in one inbox."""
    directory = tmp_path / "data"
    rig = Rig(directory, secret_key=KEY, reserve_bytes=0)
    secrets = tuple(secret(name, value) for name, value in VALUES.items())
    rig.one(lambda tx: tx.create_inbox(new_inbox("demo", secrets=secrets)))
    rig.close()
    return directory


def kept(directory: Path, key: SecretBytes | None) -> dict[str, bytes]:
    """Start with this key and return the secrets; the database is whole."""
    rig = Rig(directory, secret_key=key, reserve_bytes=0)
    record = rig.see(lambda snapshot: snapshot.inbox_by_slug("demo").record)
    rig.close()
    assert verify_file(directory / DATABASE_NAME, lambda name: None).findings == ()
    return {one.name: one.value.reveal() for one in record.secrets}


def rows(directory: Path) -> list[bytes]:
    db = apsw.Connection(str(directory / DATABASE_NAME), flags=apsw.SQLITE_OPEN_READONLY)
    found = [value for (value,) in db.execute("SELECT value FROM secret")]
    db.close()
    return found


def reseal(
    directory: Path, old: SecretBytes | None, new: SecretBytes | None, *, forget: Forget = "nothing"
) -> Resealed:
    with open_offline(options(directory)) as store:
        return store.reseal(old, new, forget=forget)


def test_another_key_opens_what_the_old_one_sealed_and_nothing_of_that_is_left(data: Path) -> None:
    before = rows(data)
    assert remains(before, data) == before
    with open_offline(options(data)) as store:
        assert store.reseal(KEY, NEW_KEY) == Resealed(2, sealed=True)
        assert remains([*before, *VALUES.values()], data) == [], "while the log is still open"
    with pytest.raises(DataDirectoryError, match="another key"):
        kept(data, KEY)
    assert kept(data, NEW_KEY) == VALUES


def test_the_way_back_leaves_them_plain_and_needs_no_key_any_more(data: Path) -> None:
    before = rows(data)
    assert reseal(data, KEY, None) == Resealed(2, sealed=False)
    assert kept(data, None) == VALUES
    assert sorted(rows(data)) == sorted(VALUES.values())
    assert remains(before, data) == []
    assert kept(data, NEW_KEY) == VALUES, "and the next start with a key seals them again"
    assert remains(VALUES.values(), data) == []


def test_done_twice_it_changes_nothing(data: Path) -> None:
    reseal(data, KEY, NEW_KEY)
    before = rows(data)
    for old in (KEY, NEW_KEY, None):
        assert reseal(data, old, NEW_KEY) == Resealed(2, sealed=True, changed=False)
    assert reseal(data, None, NEW_KEY, forget="all") == Resealed(2, sealed=True, changed=False)
    assert rows(data) == before


@pytest.mark.parametrize("forget", FORGETS)
@pytest.mark.parametrize("new", [NEW_KEY, None], ids=["new", "plain"])
def test_a_wrong_old_key_is_refused_and_removes_nothing(
    data: Path, new: SecretBytes | None, forget: Forget
) -> None:
    before = rows(data)
    with pytest.raises(DataDirectoryError, match="another key than the old one given"):
        reseal(data, WRONG_KEY, new, forget=forget)
    assert rows(data) == before
    assert kept(data, KEY) == VALUES


def test_without_the_old_key_nothing_is_done(data: Path) -> None:
    with pytest.raises(DataDirectoryError, match="another key, which was not given"):
        reseal(data, None, NEW_KEY)
    assert kept(data, KEY) == VALUES


def test_a_plain_database_has_nothing_to_reseal(tmp_path: Path) -> None:
    with open_offline(options(tmp_path), create=True) as store:
        for forget in FORGETS:
            with pytest.raises(DataDirectoryError, match="are not sealed"):
                store.reseal(KEY, NEW_KEY, forget=forget)
            assert store.reseal(KEY, None, forget=forget) == Resealed(0, sealed=False, changed=False)


def test_made_plain_twice_they_are_plain_already(data: Path) -> None:
    reseal(data, KEY, None)
    for old in (KEY, WRONG_KEY, None):
        assert reseal(data, old, None) == Resealed(2, sealed=False, changed=False)
    assert kept(data, None) == VALUES


@pytest.mark.parametrize("new", [NEW_KEY, WRONG_KEY, None], ids=["new", "wrong", "plain"])
def test_a_key_that_opens_nothing_removes_nothing_unless_all_is_said(
    data: Path, new: SecretBytes | None
) -> None:
    before = rows(data)
    with pytest.raises(DataDirectoryError, match=r"opens any of the 2 sealed secrets .* say --forget-all"):
        reseal(data, None, new, forget="damaged")
    assert rows(data) == before
    assert kept(data, KEY) == VALUES


def test_whoever_is_asked_before_a_removal_can_prevent_it(data: Path) -> None:
    asked: list[Names] = []

    def refuse(names: Names) -> None:
        asked.append(names)
        raise KeyboardInterrupt

    with open_offline(options(data)) as store:
        with pytest.raises(KeyboardInterrupt):
            store.reseal(None, NEW_KEY, forget="all", agree=refuse)
        assert asked == [(("demo", "one"), ("demo", "two"))]
        store.reseal(KEY, NEW_KEY, forget="all", agree=refuse)
        assert len(asked) == 1, "nobody is asked where nothing is removed"
    assert kept(data, NEW_KEY) == VALUES


@pytest.mark.parametrize("new", [NEW_KEY, None], ids=["new", "plain"])
def test_without_any_key_the_secrets_can_be_forgotten_and_set_again(
    data: Path, new: SecretBytes | None
) -> None:
    before = rows(data)
    done = reseal(data, None, new, forget="all")
    assert done == Resealed(0, new is not None, forgotten=(("demo", "one"), ("demo", "two")))
    assert remains(before, data) == []
    assert kept(data, new) == {}
    rig = Rig(data, secret_key=new, reserve_bytes=0)
    rig.one(lambda tx: tx.put_secret(1, secret("one", b"set again")))
    rig.close()
    assert kept(data, new) == {"one": b"set again"}


def test_only_what_does_not_open_is_forgotten_where_a_key_is_given(data: Path) -> None:
    db = apsw.Connection(str(data / DATABASE_NAME))
    db.execute("UPDATE secret SET value = zeroblob(99) WHERE name = 'two'").fetchall()
    db.close()
    with pytest.raises(DataDirectoryError, match=r"secret two of inbox 1 .* --forget"):
        reseal(data, KEY, NEW_KEY)
    assert reseal(data, KEY, NEW_KEY, forget="damaged") == Resealed(
        1, sealed=True, forgotten=(("demo", "two"),)
    )
    assert kept(data, NEW_KEY) == {"one": VALUES["one"]}


def resealing(upkeep_options: StorageOptions, disk: FaultyDisk) -> Resealed:
    upkeep = open_upkeep(upkeep_options, vfs=disk.name, secrets="closed")
    try:
        return OfflineStore(upkeep, upkeep_options.data_dir).reseal(KEY, NEW_KEY)
    finally:
        disk.heal()
        upkeep.close()


@pytest.mark.parametrize("error", [full, io_error], ids=["full", "broken"])
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_disk_that_fails_anywhere_leaves_the_old_key_in_force_or_the_new_one(
    data: Path, tmp_path: Path, operation: str, error: Callable[[], apsw.Error]
) -> None:
    outcomes = []
    for n in itertools.count():
        copy = tmp_path / f"copy-{n}"
        shutil.copytree(data, copy)
        disk = FaultyDisk()
        disk.fail(operation, error=error, after=n, times=1 << 20)
        try:
            resealing(options(copy), disk)
            done = True
        except DataDirectoryError:
            done = False
        finally:
            disk.unregister()
        try:
            assert kept(copy, KEY) == VALUES
            outcomes.append("old")
        except DataDirectoryError:
            assert kept(copy, NEW_KEY) == VALUES
            outcomes.append("new")
        shutil.rmtree(copy)
        if done:
            break
        assert n < 100
    assert outcomes[-1] == "new"
    assert outcomes == sorted(outcomes, reverse=True), "never back to the old one"
    assert "old" in outcomes


@pytest.mark.parametrize("error", [full, io_error], ids=["full", "broken"])
def test_a_first_start_with_a_key_that_fails_anywhere_can_be_repeated(
    tmp_path: Path, error: Callable[[], apsw.Error]
) -> None:
    plain = tmp_path / "plain"
    with open_offline(options(plain), create=True) as store:
        secrets = tuple(secret(name, value) for name, value in VALUES.items())
        store.commit(Do(lambda tx: tx.create_inbox(new_inbox("demo", secrets=secrets))))
    for n in itertools.count():
        copy = tmp_path / f"copy-{n}"
        shutil.copytree(plain, copy)
        disk = FaultyDisk()
        disk.fail("write", error=error, after=n, times=1 << 20)
        try:
            open_upkeep(options(copy, KEY), vfs=disk.name).close()
            done = True
        except DataDirectoryError:
            done = False
        disk.unregister()
        assert kept(copy, KEY) == VALUES
        assert remains(VALUES.values(), copy) == []
        shutil.rmtree(copy)
        if done:
            break
        assert n < 100
    assert n > 2


def test_a_database_of_before_sealing_keeps_its_secrets_and_is_sealed_by_a_key(
    data: Path, tmp_path: Path
) -> None:
    reseal(data, KEY, None)
    db = apsw.Connection(str(data / DATABASE_NAME))
    go_back(db, 2)
    db.close()
    old = verify_file(data / DATABASE_NAME, lambda name: None)
    assert (old.findings, old.secrets, old.sealed) == ((), 2, 0)
    shutil.copytree(data, tmp_path / "other")
    assert kept(data, None) == VALUES
    assert kept(tmp_path / "other", KEY) == VALUES
    assert remains(VALUES.values(), tmp_path / "other") == []
    assert [step.name for step in steps()][2] == "sealing"
