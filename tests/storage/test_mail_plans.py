"""Draining, delivering and routing cost what they return, not what the inbox, the log or the receipts hold."""

from collections.abc import Callable
from typing import Any

import pytest

from storage import agents, deliveries, drains, routing, sweep
from storage.engine import connect_writer
from storage.mail_records import Recipient
from storage.protocols import Tx
from storage.snapshot import SqliteSnapshot
from tests.contract.builders import START_US, entry, put
from tests.contract.mail import delivery, give, make_agent
from tests.storage.rig import Rig

FEW, MANY = 300, 6_000
BATCH = 300

PLANS: dict[str, tuple[str, str]] = {
    "window": (drains.WINDOW, "SEARCH e USING PRIMARY KEY (inbox_id=? AND seq>? AND seq<?)"),
    "next": (drains.NEXT, "SEARCH entry USING PRIMARY KEY (inbox_id=? AND seq>? AND seq<?)"),
    "shown": (drains.shown_statement(4), "SEARCH e USING PRIMARY KEY (inbox_id=? AND seq=?)"),
    "undelivered": (
        deliveries.undelivered_statement(4),
        "SEARCH entry USING COVERING INDEX entry_once (mid=? AND inbox_id=?)",
    ),
    "stored": (deliveries.stored_statement(4), "SEARCH receipt USING PRIMARY KEY (mid=? AND inbox_id=?)"),
    "pending": (
        deliveries.PENDING,
        "SEARCH r USING INDEX receipt_pending ((mid,inbox_id)>(?,?) AND mid<?)",
    ),
    "log": (routing.FORWARD, "SEARCH m USING INTEGER PRIMARY KEY (rowid>?)"),
    "log, backwards": (routing.BACKWARD, "SEARCH m USING INTEGER PRIMARY KEY (rowid<?)"),
    "contents": (routing.contents_statement(4), "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)"),
    "doomed": (sweep.DOOMED, "SEARCH entry USING PRIMARY KEY (inbox_id=? AND seq<?)"),
    "old keys": (agents.FORGET_SENT, "USING COVERING INDEX sent_once_age (seen_at<?)"),
}


@pytest.mark.parametrize("name", PLANS)
def test_each_statement_searches_and_sorts_nothing(rig: Rig, name: str) -> None:
    statement, expected = PLANS[name]
    steps = [row[3] for row in rig.rows(f"EXPLAIN QUERY PLAN {statement}", [1] * statement.count("?"))]
    assert any(expected in step for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step], steps


@pytest.fixture
def full(rig: Rig) -> Rig:
    """A store with a small and a large log, private inbox and heap of receipts, in that order: ids 1, 2 and 3, 4."""
    for count in (FEW, MANY):
        source = rig.inbox(f"source-{count}")
        reader = rig.one(lambda tx, count=count: make_agent(tx, f"a{count}"))
        for start in range(1, count + 1, BATCH):

            def fill(
                tx: Tx, source: int = source.inbox_id, to: int = reader.inbox_id, start: int = start
            ) -> None:
                seqs = range(start, start + BATCH)
                first = tx.last_mid + 1
                put(tx, source, [entry(seq) for seq in seqs])
                for mid in range(first, first + BATCH):
                    tx.add_recipients(mid, [Recipient(to), Recipient(source)])
                give(tx, to, [delivery(seq, mid, source) for mid, seq in enumerate(seqs, first)])

            rig.one(fill)
    return rig


def steps_of(rig: Rig, look: Callable[[SqliteSnapshot], Any]) -> int:
    """Return how many tens of instructions a look takes, run a second time."""
    taken = 0

    def tick() -> bool:
        nonlocal taken
        taken += 1
        return False

    db = rig.upkeep.db
    with db:
        look(SqliteSnapshot(db, rig.upkeep.seal))
        db.set_progress_handler(tick, 10)
        try:
            found = look(SqliteSnapshot(db, rig.upkeep.seal))
        finally:
            db.set_progress_handler(None)
    assert found
    return taken


LOOKS: dict[str, Callable[[int, int, int], Callable[[SqliteSnapshot], Any]]] = {
    "window": lambda to, last, _: lambda s: s.window(to, 0, 5, 100).rows,
    "window in the middle": lambda to, last, _: lambda s: s.window(to, last // 2, 5, 100).rows,
    "next": lambda to, last, _: lambda s: s.next_seq(to, last // 2),
    "ahead": lambda to, last, _: lambda s: s.seqs_after(to, last // 2, 5),
    "moment": lambda to, last, _: lambda s: s.floor_at(to, START_US + last * 500),
    "shown": lambda to, last, _: lambda s: s.deliveries(to, [1, last // 2, last], 100),
    "log": lambda to, last, mid: lambda s: s.routable(mid, 5).rows,
    "log, backwards": lambda to, last, mid: lambda s: s.routable_before(mid + 6, 5).rows,
    "contents": lambda to, last, mid: lambda s: s.contents([mid, mid + 1], 100, 1 << 20),
    "receipts": lambda to, last, mid: lambda s: s.receipts(mid),
    "undelivered": lambda to, last, mid: lambda s: [deliveries.undelivered(s.sql, 4_711, [mid, mid + 1])],
}


def test_what_is_asked_takes_as_many_steps_in_a_large_store_as_in_a_small_one(full: Rig) -> None:
    for name, ask in LOOKS.items():
        few = steps_of(full, ask(2, FEW, FEW // 2))
        many = steps_of(full, ask(4, MANY, FEW + MANY // 2))
        assert many <= 2 * few + 40, f"{name}: {few} against {many} tens of steps"


def test_what_is_pending_is_found_beside_many_receipts_that_are_not(full: Rig) -> None:
    late = full.one(lambda tx: make_agent(tx, "late")).inbox_id

    def deliver_all(tx: Any) -> None:
        tx.sql.change("UPDATE receipt SET seq = 1, stored_at = 1 WHERE seq IS NULL AND mid != 100")

    def steps() -> int:
        return steps_of(full, lambda s: s.pending((0, 0), 1 << 40, 100))

    full.one(deliver_all)
    few = steps()
    full.one(lambda tx: tx.add_recipients(FEW + MANY, [Recipient(late)]))
    assert steps() <= few + 40
    assert [(one.mid, one.inbox_id) for one in full.see(lambda s: s.pending((0, 0), 1 << 40, 9))] == [
        (100, 1),
        (FEW + MANY, late),
    ]
    with pytest.raises(AssertionError):
        steps_of(full, lambda s: s.pending((FEW + MANY, late), 1 << 40, 9))


def test_bodies_are_read_of_what_is_shown_only(rig: Rig) -> None:
    reader = rig.one(lambda tx: make_agent(tx))
    for seq in range(1, 21):
        rig.one(lambda tx, seq=seq: put(tx, reader.inbox_id, [entry(seq, body=bytes(60_000))]))
    rig.upkeep.close()

    def bytes_read(look: Callable[[SqliteSnapshot], Any]) -> int:
        db = connect_writer(rig.directory / "postroom.db", 0, rig.disk.name)
        before = rig.disk.bytes_read
        with db:
            assert look(SqliteSnapshot(db, rig.upkeep.seal))
        db.close()
        return rig.disk.bytes_read - before

    seqs = list(range(1, 21))
    assert bytes_read(lambda s: s.window(reader.inbox_id, 0, 20, 1 << 20).rows) < 20 * 20_000
    assert bytes_read(lambda s: s.deliveries(reader.inbox_id, seqs, 100)) < 20 * 20_000
    assert bytes_read(lambda s: s.contents(seqs, 0, 1 << 20)) < 20 * 20_000
    assert bytes_read(lambda s: s.deliveries(reader.inbox_id, seqs[:1], 1 << 20)) > 60_000
