"""Turns that the writer fuses: what they leave is what they would leave one by one, in far fewer statements."""

from pathlib import Path

import apsw
import msgspec
import pytest

import storage.writer
from actors.commands import Append, DeleteInbox, Draft
from actors.turn import Turn, TurnResult
from storage.errors import Fenced, InboxGone, StorageFull, UnitFailed
from storage.records import Head, InboxRecord, Retention
from tests.contract.builders import draft
from tests.storage.faulty_vfs import ALWAYS, full, io_error
from tests.storage.rig import Rig

WINDOW_US = 3_600_000_000
TABLES = (
    "SELECT inbox_id, latest_seq, first_seq, last_at > 0, live_rows, live_bytes FROM inbox_head ORDER BY 1",
    "SELECT inbox_id, seq, mid, event_type, verified, size, home, origin FROM entry ORDER BY 1, 2",
    "SELECT mid, id, home_inbox, home_seq, size, body_kind, facts, said, body FROM message ORDER BY mid",
    "SELECT inbox_id, key, seq, id FROM seen_delivery ORDER BY 1, 2",
    "SELECT last_mid FROM server",
)
"""What turns leave, but for times and random epochs."""


def message(n: int, **fields: object) -> Draft:
    """Return the same message for the same number, in every rig."""
    return draft(b"body %d" % n, **{"id": n.to_bytes(16, "big"), **fields})


def turn(inbox: InboxRecord, head: Head | None, *drafts: Draft, **fields: object) -> Turn:
    commands = tuple(Append(one, WINDOW_US) for one in drafts)
    return Turn(inbox.inbox_id, head, commands, **{"retention": Retention(), **fields})


def warm(rig: Rig, count: int) -> list[tuple[InboxRecord, Head]]:
    """Make inboxes that have one message each, with the heads that their actors believe in."""
    made = []
    for n in range(count):
        inbox = rig.inbox(f"inbox-{n}")
        result: TurnResult = rig.one(turn(inbox, None, message(1_000 + n, dedupe_key=b"first")))
        assert result.head is not None
        made.append((inbox, result.head))
    return made


def every_kind(rig: Rig) -> list[object]:
    """Run one batch with turns of every kind and return what each was told, without times."""
    inboxes = warm(rig, 9)
    (a, b, c, d, e, f, g, h, i) = (inbox for inbox, _ in inboxes)
    heads = [head for _, head in inboxes]
    wrong = msgspec.structs.replace(heads[3], latest_seq=7)
    rig.one(lambda tx: tx.delete_inbox(e.inbox_id))
    told = rig.batch(
        turn(a, heads[0], message(1), message(2, dedupe_key=b"two")),
        turn(b, heads[1], message(3, dedupe_key=b"first")),  # a duplicate
        turn(c, None, message(4)),  # of an actor that has just started
        turn(d, wrong, message(5)),
        turn(e, heads[4], message(6)),  # gone
        turn(f, heads[5], message(7), message(8), message(9), retention=Retention(max_messages=2)),
        Turn(g.inbox_id, heads[6], (Append(message(10)), DeleteInbox(())), Retention()),
        turn(h, heads[7], message(11, dedupe_key=b"x"), message(12, dedupe_key=b"x")),
        turn(i, heads[8], message(13, expires_at=1 << 60)),
        turn(a, None, message(14)),  # a second one of the first inbox
    )
    return [
        [getattr(outcome, "seq", outcome) for outcome in one.outcomes]
        if isinstance(one, TurnResult)
        else type(one)
        for one in told
    ]


def test_what_fused_turns_leave_is_what_they_leave_one_by_one(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = rig
    told = every_kind(fused)
    monkeypatch.setattr(storage.writer, "needs_of", lambda unit: None)
    single = Rig(tmp_path / "single")
    try:
        assert every_kind(single) == told
        for statement in TABLES:
            assert fused.rows(statement) == single.rows(statement), statement
    finally:
        single.close()
    assert told[:5] == [[2, 3], [1], [2], Fenced, InboxGone]


def test_thirty_inboxes_take_as_many_statements_as_one(rig: Rig) -> None:
    inboxes = warm(rig, 32)
    statements: list[str] = []

    def note(_: apsw.Cursor, statement: str, __: object) -> bool:
        statements.append(statement.split(" ", 2)[0])
        return True

    rig.upkeep.db.exec_trace = note
    told = rig.batch(
        *(turn(inbox, head, message(n, dedupe_key=b"k")) for n, (inbox, head) in enumerate(inboxes))
    )
    rig.upkeep.db.exec_trace = None
    assert [result.head.latest_seq for result in told] == [2] * 32
    assert "SAVEPOINT" not in statements
    assert len(statements) <= 12, statements


def test_of_fused_turns_that_do_not_fit_only_the_guilty_one_hears(rig: Rig) -> None:
    inboxes = warm(rig, 3)
    twin = message(1)
    first, second, third = rig.batch(*(turn(inbox, head, one) for (inbox, head), one in zip(
        inboxes, (twin, twin, message(2)), strict=True
    )))  # fmt: skip
    assert isinstance(second, UnitFailed)
    assert isinstance(second.__cause__, apsw.ConstraintError)
    assert [first.head.latest_seq, third.head.latest_seq] == [2, 2]
    assert rig.rows("SELECT count(*) FROM entry") == [(5,)]
    assert rig.health.lost_transactions == 0


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_disk_that_fails_once_under_fused_turns_costs_nobody_an_unstored_answer(
    rig: Rig, operation: str
) -> None:
    inboxes = warm(rig, 4)
    rig.disk.fail(operation, "-wal", io_error)
    told = rig.batch(*(turn(inbox, head, message(n)) for n, (inbox, head) in enumerate(inboxes)))
    stored = {row[0] for row in rig.rows("SELECT id FROM message")}
    for n, one in enumerate(told):
        assert isinstance(one, Exception) or n.to_bytes(16, "big") in stored


def test_fused_turns_on_a_full_disk_are_refused_and_nothing_of_them_is_left(rig: Rig) -> None:
    inboxes = warm(rig, 4)
    rig.disk.fail("write", "", full, times=ALWAYS)
    told = rig.batch(*(turn(inbox, head, message(n)) for n, (inbox, head) in enumerate(inboxes)))
    assert [type(one) for one in told] == [StorageFull] * 4
    rig.disk.heal()
    assert rig.rows("SELECT count(*) FROM entry") == [(4,)]


def test_reads_of_fused_turns_that_fail_are_made_again_one_by_one(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    inboxes = warm(rig, 3)

    def broken(*_: object) -> None:
        raise apsw.IOError("broken disk")

    monkeypatch.setattr(storage.writer, "Fused", broken)
    told = rig.batch(*(turn(inbox, head, message(n)) for n, (inbox, head) in enumerate(inboxes)))
    assert [result.head.latest_seq for result in told] == [2, 2, 2]
    assert rig.health.lost_transactions == 1
