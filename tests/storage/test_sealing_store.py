"""Secrets at rest on real SQLite: sealed at the start with a key, found nowhere in the files, refused with another."""

import itertools
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from postroom.bootstrap import plan_reset
from storage.errors import DataDirectoryError, InboxGone, SecretUnreadable
from storage.lock import DATABASE_NAME
from storage.options import StorageOptions
from storage.protocols import Tx
from storage.restore import restore
from storage.secret import SecretBytes
from storage.sqlite import open_offline, open_store
from storage.verify import verify_file
from tests.contract.builders import Do, See, entry, new_inbox, put, secret
from tests.storage.remains import remains
from tests.storage.rig import Rig

KEY = SecretBytes(b"the key of these tests, 32 bytes and more")
OTHER_KEY = SecretBytes(b"another key of these tests, just as long!")

INLINE = 40
"""What providers' secrets are long."""
SPILLED = 4_096
"""The longest that the API takes: SQLite puts most of it on a page of its own."""

MakeRig = Callable[..., Rig]

pytestmark = pytest.mark.usefixtures("quick_scrypt")


def value(size: int = INLINE) -> bytes:
    return random.randbytes(size)


def kept(rig: Rig, slug: str = "demo") -> dict[str, bytes]:
    """Return an inbox's secrets as a reader gets them."""
    record = rig.see(lambda snapshot: snapshot.inbox_by_slug(slug).record)
    return {one.name: one.value.reveal() for one in record.secrets}


def add(slug: str, **values: bytes) -> Callable[[Tx], int]:
    secrets = tuple(secret(name, one) for name, one in values.items())
    return lambda tx: tx.create_inbox(new_inbox(slug, secrets=secrets)).inbox_id


def change(directory: Path, statement: str) -> None:
    """Change the database behind Postroom's back."""
    db = apsw.Connection(str(directory / DATABASE_NAME))
    db.execute(statement).fetchall()
    assert db.total_changes()
    db.close()


def sealed(directory: Path) -> tuple[int, int]:
    """Return how many secrets there are and how many are sealed, in a database that is whole."""
    found = verify_file(directory / DATABASE_NAME, lambda name: None)
    assert found.findings == ()
    return found.secrets, found.sealed


def contents(directory: Path) -> dict[str, bytes]:
    """Return what the files contain, but for SQLite's header, in which it counts that somebody opened the database."""
    return {path.name: path.read_bytes()[100:] for path in directory.iterdir()}


# -- sealing what is plain --------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [INLINE, SPILLED])
def test_a_start_with_a_key_seals_what_is_there_and_leaves_nothing_plain(
    make_rig: MakeRig, tmp_path: Path, size: int
) -> None:
    values = {"current": value(size), "next": value(size)}
    gone = [value(size) for _ in range(3)]
    rig = make_rig()
    demo = rig.one(add("demo", replaced=gone[0], retired=gone[1], **values))
    rig.one(lambda tx: tx.put_secret(demo, secret("replaced", values["current"])))
    rig.one(lambda tx: tx.drop_secret(demo, "retired"))
    other = rig.one(add("deleted", default=gone[2]))
    rig.one(lambda tx: tx.delete_inbox(other))
    assert remains(values.values(), tmp_path) == list(values.values()), "the search finds what is there"
    rig.close()
    rig = make_rig(secret_key=KEY)
    assert remains([*values.values(), *gone], tmp_path) == []
    assert kept(rig) == {**values, "replaced": values["current"]}
    rig.close()
    assert remains([*values.values(), *gone], tmp_path) == []
    assert sealed(tmp_path) == (3, 3)


def test_of_many_secrets_that_came_and_went_nothing_is_left(make_rig: MakeRig, tmp_path: Path) -> None:
    """Also not in pages from which SQLite has moved rows to others, nor in those that it has given away."""
    chance = random.Random(5)
    rig = make_rig()
    ids = [rig.one(add(f"inbox-{n}")) for n in range(150)]
    made = itertools.count(10_000)

    def numbered(size: int) -> bytes:
        """Return a value of which every piece of 12 bytes tells its number."""
        return (b"%d-secret-" % next(made) * (size // 13 + 1))[:size]

    def churn(tx: Tx) -> None:
        for _ in range(100):
            inbox_id, name = chance.choice(ids), chance.choice("abc")
            if chance.random() < 0.6:
                tx.put_secret(inbox_id, secret(name, numbered(chance.choice([16, 40, 200, 1_500, 3_000]))))
            else:
                tx.drop_secret(inbox_id, name)

    def left() -> set[bytes]:
        content = b"\0".join(path.read_bytes() for path in tmp_path.iterdir())
        return set(re.findall(rb"(\d{5})-secret", content))

    for _ in range(20):
        rig.one(churn)
    for inbox_id in ids[60:]:
        rig.one(lambda tx, gone=inbox_id: tx.delete_inbox(gone))
    for body in (bytes(30_000), bytes(5)):  # takes pages that secrets have given away
        demo = rig.inbox(f"demo-{len(body)}")
        rig.one(
            lambda tx, demo=demo, body=body: put(
                tx, demo.inbox_id, [entry(n, body=body) for n in range(1, 30)]
            )
        )
    rig.close()
    live = {row[0][:5] for row in rig.rows("SELECT value FROM secret")}
    assert 60 < len(live) < next(made) - 11_000
    assert live <= left()
    make_rig(secret_key=KEY).close()
    assert left() == set()
    assert sealed(tmp_path) == (len(live), len(live))


def test_the_log_of_a_killed_server_is_sealed_as_well(make_rig: MakeRig, tmp_path: Path) -> None:
    values = [value(), value(SPILLED)]
    killed = tmp_path / "killed"
    rig = Rig(tmp_path / "running")
    rig.one(add("demo", one=values[0]))
    rig.one(add("more", two=values[1]))
    shutil.copytree(tmp_path / "running", killed)
    rig.close()
    rig.disk.unregister()
    assert remains(values, killed / f"{DATABASE_NAME}-wal") == values
    rig = Rig(killed, secret_key=KEY)
    assert remains(values, killed) == []
    assert (kept(rig), kept(rig, "more")) == ({"one": values[0]}, {"two": values[1]})
    rig.close()


async def test_no_backup_of_a_sealed_database_has_a_plain_secret(tmp_path: Path) -> None:
    before, later = value(), value(SPILLED)
    data, copy = tmp_path / "data", tmp_path / "copy.db"
    async with open_store(StorageOptions(data_dir=data)) as store:
        await store.commit(Do(add("demo", before=before)))
        await store.back_up(tmp_path / "plain.db", lambda done, total: None)
    assert remains([before], tmp_path / "plain.db") == [before]
    async with open_store(StorageOptions(data_dir=data, secret_key=KEY)) as store:
        await store.commit(Do(add("more", later=later)))
        await store.back_up(copy, lambda done, total: None)
        assert remains([before, later], copy, data) == []
    found = verify_file(copy, lambda name: None)
    assert (found.secrets, found.sealed, found.findings) == (2, 2, ())
    assert restore(copy, tmp_path / "restored", force=False, progress=lambda done, total: None).sealed
    assert remains([before, later], tmp_path / "restored") == []
    with pytest.raises(DataDirectoryError, match="are sealed"):
        async with open_store(StorageOptions(data_dir=tmp_path / "restored")):
            pass
    async with open_store(StorageOptions(data_dir=tmp_path / "restored", secret_key=KEY)) as store:
        listing = await store.read(See(lambda snapshot: snapshot.inbox_by_slug("more")))
        assert listing.record.secrets[0].value.matches(later)


@pytest.mark.parametrize("size", [INLINE, SPILLED])
def test_with_a_key_no_change_ever_writes_a_plain_secret(
    make_rig: MakeRig, tmp_path: Path, size: int
) -> None:
    values = [value(size) for _ in range(4)]
    rig = make_rig(secret_key=KEY)
    demo = rig.one(add("demo", one=values[0], two=values[1]))
    rig.one(lambda tx: tx.put_secret(demo, secret("one", values[2])))
    rig.one(lambda tx: tx.put_secret(demo, secret("three", values[3])))
    assert kept(rig) == {"one": values[2], "two": values[1], "three": values[3]}
    assert remains(values, tmp_path) == []
    rig.one(lambda tx: tx.drop_secret(demo, "two"))
    assert [one.name for one in rig.one(lambda tx: tx.inbox(demo)).secrets] == ["one", "three"]
    rig.one(lambda tx: tx.delete_inbox(demo))
    with pytest.raises(InboxGone):
        rig.one(lambda tx: tx.put_secret(demo, secret("one", values[0])))
    assert remains(values, tmp_path) == []


def test_overwriting_is_for_secrets_alone(make_rig: MakeRig) -> None:
    """It costs a write for every page that is freed, and retention frees many."""
    rig = make_rig()
    demo = rig.one(add("demo", one=value()))
    for step in (
        lambda tx: tx.put_secret(demo, secret("one", value())),
        lambda tx: tx.drop_secret(demo, "one"),
        lambda tx: tx.delete_inbox(demo),
    ):
        rig.one(step)
        assert rig.upkeep.db.pragma("secure_delete") == 0


# -- the right key, another one, none ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (None, "are sealed and POSTROOM_SECRET_KEY is not set"),
        (OTHER_KEY, "are sealed with another key than POSTROOM_SECRET_KEY"),
    ],
)
@pytest.mark.parametrize("used", [True, False], ids=["with-secrets", "without"])
def test_another_key_or_none_is_refused_and_changes_nothing(
    make_rig: MakeRig, tmp_path: Path, key: SecretBytes | None, sentence: str, used: bool
) -> None:
    """Also while there is no secret yet: else the next one would be written plain without a word."""
    rig = make_rig(secret_key=KEY)
    if used:
        rig.one(add("demo", one=b"kept"))
    rig.close()
    before = contents(tmp_path)
    with pytest.raises(DataDirectoryError, match=sentence) as refusal:
        make_rig(secret_key=key)
    assert "postroom rekey" in str(refusal.value)
    assert contents(tmp_path) == before
    rig = make_rig(secret_key=KEY)
    assert not used or kept(rig) == {"one": b"kept"}


def test_a_refused_start_does_not_even_begin_a_new_life(make_rig: MakeRig, tmp_path: Path) -> None:
    rig = make_rig(secret_key=KEY)
    rig.one(add("demo", one=b"kept"))
    rig.close()
    (tmp_path / "postroom.life").unlink()
    epoch = rig.rows("SELECT epoch FROM inbox_head")
    with pytest.raises(DataDirectoryError, match="sealed"):
        make_rig()
    assert rig.rows("SELECT epoch FROM inbox_head") == epoch


def test_the_key_is_in_no_file(make_rig: MakeRig, tmp_path: Path) -> None:
    rig = make_rig(secret_key=KEY)
    rig.one(add("demo", one=value()))
    assert remains([KEY.reveal()], tmp_path) == []


def test_commands_that_need_no_secret_need_no_key(make_rig: MakeRig, tmp_path: Path) -> None:
    rig = make_rig(secret_key=KEY)
    rig.one(add("demo", one=b"kept"))
    rig.close()
    for key in (None, OTHER_KEY):
        with open_offline(StorageOptions(data_dir=tmp_path, secret_key=key)) as store:
            unit, _ = plan_reset([], 1)
            store.commit(unit)
            with pytest.raises(SecretUnreadable):
                store.commit(Do(add("plain", one=b"never plain in a sealed database")))
            with pytest.raises(SecretUnreadable):
                store.read(See(lambda snapshot: snapshot.inbox_by_slug("demo")))
    assert sealed(tmp_path) == (1, 1)


# -- rows that somebody else has changed ------------------------------------------------------------------------
SWAP = "UPDATE secret SET value = (SELECT value FROM secret s WHERE s.inbox_id != secret.inbox_id)"


@pytest.mark.parametrize(
    "harm",
    [
        f"{SWAP} WHERE inbox_id = 1",
        "UPDATE secret SET value = zeroblob(60) WHERE inbox_id = 1",
        "UPDATE secret SET value = x'' WHERE inbox_id = 1",
        "UPDATE secret SET name = 'two' WHERE inbox_id = 1",
        "UPDATE secret SET key_id = x'00' WHERE inbox_id = 1",
    ],
)
def test_a_changed_row_is_refused_and_concerns_no_other_inbox(
    make_rig: MakeRig, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = make_rig(secret_key=KEY)
    demo = rig.one(add("demo", one=value()))
    rig.one(add("other", one=b"of the other"))
    rig.close()
    change(tmp_path, harm)
    rig = make_rig(secret_key=KEY)
    for _ in range(2):
        with pytest.raises(SecretUnreadable):
            kept(rig)
    with pytest.raises(SecretUnreadable):
        rig.one(lambda tx: tx.inbox(demo))
    assert caplog.text.count("does not open") == 1
    assert kept(rig, "other") == {"one": b"of the other"}
    rig.close()
    with open_offline(rig.options) as store:
        done = store.reseal(None, KEY, forget=True)
    assert [slug for slug, _ in done.forgotten] == ["demo"]
    rig = make_rig(secret_key=KEY)
    assert (kept(rig), kept(rig, "other")) == ({}, {"one": b"of the other"})


def test_a_plain_row_put_there_by_hand_is_refused_until_a_start_has_sealed_it(
    make_rig: MakeRig, tmp_path: Path
) -> None:
    by_hand = value()
    rig = make_rig(secret_key=KEY)
    rig.one(add("demo", one=b"kept"))
    change(tmp_path, f"INSERT INTO secret VALUES (1, 'two', x'{by_hand.hex()}', 9, NULL)")  # noqa: S608 — our own hex
    with pytest.raises(SecretUnreadable):
        kept(rig)
    rig.close()
    rig = make_rig(secret_key=KEY)
    assert kept(rig) == {"one": b"kept", "two": by_hand}
    assert remains([by_hand], tmp_path) == []
