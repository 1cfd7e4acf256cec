"""Broadcasts, exactly once whatever crashes: the power fails before or after every single commit of sending, routing,
reading and acknowledging; senders that were not answered try again with their key, and every recipient has each once.
"""

import random

import pytest
import trio
from trio.testing import MockClock

from actors import ahead, router
from actors.ask import InboxStopped
from actors.commands import Skipped
from storage.errors import OutcomeUnknown
from storage.mail_records import AgentRecord
from storage.memory import MemoryStore
from tests.actors.meeting import ack, arrive, ids, letter, peek, plain, receipts
from tests.actors.routing import Got, got, place, reader, routed
from tests.actors.test_router_crashes import FEWEST_COMMITS, Plug, PowerFailure, end_of_log
from tests.actors.world import World, running

NAMES = ("ada", "ben", "cleo", "dora")
ROUNDS = 3
BROADCASTS = [f"broadcast {number}" for number in range(ROUNDS)]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be several portions in this little, and so several moves of the cursor, each stored at once."""
    monkeypatch.setattr(router, "PORTION", 2)
    monkeypatch.setattr(ahead, "SLICE_MESSAGES", 2)
    monkeypatch.setattr(router, "STORE_SECONDS", 0.0)


async def founded(store: MemoryStore) -> None:
    """Make a machine with its agents, one of which has left, and one outside who listens to it."""
    async with running(store) as world:
        await world.machine("m", NAMES)
        await world.mesh.check_out(agent(world, "dora"))
        for name in ("ben", "eve"):
            if name == "eve":
                await reader(world, name, ("machine.m",))
            else:
                token, _ = world.tokens.draft("agent", inboxes=("machine.m",), agent=name)
                await world.tokens.create(token)
            await place(world, agent(world, name), "all")


def agent(world: World, name: str) -> AgentRecord:
    """Return an agent."""
    found = world.agents.get(name)
    assert found is not None
    return found


async def live(world: World) -> None:
    """Send every broadcast, as one would who does not know whether it was sent before; read a little in between."""
    for text in BROADCASTS:
        one = letter(text, facts=b'{"sender":"ada"}', key=text.encode())
        sent = await world.mesh.send(agent(world, "ada"), one)
        assert (sent.delivered_to, sent.skipped) == (("ben", "cleo"), (Skipped("dora", "gone"),))
        await routed(world)
        await plain(world, agent(world, "ben"), limit=1)
        await ack(world, agent(world, "ben"), (await ids(world, agent(world, "ben")))[-1:])
    await end_of_log(world)


async def one_life(store: MemoryStore) -> bool:
    """Live until the power fails; return whether it did."""
    failed = True
    try:
        async with running(store, routing=True) as world:
            await live(world)
            failed = False
    except* (PowerFailure, OutcomeUnknown, InboxStopped):
        pass
    return failed


async def check(store: MemoryStore) -> None:
    """Live once more with the power on, and look at what everybody has."""
    store.fault = store.acknowledge = None
    store.reopen()
    async with running(store, routing=True) as world:
        await live(world)
        for name, via in (("ben", "broadcast"), ("cleo", "broadcast"), ("eve", "beacon:all")):
            assert await got(world, agent(world, name)) == [Got(text, via) for text in BROADCASTS], name
        for name in ("ada", "dora"):
            assert await got(world, agent(world, name)) == [], name
        found = await receipts(world, agent(world, "ada"))
        assert [set(of) for of in found] == [{"ben", "cleo"}] * ROUNDS
        assert all(receipt.seq is not None for of in found for receipt in of.values())
        assert await peek(world, agent(world, "cleo")) == BROADCASTS, (
            "what one has read is unread for another"
        )
        left = [text for text in BROADCASTS if text in await peek(world, agent(world, "ben"))]
        served_once = await plain(world, agent(world, "ben"))
        assert set(served_once) <= set(left)
        assert await plain(world, agent(world, "ben")) == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_each_recipient_has_each_broadcast_once_at_whichever_commit_the_power_fails(
    after: bool, autojump_clock: MockClock
) -> None:
    at, cut_short = 0, True
    while cut_short:
        at += 1
        store = MemoryStore()
        await founded(store)
        Plug(store, at, after=after)
        with trio.fail_after(1_000):
            cut_short = await one_life(store)
            await check(store)
    assert at > FEWEST_COMMITS


@pytest.mark.parametrize("seed", range(8))
async def test_the_power_may_fail_again_and_again(seed: int, autojump_clock: MockClock) -> None:
    dice = random.Random(seed)
    store = MemoryStore()
    await founded(store)
    for _ in range(dice.randint(2, 8)):
        Plug(store, dice.randint(1, 8), after=dice.random() < 0.5)
        await one_life(store)
        store.reopen()
    await check(store)


async def test_whoever_leaves_or_comes_while_a_broadcast_is_committed_is_in_or_out_as_the_answer_says(
    autojump_clock: MockClock,
) -> None:
    for seed in range(20):
        dice = random.Random(seed)
        store = MemoryStore()
        async with running(store, routing=True) as world:
            agents = await world.machine("m", NAMES)
            for one in agents:
                await arrive(world, one)
            answers = []

            async def send(text: str) -> None:
                answers.append((text, await world.mesh.send(agents[0], letter(text))))  # noqa: B023 — called in this round

            async with trio.open_nursery() as nursery:
                for step in dice.sample(range(4), 4):
                    if step == 0:
                        nursery.start_soon(send, "first")
                    elif step == 1:
                        nursery.start_soon(send, "second")
                    else:
                        nursery.start_soon(world.mesh.check_out, agents[step])
            await routed(world)
            for name in NAMES[1:]:
                expected = {text for text, sent in answers if name in sent.delivered_to}
                assert set(await peek(world, agent(world, name))) == expected
