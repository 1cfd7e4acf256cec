"""What the twin in memory has beyond the contract: hooks that a fuzz hangs on, and starts without a disk."""

import pytest
import trio
import trio.testing

from storage.errors import NotStored, OutcomeUnknown, StorageClosed, StorageFull
from storage.memory import MemoryStore
from storage.protocols import Unit
from tests.contract.builders import Do, See, append, create, entry, head, seqs, stage


async def test_units_run_in_the_order_of_their_commits() -> None:
    store = MemoryStore()
    ran: list[int] = []
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            opened = trio.Event()
            store.gate = opened.wait
            for n in range(20):
                nursery.start_soon(store.commit, Do(lambda tx, n=n: ran.append(n)))
                await trio.testing.wait_all_tasks_blocked()
            opened.set()
    assert ran == list(range(20))


async def test_a_commit_cancelled_at_the_gate_or_behind_it_stores_nothing() -> None:
    store = MemoryStore()
    inbox = await create(store)
    opened = trio.Event()
    store.gate = opened.wait
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            at_the_gate = await nursery.start(_append, store, inbox.inbox_id, 1)
            behind_it = await nursery.start(_append, store, inbox.inbox_id, 2)
            await nursery.start(_append, store, inbox.inbox_id, 1)
            await trio.testing.wait_all_tasks_blocked()
            behind_it.cancel()
            at_the_gate.cancel()
            opened.set()
    assert await seqs(store, inbox.inbox_id) == [1]


async def _append(
    store: MemoryStore, inbox_id: int, seq: int, task_status: trio.TaskStatus[trio.CancelScope]
) -> None:
    with trio.CancelScope() as scope:
        task_status.started(scope)
        await append(store, inbox_id, [entry(seq)])


@pytest.mark.parametrize("error", [StorageFull("full"), NotStored("no"), OutcomeUnknown("lost")])
async def test_a_fault_keeps_a_unit_from_running(error: Exception) -> None:
    store = MemoryStore()
    inbox = await create(store)

    def fault(unit: Unit[object]) -> None:
        if unit.grows:
            raise error

    store.fault = fault
    with pytest.raises(type(error)):
        await append(store, inbox.inbox_id, [entry(1)])
    assert await seqs(store, inbox.inbox_id) == []
    await store.commit(Do(lambda tx: tx.change_inbox(inbox.inbox_id, "n", inbox.settings), grows=False))
    store.fault = None
    await append(store, inbox.inbox_id, [entry(1)])
    assert await seqs(store, inbox.inbox_id) == [1]


async def test_an_answer_that_is_lost_leaves_the_unit_stored() -> None:
    store = MemoryStore()
    inbox = await create(store)

    async def lose() -> None:
        raise OutcomeUnknown("the answer was lost")

    store.acknowledge = lose
    with pytest.raises(OutcomeUnknown):
        await append(store, inbox.inbox_id, [entry(1)])
    assert await seqs(store, inbox.inbox_id) == [1]


async def test_a_caller_cancelled_while_the_answer_is_under_way_has_stored_and_others_go_on() -> None:
    store = MemoryStore()
    inbox = await create(store)
    never = trio.Event()
    store.acknowledge = never.wait
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            scope = await nursery.start(_append, store, inbox.inbox_id, 1)
            await trio.testing.wait_all_tasks_blocked()
            store.acknowledge = None
            await append(store, inbox.inbox_id, [entry(2)])
            scope.cancel()
    assert await seqs(store, inbox.inbox_id) == [1, 2]


async def test_closing_refuses_what_waits_and_what_comes() -> None:
    store = MemoryStore()
    inbox = await create(store)
    opened = trio.Event()
    store.gate = opened.wait
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_refused, store, inbox.inbox_id)
            await trio.testing.wait_all_tasks_blocked()
            store.close()
            opened.set()
    with pytest.raises(StorageClosed):
        await store.read(See(lambda snapshot: snapshot.head(inbox.inbox_id)))
    store.reopen()
    assert (await head(store, inbox.inbox_id)).latest_seq == 0


async def _refused(store: MemoryStore, inbox_id: int) -> None:
    with pytest.raises(StorageClosed):
        await append(store, inbox_id, [entry(1)])


def test_one_store_serves_several_runs_of_the_loop() -> None:
    store = MemoryStore()

    async def first() -> int:
        inbox = await create(store)
        await append(store, inbox.inbox_id, [entry(1)])
        store.gate = trio.sleep_forever
        with trio.CancelScope() as scope:  # a crash: the loop ends while a commit is under way
            scope.cancel()
            await append(store, inbox.inbox_id, [entry(2)])
        return inbox.inbox_id

    inbox_id = trio.run(first)
    store.gate = None
    store.reopen()
    assert trio.run(seqs, store, inbox_id) == [1]


async def test_the_clock_is_read_once_per_unit() -> None:
    ticks = iter(range(100, 200))
    store = MemoryStore(clock=lambda: next(ticks))
    assert await store.commit(Do(lambda tx: (tx.now(), tx.now()))) == (100, 100)
    assert await store.commit(Do(lambda tx: tx.now())) == 101


async def test_undoing_costs_what_the_unit_did() -> None:
    """A unit that fails beside 10,000 entries takes back its own change alone: none of the others is touched."""
    store = MemoryStore()
    inbox = await create(store)
    await append(store, inbox.inbox_id, [entry(seq) for seq in range(1, 10_001)])
    body_id = await store.commit(Do(lambda tx: stage(tx, [b"x"])))
    steps: list[int] = []

    def fail(tx) -> None:
        tx.erase(inbox.inbox_id, 5_000)
        tx.discard_body(body_id)
        steps.append(len(tx._journal))
        raise RuntimeError

    with pytest.raises(NotStored):
        await store.commit(Do(fail))
    assert steps[0] < 10
    assert len(await seqs(store, inbox.inbox_id, limit=20_000)) == 10_000
