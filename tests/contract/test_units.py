"""A unit is all or nothing, its errors reach its caller, and the next one goes on."""

import time

import pytest
import trio
import trio.testing

from storage.errors import (
    BodyGone,
    Fenced,
    InboxGone,
    NotStored,
    SlugTaken,
    StorageClosed,
    StorageError,
    UnitFailed,
)
from storage.protocols import Lane, Log, Tx
from storage.records import Head, Seen
from tests.contract.builders import (
    START_US,
    Do,
    See,
    append,
    create,
    drop_before,
    entry,
    erase,
    fill,
    head,
    head_after,
    head_without,
    new_inbox,
    page,
    put,
    secret,
    seqs,
    stage,
    sweep,
)
from tests.contract.conftest import OpenLog


class Broken(Exception):
    """What a unit of these tests raises by mistake."""


async def test_a_unit_returns_its_own_result(store: Log) -> None:
    result = object()
    assert await store.commit(Do(lambda tx: result)) is result
    assert await store.read(See(lambda snapshot: result)) is result


@pytest.mark.parametrize("lane", list(Lane))
@pytest.mark.parametrize("grows", [True, False])
async def test_units_of_every_lane_are_run(store: Log, lane: Lane, grows: bool) -> None:
    assert await store.commit(Do(lambda tx: 7, lane, grows=grows)) == 7


async def test_the_clock_stands_still_within_a_unit(store: Log) -> None:
    before = time.time_ns() // 1_000
    first, second = await store.commit(Do(lambda tx: (tx.now(), tx.now())))
    assert first == second
    assert abs(first - before) < 60_000_000


async def test_a_unit_that_raises_leaves_nothing_and_the_next_goes_on(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 1)

    def half(tx: Tx) -> None:
        put(tx, inbox.inbox_id, [entry(2)])
        raise Broken

    with pytest.raises(UnitFailed) as caught:
        await store.commit(Do(half))
    assert isinstance(caught.value.__cause__, Broken)
    assert (await head(store, inbox.inbox_id)).latest_seq == 1
    await append(store, inbox.inbox_id, [entry(2, body=b"second")])
    rows = (await page(store, inbox.inbox_id, body_limit=100)).rows
    assert [row.body for row in rows] == [b"body of 1", b"second"]


async def test_everything_that_a_failed_unit_did_is_taken_back(store: Log) -> None:
    """One unit does one of each; after it failed nothing of the store may have changed."""
    inbox = await create(store, secrets=(secret("old"),))
    gone = await create(store, "gone")
    await fill(store, inbox.inbox_id, 4)
    await fill(store, gone.inbox_id, 2)
    await store.commit(Do(lambda tx: tx.remember(inbox.inbox_id, [(b"k", Seen(1, b"i" * 16, START_US))])))
    staged = await store.commit(Do(lambda tx: stage(tx, [b"one"])))
    new_body: list[int] = []

    def everything(tx: Tx) -> None:
        id = inbox.inbox_id
        put(tx, id, [entry(5)])
        assert tx.erase(id, 2) is not None
        head = tx.head(id)
        tx.drop_before(id, 2)
        tx.advance(id, head, head_without(head, 2, 0, first_seq=2))
        tx.remember(id, [(b"k", Seen(5, b"j" * 16, START_US + 5)), (b"l", Seen(5, b"j" * 16, START_US))])
        tx.change_inbox(id, "new name", inbox.settings)
        tx.put_secret(id, secret("new"))
        assert tx.drop_secret(id, "old")
        tx.create_inbox(new_inbox("another"))
        tx.delete_inbox(gone.inbox_id)
        tx.create_inbox(new_inbox("gone"))
        tx.put_chunk(staged, 1, b"two")
        tx.discard_body(staged)
        new_body.append(stage(tx, [b"three"]))
        tx.sweep(100, 1 << 20)
        tx.forget_seen(START_US + 100, 100)
        raise Broken

    def state(snapshot):
        listing = snapshot.inbox_by_slug("demo")
        return (
            listing.head,
            listing.record.name,
            [one.name for one in listing.record.secrets],
            [one.record.slug for one in snapshot.inboxes(None, "", 100)],
            snapshot.inbox_by_slug("gone").record.inbox_id,
        )

    before = await store.read(See(state))
    rows = [(await page(store, id, body_limit=100)).rows for id in (inbox.inbox_id, gone.inbox_id)]
    with pytest.raises(UnitFailed):
        await store.commit(Do(everything))
    assert await store.read(See(state)) == before
    assert [(await page(store, id, body_limit=100)).rows for id in (inbox.inbox_id, gone.inbox_id)] == rows
    seen = await store.commit(Do(lambda tx: tx.seen(inbox.inbox_id, [b"k", b"l"])))
    assert seen == {b"k": Seen(1, b"i" * 16, START_US)}
    await store.commit(Do(lambda tx: tx.put_chunk(staged, 1, b"TWO")))
    with pytest.raises(NotStored):
        await store.commit(Do(lambda tx: tx.put_chunk(new_body[0], 1, b"four")))
    assert (await sweep(store)).rows == 0


@pytest.mark.parametrize(
    "error", [Fenced("f"), InboxGone("g"), SlugTaken("s"), NotStored("n"), BodyGone("b")]
)
async def test_errors_that_have_a_meaning_reach_the_caller_as_they_are(store: Log, error: Exception) -> None:
    inbox = await create(store)

    def fail(tx: Tx) -> None:
        put(tx, inbox.inbox_id, [entry(1)])
        raise error

    with pytest.raises(type(error)) as caught:
        await store.commit(Do(fail))
    assert caught.value is error
    assert await seqs(store, inbox.inbox_id) == []


async def test_units_that_wait_together_fail_alone(store: Log) -> None:
    """Thirty units at once, every third of which raises after having written."""
    inboxes = [await create(store, f"inbox-{n}") for n in range(30)]
    failed: list[int] = []

    async def one(n: int) -> None:
        def run(tx: Tx) -> None:
            put(tx, inboxes[n].inbox_id, [entry(1), entry(2)])
            if n % 3 == 0:
                raise Broken

        try:
            await store.commit(Do(run))
        except UnitFailed:
            failed.append(n)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for n in range(30):
                nursery.start_soon(one, n)
    assert sorted(failed) == list(range(0, 30, 3))
    for n, inbox in enumerate(inboxes):
        assert await seqs(store, inbox.inbox_id) == ([] if n % 3 == 0 else [1, 2])


async def test_a_look_raises_its_own_error(store: Log) -> None:
    def look(snapshot):
        raise Broken

    with pytest.raises(Broken):
        await store.read(See(look))
    assert await store.read(See(lambda snapshot: snapshot.inboxes(None, "", 10))) == []


async def test_a_head_that_is_not_the_believed_one_fences_the_unit(store: Log) -> None:
    inbox = await create(store)
    stale = await head(store, inbox.inbox_id)
    await fill(store, inbox.inbox_id, 1)

    def late(tx: Tx) -> None:
        tx.append(inbox.inbox_id, stale.epoch, [entry(2)])
        tx.advance(inbox.inbox_id, stale, head_after(stale, [entry(2)]))

    with pytest.raises(Fenced):
        await store.commit(Do(late))
    assert await seqs(store, inbox.inbox_id) == [1]
    assert (await head(store, inbox.inbox_id)).latest_seq == 1


async def test_a_head_of_another_epoch_fences_the_unit(store: Log) -> None:
    inbox = await create(store)
    true = await head(store, inbox.inbox_id)
    other = Head(epoch="0" * 16)
    with pytest.raises(Fenced):
        await store.commit(Do(lambda tx: tx.advance(inbox.inbox_id, other, Head("0" * 16, latest_seq=1))))
    assert await head(store, inbox.inbox_id) == true


async def test_counters_alone_do_not_fence(store: Log) -> None:
    """The comparison is on epoch and latest_seq: what else the actor believes may lag."""
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 3)
    believed = await head(store, inbox.inbox_id)
    await erase(store, inbox.inbox_id, 2)
    to = head_without(await head(store, inbox.inbox_id), 0, 0)
    await store.commit(Do(lambda tx: tx.advance(inbox.inbox_id, believed, to)))
    assert await head(store, inbox.inbox_id) == to


async def test_a_caller_that_is_cancelled_before_it_starts_stores_nothing(store: Log) -> None:
    inbox = await create(store)
    with trio.CancelScope() as scope:
        scope.cancel()
        await append(store, inbox.inbox_id, [entry(1)])
    assert scope.cancelled_caught
    assert await seqs(store, inbox.inbox_id) == []
    await append(store, inbox.inbox_id, [entry(1)])


async def test_a_cancelled_commit_is_there_whole_or_not_at_all(store: Log) -> None:
    """Cancelled at any moment between asking and being answered, a unit is whole, and none comes late."""
    inboxes = [await create(store, f"inbox-{n}") for n in range(40)]
    answered: set[int] = set()

    async def one(n: int, scope: trio.CancelScope) -> None:
        with scope:
            await append(store, inboxes[n].inbox_id, [entry(1), entry(2)])
            answered.add(n)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for n, _ in enumerate(inboxes):
                scope = trio.CancelScope()
                nursery.start_soon(one, n, scope)
                for _ in range(n % 4):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        await store.commit(Do(lambda tx: None, Lane.HOUSEKEEPING))  # a barrier: nothing is left in the queue
        found = [await seqs(store, inbox.inbox_id) for inbox in inboxes]
        assert all(one in ([], [1, 2]) for one in found)
        assert all(found[n] == [1, 2] for n in answered)
        await store.commit(Do(lambda tx: None, Lane.HOUSEKEEPING))
        assert [await seqs(store, inbox.inbox_id) for inbox in inboxes] == found


async def test_a_cancelled_read_harms_nobody(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 2)
    with trio.fail_after(5):
        for passes in range(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(page, store, inbox.inbox_id)
                for _ in range(passes % 4):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        assert await seqs(store, inbox.inbox_id) == [1, 2]


async def test_commit_and_read_are_checkpoints(store: Log) -> None:
    with trio.testing.assert_checkpoints():
        await store.commit(Do(lambda tx: None))
    with trio.testing.assert_checkpoints():
        await store.read(See(lambda snapshot: None))


async def test_an_open_store_is_healthy_and_counts_its_commits(store: Log) -> None:
    assert (store.health.state, store.health.reason) == ("open", "")
    before = store.health.commits
    await create(store)
    assert store.health.commits > before
    assert store.health.wal_bytes >= 0


async def test_a_closed_store_refuses_units_and_looks(open_log: OpenLog) -> None:
    async with open_log() as log:
        await create(log)
    assert log.health.state == "closed"
    with trio.fail_after(5), pytest.raises(StorageClosed):
        await create(log, "late")
    with trio.fail_after(5), pytest.raises(StorageError):
        await log.read(See(lambda snapshot: snapshot.tokens()))


async def test_what_was_committed_is_there_after_the_next_start(open_log: OpenLog) -> None:
    async with open_log() as log:
        inbox = await create(log, secrets=(secret("s", b"the key"),))
        await fill(log, inbox.inbox_id, 5)
        await erase(log, inbox.inbox_id, 4)
        await drop_before(log, inbox.inbox_id, 3, rows=2)
        before = await head(log, inbox.inbox_id)
    async with open_log() as log:
        listing = await log.read(See(lambda snapshot: snapshot.inbox_by_slug("demo")))
        assert listing.head == before
        assert (listing.record.inbox_id, listing.record.created_at) == (inbox.inbox_id, inbox.created_at)
        assert listing.record.secrets[0].value.matches(b"the key")
        assert await seqs(log, inbox.inbox_id) == [3, 5]
        await append(log, inbox.inbox_id, [entry(6)])
        assert await seqs(log, inbox.inbox_id) == [3, 5, 6]
