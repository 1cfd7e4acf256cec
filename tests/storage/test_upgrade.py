"""A database of every earlier version opens with its data as it was, also after an interruption anywhere on the way."""

import itertools
import random
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from actors.units import Reading
from storage.errors import DataDirectoryError
from storage.lock import DATABASE_NAME
from storage.migrate import Step, migrate, steps
from storage.opening import open_upkeep
from storage.options import StorageOptions
from storage.restore import open_copy
from storage.sealing import seal_of
from storage.secret import SecretBytes
from storage.sqlite import open_offline, open_store
from storage.verify import verify_file
from tests.storage.furnished import (
    AT,
    HOOKS,
    LARGE,
    NEWEST,
    SEALING,
    SEARCH,
    SEARCHED,
    SECRET,
    content,
    furnish,
    tables,
)
from tests.storage.power.disk import PowerDisk, lead_through
from tests.storage.rig import checked

KEY = SecretBytes(b"k" * 32)
Content = dict[str, list[tuple[object, ...]]]

RELEASED = {
    "core": "b2f6a2a6f5aada9a",
    "retention": "c156aff654aa9b22",
    "sealing": "b6a5c56d2b361d60",
    "agents": "3338325f65f29540",
    "mesh": "c58f0a7f091b12f4",
    "search": "c35dcebce2ad95ee",
    "search_again": "2faba96714cdb91d",
}
"""What each step is, by its hash: a step that databases were made with is never changed, only followed by another."""


def options(directory: Path, key: SecretBytes | None = None) -> StorageOptions:
    return StorageOptions(data_dir=directory, reserve_bytes=0, secret_key=key)


def look(directory: Path, columns: dict[str, tuple[str, ...]] | None = None) -> Content:
    """Return what a database that is closed contains, in the columns of an earlier version."""
    with closing(apsw.Connection(str(directory / DATABASE_NAME))) as db:
        assert checked(db) == "ok"
        return content(db, tables(db) if columns is None else columns)


def columns_of(directory: Path) -> dict[str, tuple[str, ...]]:
    with closing(apsw.Connection(str(directory / DATABASE_NAME))) as db:
        return tables(db)


def expected(then: Content, step: int) -> Content:
    """Return what a database of then contains once it is of now, in the columns of then."""
    if step == SEARCH:  # its index is made again, under another number
        return {**then, "search_index": [(1, None, 1), (2, SEARCHED, 0)]}
    return then


@pytest.mark.parametrize("step", range(1, NEWEST + 1))
def test_the_database_of_then_has_rows_in_every_table(tmp_path: Path, step: int) -> None:
    furnish(tmp_path, step, seal_of(KEY) if step >= SEALING else None)
    assert [table for table, found in look(tmp_path).items() if not found] == []
    assert verify_file(tmp_path / DATABASE_NAME, lambda _: None).findings == ()


def test_a_step_that_databases_were_made_with_is_never_changed() -> None:
    assert {step.name: sha256(step.sql.encode()).hexdigest()[:16] for step in steps()} == RELEASED


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("step", range(1, NEWEST + 1))
async def test_a_database_of_every_earlier_version_opens_with_its_data_as_it_was(
    tmp_path: Path, step: int, sealed: bool, quick_scrypt: None
) -> None:
    if sealed and step < SEALING:
        pytest.skip("secrets could not be sealed yet")
    key = KEY if sealed else None
    furnish(tmp_path, step, seal_of(KEY) if sealed else None)
    then, columns = look(tmp_path), columns_of(tmp_path)
    async with open_store(options(tmp_path, key), clock=lambda: AT * 2) as store:
        assert store.new_life == ()
        hooks = await store.read(Reading(lambda snapshot: snapshot.inbox(HOOKS)))
        assert [secret.value.reveal() for secret in hooks.record.secrets] == [SECRET]
        assert await store.read(Reading(lambda snapshot: snapshot.body(1, len(LARGE)))) == LARGE
        indexes = await store.read(Reading(lambda snapshot: snapshot.indexes()))
        assert [(one.inbox_id, one.indexed_seq) for one in indexes] == [(SEARCHED, int(step > SEARCH))]
    assert look(tmp_path, columns) == expected(then, step)
    assert verify_file(tmp_path / DATABASE_NAME, lambda _: None).findings == ()


# -- interruptions ------------------------------------------------------------------------------------------------
@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PowerDisk]:
    made = PowerDisk(tmp_path, 8)
    lead_through(made, monkeypatch)
    yield made
    made.unregister()


@pytest.mark.parametrize("step", range(1, NEWEST))
def test_wherever_the_power_fails_during_an_upgrade_the_next_start_completes_it(
    tmp_path: Path, disk: PowerDisk, step: int
) -> None:
    """From the oldest version on all of the way, from the others on until their first step is behind them."""
    furnish(tmp_path, step)
    then, columns = look(tmp_path), columns_of(tmp_path)
    before = disk.cached()
    rng = random.Random(step)
    reached: set[int] = set()
    last = NEWEST if step == 1 else step + 1
    for changes in itertools.count():
        disk.power_on(before)
        disk.cut_after(changes)
        upgrade(tmp_path, disk)
        if not disk.dead:
            break
        # A killed process loses nothing of what it wrote, a power cut what was not synced.
        disk.power_on(disk.cached() if rng.random() < 0.2 else disk.left())
        with closing(open_copy(tmp_path / DATABASE_NAME)) as db:
            reached.add(db.execute("SELECT max(n) FROM schema_step").get)
        if last < max(reached):
            break
        upgrade(tmp_path, disk)
        assert not disk.dead
        assert look(tmp_path, columns) == expected(then, step), (
            f"cut after {changes} changes, in {disk.cut_in}"
        )
        assert verify_file(tmp_path / DATABASE_NAME, lambda _: None).findings == ()
    assert reached >= set(range(step, last + 1)), "each step was the last one for some cut"


def upgrade(directory: Path, disk: PowerDisk) -> None:
    """Open and close a database as a server does, as far as the power reaches."""
    try:
        upkeep = open_upkeep(options(directory), vfs=disk.name, free_bytes=disk.free)
    except DataDirectoryError:
        assert disk.dead
        return
    assert upkeep.life.findings == ()
    upkeep.close()


# -- a newer one --------------------------------------------------------------------------------------------------
LATER = Step(NEWEST + 1, "later", "CREATE TABLE later (x); ALTER TABLE inbox ADD COLUMN later TEXT")


async def test_a_newer_database_is_refused_in_a_sentence_with_both_versions_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    furnish(tmp_path, NEWEST)
    with closing(apsw.Connection(str(tmp_path / DATABASE_NAME))) as db:
        migrate(db, [*steps(), LATER], lambda: AT, "here")
    before = files(tmp_path)
    told = (
        rf"newer Postroom \(schema step {NEWEST + 1}, this one knows {NEWEST}\); install that version again"
    )
    with pytest.raises(DataDirectoryError, match=told):
        async with open_store(options(tmp_path)):
            pass
    with pytest.raises(DataDirectoryError, match=told), open_offline(options(tmp_path)):
        pass
    with pytest.raises(DataDirectoryError, match=told):
        verify_file(tmp_path / DATABASE_NAME, lambda _: None)
    assert files(tmp_path) == before


async def test_neither_is_the_log_that_a_killed_newer_server_has_left(tmp_path: Path) -> None:
    furnish(tmp_path, NEWEST)
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(apsw.Connection(str(tmp_path / DATABASE_NAME))) as db:
        migrate(db, [*steps(), LATER], lambda: AT, "here")
        for name, data in files(tmp_path).items():
            (killed / name).write_bytes(data)
    before = {name: data for name, data in files(killed).items() if not name.endswith("-shm")}
    assert before[f"{DATABASE_NAME}-wal"]
    with pytest.raises(DataDirectoryError, match="newer Postroom"):
        async with open_store(options(killed)):
            pass
    assert {name: data for name, data in files(killed).items() if not name.endswith("-shm")} == before


def test_nor_is_a_byte_changed_of_somebody_elses_database(tmp_path: Path) -> None:
    with closing(apsw.Connection(str(tmp_path / DATABASE_NAME))) as db:
        db.execute("CREATE TABLE theirs (x); PRAGMA application_id = 7").fetchall()
    before = files(tmp_path)
    with pytest.raises(DataDirectoryError, match="not a Postroom database"), open_offline(options(tmp_path)):
        pass
    assert files(tmp_path) == before


def test_opening_a_database_that_needs_nothing_writes_nothing(tmp_path: Path, disk: PowerDisk) -> None:
    furnish(tmp_path, NEWEST)
    disk.power_on(disk.cached())
    before = disk.cached()
    upgrade(tmp_path, disk)
    assert disk.cached() == before


def files(directory: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in directory.iterdir()
        if file.is_file() and file.name != "postroom.lock"
    }
