"""The power fails between any two commits of the indexer, and of those who send, erase and switch meanwhile.

Whatever is stored then, after the next start every message that is there is found, once, and none that is gone.
"""

import random

import pytest
import trio.testing

from actors import indexing
from actors.ask import InboxStopped
from storage.errors import OutcomeUnknown
from storage.memory import MemoryStore
from tests.actors.test_indexing import SOON_SECONDS, found, searched, send, switch
from tests.actors.test_router_crashes import Plug, PowerFailure
from tests.actors.world import World, running
from tests.contract.builders import seqs
from tests.virtual import pass_time

MESSAGES = 20
FEWEST_COMMITS = 30
"""That the whole play takes: else the power did not fail where it should."""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "SLICE_ROWS", 3)


async def play(world: World, sent: list[int], erased: list[int]) -> None:
    """Send, erase and switch while the indexer is at work, and note what was answered."""
    inbox_id = await searched(world)
    for n in range(MESSAGES):
        sent.append(await send(world, inbox_id, f"word n{n}"))
        if n % 4 == 3:
            await pass_time(indexing.GATHER_SECONDS)
        if n % 7 == 6:
            erased.append(sent[-2])  # before it is done: whether it is, nobody knows then
            await world.service.erase(inbox_id, sent[-2])
        if n == 12:
            await switch(world, inbox_id, on=False)
            await switch(world, inbox_id, on=True)
    await pass_time(SOON_SECONDS)


async def check(store: MemoryStore, sent: list[int], erased: list[int]) -> None:
    """Start once more; what is found is what is there."""
    store.fault = store.acknowledge = None
    store.reopen()
    async with running(store, indexing=True) as world:
        await pass_time(SOON_SECONDS)
        listing = await world.service.show("demo")
        if listing is None:
            assert not sent
            return
        inbox_id = listing.record.inbox_id
        if not listing.record.settings.search:  # cut off between the two switches
            await switch(world, inbox_id, on=True)
            await pass_time(SOON_SECONDS)
        there = await seqs(store, inbox_id)
        assert set(sent) - set(erased) <= set(there)
        assert sorted(await found(store, inbox_id, "word")) == there
        for seq in there:
            assert await found(store, inbox_id, f"n{seq - 1}") == [seq]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_everything_is_found_at_whichever_commit_the_power_fails(
    after: bool, autojump_clock: trio.testing.MockClock
) -> None:
    at, cut_short = 0, True
    while cut_short:
        at += 1
        store = MemoryStore()
        sent: list[int] = []
        erased: list[int] = []
        Plug(store, at, after=after)
        try:
            async with running(store, indexing=True) as world:
                await play(world, sent, erased)
        except* (PowerFailure, OutcomeUnknown, InboxStopped):
            pass  # whoever asked when the power failed hears one of these
        else:
            cut_short = False
        await check(store, sent, erased)
    assert at > FEWEST_COMMITS


@pytest.mark.parametrize("seed", range(6))
async def test_the_power_may_fail_again_and_again_while_it_catches_up(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    dice = random.Random(seed)
    store = MemoryStore()
    sent: list[int] = []
    async with running(store) as world:
        inbox_id = await searched(world)
        sent += [await send(world, inbox_id, f"word n{n}") for n in range(MESSAGES)]
    for _ in range(dice.randint(2, 8)):
        Plug(store, dice.randint(1, 6), after=dice.random() < 0.5)
        try:
            async with running(store, indexing=True):
                await pass_time(SOON_SECONDS)
        except* PowerFailure:
            pass
        store.reopen()
    await check(store, sent, [])
