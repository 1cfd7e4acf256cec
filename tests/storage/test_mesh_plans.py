"""What agents on machines ask costs what it returns, and an inbox full of webhooks pays nothing for receipts."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from storage import deliveries, mesh_reads, mesh_receipts, mesh_roster
from storage.mail_records import Recipient
from storage.protocols import Tx
from storage.tx import SqliteTx
from tests.contract.builders import entry, put
from tests.contract.mail import delivery, give, make_agent
from tests.contract.mesh import make_machine, presence, send
from tests.storage.rig import Rig

FEW, MANY = 300, 6_000
BATCH = 300

OPEN = "SEARCH receipt USING INDEX receipt_open (inbox_id=? AND seq"

PLANS: dict[str, tuple[str, str]] = {
    "agents of a machine": (mesh_roster.AGENTS_OF, "SEARCH a USING INDEX agent_machine (machine=?)"),
    "put presence": (
        mesh_roster.PUT_PRESENCE,
        "SEARCH agent USING INDEX sqlite_autoindex_agent_1 (agent_id=?)",
    ),
    "touch": (mesh_roster.TOUCH_PRESENCE, "SEARCH agent USING INDEX sqlite_autoindex_agent_1 (agent_id=?)"),
    "served": (mesh_receipts.served_statement(4), f"{OPEN}=?)"),
    "acked": (mesh_receipts.acked_statement(4), f"{OPEN}=?)"),
    "passed": (mesh_receipts.PASSED, f"{OPEN}>? AND seq<?)"),
    "dropped": (mesh_receipts.DROPPED, f"{OPEN}>? AND seq<?)"),
    "sent": (mesh_receipts.SENT_BY, "SEARCH sent_log USING PRIMARY KEY (sender=? AND id<?)"),
    "receipts of recipients": (mesh_receipts.RECEIPTS_OF, "SEARCH r USING PRIMARY KEY (mid=?)"),
    "forgotten": (mesh_receipts.FORGOTTEN, "SEARCH sent_log USING INDEX sent_log_gone (gone_at<?)"),
    "sent of": (mesh_receipts.SENT_OF, "SEARCH sent_log USING PRIMARY KEY (sender=?)"),
    "gone": (mesh_receipts.gone_statement(4), "SEARCH sent_log USING INDEX sent_log_mid (mid=?)"),
    "unnoted": (mesh_receipts.unnoted_statement(4), "SEARCH receipt USING PRIMARY KEY (mid=?)"),
    "any receipts": (deliveries.AMONG, "SEARCH receipt USING PRIMARY KEY (mid>? AND mid<?)"),
    "ids": (mesh_reads.ids_statement(4), "SEARCH m USING INDEX message_id (id=?)"),
    "rows": (mesh_reads.at_statement(4), "SEARCH e USING PRIMARY KEY (inbox_id=? AND seq=?)"),
    "unread": (mesh_reads.UNREAD, "SEARCH e USING PRIMARY KEY (inbox_id=? AND seq>? AND seq<?)"),
}

SMALL = (
    "SCAN gap",
    "SCAN (subquery",
    "SCAN u",
    "USE TEMP B-TREE FOR GROUP BY",
    "USE TEMP B-TREE FOR ORDER BY",
)
"""What counting does with the gaps between runs, and with the few places that the counted come from."""


def bindings(statement: str) -> list[int]:
    """Return as many bindings as a statement has."""
    numbered = [int(n) for n in re.findall(r"\?(\d+)", statement)]
    return [1] * (max(numbered, default=0) + len(re.findall(r"\?(?!\d)", statement)))


@pytest.mark.parametrize("name", PLANS)
def test_each_statement_searches_and_sorts_nothing(rig: Rig, name: str) -> None:
    statement, expected = PLANS[name]
    steps = [row[3] for row in rig.rows(f"EXPLAIN QUERY PLAN {statement}", bindings(statement))]
    assert any(expected in step for step in steps), steps
    if name == "unread":
        steps = [step for step in steps if not step.startswith(SMALL)]
    assert not [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step], steps


@pytest.fixture
def full(rig: Rig) -> Rig:
    """A store with a small and a large private inbox, ids 1 and 2, of what an agent, id 3, has sent; 4 is a machine."""
    agents = [rig.one(lambda tx, name=name: make_agent(tx, name, "m")).inbox_id for name in ("a", "b", "s")]
    rig.one(lambda tx: make_machine(tx))
    for to, count in zip(agents, (FEW, MANY), strict=False):
        for _ in range(0, count, BATCH):

            def fill(tx: Tx, to: int = to) -> None:
                for _ in range(BATCH):
                    send(tx, agents[2], to, [], received_at=tx.head(to).last_at + 1)

            rig.one(fill)
    return rig


def steps_of(rig: Rig, work: Callable[[SqliteTx], Any]) -> int:
    """Return how many tens of instructions something takes, done a second time."""
    taken = 0

    def tick() -> bool:
        nonlocal taken
        taken += 1
        return False

    db = rig.upkeep.db
    with db:
        work(rig.upkeep.tx)
        db.set_progress_handler(tick, 10)
        try:
            work(rig.upkeep.tx)
        finally:
            db.set_progress_handler(None)
    return taken


WORK: dict[str, Callable[[int, int], Callable[[SqliteTx], Any]]] = {
    "ids": lambda at, last: lambda tx: tx.seqs_of_ids(at, [bytes(16), b"\x01" * 16]),
    "rows": lambda at, last: lambda tx: tx.rows_at(at, [1, last // 2, last]),
    "served": lambda at, last: lambda tx: tx.mark_receipts_served(at, [last // 2, last], 1),
    "acked": lambda at, last: lambda tx: tx.mark_receipts_acked(at, [last // 2, last], 1),
    "passed": lambda at, last: lambda tx: tx.mark_receipts_passed(at, last - 9, last - 3, 1),
    "unread": lambda at, last: lambda tx: tx.unread(at, last - 9, [(last - 5, last - 3)], 0, 100),
    "few of many unread": lambda at, last: lambda tx: tx.unread(at, 0, [], 0, 10),
    "sent": lambda at, last: lambda tx: mesh_receipts.sent_by(tx.sql, 3, None, 5, 0, 100),
    "agents": lambda at, last: lambda tx: tx.machine_agents("m"),
    "presence": lambda at, last: lambda tx: tx.touch_presences([presence("a")]),
}


def test_what_is_asked_takes_as_many_steps_in_a_large_inbox_as_in_a_small_one(full: Rig) -> None:
    for name, ask in WORK.items():
        few, many = steps_of(full, ask(1, FEW)), steps_of(full, ask(2, MANY))
        assert many <= 2 * few + 40, f"{name}: {few} against {many} tens of steps"


def test_a_cursor_that_passes_webhooks_pays_nothing_for_the_receipts_of_others(full: Rig) -> None:
    """Neither for how many webhooks it passes, nor for how many receipts there are elsewhere, or were here."""
    reader, source = full.one(lambda tx: make_agent(tx, "w")).inbox_id, full.inbox("source").inbox_id

    def fill(tx: Tx) -> None:
        first = tx.last_mid + 1
        put(tx, source, [entry(seq) for seq in range(1, MANY + 1)])
        give(
            tx, reader, [delivery(seq, mid, source) for seq, mid in enumerate(range(first, first + MANY), 1)]
        )

    full.one(fill)
    for through in (10, MANY):
        assert steps_of(full, lambda tx, to=through: tx.mark_receipts_passed(reader, 0, to, 1)) <= 5
    full.one(lambda tx: tx.mark_receipts_passed(2, 0, MANY, 1))
    assert steps_of(full, lambda tx: tx.mark_receipts_passed(2, 0, MANY, 2)) <= 5


def test_what_has_a_seq_and_is_open_alone_is_in_the_index(rig: Rig) -> None:
    """Else it would grow with every message that was ever sent."""
    to = rig.one(lambda tx: make_agent(tx, "a")).inbox_id
    sender = rig.one(lambda tx: make_agent(tx, "s")).inbox_id
    for _ in range(4):
        rig.one(lambda tx: send(tx, sender, to, [sender], received_at=tx.head(to).last_at + 1))
    rig.one(lambda tx: tx.add_recipients(99, [Recipient(to)]))

    def open_seqs() -> list[int]:
        found = rig.rows(
            "SELECT seq FROM receipt INDEXED BY receipt_open"
            " WHERE seq IS NOT NULL AND acked_at IS NULL AND expired_at IS NULL"
        )
        return [seq for (seq,) in found]

    assert open_seqs() == [1, 2, 3, 4]
    rig.one(lambda tx: tx.mark_receipts_served(to, [1, 2], 1))
    rig.one(lambda tx: tx.mark_receipts_acked(to, [2], 1))
    rig.one(lambda tx: tx.erase(to, 3))
    assert open_seqs() == [1, 4]
