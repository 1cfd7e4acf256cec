"""`verify`: nothing is found in a store that was used in every way, and every broken promise is found."""

import shutil
from pathlib import Path

import apsw
import pytest
import trio

from actors.commands import Append, Erase, Purge
from actors.directory import Directory
from actors.options import ActorOptions
from actors.registry import Registry
from storage.errors import DataDirectoryError
from storage.lock import DATABASE_NAME
from storage.options import StorageOptions
from storage.protocols import Lane
from storage.records import InboxSettings, NewInbox, Retention
from storage.secret import SecretBytes
from storage.sqlite import open_store
from storage.verify import SHOWN, STEPS, verify_file
from tests.contract.builders import Do, draft, secret, stage

PIECES = [bytes(262_144), bytes(10)]


async def use(directory: Path) -> None:
    """Make a store by its own actors: kept, erased, purged, retained and swept messages, large bodies, a deletion."""
    options = StorageOptions(data_dir=directory, secret_key=SecretBytes(b"k" * 32))
    async with open_store(options) as store, trio.open_nursery() as nursery:
        registry = Registry(store, Directory(store, 100), ActorOptions())
        await nursery.start(registry.run)

        async def make(slug: str, **retention: int) -> int:
            settings = InboxSettings(retention=Retention(**retention))  # type: ignore[arg-type]  # whole numbers only
            new = NewInbox(slug, "webhook", slug, settings, (secret("key"),))
            return (await store.commit(Do(lambda tx: tx.create_inbox(new)))).inbox_id

        kept, purged, gone = [await make(slug) for slug in ("kept", "purged", "gone")]
        bounded = await make("bounded", max_messages=3)
        for inbox_id in (kept, purged, gone, bounded):
            for n in range(6):
                await registry.ask(inbox_id, Append(draft(b"x" * n, dedupe_key=b"key of %d" % n), 10**12))
        body_id = await store.commit(Do(lambda tx: stage(tx, PIECES)))
        size = sum(map(len, PIECES))
        await registry.ask(kept, Append(draft(b"", size=size, body_kind=4, body_id=body_id)))
        await registry.ask(kept, Erase(2))
        await registry.ask(bounded, Erase(5))
        await registry.ask(purged, Purge())
        await store.commit(Do(lambda tx: tx.delete_inbox(gone), grows=False))
        await store.commit(Do(lambda tx: tx.sweep(3, 1 << 20), Lane.HOUSEKEEPING, grows=False))
        await store.commit(Do(lambda tx: stage(tx, PIECES)))
        registry.close()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that was used in every way."""
    directory: Path = tmp_path_factory.mktemp("used")
    trio.run(use, directory)
    return directory


@pytest.fixture
def file(used: Path, tmp_path: Path) -> Path:
    """A database of one's own to be harmed."""
    return Path(shutil.copy(used / DATABASE_NAME, tmp_path / DATABASE_NAME))


def findings(file: Path) -> tuple[str, ...]:
    return verify_file(file, lambda name: None).findings


def do(file: Path, harm: str) -> None:
    db = apsw.Connection(str(file))
    db.execute(harm).fetchall()
    assert db.total_changes(), "the harm must do something"
    db.close()


def test_nothing_is_found_in_a_store_that_was_used(used: Path) -> None:
    steps: list[str] = []
    file = used / DATABASE_NAME
    before = file.read_bytes()
    found = verify_file(file, steps.append)
    assert found.findings == ()
    assert (found.inboxes, found.secrets, found.sealed, len(steps)) == (3, 3, 3, STEPS)
    assert file.read_bytes() == before
    assert sorted(path.name for path in used.iterdir()) == [
        f"postroom.{end}" for end in ("db", "life", "lock", "reserve")
    ]


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        ("DELETE FROM entry WHERE seq = 3", "numbers are in use"),
        ("DELETE FROM erased", "numbers are in use"),
        ("UPDATE inbox_head SET live_rows = live_rows + 1", "its head counts"),
        ("UPDATE inbox_head SET live_bytes = live_bytes + 1", "its head counts"),
        ("UPDATE inbox_head SET dropped_rows = 77", "has dropped 77"),
        ("UPDATE inbox_head SET last_at = 1", "its head is behind"),
        ("UPDATE inbox_head SET latest_seq = latest_seq - 1 WHERE live_rows", "is beyond its last number"),
        ("UPDATE inbox_head SET first_seq = latest_seq + 9", "begins in the wrong place"),
        ("DELETE FROM sweep_todo WHERE below_seq < 1000", "nobody is to sweep"),
        ("DELETE FROM sweep_todo", "it is deleted, and nobody is to sweep its rows"),
        ("INSERT INTO erased SELECT inbox_id, seq, 0 FROM entry LIMIT 1", "was erased and is there"),
        ("UPDATE entry SET received_at = 5 WHERE seq = 4", "received before"),
        ("DELETE FROM message WHERE home_seq = 4", "content of message 4 is missing"),
        ("UPDATE message SET home_seq = 99 WHERE home_seq = 4", "does not fit its content"),
        ("UPDATE message SET size = size + 1 WHERE body_id IS NULL", "is not as long as it says"),
        ("UPDATE message SET size = size + 1 WHERE body_id IS NOT NULL", "its body has"),
        ("DELETE FROM body_chunk WHERE n = 0", "in 1 pieces"),
        ("DELETE FROM body_chunk WHERE body_id = 1", "in 0 pieces"),
        ("UPDATE body_chunk SET n = 2 WHERE n = 1", "in 2 pieces"),
        ("DELETE FROM body_staged", "belongs to no message"),
        ("INSERT INTO body_staged VALUES (1, 0)", "is waiting for a message, and has one"),
        (
            "INSERT INTO message SELECT 999, x'00', 1, 99, '', 0, 0, 0, NULL, x'', x'', NULL",
            "it is in no inbox",
        ),
        ("UPDATE server SET last_mid = 3", "beyond the last one of the log"),
        ("UPDATE server SET routed_mid = last_mid + 1", "the router has come to"),
        ("UPDATE server SET lineage = x'00'", "which one it is"),
        ("UPDATE seen_delivery SET seq = 4000", "which was never there"),
        ("UPDATE seen_delivery SET id = randomblob(16)", "for another message"),
        ("INSERT INTO secret VALUES (99, 'k', x'00', 0, NULL)", "belongs to no inbox"),
        ("UPDATE sealing SET key_id = x'01'", "the secret key is sealed with a key of its own"),
        ("DELETE FROM sealing", "the secret key is sealed with a key of its own"),
        ("UPDATE secret SET key_id = NULL WHERE inbox_id = 1", "the secret key is plain"),
        ("UPDATE secret SET value = substr(value, 1, 28)", "the secret key is too short"),
        ("UPDATE inbox SET slug = NULL WHERE slug = 'kept'", "neither alive"),
        ("DELETE FROM inbox WHERE slug = 'kept'", "does not exist"),
        ("UPDATE message SET body_id = 1, body_kind = 4 WHERE home_seq = 4", "messages have it"),
    ],
)
def test_every_broken_promise_is_found(file: Path, harm: str, found: str) -> None:
    do(file, harm)
    assert any(found in finding for finding in findings(file)), findings(file)


def test_many_findings_of_one_kind_are_counted(file: Path) -> None:
    do(file, "DELETE FROM message WHERE body_id IS NULL")
    assert sum("is missing" in finding for finding in findings(file)) == SHOWN
    assert any("more of this kind" in finding for finding in findings(file))


def test_damage_is_found_by_sqlite_itself(file: Path) -> None:
    content = bytearray(file.read_bytes())
    page = content.rindex(b"bounded") // 8192
    content[page * 8192 + 1 : page * 8192 + 60] = b"\xff" * 59
    file.write_bytes(content)
    (found, *_) = findings(file)
    assert found.startswith("SQLite: ")


def test_what_a_killed_server_left_in_the_log_is_read(file: Path, tmp_path: Path) -> None:
    db = apsw.Connection(str(file))
    db.execute("UPDATE inbox_head SET dropped_rows = 77").fetchall()
    for end in ("", "-wal"):
        shutil.copy(f"{file}{end}", tmp_path / f"left.db{end}")
    db.close()
    assert any("dropped 77" in finding for finding in findings(tmp_path / "left.db"))


@pytest.mark.parametrize("content", [b"", b"hello, this is no database at all" * 99])
def test_a_file_that_is_no_database_of_ours_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataDirectoryError, match=r"file.*\.$"):
        findings(tmp_path / "file")
    with pytest.raises(DataDirectoryError, match="There is no file"):
        findings(tmp_path / "nothing")
