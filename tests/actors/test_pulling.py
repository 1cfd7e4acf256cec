"""Pulls through the real actor, on both stores."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from actors.ask import InboxStopped
from actors.commands import AckEach, DeleteInbox, Deliver, Erase, Purge, Refusal
from storage.errors import InboxGone, StorageFull
from storage.mail_records import Delivered, ReaderRecord
from storage.memory import MemoryStore
from storage.protocols import Unit
from tests.actors.drafts import draft
from tests.actors.post import (
    CLOSED,
    OPEN,
    SCOPE,
    call,
    deliver,
    delivered,
    origins,
    publish,
    reader,
    record,
    seed,
    seqs,
    settled,
)
from tests.actors.world import World, running
from tests.contract.conftest import opens
from tests.pulls import CONVERSATIONS, MAX_BATCH, Conversation


@pytest.fixture(params=["memory", "sqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(opens(request.param, tmp_path)())
        yield await stack.enter_async_context(running(store, pull_max_batch=MAX_BATCH))


# -- the contract ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.name)
async def test_a_conversation_of_the_contract_goes_as_it_says(
    world: World, conversation: Conversation
) -> None:
    agent = await world.agent()
    await seed(world, agent, [(row.score, row.shown) for row in conversation.rows])
    if conversation.acked:
        outcome = await world.registry.ask(agent.inbox_id, AckEach(conversation.acked))
        assert (outcome.acked, outcome.cursor) == (conversation.acked, 0)
    for step in conversation.steps:
        pulled = await world.mail.pull(agent, call(**step.call))
        assert (seqs(pulled), pulled.cursor, pulled.window_high, pulled.has_more) == step[1:]


async def test_what_a_look_has_served_may_be_acknowledged_at_once_however_far_since_has_led(
    world: World,
) -> None:
    agent = await world.agent()
    await seed(world, agent, [(0.5, True)] * 12)
    for since in (None, 4, 8):
        await world.mail.pull(agent, call(since=since))
    pulled = await world.mail.pull(agent, call(ack=12))
    assert (pulled.cursor, seqs(pulled)) == (12, ())
    assert await reader(world, agent) == ReaderRecord(12, 12)


async def test_a_look_that_serves_nothing_new_writes_nothing(world: World) -> None:
    agent = await world.agent()
    await seed(world, agent, [(0.5, True)] * 2)
    await world.mail.pull(agent, call())
    await settled(world, agent)
    before = world.service.log.health.batch_units
    for _ in range(3):
        await world.mail.pull(agent, call())
    assert world.service.log.health.batch_units == before


async def test_a_note_of_what_was_served_survives_a_restart(tmp_path: Path) -> None:
    for kind in ("memory", "sqlite"):
        open_log = opens(kind, tmp_path / kind)
        async with open_log() as store, running(store, pull_max_batch=MAX_BATCH) as world:
            agent = await world.agent()
            await seed(world, agent, [(0.5, True)] * 8)
            await world.mail.pull(agent, call())
            await world.mail.pull(agent, call(since=4))
        async with open_log() as store, running(store, pull_max_batch=MAX_BATCH) as world:
            again = world.agents.get("a")
            assert again == agent
            assert (await world.mail.pull(agent, call(ack=8))).cursor == 8


async def test_an_inbox_that_is_gone_says_so(world: World) -> None:
    agent = await world.agent()
    await world.registry.ask(agent.inbox_id, DeleteInbox())
    for one in (call(), call(ack=1)):
        with pytest.raises(InboxGone):
            await world.mail.pull(agent, one)


# -- who sees what -----------------------------------------------------------------------------------------


async def test_a_row_is_seen_by_who_may_read_its_origin_at_that_moment(world: World) -> None:
    agent = await world.agent()
    made = await seed(world, agent, [(0.9, True), (0.8, False)])
    topic = await world.inbox("news", "topic")
    machine = await world.inbox("machine.m", "machine")
    for origin in (topic, machine):
        await deliver(world, agent, origin, score=0.1)
    for visible, expected in (
        (SCOPE, (1,)),
        (frozenset({CLOSED, "news"}), (2, 3)),
        (frozenset({"machine.m"}), (4,)),
        (frozenset[str](), ()),
        (None, (1, 2, 3)),
    ):
        for ack in (None, 0):
            pulled = await world.mail.pull(agent, call(visible=visible, ack=ack))
            assert (seqs(pulled), pulled.window_high) == (expected, 4)
    await world.service.delete_inbox(made[OPEN])
    await world.inbox(OPEN)
    assert seqs(await world.mail.pull(agent, call(visible=None))) == (2, 3), "another life of the slug"


async def test_own_mail_is_seen_whatever_the_scope_and_nobody_sees_that_of_others(world: World) -> None:
    agent, other = await world.agent("a"), await world.agent("b")
    own = msgspec.structs.replace(draft(), delivery=record(1.0, "direct"))
    mine = await publish(world, agent.inbox_id, own)
    foreign = await publish(world, other.inbox_id, msgspec.structs.replace(draft(), delivery=record(1.0)))
    assert mine < foreign
    await world.registry.ask(agent.inbox_id, Deliver((delivered(foreign, other.inbox_id),)))
    for visible in (frozenset({"agent.b"}), frozenset[str](), None):
        pulled = await world.mail.pull(agent, call(visible=visible))
        assert (seqs(pulled), pulled.window_high) == ((1,), 2)
        assert (pulled.rows[0].own, pulled.rows[0].delivery) == (True, record(1.0, "direct"))


async def test_expired_rows_are_passed_over_and_count(world: World) -> None:
    agent = await world.agent()
    made = await origins(world)
    for expires_at in (1, None, 2, 2**62):
        await deliver(world, agent, made[OPEN], expires_at=expires_at)
    pulled = await world.mail.pull(agent, call())
    assert (seqs(pulled), pulled.window_high) == ((2, 4), 4)
    pulled = await world.mail.pull(agent, call(since=2, ack=0, limit=1))
    assert (seqs(pulled), pulled.window_high, pulled.has_more) == ((), 3, True)


# -- acknowledging one by one ------------------------------------------------------------------------------


async def test_acknowledgements_by_id_tell_what_is_known_and_fold_into_the_cursor(world: World) -> None:
    agent = await world.agent()
    await seed(world, agent, [(0.5, True)] * 4)
    await world.registry.ask(agent.inbox_id, Erase(2))
    for asked, acked, already, unknown, cursor in (
        ((3, 3, 5, 0, 2, -1), (3,), (), (5, 0, 2, -1), 0),
        ((1, 3), (1,), (3,), (), 3),
        ((4,), (4,), (), (), 4),
        ((), (), (), (), 4),
    ):
        outcome = await world.registry.ask(agent.inbox_id, AckEach(asked))
        assert msgspec.structs.astuple(outcome) == (acked, already, unknown, cursor)
    assert await reader(world, agent) == ReaderRecord(4)


async def test_too_many_holes_are_a_conflict_and_change_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.rules.draining.MAX_RUNS", 1)
    agent = await world.agent()
    await seed(world, agent, [(0.5, True)] * 5)
    await world.registry.ask(agent.inbox_id, AckEach((3,)))
    with pytest.raises(Refusal, match="oldest one first, 1") as refused:
        await world.registry.ask(agent.inbox_id, AckEach((5,)))
    assert refused.value.code == "conflict"
    assert await reader(world, agent) == ReaderRecord(0, 0, 0, ((3, 3),))


async def test_the_cursor_folds_over_what_retention_took_as_soon_as_something_is_acknowledged(
    world: World,
) -> None:
    agent = await world.agent()
    made = await seed(world, agent, [(0.5, True)] * 3)
    await world.registry.ask(agent.inbox_id, Purge())
    pulled = await world.mail.pull(agent, call())
    assert (pulled.cursor, pulled.window_high, pulled.has_more) == (0, 0, False)
    await deliver(world, agent, made[OPEN])
    pulled = await world.mail.pull(agent, call(ack=0))
    assert (pulled.cursor, seqs(pulled)) == (3, (4,))


# -- the budget of a page ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ack", [None, 0], ids=["look", "turn"])
async def test_a_window_ends_before_the_row_that_would_not_fit_and_serves_one_at_least(
    world: World, ack: int | None
) -> None:
    agent = await world.agent()
    made = await origins(world)
    for origin, body in ((OPEN, 3_000), (CLOSED, 9_000), (OPEN, 3_000), (OPEN, 10)):
        one = draft(b"x" * body)
        await deliver(world, agent, made[origin], one=one, size=body, score=body / 10_000)
    for budget, expected, high in (
        (100, (1,), 2),
        (6_000, (1,), 2),
        (8_000, (1, 3, 4), 4),
    ):
        pulled = await world.mail.pull(agent, call(ack=ack, byte_budget=budget))
        assert (seqs(pulled), pulled.window_high, pulled.has_more) == (expected, high, high < 4)
    pulled = await world.mail.pull(agent, call(ack=2, byte_budget=100))
    assert (seqs(pulled), pulled.cursor, pulled.window_high) == ((3,), 2, 3)
    pulled = await world.mail.pull(agent, call(since=0, body_limit=10, byte_budget=3_000))
    assert (seqs(pulled), [row.body for row in pulled.rows]) == ((1, 3, 4), [None, None, b"x" * 10])


@pytest.mark.parametrize("ack", [None, 0], ids=["look", "turn"])
async def test_rows_that_may_not_fit_are_measured_as_they_will_be_sent(world: World, ack: int | None) -> None:
    world.mail.max_batch = 100
    agent = await world.agent()
    made = await origins(world)
    for _ in range(40):
        await deliver(world, agent, made[OPEN], one=draft(b"x" * 1_000), size=1_000)
    measured: list[int] = []

    def measure(row: Delivered) -> int:
        measured.append(row.seq)
        return 2_000

    pulled = await world.mail.pull(agent, call(ack=ack, byte_budget=20_000, measure=measure))
    assert (seqs(pulled), pulled.window_high, pulled.has_more) == (tuple(range(1, 11)), 10, True)
    assert measured == list(range(1, 12)), "not more than what is needed"
    measured.clear()
    pulled = await world.mail.pull(
        agent, call(ack=ack, byte_budget=100 * MAX_BATCH * 10_000, measure=measure)
    )
    assert (len(pulled.rows), measured) == (40, []), "what fits however it grows need not be measured"


# -- a full store --------------------------------------------------------------------------------------------


async def test_pulls_and_acknowledgements_run_on_a_full_store_and_deliveries_do_not() -> None:

    def full(unit: Unit[object]) -> None:
        if unit.grows:
            raise StorageFull("the disk is full")

    store = MemoryStore()
    async with running(store) as world:
        agent = await world.agent()
        made = await seed(world, agent, [(0.5, True)])
        mid = await publish(world, made[OPEN])
        store.fault = full
        with pytest.raises(StorageFull):
            await world.registry.ask(agent.inbox_id, Deliver((delivered(mid, made[OPEN]),)))
        pulled = await world.mail.pull(agent, call(ack=1))
        assert (pulled.cursor, seqs(pulled)) == (1, ())


async def test_a_stopping_server_still_answers_a_look() -> None:
    async with running() as world:
        agent = await world.agent()
        await seed(world, agent, [(0.5, True)])
        world.registry.close()
        assert seqs(await world.mail.pull(agent, call())) == (1,)
        with pytest.raises(InboxStopped):
            await world.mail.pull(agent, call(ack=1))
