"""Private inboxes as they grow: waits for something to pull, what follows a seq or a moment, reads by contract 1."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from actors import pulling
from actors.commands import AckEach, Append, Deliver
from actors.feed import next_page
from actors.pulling import Sight
from actors.watchers import Watcher
from storage.records import PageQuery
from tests.actors.drafts import draft
from tests.actors.post import (
    CLOSED,
    MIB,
    OPEN,
    SCOPE,
    call,
    deliver,
    delivered,
    origins,
    publish,
    record,
    seed,
    seqs,
    settled,
)
from tests.actors.world import World, running
from tests.contract.conftest import opens

SIGHT = Sight(100, SCOPE, 16_384, MIB)


@pytest.fixture(params=["memory", "sqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(opens(request.param, tmp_path)())
        yield await stack.enter_async_context(running(store, pull_max_batch=4))


# -- waits ---------------------------------------------------------------------------------------------------


async def test_a_wait_sleeps_until_something_visible_is_delivered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as world:
        agent = await world.agent()
        made = await origins(world)
        watcher = Watcher()

        answers = []

        async def wait() -> None:
            answers.append(await world.mail.wait(agent, call(), watcher, 30))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await deliver(world, agent, made[CLOSED])
            await trio.testing.wait_all_tasks_blocked()
            assert (answers, watcher.parked) == ([], True)
            await deliver(world, agent, made[OPEN])
        assert (seqs(answers[0]), answers[0].window_high) == ((2,), 2)
        assert trio.current_time() < 1


async def test_a_wait_acknowledges_at_once_and_then_only_looks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as world:
        agent = await world.agent()
        made = await seed(world, agent, [(0.5, True)])
        answers = []

        async def wait() -> None:
            answers.append(await world.mail.wait(agent, call(ack=1), Watcher(), 30))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert (await world.mail.pull(agent, call())).cursor == 1
            await deliver(world, agent, made[OPEN])
        assert (answers[0].cursor, seqs(answers[0])) == (1, (2,))


async def test_a_wait_ends_in_time_when_its_token_changes_and_when_the_window_hides_all_and_more_follows(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running(pull_max_batch=2) as world:
        agent = await world.agent()
        made = await seed(world, agent, [(0.5, False)] * 2)
        began = trio.current_time()
        pulled = await world.mail.wait(agent, call(), Watcher(), 7)
        assert (seqs(pulled), pulled.window_high, trio.current_time() - began) == ((), 2, pytest.approx(7))
        watcher = Watcher()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.mail.wait, agent, call(), watcher, 1_000)
            await trio.testing.wait_all_tasks_blocked()
            watcher.rescope()
        await deliver(world, agent, made[OPEN])
        pulled = await world.mail.wait(agent, call(), Watcher(), 1_000)
        assert (seqs(pulled), pulled.window_high, pulled.has_more) == ((), 2, True)
        assert trio.current_time() - began < 60
        with pytest.raises(RuntimeError, match="stop here"):
            await world.mail.wait(agent, call(measure=_stop, since=2, byte_budget=1), Watcher(), 5)
        assert not world.registry.live(agent.inbox_id).watchers, "whoever leaves is taken out"


def _stop(row: object) -> int:
    raise RuntimeError("stop here")


# -- after a seq, after a moment ------------------------------------------------------------------------------


async def test_what_follows_a_seq_is_given_in_order_acknowledged_or_not(world: World) -> None:
    agent = await world.agent()
    await seed(world, agent, [(0.1, True), (0.9, True), (0.5, False), (0.7, True)])
    await world.registry.ask(agent.inbox_id, AckEach((2,)))
    for after, limit, expected, through, more in (
        (0, 100, [1, 2, 4], 4, False),
        (0, 2, [1, 2], 2, True),
        (2, 1, [4], 4, False),
        (4, 5, [], 4, False),
        (9, 5, [], 9, False),
    ):
        span = await world.mail.follow(agent, after, msgspec.structs.replace(SIGHT, limit=limit))
        assert ([row.seq for row in span.rows], span.through, span.more) == (expected, through, more)
        assert span.head.latest_seq == 4


async def test_a_span_that_does_not_fit_ends_with_the_last_row_that_does(world: World) -> None:
    agent = await world.agent()
    made = await origins(world)
    for slug in (OPEN, CLOSED, OPEN):
        await deliver(world, agent, made[slug], one=draft(b"x" * 2_000), size=2_000)
    span = await world.mail.follow(agent, 0, msgspec.structs.replace(SIGHT, byte_budget=3_000))
    assert ([row.seq for row in span.rows], span.through, span.more) == ([1], 1, True)


async def test_a_replay_goes_on_by_time_without_skipping_or_repeating(world: World) -> None:
    agent = await world.agent()
    await seed(world, agent, [(0.5, True), (0.5, False), (0.5, True), (0.5, True)])
    seen, last = [], 0
    for more in (True, True, False, False):
        replay = await world.mail.since(agent, last, 1, SCOPE, 16_384, MIB)
        assert replay.truncated is more
        assert replay.last_us == (replay.rows[-1].delivered_at if replay.rows else last)
        seen += [row.seq for row in replay.rows]
        last = replay.last_us
    assert seen == [1, 3, 4]
    replay = await world.mail.since(agent, last - 1, 100, SCOPE, 16_384, MIB)
    assert [row.seq for row in replay.rows] == [4]


async def test_a_replay_passes_many_hidden_rows_in_bounded_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "SCAN_ROWS", 4)
    monkeypatch.setattr(pulling, "SCAN_WINDOW", 2)
    agent = await world.agent()
    await seed(world, agent, [(0.5, False)] * 9 + [(0.5, True)])
    found, last, steps = [], 0, 0
    while not found:
        replay = await world.mail.since(agent, last, 1, SCOPE, 16_384, MIB)
        assert replay.last_us > last, "it goes on"
        found, last, steps = replay.rows, replay.last_us, steps + 1
    assert ([row.seq for row in found], steps) == ([10], 3)
    assert not replay.truncated


# -- contract 1 ------------------------------------------------------------------------------------------------


async def test_a_private_inbox_is_read_in_pages_as_any_other(world: World) -> None:
    """Messages that are at home there, and deliveries between them, from the store and from the tail."""
    agent = await world.agent()
    made = await origins(world)
    await publish(world, agent.inbox_id, draft(b"1"))
    await deliver(world, agent, made[OPEN], one=draft(b"2"), size=1)
    await publish(world, agent.inbox_id, draft(b"3"))
    live = world.registry.running_live(agent.inbox_id)
    assert live is not None
    assert not live.tail.covers(1)
    assert live.tail.covers(2)
    for after, expected in ((0, [b"1", b"2", b"3"]), (1, [b"2", b"3"]), (2, [b"3"]), (3, [])):
        page, _ = await world.service.page(PageQuery(agent.inbox_id, 10, after=after, body_limit=100))
        assert ([row.body for row in page.rows], page.head.latest_seq) == (expected, 3)
    page, _ = await world.service.page(PageQuery(agent.inbox_id, 10, body_limit=100))
    assert [row.seq for row in page.rows] == [3, 2, 1]


async def test_a_delivery_wakes_whoever_waits_for_its_type(autojump_clock: trio.testing.MockClock) -> None:
    async with running() as world:
        agent = await world.agent()
        made = await origins(world)
        one = msgspec.structs.replace(draft(b"hello"), event_type="push")
        await deliver(world, agent, made[OPEN], one=one, size=5, event_type="push")
        watcher, other = Watcher({"push"}), Watcher({"ping"})
        found = []

        async def wait() -> None:
            with world.service.feed(agent.inbox_id, watcher) as feed:
                query = PageQuery(agent.inbox_id, 10, after=1, types=("push",), body_limit=100)
                page, _ = await next_page(feed, query, 30, lambda head: None)
                found.extend(row.seq for row in page.rows)

        async with trio.open_nursery() as nursery:
            with world.mail.feed(agent, other) as feed:
                feed.attach()
                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
                other.rearm()
                mids = [await publish(world, made[OPEN]) for _ in range(2)]
                both = (
                    delivered(mids[0], made[OPEN], event_type=""),
                    delivered(mids[1], made[OPEN], event_type="push"),
                )
                await world.registry.ask(agent.inbox_id, Deliver(both))
                await trio.testing.wait_all_tasks_blocked()
                assert not other._flag
        assert found == [3]


async def test_appends_and_deliveries_of_one_turn_are_numbered_in_the_order_of_the_mailbox() -> None:
    store_gate = trio.Event()

    async def hold() -> None:
        await store_gate.wait()

    async with running() as world:
        agent = await world.agent()
        made = await origins(world)
        mids = [await publish(world, made[OPEN]) for _ in range(3)]
        await settled(world, agent)
        store = world.store
        store.gate = hold  # type: ignore[attr-defined]  # the store in memory
        outcomes: dict[int, Any] = {}

        async def ask(place: int, command: Append | Deliver) -> None:
            outcomes[place] = await world.registry.ask(agent.inbox_id, command)

        async with trio.open_nursery() as nursery:
            own = msgspec.structs.replace(draft(), delivery=record(1.0, "direct"))
            for place, command in enumerate(
                (
                    Append(own),
                    Deliver(tuple(delivered(mid, made[OPEN]) for mid in mids[:2])),
                    Append(draft()),
                    Deliver(tuple(delivered(mid, made[OPEN]) for mid in (*mids, mids[2], 10**9))),
                )
            ):
                nursery.start_soon(ask, place, command)
                await trio.testing.wait_all_tasks_blocked()
            store_gate.set()
        assert outcomes[0].seq == 1
        assert outcomes[1] == (2, 3)
        assert outcomes[2].seq == 4
        assert outcomes[3] == (None, None, 5, None, None)
        page, _ = await world.service.page(PageQuery(agent.inbox_id, 10, after=0))
        assert [row.seq for row in page.rows] == [1, 2, 3, 4, 5]
