"""`verify` of agents and their mail: nothing is found where all was used, and every broken promise is found."""

import shutil
from pathlib import Path

import apsw
import pytest

from storage.lock import DATABASE_NAME
from storage.mail_records import ReaderRecord, Recipient
from storage.options import StorageOptions
from storage.protocols import Tx
from storage.sqlite import open_offline
from storage.verify import verify_file
from tests.contract.builders import Do, entry, head_without, new_inbox, put
from tests.contract.mail import DELIVERY, beacon, delivery, give, make_agent
from tests.storage.older import go_back


def use(tx: Tx) -> None:
    """Deliver, send, drain, drop and delete: inbox 1 is a source, 2 and 3 are agents', 4 was an agent's."""
    source = tx.create_inbox(new_inbox("source")).inbox_id
    one, two, gone = [make_agent(tx, name).inbox_id for name in ("one", "two", "gone")]
    put(tx, source, [entry(seq) for seq in range(1, 7)])  # 1 to 6
    for to in (one, two, gone):
        give(tx, to, [delivery(seq, seq, source) for seq in range(1, 7)])
    for first, others in ((one, [two]), (two, [one]), (gone, [one])):
        put(tx, first, [entry(7, delivery=DELIVERY, received_at=tx.head(first).last_at + 1)])
        tx.add_recipients(tx.last_mid, [Recipient(first, 7, 5), *map(Recipient, others)])
    give(tx, two, [delivery(8, 7, two)])
    tx.put_reader(one, "self", ReaderRecord(2, 4, 0, ((4, 4), (6, 7))))
    tx.put_reader(two, "self", ReaderRecord(8, 8))
    tx.put_beacon(beacon("one"))
    tx.put_beacon(beacon("gone"))
    head = tx.head(source)
    tx.drop_before(source, 4)
    tx.advance(source, head, head_without(head, 3, 3 * 9, 4))
    tx.delete_inbox(gone)
    tx.routed(3)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("used")
    with open_offline(StorageOptions(data_dir=directory), create=True) as store:
        store.commit(Do(use))
        store.commit(Do(lambda tx: tx.sweep(7, 1 << 20), grows=False))
    return directory / DATABASE_NAME


@pytest.fixture
def file(used: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(used, tmp_path / DATABASE_NAME))


def findings(file: Path) -> tuple[str, ...]:
    return verify_file(file, lambda name: None).findings


def test_nothing_is_found_where_agents_were_used(used: Path) -> None:
    assert findings(used) == ()
    db = apsw.Connection(str(used))
    counts = {
        table: db.execute(f"SELECT count(*) FROM {table}").get  # noqa: S608 — the names below
        for table in ("agent", "reader", "beacon", "receipt", "sweep_todo")
    }
    db.close()
    assert counts == {"agent": 2, "reader": 2, "beacon": 1, "receipt": 6, "sweep_todo": 1}


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        ("DELETE FROM agent WHERE agent_id = 'two'", "is private, and there is no agent"),
        ("UPDATE agent SET inbox_id = 1 WHERE agent_id = 'one'", "it has no private inbox"),
        ("UPDATE agent SET inbox_id = 99 WHERE agent_id = 'one'", "it has no private inbox"),
        ("UPDATE beacon SET agent_id = 'three'", "agent three: it has the beacon b and does not exist"),
        ("UPDATE beacon SET placed_mid = 99", "was placed at 99, beyond"),
        ("UPDATE reader SET inbox_id = 4 WHERE inbox_id = 3", "the reader self belongs to no inbox"),
        ("UPDATE reader SET ack_cursor = 9 WHERE inbox_id = 3", "acknowledged up to 9"),
        ("UPDATE reader SET ack_cursor = -1", "acknowledged up to -1"),
        ("UPDATE reader SET served_high = 9 WHERE inbox_id = 3", "served up to 9"),
        ("UPDATE reader SET start_seq = 9 WHERE inbox_id = 3", "the reader self"),
        ("UPDATE reader SET acked = CAST('[[1,2]]' AS BLOB)", "one by one makes no sense"),
        ("UPDATE reader SET acked = CAST('[[4,4],[5,5]]' AS BLOB) WHERE inbox_id = 2", "makes no sense"),
        ("UPDATE reader SET acked = CAST('[[6,4]]' AS BLOB) WHERE inbox_id = 2", "makes no sense"),
        ("UPDATE reader SET acked = CAST('[[6,60]]' AS BLOB) WHERE inbox_id = 2", "makes no sense"),
        ("UPDATE reader SET acked = CAST('[[6]]' AS BLOB) WHERE inbox_id = 2", "makes no sense"),
        ("UPDATE reader SET acked = CAST('[6' AS BLOB) WHERE inbox_id = 2", "makes no sense"),
        ("UPDATE entry SET delivery = NULL WHERE home = 0 AND seq = 3", "message 3 was delivered without"),
        ("UPDATE entry SET received_at = 5 WHERE home = 0 AND seq = 4", "received before the one"),
        ("DELETE FROM message WHERE mid = 5", "content of message 5 is missing"),
        ("UPDATE entry SET size = 1 WHERE home = 0 AND seq = 4", "does not fit its content"),
        ("INSERT INTO receipt VALUES (99, 2, NULL, NULL, NULL, NULL, NULL)", "message 99: it is gone"),
        ("UPDATE receipt SET seq = 3 WHERE mid = 7 AND inbox_id = 2", "it is not message 3 of inbox 2"),
        ("UPDATE receipt SET seq = NULL WHERE mid = 7 AND inbox_id = 3", "says that it is still to come"),
    ],
)
def test_every_broken_promise_is_found(file: Path, harm: str, found: str) -> None:
    db = apsw.Connection(str(file))
    db.execute(harm).fetchall()
    assert db.total_changes(), "the harm must do something"
    db.close()
    assert any(found in finding for finding in findings(file)), findings(file)


def test_a_database_of_before_agents_is_checked_as_far_as_it_goes(file: Path) -> None:
    db = apsw.Connection(str(file))
    go_back(db, 3)
    db.close()
    assert findings(file) == ()
