"""The log as the router reads it: in order, in bounded slices, without what is private, and never behind its back."""

from storage.mail_records import Content, LogSlice, Routable
from storage.protocols import Lane, Log
from storage.records import BodyKind, Swept, Verdict
from tests.contract.builders import (
    START_US,
    Do,
    create,
    delete,
    drop_before,
    entry,
    erase,
    large_entry,
    seqs,
    stage,
    sweep,
    sweep_all,
)
from tests.contract.conftest import OpenLog
from tests.contract.mail import agent, deliver, delivery, put_all, see


async def slice_after(log: Log, after_mid: int, limit: int = 100) -> LogSlice:
    return await see(log, lambda snapshot: snapshot.routable(after_mid, limit))


async def slice_before(log: Log, before_mid: int, limit: int = 100) -> LogSlice:
    return await see(log, lambda snapshot: snapshot.routable_before(before_mid, limit))


def mids(found: LogSlice) -> list[int]:
    return [row.mid for row in found.rows]


# -- slices -------------------------------------------------------------------------------------------------
async def test_the_log_is_read_in_the_order_of_commits_without_private_messages(store: Log) -> None:
    hook, topic = await create(store, "hook"), await create(store, "topic", "topic")
    machine, reader = await create(store, "machine.m", "machine"), await agent(store)
    one = entry(1, event_type="push", verified=Verdict.FAILED, body=b"abc", expires_at=9)
    await put_all(store, hook.inbox_id, [one])  # 1
    await put_all(store, reader.inbox_id, [entry(1)])  # 2
    await put_all(store, topic.inbox_id, [entry(1), entry(2)])  # 3, 4
    await put_all(store, machine.inbox_id, [entry(1)])  # 5
    await put_all(store, hook.inbox_id, [entry(2)])  # 6
    found = await slice_after(store, 0)
    assert (mids(found), found.through, found.more) == ([1, 3, 4, 5, 6], 6, False)
    assert [(row.slug, row.kind, row.seq) for row in found.rows] == [
        ("hook", "webhook", 1),
        ("topic", "topic", 1),
        ("topic", "topic", 2),
        ("machine.m", "machine", 1),
        ("hook", "webhook", 2),
    ]
    assert found.rows[0] == Routable(
        1, one.id, hook.inbox_id, "hook", "webhook", 1, START_US + 1, "push", Verdict.FAILED, 3, 9
    )


async def test_a_slice_looks_at_so_many_messages_whatever_they_are(store: Log) -> None:
    hook, reader = await create(store), await agent(store)
    assert await slice_after(store, 0) == LogSlice([], 0, False)
    await put_all(store, reader.inbox_id, [entry(seq) for seq in (1, 2, 3)])
    await put_all(store, hook.inbox_id, [entry(1)])

    async def after(mid: int, limit: int) -> tuple[list[int], int, bool]:
        found = await slice_after(store, mid, limit)
        return mids(found), found.through, found.more

    assert await after(0, 2) == ([], 2, True)
    assert await after(2, 2) == ([4], 4, False)
    assert await after(0, 4) == ([4], 4, False)
    assert await after(4, 2) == ([], 4, False)
    assert await after(9, 2) == ([], 9, False)


async def test_the_log_is_read_backwards_from_a_message_on(store: Log) -> None:
    hook, reader = await create(store), await agent(store)
    await put_all(store, hook.inbox_id, [entry(seq) for seq in (1, 2, 3)])
    await put_all(store, reader.inbox_id, [entry(1)])
    found = await slice_before(store, 5, 2)
    assert (mids(found), found.through, found.more) == ([3], 3, True)
    found = await slice_before(store, found.through, 2)
    assert (mids(found), found.through, found.more) == ([2, 1], 1, True)
    assert await slice_before(store, found.through, 2) == LogSlice([], 1, False)


async def test_what_was_erased_or_swept_at_home_is_not_routed_and_what_was_dropped_still_is(
    store: Log,
) -> None:
    hook, other = await create(store), await create(store, "other")
    await put_all(store, hook.inbox_id, [entry(seq) for seq in range(1, 7)])  # 1 to 6
    await put_all(store, other.inbox_id, [entry(1)])  # 7
    await erase(store, hook.inbox_id, 5)
    await drop_before(store, hook.inbox_id, 4, rows=3)
    assert mids(await slice_after(store, 0)) == [1, 2, 3, 4, 6, 7]
    await sweep_all(store)
    assert mids(await slice_after(store, 0)) == [4, 6, 7]
    await delete(store, other.inbox_id)
    found = await slice_after(store, 0)
    assert (mids(found), found.through) == ([4, 6], 7)
    await sweep_all(store)
    found = await slice_after(store, 0)
    assert (mids(found), found.through, found.more) == ([4, 6], 7, False)


async def test_a_message_that_lives_on_elsewhere_is_not_routed_again(store: Log) -> None:
    hook, reader = await create(store), await agent(store)
    (mid,) = await put_all(store, hook.inbox_id, [entry(1)])
    await deliver(store, reader.inbox_id, [delivery(1, mid, hook.inbox_id)])
    assert mids(await slice_after(store, 0)) == [mid]
    await drop_before(store, hook.inbox_id, 2, rows=1)
    await sweep_all(store)
    assert mids(await slice_after(store, 0)) == []
    assert await seqs(store, reader.inbox_id) == [1]


# -- contents -----------------------------------------------------------------------------------------------
async def test_contents_are_what_is_matched_of_messages(store: Log) -> None:
    hook = await create(store)
    body_id = await store.commit(Do(lambda tx: stage(tx, [b"large b", b"ody"])))
    await put_all(
        store,
        hook.inbox_id,
        [
            entry(1, body=b"abcdef", facts=b"{}", said=b'{"s":1}', body_kind=BodyKind.JSON),
            large_entry(2, body_id, 10),
            entry(3, body=None),
        ],
    )

    async def contents(wanted: list[int], body_limit: int, budget: int = 1 << 20) -> list[Content]:
        return await see(store, lambda snapshot: snapshot.contents(wanted, body_limit, budget))

    found = await contents([3, 1, 2, 4_711, 1], 5)
    assert found[0] == Content(1, b"{}", b'{"s":1}', BodyKind.JSON, b"abcde", 6)
    assert [(one.mid, one.body_kind, one.body, one.size) for one in found] == [
        (1, BodyKind.JSON, b"abcde", 6),
        (2, BodyKind.LARGE, b"large", 10),
        (3, BodyKind.EMPTY, None, 0),
    ]
    assert [one.body for one in await contents([1, 2], 7)] == [b"abcdef", b"large b"]
    assert [one.body for one in await contents([1, 2], 0)] == [None, None]
    assert [one.mid for one in await contents([1, 2, 3], 100, budget=1)] == [1]
    assert [one.mid for one in await contents([1, 2, 3], 100, budget=15)] == [1, 2]
    assert await contents([], 5) == []


async def test_many_contents_are_read_at_once(store: Log) -> None:
    hook = await create(store)
    all_of = await put_all(store, hook.inbox_id, [entry(seq) for seq in range(1, 301)])
    found = await see(store, lambda snapshot: snapshot.contents(all_of, 100, 1 << 20))
    assert [(one.mid, one.body) for one in found] == [(n, b"body of %d" % n) for n in range(1, 301)]


# -- the cursor ---------------------------------------------------------------------------------------------
async def test_the_cursor_is_kept_and_never_moves_back(open_log: OpenLog) -> None:
    async with open_log() as log:
        hook = await create(log)
        await put_all(log, hook.inbox_id, [entry(seq) for seq in (1, 2, 3)])
        assert await see(log, lambda snapshot: snapshot.routed_mid()) == 0
        for mid in (2, 1):
            await log.commit(Do(lambda tx, mid=mid: tx.routed(mid)))
    async with open_log() as log:
        assert await see(log, lambda snapshot: (snapshot.routed_mid(), snapshot.last_mid())) == (2, 3)


async def sweep_routed(log: Log, routed_mid: int) -> Swept:
    """Store how far the router has come, then sweep what it needs no more."""
    await log.commit(Do(lambda tx: tx.routed(routed_mid)))
    unit = Do(lambda tx: tx.sweep(100, 1 << 30, routed_only=True), Lane.HOUSEKEEPING, grows=False)
    return await log.commit(unit)


async def test_the_sweep_leaves_what_is_not_yet_routed_and_goes_on_with_the_rest(store: Log) -> None:
    hook, gone, other = [await create(store, slug) for slug in ("hook", "gone", "other")]
    await put_all(store, other.inbox_id, [entry(1)])  # 1
    await put_all(store, hook.inbox_id, [entry(seq) for seq in range(1, 6)])  # 2 to 6
    await put_all(store, gone.inbox_id, [entry(1)])  # 7
    await drop_before(store, hook.inbox_id, 6, rows=5)
    await delete(store, gone.inbox_id)
    await drop_before(store, other.inbox_id, 2, rows=1)
    swept = await sweep_routed(store, 3)
    assert (swept.rows, swept.more) == (3, False), "what waits for the router is no work left to do"
    assert await sweep_routed(store, 3) == Swept(0, 0, False)
    assert mids(await slice_after(store, 0)) == [4, 5, 6]
    assert (await sweep_routed(store, 6)).rows == 3
    assert (await sweep_routed(store, 7)).rows == 1
    assert mids(await slice_after(store, 0)) == []
    assert await sweep(store) == Swept(0, 0, False)


async def test_what_was_delivered_is_remembered_until_the_router_cannot_come_back_to_it(store: Log) -> None:
    hook, reader = await create(store), await agent(store)
    (mid,) = await put_all(store, hook.inbox_id, [entry(1)])
    await deliver(store, reader.inbox_id, [delivery(1, mid, hook.inbox_id)])
    await drop_before(store, reader.inbox_id, 2, rows=1)

    async def undelivered() -> set[int]:
        return await store.commit(Do(lambda tx: tx.undelivered(reader.inbox_id, [mid])))

    assert (await sweep_routed(store, 0)).rows == 0
    assert await seqs(store, reader.inbox_id) == []
    assert await undelivered() == set()
    assert (await sweep_routed(store, mid)).rows == 1
    assert await undelivered() == {mid}
