"""The failure table of the writer, row by row (`storage/writer.py`, engineering study S2)."""

from typing import Any

import apsw
import pytest

from storage.engine import Job
from storage.errors import (
    Fenced,
    InboxGone,
    NotStored,
    OutcomeUnknown,
    SlugTaken,
    StorageDegraded,
    StorageFull,
    UnitFailed,
)
from storage.protocols import Tx
from storage.upkeep import PROBE_SECONDS
from tests.contract.builders import Do, entry, new_inbox, put
from tests.storage.faulty_vfs import ALWAYS, full, io_error
from tests.storage.rig import Rig, add, add_much


def boom(_: Tx) -> None:
    raise ValueError("boom")


# -- a unit raises, the transaction stands ----------------------------------------------------------------
def test_a_unit_that_raises_is_undone_alone(rig: Rig) -> None:
    inbox = rig.inbox()

    def half(tx: Tx) -> None:
        put(tx, inbox.inbox_id, [entry(2)])
        raise ValueError("boom")

    first, failed, second = rig.batch(add(inbox, 1), half, add(inbox, 2))
    assert (first, second) == (1, 2)
    assert isinstance(failed, UnitFailed)
    assert isinstance(failed.__cause__, ValueError)
    assert rig.stored() == [(inbox.inbox_id, 1), (inbox.inbox_id, 2)]
    assert rig.rows("SELECT mid FROM message ORDER BY mid") == [(1,), (2,)]
    assert rig.rows("SELECT commits, last_mid FROM server") == [(2, 2)]


def test_a_broken_constraint_concerns_its_unit_alone(rig: Rig) -> None:
    inbox, other = rig.inbox("a"), rig.inbox("b")
    twin = entry(1)
    good, bad, after = rig.batch(
        lambda tx: put(tx, inbox.inbox_id, [twin]), lambda tx: put(tx, other.inbox_id, [twin]), add(other, 1)
    )
    assert good is None
    assert isinstance(bad, UnitFailed)
    assert isinstance(bad.__cause__, apsw.ConstraintError)
    assert after == 1
    assert rig.stored() == [(inbox.inbox_id, 1), (other.inbox_id, 1)]


def test_errors_of_the_contract_reach_the_caller_as_they_are(rig: Rig) -> None:
    inbox = rig.inbox()
    head = rig.one(lambda tx: tx.head(inbox.inbox_id))

    def stale(tx: Tx) -> None:
        put(tx, inbox.inbox_id, [entry(1)])
        tx.advance(inbox.inbox_id, head, head)

    outcomes = rig.batch(
        stale,
        lambda tx: tx.head(99),
        lambda tx: tx.create_inbox(new_inbox("demo")),
        lambda tx: tx.put_chunk(99, 0, b"x"),
    )
    assert [type(one) for one in outcomes] == [Fenced, InboxGone, SlugTaken, NotStored]
    assert rig.stored() == []


# -- the transaction is lost inside a unit ------------------------------------------------------------------
@pytest.mark.parametrize(("error", "told"), [(full, StorageFull), (io_error, NotStored)])
def test_a_lost_transaction_costs_only_the_unit_that_lost_it(rig: Rig, error: Any, told: type) -> None:
    inboxes = [rig.inbox(slug) for slug in "abc"]
    commits = rig.health.commits
    rig.spill()
    rig.disk.fail("write", "-wal", error)
    first, culprit, last = rig.batch(add(inboxes[0], 1), add_much(inboxes[1], 1), add(inboxes[2], 1))
    assert (first, last) == (1, 1)
    assert type(culprit) is told
    assert rig.stored() == [(inboxes[0].inbox_id, 1), (inboxes[2].inbox_id, 1)]
    assert rig.health.commits == commits + 2, "the others ran one per transaction"
    assert (rig.health.state, rig.health.lost_transactions) == ("open", 1)
    assert rig.one(add(inboxes[1], 1)) == 1


@pytest.mark.parametrize("error", [full, io_error])
def test_a_unit_that_swallows_the_disk_error_stores_nothing_in_autocommit(rig: Rig, error: Any) -> None:
    one, two = rig.inbox("one"), rig.inbox("two")

    def stubborn(tx: Tx) -> str:
        for attempt in (add_much(one, 1), add(two, 1)):
            try:
                attempt(tx)
            except Exception:  # noqa: S112 — exactly what no unit should do
                continue
        return "all is well"

    rig.spill()
    rig.disk.fail("write", "-wal", error)
    (outcome,) = rig.batch(stubborn)
    assert isinstance(outcome, NotStored)
    assert rig.stored() == []


def test_units_that_failed_in_a_lost_transaction_are_judged_anew(rig: Rig) -> None:
    inbox = rig.inbox()

    def culprit(tx: Tx) -> None:
        tx.create_inbox(new_inbox("wanted"))
        add_much(inbox, 1)(tx)

    rig.spill()
    rig.disk.fail("write", "-wal")
    lost, created = rig.batch(culprit, lambda tx: tx.create_inbox(new_inbox("wanted")).slug)
    assert isinstance(lost, NotStored)
    assert created == "wanted"


def test_the_counter_that_cannot_be_written_fails_the_batch_as_not_stored(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.upkeep.db.execute(
        "CREATE TEMP TRIGGER broken BEFORE UPDATE ON main.server BEGIN SELECT raise(ABORT, 'no'); END"
    )
    outcomes = rig.batch(add(inbox, 1), boom)
    assert [type(one) for one in outcomes] == [NotStored, NotStored]
    assert rig.stored() == []
    assert rig.one(add(inbox, 1)) == 1, "the connection was replaced"


def test_a_write_lock_held_by_somebody_else_is_not_stored_and_passes(rig: Rig) -> None:
    inbox = rig.inbox()
    other = apsw.Connection(str(rig.directory / "postroom.db"))
    try:
        other.execute("BEGIN IMMEDIATE")
        rig.upkeep.db.set_busy_timeout(0)
        (outcome,) = rig.batch(add(inbox, 1))
        assert isinstance(outcome, StorageDegraded)
        assert rig.health.state == "open"
    finally:
        other.close(True)
    assert rig.one(add(inbox, 1)) == 1


# -- COMMIT fails ---------------------------------------------------------------------------------------------
def test_a_commit_on_a_full_disk_stores_nothing_and_says_so(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.disk.fail("write", "-wal", full)
    outcomes = rig.batch(add(inbox, 1), boom, add(inbox, 2))
    assert [type(one) for one in outcomes] == [StorageFull] * 3
    assert rig.stored() == []
    assert rig.batch(add(inbox, 1), add(inbox, 2)) == [1, 2]
    assert rig.rows("SELECT mid FROM message") == [(1,), (2,)]


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_commit_that_fails_otherwise_is_unknown(rig: Rig, operation: str) -> None:
    inbox = rig.inbox()
    rig.disk.fail(operation, "-wal", io_error)
    first, failed, second = rig.batch(add(inbox, 1), boom, add(inbox, 2))
    assert isinstance(first, OutcomeUnknown)
    assert isinstance(second, OutcomeUnknown)
    assert type(failed) is NotStored
    assert (rig.health.state, rig.health.unknown_commits, rig.health.reopened) == ("open", 1, 1)
    seq = rig.one(lambda tx: tx.head(inbox.inbox_id)).latest_seq + 1
    assert rig.one(add(inbox, seq)) == seq, "whatever became of them, the head knows"


# -- degraded -----------------------------------------------------------------------------------------------
def test_a_disk_that_stays_broken_degrades_the_store_until_a_probe_succeeds(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.disk.fail("sync", "-wal", io_error, times=ALWAYS)
    (outcome,) = rig.batch(add(inbox, 1))
    assert isinstance(outcome, OutcomeUnknown)
    assert rig.health.state == "degraded"
    assert "/" not in rig.health.reason

    rig.disk.done.clear()
    outcomes = rig.batch(add(inbox, 1), Do(boom, grows=False))
    assert [type(one) for one in outcomes] == [StorageDegraded] * 2
    assert rig.disk.done == [], "refused at once, without a statement"
    assert rig.see(lambda snapshot: snapshot.head(inbox.inbox_id)).latest_seq in (0, 1), "reads go on"

    rig.upkeep.tick()
    assert rig.health.state == "degraded", "not yet time for a probe"
    rig.seconds += PROBE_SECONDS
    rig.upkeep.tick()
    assert rig.health.state == "degraded", "the probe failed"
    rig.disk.heal()
    assert rig.upkeep.seconds_until_due() == PROBE_SECONDS
    rig.seconds += PROBE_SECONDS
    rig.upkeep.tick()
    assert (rig.health.state, rig.health.reason) == ("open", "")
    seq = rig.one(lambda tx: tx.head(inbox.inbox_id)).latest_seq + 1
    assert rig.one(add(inbox, seq)) == seq


def test_a_database_that_cannot_be_reopened_degrades_the_store(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.disk.fail("sync", "-wal", io_error)
    rig.disk.fail("open", ".db", lambda: apsw.CantOpenError("gone"), times=2)
    rig.batch(add(inbox, 1))
    assert rig.health.state == "degraded"
    rig.seconds += PROBE_SECONDS
    (refused,) = rig.batch(add(inbox, 1))
    assert isinstance(refused, StorageDegraded)
    rig.seconds += PROBE_SECONDS
    seq = rig.one(lambda tx: tx.head(inbox.inbox_id)).latest_seq + 1
    assert rig.health.state == "open", "a batch probes as well, when it is time"
    assert rig.one(add(inbox, seq)) == seq


def test_a_bug_of_the_writer_leaves_nobody_waiting_and_does_not_end_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = rig.inbox()

    def broken() -> None:
        raise RuntimeError("bug")

    with monkeypatch.context() as patch:
        patch.setattr(rig.upkeep, "after_commit", broken)
        outcomes = rig.batch(add(inbox, 1), add(inbox, 2))
    assert [type(one) for one in outcomes] == [OutcomeUnknown, OutcomeUnknown]
    assert rig.one(add(inbox, 3)) == 3


# -- the bounds of a batch ------------------------------------------------------------------------------------
def test_units_that_come_too_late_are_left_for_the_next_transaction(rig: Rig) -> None:
    inbox = rig.inbox()

    def slow(tx: Tx) -> int:
        rig.seconds += 0.03
        return add(inbox, 1)(tx)

    jobs = [Job(Do(slow)), Job(Do(add(inbox, 2))), Job(Do(add(inbox, 3)))]
    assert rig.writer.run_batch(jobs) == jobs[1:]
    assert [job.done for job in jobs] == [True, False, False]
    assert rig.stored() == [(inbox.inbox_id, 1)]


def test_a_cancelled_unit_does_not_run(rig: Rig) -> None:
    inbox = rig.inbox()
    job = Job(Do(add(inbox, 1)))
    job.cancelled = True
    assert rig.writer.run_batch([job]) == []
    assert rig.stored() == []


def test_a_batch_that_changed_nothing_is_not_synced(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.disk.done.clear()
    rig.one(lambda tx: tx.head(inbox.inbox_id))
    assert rig.disk.done == []
    rig.one(add(inbox, 1))
    assert ("sync", ".db-wal") in rig.disk.done
