"""Secrets of wake targets at rest: sealed, put under another key, removed and backed up like those of inboxes."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from storage.errors import SecretUnreadable
from storage.lock import DATABASE_NAME
from storage.options import StorageOptions
from storage.resealing import Resealed
from storage.restore import restore
from storage.secret import SecretBytes
from storage.sqlite import open_offline, open_store
from storage.verify import verify_file
from tests.contract.builders import Do, new_inbox, secret
from tests.contract.mail import agent, make_agent, see
from tests.contract.mesh import plain, wake
from tests.storage.older import go_back
from tests.storage.remains import remains
from tests.storage.rig import Rig

KEY = SecretBytes(b"the key of these tests, 32 bytes and more")
NEW_KEY = SecretBytes(b"the new key of these tests, just as long.")
NAME = "wake target"

MakeRig = Callable[..., Rig]

pytestmark = pytest.mark.usefixtures("quick_scrypt")


def value() -> bytes:
    return secrets.token_bytes(40)


def prepare(rig: Rig, signed: bytes, beside: bytes = b"a secret of an inbox") -> None:
    """Make an inbox with a secret, an agent `a` with a target that is signed, and `b` with one that is not."""
    rig.one(lambda tx: tx.create_inbox(new_inbox("demo", secrets=(secret("one", beside),))))
    for agent_id, of in (("a", signed), ("b", None)):
        rig.one(lambda tx, agent_id=agent_id: make_agent(tx, agent_id))
        rig.one(lambda tx, agent_id=agent_id, of=of: tx.put_wake_target(wake(agent_id, of)))


def targets(rig: Rig) -> list[tuple[Any, ...]]:
    return [plain(one) for one in rig.see(lambda snapshot: snapshot.wake_targets())]


def both(signed: bytes) -> list[tuple[Any, ...]]:
    return [plain(wake("a", signed)), plain(wake("b", None))]


def change(directory: Path, statement: str) -> None:
    db = apsw.Connection(str(directory / DATABASE_NAME))
    db.execute(statement).fetchall()
    assert db.total_changes()
    db.close()


def whole(directory: Path) -> tuple[int, int]:
    """Return how many secrets there are and how many of them are sealed, in a database in which nothing is wrong."""
    found = verify_file(directory / DATABASE_NAME, lambda name: None)
    assert found.findings == ()
    return found.secrets, found.sealed


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
@pytest.mark.parametrize(
    "step",
    [
        lambda tx, agent_id: tx.put_wake_target(wake(agent_id, None)),
        lambda tx, agent_id: tx.drop_wake_target(agent_id),
        lambda tx, agent_id: tx.delete_inbox(tx.agent(agent_id).inbox_id),
    ],
    ids=["replaced", "removed", "deleted"],
)
def test_what_was_replaced_or_removed_is_in_no_file(
    make_rig: MakeRig, tmp_path: Path, key: SecretBytes | None, step: Callable[[Any, str], object]
) -> None:
    """Also what was sealed in a row: whoever learns the key later finds nothing to open."""
    rig = make_rig(secret_key=key)
    for agent_id in "abcdef":
        rig.one(lambda tx, agent_id=agent_id: make_agent(tx, agent_id))
        rig.one(lambda tx, agent_id=agent_id: tx.put_wake_target(wake(agent_id, value())))
    kept: dict[int, bytes] = dict(rig.rows("SELECT inbox_id, secret FROM wake_target"))
    ids = {one.agent_id: one.inbox_id for one in rig.see(lambda snapshot: snapshot.agents())}
    gone = [kept.pop(ids[agent_id]) for agent_id in "bd"]
    for agent_id in "bd":
        rig.one(lambda tx, agent_id=agent_id: step(tx, agent_id))
        assert rig.upkeep.db.pragma("secure_delete") == 0
    rig.close()
    assert remains(gone, tmp_path) == []
    assert sorted(remains(kept.values(), tmp_path)) == sorted(kept.values())


def test_with_a_key_none_is_written_plain_and_each_opens_in_its_own_place(
    make_rig: MakeRig, tmp_path: Path
) -> None:
    signed = value()
    rig = make_rig(secret_key=KEY)
    prepare(rig, signed)
    assert targets(rig) == both(signed)
    rig.close()
    assert remains([signed], tmp_path) == []
    assert whole(tmp_path) == (2, 2)
    assert targets(make_rig(secret_key=KEY)) == both(signed)


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE wake_target SET secret = zeroblob(60) WHERE secret IS NOT NULL",
        "UPDATE wake_target SET secret = x'' WHERE secret IS NOT NULL",
        "UPDATE wake_target SET key_id = x'00' WHERE secret IS NOT NULL",
        "UPDATE wake_target SET secret = (SELECT value FROM secret) WHERE secret IS NOT NULL",
        "UPDATE wake_target SET inbox_id = -inbox_id; UPDATE wake_target SET inbox_id = 5 + inbox_id",
    ],
)
def test_one_that_does_not_open_is_left_out_and_stops_nobody(
    make_rig: MakeRig, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = make_rig(secret_key=KEY)
    prepare(rig, value())
    rig.close()
    change(tmp_path, harm)
    rig = make_rig(secret_key=KEY)
    ((left, _, unsigned, *_),) = targets(rig)
    assert unsigned is None
    assert "is not woken until it checks in" in caplog.text
    again = plain(wake("b" if left == "a" else "a", value()))
    rig.one(lambda tx: tx.put_wake_target(wake(again[0], again[2])))
    assert again in targets(rig)


def test_a_first_start_with_a_key_seals_what_was_plain_and_leaves_no_trace(
    make_rig: MakeRig, tmp_path: Path
) -> None:
    signed = value()
    rig = make_rig()
    rig.one(lambda tx: make_agent(tx, "a"))
    rig.one(lambda tx: tx.put_wake_target(wake("a", signed)))
    rig.close()
    assert remains([signed], tmp_path) == [signed]
    rig = make_rig(secret_key=KEY)
    assert targets(rig) == [plain(wake("a", signed))]
    rig.close()
    assert remains([signed], tmp_path) == []
    assert whole(tmp_path) == (1, 1)


def test_another_key_takes_all_of_them_along_and_so_does_the_way_back(
    make_rig: MakeRig, tmp_path: Path
) -> None:
    signed = value()
    rig = make_rig(secret_key=KEY)
    prepare(rig, signed)
    rig.one(lambda tx: tx.put_wake_target(wake("b", None, failures=2, off_at=5)))
    before = [row[0] for row in rig.rows("SELECT secret FROM wake_target WHERE secret IS NOT NULL")]
    rig.close()
    with open_offline(rig.options) as store:
        assert store.reseal(KEY, NEW_KEY) == Resealed(2, sealed=True)
    assert remains([*before, signed], tmp_path) == []
    rig = make_rig(secret_key=NEW_KEY)
    expected = [plain(wake("a", signed)), plain(wake("b", None, failures=2, off_at=5))]
    assert targets(rig) == expected
    rig.close()
    with open_offline(rig.options) as store:
        assert store.reseal(NEW_KEY, None) == Resealed(2, sealed=False)
    assert whole(tmp_path) == (2, 0)
    assert targets(make_rig()) == expected


def test_one_that_is_forgotten_takes_its_target_along(make_rig: MakeRig, tmp_path: Path) -> None:
    """It is not called unsigned from then on: that would be another target than the one that was asked for."""
    rig = make_rig(secret_key=KEY)
    prepare(rig, value())
    rig.close()
    change(tmp_path, "UPDATE wake_target SET secret = zeroblob(60) WHERE secret IS NOT NULL")
    with open_offline(rig.options) as store:
        done = store.reseal(None, KEY, forget="damaged")
    assert done.forgotten == (("agent.a", NAME),)
    rig = make_rig(secret_key=KEY)
    assert targets(rig) == [plain(wake("b", None))]
    rig.close()
    assert whole(tmp_path) == (1, 1)


def test_a_command_without_the_key_writes_none_plain(make_rig: MakeRig, tmp_path: Path) -> None:
    rig = make_rig(secret_key=KEY)
    prepare(rig, value())
    rig.close()
    with open_offline(StorageOptions(data_dir=tmp_path)) as store, pytest.raises(SecretUnreadable):
        store.commit(Do(lambda tx: tx.put_wake_target(wake("b", b"never plain in a sealed database"))))


def test_a_sealed_database_of_before_machines_is_opened_with_its_key(
    make_rig: MakeRig, tmp_path: Path
) -> None:
    rig = make_rig(secret_key=KEY)
    rig.one(lambda tx: tx.create_inbox(new_inbox("demo", secrets=(secret("one", b"kept"),))))
    rig.close()
    db = apsw.Connection(str(tmp_path / DATABASE_NAME))
    go_back(db, 4)
    db.close()
    rig = make_rig(secret_key=KEY)
    (one,) = rig.see(lambda snapshot: snapshot.inbox_by_slug("demo").record.secrets)
    assert one.value.reveal() == b"kept"
    assert targets(rig) == []


async def test_a_backup_has_them_sealed_and_opens_with_the_same_key(tmp_path: Path) -> None:
    signed = value()
    origin, again = (StorageOptions(data_dir=tmp_path / name, secret_key=KEY) for name in ("origin", "again"))
    async with open_store(origin) as store:
        await agent(store, "a")
        await store.commit(Do(lambda tx: tx.put_wake_target(wake("a", signed))))
        await store.back_up(tmp_path / "backup.db", lambda pages, total: None)
    assert remains([signed], tmp_path) == []
    restore(tmp_path / "backup.db", again.data_dir, force=False, progress=lambda pages, total: None)
    async with open_store(again) as store:
        assert [plain(one) for one in await see(store, lambda snapshot: snapshot.wake_targets())] == [
            plain(wake("a", signed))
        ]
