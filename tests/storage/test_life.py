"""Which life of the data this is: another database in its place is found, and no crash is mistaken for one.

Long, because the two belong together: each way to change a life stands beside the crashes that look like it.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.errors import DataDirectoryError
from storage.life import NOTE_SECONDS, check, describe, judge
from storage.lifefile import LIFE_NAME, SLOT_BYTES, Life, LifeFile, Place
from storage.lock import DATABASE_NAME
from storage.opening import open_upkeep
from storage.options import StorageOptions
from storage.sqlite import open_offline, open_store
from storage.upkeep import Upkeep
from storage.writer import Writer
from tests.contract.builders import Do, create, new_inbox
from tests.storage.faulty_vfs import FaultyDisk, full, io_error
from tests.storage.rig import RESERVE_BYTES, Rig, add

HERE = Place(1, 2, 3)
LINEAGE = "ab" * 16


# -- the judgement ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("noted", "found", "findings"),
    [
        (Life(LINEAGE, 7, HERE), Life(LINEAGE, 7, HERE), ()),
        (Life(LINEAGE, 7, HERE), Life(LINEAGE, 9, HERE), ()),
        (Life(LINEAGE, 7, HERE), Life(LINEAGE, 6, HERE), ("rolled_back",)),
        (Life(LINEAGE, 7, HERE), Life("cd" * 16, 9, HERE), ("lineage",)),
        (None, Life(LINEAGE, 1, HERE), ("missing",)),
        (None, Life(LINEAGE, 0, HERE), ()),
        (Life("cd" * 16, 7, HERE), Life(LINEAGE, 0, HERE), ()),
        (Life(LINEAGE, 7, HERE), Life(LINEAGE, 7, Place(1, 9, 3)), ("moved",)),
        (Life(LINEAGE, 7, HERE), Life(LINEAGE, 7, Place(9, 2, 9)), ("moved",)),
        (Life(LINEAGE, 7, HERE), Life(LINEAGE, 5, Place(9, 2, 9)), ("rolled_back", "moved")),
    ],
)
def test_the_table_of_findings(noted: Life | None, found: Life, findings: tuple[str, ...]) -> None:
    assert judge(noted, found, "full") == findings
    assert judge(noted, found, "counter") == tuple(one for one in findings if one != "moved")


def test_a_reboot_that_renumbers_the_devices_moves_nothing() -> None:
    assert HERE.is_same(Place(9, 2, 3)), "the file system is the same"
    assert not Place(1, 2, 0).is_same(Place(9, 2, 0)), "one without an id is known by its device only"


def test_every_finding_is_said_in_one_sentence() -> None:
    for findings in (("missing",), ("lineage",), ("rolled_back", "moved")):
        assert describe(findings).count(".") == 1  # type: ignore[arg-type]  # the table's own words


# -- the file ---------------------------------------------------------------------------------------------
def test_a_torn_write_leaves_the_note_before_it(tmp_path: Path) -> None:
    file = LifeFile(tmp_path / LIFE_NAME)
    file.create(Life(LINEAGE, 1, HERE))
    for commits in range(2, 40):
        before = file.path.read_bytes()
        file.note(Life(LINEAGE, commits, HERE))
        after = file.path.read_bytes()
        changed = [n for n in range(len(after)) if before[n] != after[n]]
        assert max(changed) // SLOT_BYTES == min(changed) // SLOT_BYTES, "one slot only"
        for torn in range(min(changed), max(changed), 3):
            file.path.write_bytes(after[:torn] + before[torn:])
            assert LifeFile(file.path).read() in [Life(LINEAGE, n, HERE) for n in (commits - 1, commits)]
        file.path.write_bytes(after)
        assert LifeFile(file.path).read() == Life(LINEAGE, commits, HERE)


@pytest.mark.parametrize("content", [b"", b"\0" * 2 * SLOT_BYTES, b"nonsense", b"00000000 {}" + b" " * 9000])
def test_a_file_without_a_whole_note_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LIFE_NAME).write_bytes(content)
    assert LifeFile(tmp_path / LIFE_NAME).read() is None


def test_a_note_that_cannot_be_written_is_passed_over(tmp_path: Path) -> None:
    assert not LifeFile(tmp_path / "gone" / LIFE_NAME).note(Life(LINEAGE, 1, HERE))


# -- notes while the store runs -----------------------------------------------------------------------------
def noted(directory: Path) -> int:
    life = LifeFile(directory / LIFE_NAME).read()
    assert life is not None
    return life.commits


def test_the_commits_are_noted_at_most_once_a_second_and_at_the_end(rig: Rig) -> None:
    assert noted(rig.directory) == 0
    inbox = rig.inbox()
    assert noted(rig.directory) == 1
    rig.one(add(inbox, 1))
    rig.one(add(inbox, 2))
    assert noted(rig.directory) == 1, "within the second"
    rig.seconds += NOTE_SECONDS
    rig.one(add(inbox, 3))
    assert noted(rig.directory) == 4
    rig.one(add(inbox, 4))
    rig.upkeep.close()
    assert noted(rig.directory) == 5


def test_an_idle_store_catches_up_with_its_last_commit(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add(inbox, 1))
    rig.seconds += NOTE_SECONDS
    rig.upkeep.tick()
    assert noted(rig.directory) == 2


def test_a_life_file_deleted_under_a_running_store_is_made_again(rig: Rig) -> None:
    inbox = rig.inbox()
    (rig.directory / LIFE_NAME).unlink()
    rig.seconds += NOTE_SECONDS
    rig.one(add(inbox, 1))
    assert noted(rig.directory) == 2


def test_the_note_never_names_a_commit_that_is_not_known_to_be_durable(rig: Rig) -> None:
    inbox = rig.inbox()
    rng = random.Random(7)
    for _ in range(60):
        rig.seconds += rng.choice((0.3, NOTE_SECONDS))
        operation, error = rng.choice((("write", full), ("write", io_error), ("sync", io_error)))
        rig.disk.fail(operation, "-wal", error, after=rng.randint(0, 3))
        seq = rig.see(lambda snapshot: snapshot.head(inbox.inbox_id)).latest_seq + 1
        rig.batch(add(inbox, seq))
        assert noted(rig.directory) <= rig.rows("SELECT commits FROM server")[0][0]
        rig.disk.heal()
        rig.seconds += NOTE_SECONDS
        rig.upkeep.tick()


# -- crashes ------------------------------------------------------------------------------------------------
class LosingDisk(FaultyDisk):
    """A disk that remembers what of each file was synced: all that a power loss leaves for sure."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: dict[str, bytes] = {}

    def meet(self, operation: str, path: str) -> None:
        super().meet(operation, path)
        if operation == "sync":
            self.synced[Path(path).name] = Path(path).read_bytes()

    def xDelete(self, path: str, sync_directory: bool) -> None:
        super().xDelete(path, sync_directory)
        self.synced.pop(Path(path).name, None)


def opened(directory: Path, vfs: str | None = None, **how: Any) -> Upkeep:
    options = StorageOptions(data_dir=directory, reserve_bytes=RESERVE_BYTES, **how)
    return open_upkeep(options, vfs=vfs)


def test_no_power_loss_is_mistaken_for_another_life(tmp_path: Path) -> None:
    """The worst of it: of the database only what was synced is left, of the life file every note."""
    disk = LosingDisk()
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / DATABASE_NAME).touch()
    try:
        upkeep = opened(directory, disk.name)
        # Every transaction is noted: the file lags as little as it can.
        upkeep.life._monotonic = iter(range(10_000)).__next__
        writer = Writer(upkeep)
        inbox = writer.run_one(Do(lambda tx: tx.create_inbox(new_inbox())))
        for seq in range(1, 41):
            writer.run_one(Do(add(inbox, seq, body=bytes(20_000))))
            if seq % 10 == 0:
                upkeep._checkpoint()
            after = tmp_path / f"after-{seq}"
            after.mkdir()
            for name, content in disk.synced.items():
                (after / name).write_bytes(content)
            shutil.copy(directory / LIFE_NAME, after / LIFE_NAME)
            restarted = opened(after, detect_copies="counter")
            assert restarted.life.findings == ()
            assert restarted.db.execute("SELECT count(*) FROM entry").get == seq, "answered is synced"
            restarted.close()
            shutil.rmtree(after)
        upkeep.close()
    finally:
        disk.unregister()


def test_a_process_that_ends_at_any_moment_is_no_other_life(tmp_path: Path) -> None:
    """What `kill -9` leaves: all that was written, at any moment, with a life file that lags or does not."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / DATABASE_NAME).touch()
    rng = random.Random(11)
    upkeep = opened(directory)
    writer = Writer(upkeep)
    inbox = writer.run_one(Do(lambda tx: tx.create_inbox(new_inbox())))
    for seq in range(1, 31):
        upkeep.life._monotonic = lambda: float(seq // 3)  # noqa: B023 — called within this turn of the loop only
        writer.run_one(Do(add(inbox, seq)))
        if rng.random() < 0.2:
            upkeep._checkpoint()
        left = tmp_path / "left"
        shutil.copytree(directory, left)
        for _ in range(2):
            again = opened(left, detect_copies="counter")
            assert again.life.findings == ()
            again.abandon()
        shutil.rmtree(left)
    upkeep.close()


# -- another database -----------------------------------------------------------------------------------------
def filled(directory: Path, count: int = 3) -> None:
    """Make a store with two inboxes, or add to it, and close it in order."""
    with open_offline(StorageOptions(data_dir=directory), create=True) as store:
        for slug in ("a", "b"):
            inbox = store.read(See(slug)) or store.commit(Do(lambda tx: tx.create_inbox(new_inbox(slug))))  # noqa: B023 — called at once
            head = store.commit(Do(lambda tx: tx.head(inbox.inbox_id)))  # noqa: B023 — called at once
            for seq in range(head.latest_seq + 1, head.latest_seq + 1 + count):
                store.commit(Do(add(inbox, seq)))


class See:
    """A look for an inbox's record."""

    slow = False

    def __init__(self, slug: str) -> None:
        self.slug = slug

    def run(self, snapshot: Any) -> Any:
        found = snapshot.inbox_by_slug(self.slug)
        return None if found is None else found.record


async def start(directory: Path, *, same_life: bool = False, **options: Any) -> tuple[Any, dict[str, str]]:
    """Start and stop a store; return what it found and the epochs of its inboxes."""
    async with open_store(StorageOptions(data_dir=directory, **options), same_life=same_life) as store:
        epochs = {
            slug: (await store.read(Epoch(slug)))  # one look each: there are two
            for slug in ("a", "b")
        }
        return store.new_life, epochs


class Epoch(See):
    """A look for an inbox's epoch."""

    def run(self, snapshot: Any) -> str:
        return str(snapshot.inbox_by_slug(self.slug).head.epoch)


def roll_back(data: Path, old: Path) -> None:
    shutil.copy(old / DATABASE_NAME, data / DATABASE_NAME)


def put_another(data: Path, old: Path) -> None:
    shutil.copy(old.parent / "other" / DATABASE_NAME, data / DATABASE_NAME)


def delete_life(data: Path, old: Path) -> None:
    (data / LIFE_NAME).unlink()


def empty_life(data: Path, old: Path) -> None:
    (data / LIFE_NAME).write_bytes(b"")


def replace_both(data: Path, old: Path) -> None:
    (old / "replaced").hardlink_to(data / DATABASE_NAME)  # its inode stays in use: the copy must get another
    (data / DATABASE_NAME).unlink()
    shutil.copy(old / DATABASE_NAME, data / DATABASE_NAME)
    shutil.copy(old / LIFE_NAME, data / LIFE_NAME)


@pytest.mark.parametrize(
    ("how", "found"),
    [
        (roll_back, ("rolled_back",)),
        (put_another, ("lineage",)),
        (delete_life, ("missing",)),
        (empty_life, ("missing",)),
        (replace_both, ("moved",)),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_another_database_in_the_directory_renews_every_epoch_once(
    tmp_path: Path, how: Callable[[Path, Path], None], found: tuple[str, ...]
) -> None:
    data, old = tmp_path / "data", tmp_path / "old"
    filled(data)
    filled(tmp_path / "other")
    shutil.copytree(data, old)
    filled(data)
    findings, epochs = await start(data)
    assert findings == ()
    how(data, old)
    findings, renewed = await start(data)
    assert findings == found
    assert not set(epochs.values()) & set(renewed.values())
    assert await start(data) == ((), renewed), "once is enough"


async def test_a_copied_directory_is_another_life_and_the_original_is_not(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    filled(data)
    shutil.copytree(data, copy)
    _, epochs = await start(data)
    findings, renewed = await start(copy)
    assert findings == ("moved",)
    assert not set(epochs.values()) & set(renewed.values())
    assert await start(data) == ((), epochs)


async def test_a_moved_directory_keeps_its_life_when_the_operator_says_so_once(tmp_path: Path) -> None:
    data, there, further = tmp_path / "data", tmp_path / "there", tmp_path / "further"
    filled(data)
    _, epochs = await start(data)
    shutil.copytree(data, there)
    assert await start(there, same_life=True) == ((), epochs)
    assert await start(there) == ((), epochs), "accepted for good"
    shutil.copytree(there, further)
    findings, _ = await start(further)
    assert findings == ("moved",), "the next move has to be accepted again"


async def test_same_life_does_not_cover_a_database_that_was_rolled_back(tmp_path: Path) -> None:
    data, old = tmp_path / "data", tmp_path / "old"
    filled(data)
    shutil.copytree(data, old)
    filled(data)
    roll_back(data, old)
    findings, _ = await start(data, same_life=True)
    assert findings == ("rolled_back",)


async def test_the_counter_alone_passes_over_inodes(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    filled(data)
    _, epochs = await start(data)
    shutil.copytree(data, copy)
    assert await start(copy, detect_copies="counter") == ((), epochs)


async def test_an_offline_command_leaves_a_move_to_the_server_and_finds_everything_else(
    tmp_path: Path,
) -> None:
    data, old = tmp_path / "data", tmp_path / "old"
    filled(data)
    shutil.copytree(data, old)
    with open_offline(StorageOptions(data_dir=old)) as store:
        assert store.new_life == ()
        store.commit(Do(lambda tx: tx.create_inbox(new_inbox("c"))))
    assert (await start(old, same_life=True))[0] == ()
    older = tmp_path / "older"
    shutil.copytree(data, older)
    filled(data, 1)
    roll_back(data, older)
    with open_offline(StorageOptions(data_dir=data)) as store:
        assert store.new_life == ("rolled_back",), "its own commits would have hidden it"


async def test_epochs_are_renewed_on_request(tmp_path: Path) -> None:
    filled(tmp_path)
    _, epochs = await start(tmp_path)
    with open_offline(StorageOptions(data_dir=tmp_path)) as store:
        assert store.renew_epochs() == 2
    findings, renewed = await start(tmp_path)
    assert findings == (), "it was no accident"
    assert not set(epochs.values()) & set(renewed.values())


async def test_what_was_routed_before_is_not_routed_again_in_the_new_life(tmp_path: Path) -> None:
    filled(tmp_path)
    delete_life(tmp_path, tmp_path)
    with open_offline(StorageOptions(data_dir=tmp_path)) as store:
        assert store._upkeep.db.execute("SELECT routed_mid = last_mid, last_mid FROM server").get == (1, 6)


async def test_a_damaged_copy_is_not_served(tmp_path: Path) -> None:
    async with open_store(StorageOptions(data_dir=tmp_path)) as store:
        for n in range(50):
            await create(store, f"inbox-{n}")
    delete_life(tmp_path, tmp_path)
    database = tmp_path / DATABASE_NAME
    content = bytearray(database.read_bytes())
    page = content.index(b"inbox-7") // 8192
    content[page * 8192 + 1 : page * 8192 + 60] = b"\xff" * 59
    database.write_bytes(content)
    with pytest.raises(DataDirectoryError, match="damaged; restore a backup"):
        await start(tmp_path)


def test_a_check_that_takes_long_says_so_in_the_log(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig.inbox()
    monkeypatch.setattr("storage.life.CHECK_STEPS", 1)
    seconds = iter(range(1_000_000))
    with caplog.at_level("WARNING"):
        check(rig.upkeep.db, "data", lambda: float(next(seconds)))
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "still checking all of the database in data, for 10 s so far"
    assert len(told) > 1
    caplog.clear()
    check(rig.upkeep.db, "data", lambda: 0.0)
    assert caplog.records == []
