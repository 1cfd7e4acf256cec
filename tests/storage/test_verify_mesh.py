"""What `verify` finds in what machines and their agents keep, as `test_verify_mail` for the rest of their mail."""

import shutil
from pathlib import Path

import apsw
import pytest

from storage.lock import DATABASE_NAME
from storage.mail_records import ReaderRecord
from storage.options import StorageOptions
from storage.protocols import Tx
from storage.sqlite import open_offline
from storage.verify import verify_file
from tests.contract.builders import Do, head_without
from tests.contract.mail import make_agent
from tests.contract.mesh import make_machine, presence, route, send, wake
from tests.storage.older import go_back


def use(tx: Tx) -> None:
    """Send, deliver, serve, acknowledge, drop and delete. Machine `m` has inbox 1, agents `one` and `two` have 2 and 3;
    `left` had 4, machine `n` had 5. Mids 1 to 4 are broadcasts, 5 and 6 went from `one` to `two`, 5 is gone.
    """
    home = make_machine(tx, "m").inbox_id
    one, two, left = [make_agent(tx, name, "m").inbox_id for name in ("one", "two", "left")]
    gone = make_machine(tx, "n").inbox_id
    for _ in range(4):
        mid = send(tx, one, home, [two, left], received_at=tx.head(home).last_at + 1)
        for to in (two, left):
            route(tx, mid, home, to)
    for _ in range(2):
        send(tx, one, two, [], received_at=tx.head(two).last_at + 1)
    send(tx, left, two, [], received_at=tx.head(two).last_at + 1)
    tx.put_reader(two, "self", ReaderRecord(1, 4, 0, ((3, 3),), ((2, 4),)))
    tx.mark_receipts_passed(two, 0, 1, 50)
    tx.mark_receipts_served(two, [2, 3, 4], 60)
    tx.mark_receipts_acked(two, [3], 70)
    for agent_id in ("one", "two", "left"):
        tx.put_presence(presence(agent_id))
        tx.put_wake_target(wake(agent_id, None if agent_id == "two" else b"secret"))
    erased = tx.erase(two, 5)
    tx.advance(two, tx.head(two), head_without(tx.head(two), 1, erased or 0))
    tx.delete_inbox(gone)
    tx.delete_inbox(left)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("used")
    with open_offline(StorageOptions(data_dir=directory), create=True) as store:
        store.commit(Do(use))
        store.commit(Do(lambda tx: tx.sweep(100, 1 << 20), grows=False))
    return directory / DATABASE_NAME


@pytest.fixture
def file(used: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(used, tmp_path / DATABASE_NAME))


def findings(file: Path) -> tuple[str, ...]:
    return verify_file(file, lambda name: None).findings


def test_nothing_is_found_where_machines_were_used(used: Path) -> None:
    assert findings(used) == ()
    db = apsw.Connection(str(used))
    counts = {
        table: db.execute(f"SELECT count(*) FROM {table}").get  # noqa: S608 — the names below
        for table in ("machine", "agent", "presence", "wake_target", "sent_log", "message")
    }
    db.close()
    assert counts == {"machine": 1, "agent": 2, "presence": 2, "wake_target": 2, "sent_log": 6, "message": 6}


def test_secrets_of_wake_targets_are_counted_with_the_others(used: Path) -> None:
    found = verify_file(used, lambda name: None)
    assert (found.secrets, found.sealed) == (1, 0)


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        ("UPDATE machine SET inbox_id = 2", "machine m: it has no inbox"),
        ("UPDATE machine SET inbox_id = 99", "machine m: it has no inbox"),
        ("DELETE FROM machine", "inbox machine.m: it is a machine's, and there is no machine"),
        ("DELETE FROM machine", "agent one: the machine m, which it is on, does not exist"),
        ("UPDATE presence SET inbox_id = 1 WHERE inbox_id = 2", "inbox 1: an agent is said to be there"),
        ("UPDATE wake_target SET inbox_id = 1 WHERE inbox_id = 2", "inbox 1: an agent is to be woken"),
        (
            "UPDATE wake_target SET key_id = x'00' WHERE inbox_id = 2",
            "its wake target is sealed with a key of",
        ),
        ("UPDATE wake_target SET key_id = x'00' WHERE inbox_id = 3", "too short for a sealed one"),
        ("UPDATE reader SET served = CAST('[[1,2]]' AS BLOB)", "was served one by one makes no sense"),
        ("UPDATE reader SET served = CAST('[[2,60]]' AS BLOB)", "was served one by one makes no sense"),
        ("UPDATE reader SET served = CAST('[[4,3]]' AS BLOB)", "was served one by one makes no sense"),
        ("UPDATE reader SET served = CAST('[4' AS BLOB)", "was served one by one makes no sense"),
        (
            "INSERT INTO receipt VALUES (99, 3, 1, 1, NULL, NULL, NULL)",
            "message 99: it is gone, and there is",
        ),
        ("DELETE FROM sent_log WHERE mid = 5", "message 5: it is gone, and there is a receipt"),
        (
            "UPDATE receipt SET served_at = NULL WHERE mid = 1",
            "receipt of inbox 3 says what cannot have been",
        ),
        ("UPDATE receipt SET seq = NULL WHERE mid = 4", "receipt of inbox 3 says what cannot have been"),
        ("UPDATE sent_log SET gone_at = 5 WHERE mid = 4", "message 4: it is there, unlike what its sender"),
        ("UPDATE sent_log SET gone_at = NULL WHERE mid = 5", "message 5: it is gone, unlike what its sender"),
        ("UPDATE sent_log SET id = zeroblob(16) WHERE mid = 3", "message 3: it is there, unlike what"),
        ("UPDATE sent_log SET sender = 99 WHERE mid = 3", "message 3: inbox 99 is said to have sent it"),
    ],
)
def test_every_broken_promise_is_found(file: Path, harm: str, found: str) -> None:
    db = apsw.Connection(str(file))
    db.execute(harm).fetchall()
    assert db.total_changes(), "the harm must do something"
    db.close()
    assert any(found in finding for finding in findings(file)), findings(file)


def test_a_database_of_before_machines_is_checked_as_far_as_it_goes(file: Path) -> None:
    db = apsw.Connection(str(file))
    db.execute("DELETE FROM receipt WHERE mid = 5; UPDATE wake_target SET secret = NULL").fetchall()
    go_back(db, 4)
    assert findings(file) == ()
    db.execute("INSERT INTO receipt VALUES (99, 3, 1, 1, NULL, NULL, NULL)").fetchall()
    db.close()
    assert "message 99: it is gone, and there is a receipt of inbox 3 for it" in findings(file)
