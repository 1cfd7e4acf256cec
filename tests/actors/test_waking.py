"""Waking: who is called when mail comes, how often, and when no more; on virtual time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from actors.mesh import WakeWish
from actors.rules.wakes import DEBOUNCE_SECONDS, OPEN_SECONDS, RETRY_SECONDS
from actors.waking import WakeCall
from storage.errors import OutcomeUnknown, ReadersBusy, StorageFull
from storage.mail_records import AgentRecord
from storage.memory import MemoryStore
from storage.secret import SecretBytes
from tests.actors.meeting import ack, arrive, ids, peek, plain, read, send
from tests.actors.routing import routed
from tests.actors.world import World, running
from tests.virtual import pass_time

WISH = WakeWish("http://here/", SecretBytes(b"secret"))
SOON = DEBOUNCE_SECONDS + 0.1


@asynccontextmanager
async def meeting(
    store: MemoryStore | None = None,
) -> AsyncIterator[tuple[World, AgentRecord, AgentRecord]]:
    """Run a world with two agents, the second of which wants to be called."""
    async with running(store, waking=True, routing=True) as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await arrive(world, ben, wake=WISH)
        yield world, ada, ben


async def test_mail_makes_one_call_a_little_later_however_much_it_is(autojump_clock: MockClock) -> None:
    async with meeting() as (world, ada, _):
        for number in range(100):
            await send(world, ada, str(number), to_agent="ben")
        await pass_time(DEBOUNCE_SECONDS - 0.1)
        assert world.calls == []
        await pass_time(0.2)
        (call,) = world.calls
        assert (call.agent_id, call.url, call.unread) == ("ben", "http://here/", 100)
        assert call.secret is not None
        assert call.secret.reveal() == b"secret"
        assert len(call.wake_token) >= 20
        await pass_time(2 * OPEN_SECONDS)
        assert world.calls == [call], "it was called, and nothing has come since"


async def test_a_broadcast_wakes_like_a_message_of_one_s_own(autojump_clock: MockClock) -> None:
    async with meeting() as (world, ada, _):
        await send(world, ada, "to all")
        await routed(world)
        await pass_time(SOON)
        assert [call.unread for call in world.calls] == [1]


async def test_nobody_is_called_who_has_acknowledged_everything_by_then(autojump_clock: MockClock) -> None:
    async with meeting() as (world, ada, ben):
        await send(world, ada, to_agent="ben")
        await plain(world, ben)
        await ack(world, ben, await ids(world, ben))
        await pass_time(SOON)
        assert world.calls == []
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        assert len(world.calls) == 1


async def test_nobody_is_called_who_has_no_place_or_has_left(autojump_clock: MockClock) -> None:
    async with meeting() as (world, ada, ben):
        await send(world, ben, to_agent="ada", require_alive=False)
        await send(world, ada, to_agent="ben")
        await world.mesh.check_out(ben)
        await pass_time(SOON)
        await arrive(world, ben)
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        await arrive(world, ben, wake=WISH)
        await world.mail.delete_agent("ben")
        await pass_time(SOON)
        assert world.calls == []


async def test_one_call_is_open_until_the_agent_comes_with_its_token(autojump_clock: MockClock) -> None:
    async with meeting() as (world, ada, ben):
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        await send(world, ada, to_agent="ben")
        for token in ("", "another"):
            world.mesh.spend(ben, token)
        await pass_time(SOON)
        assert len(world.calls) == 1
        world.mesh.spend(ben, world.calls[0].wake_token)
        assert (await read(world, ben)).unread == 2
        await pass_time(SOON)
        assert len(world.calls) == 1, "it has come, and sees what is there"
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        first, second = world.calls
        assert first.wake_token != second.wake_token
        world.mesh.spend(ben, first.wake_token)
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        assert len(world.calls) == 2, "a spent token ends nothing"


async def test_an_agent_that_does_not_come_is_called_again_for_what_came_meanwhile(
    autojump_clock: MockClock,
) -> None:
    async with meeting() as (world, ada, _):
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        await send(world, ada, to_agent="ben")
        await pass_time(OPEN_SECONDS)
        assert [call.unread for call in world.calls] == [1, 2]


async def test_a_call_that_fails_is_made_again_and_a_success_forgives(autojump_clock: MockClock) -> None:
    async with meeting() as (world, ada, ben):
        world.answers = [False, False, True, False]
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        assert len(world.calls) == 1
        await pass_time(RETRY_SECONDS[0])
        assert len(world.calls) == 2
        assert failures(world, ben) == 2
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        assert len(world.calls) == 3, "new mail does not wait for the next try"
        assert failures(world, ben) == 0
        world.mesh.spend(ben, world.calls[-1].wake_token)
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        assert failures(world, ben) == 1
        assert len({call.wake_token for call in world.calls}) == 4


def failures(world: World, agent: AgentRecord) -> int:
    """Return how many calls have failed in a row."""
    target = world.mesh.presences.target(agent)
    assert target is not None
    return target.failures


async def test_after_three_failures_nobody_is_called_any_more_and_the_agent_finds_out(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    async with meeting(store) as (world, ada, ben):
        world.answers = [False] * 10
        await send(world, ada, to_agent="ben")
        await pass_time(sum(RETRY_SECONDS) + SOON)
        assert len(world.calls) == 3
        found = (await read(world, ben, peek=True)).rows
        assert [row.event_type for row in found] == ["note", "system"]
        await send(world, ada, to_agent="ben")
        await pass_time(10 * OPEN_SECONDS)
        assert len(world.calls) == 3
    store.reopen()
    async with running(store, waking=True) as world:
        ada, ben = world.agents.all()
        await send(world, ada, to_agent="ben", require_alive=False)
        await pass_time(10 * OPEN_SECONDS)
        assert world.calls == []
        await arrive(world, ben, wake=WISH)
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        assert len(world.calls) == 1, "a check-in begins anew"


async def test_a_place_that_was_replaced_meanwhile_is_not_charged_with_the_old_one_s_failure(
    autojump_clock: MockClock,
) -> None:
    async with meeting() as (world, ada, ben):
        going, answered = trio.Event(), trio.Event()

        async def slow(call: WakeCall) -> bool:
            going.set()
            await answered.wait()
            return False

        world.mesh.wakes._post = slow
        await send(world, ada, to_agent="ben")
        await going.wait()
        await arrive(world, ben, wake=WakeWish("http://here/other"))
        answered.set()
        await pass_time(0.1)
        assert failures(world, ben) == 0


async def test_a_slow_place_keeps_nobody_else_from_being_called(autojump_clock: MockClock) -> None:
    async with meeting() as (world, ada, _):
        cleo = await world.agent("cleo", "m")
        await arrive(world, cleo, wake=WISH)
        called: list[str] = []

        async def slow(call: WakeCall) -> bool:
            called.append(call.agent_id)
            await trio.sleep_forever()
            return True

        world.mesh.wakes._post = slow
        await send(world, ada)
        await routed(world)
        await pass_time(SOON)
        assert sorted(called) == ["ben", "cleo"]


async def test_an_agent_that_comes_while_its_call_is_still_under_way_was_reached(
    autojump_clock: MockClock,
) -> None:
    async with meeting() as (world, ada, ben):

        async def handled_in_the_request(call: WakeCall) -> bool:
            world.mesh.spend(ben, call.wake_token)
            await pass_time(5)
            return False

        world.mesh.wakes._post = handled_in_the_request
        await send(world, ada, to_agent="ben")
        await pass_time(2 * SOON)
        assert failures(world, ben) == 0


async def test_what_is_unread_is_counted_later_when_the_store_cannot_say(autojump_clock: MockClock) -> None:
    async with meeting() as (world, ada, _):
        count = world.mesh.wakes._unread

        async def busy(agent: AgentRecord) -> int:
            world.mesh.wakes._unread = count
            raise ReadersBusy("busy")

        world.mesh.wakes._unread = busy
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        assert world.calls == []
        await pass_time(RETRY_SECONDS[0])
        assert len(world.calls) == 1


async def test_a_defect_in_calling_is_a_failure_and_ends_nothing(autojump_clock: MockClock) -> None:
    async with meeting() as (world, ada, ben):

        async def broken(call: WakeCall) -> bool:
            raise ValueError("a defect")

        world.mesh.wakes._post = broken
        await send(world, ada, to_agent="ben")
        await pass_time(SOON)
        assert failures(world, ben) == 1


async def test_a_store_that_cannot_write_just_now_is_tried_again(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with meeting(store) as (world, ada, ben):
        world.answers = [False]
        await send(world, ada, to_agent="ben")

        def full(unit: object) -> None:
            raise StorageFull("full")

        store.fault = full
        await pass_time(SOON)
        store.fault = None
        assert len(world.calls) == 1
        await pass_time(RETRY_SECONDS[0])
        assert len(world.calls) == 2
        assert await peek(world, ben) == ["hello"]


async def test_mail_of_which_nobody_knows_whether_it_was_stored_is_called_for_if_it_was(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    async with meeting(store) as (world, ada, _):

        async def unknown() -> None:
            raise OutcomeUnknown("nobody knows")

        store.acknowledge = unknown
        with pytest.raises(OutcomeUnknown):
            await send(world, ada, to_agent="ben")
        store.acknowledge = None
        await pass_time(SOON)
        assert len(world.calls) == 1


async def test_after_a_start_whoever_has_unread_mail_is_called_once(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with running(store) as world:
        ada, ben, cleo = await world.machine("m", ("ada", "ben", "cleo"))
        for agent in (ben, cleo):
            await arrive(world, agent, wake=WISH)
        await send(world, ada, to_agent="ben")
    store.reopen()
    async with running(store, waking=True) as world:
        await pass_time(2 * OPEN_SECONDS)
        assert [call.agent_id for call in world.calls] == ["ben"]
        assert [agent.agent_id for agent in world.agents.all() if world.mesh.wakes.calls(agent)] == [
            "ben",
            "cleo",
        ]


async def test_an_agent_that_would_be_called_may_be_sent_mail_while_it_is_stale(
    autojump_clock: MockClock,
) -> None:
    async with meeting() as (world, ada, ben):
        await arrive(world, ben, wake=WISH, ttl_seconds=0)
        await send(world, ada, "wake up", to_agent="ben")
        await pass_time(SOON)
        assert len(world.calls) == 1
