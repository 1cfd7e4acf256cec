from typing import Any

import pytest
import trio
import trio.testing

from actors.commands import DeleteInbox, Purge
from actors.housekeeping import DEDUPE_WINDOW_MAX_SECONDS, ROUND_SECONDS, SLICE_ROWS, Housekeeper
from actors.roster import TouchPresences
from actors.units import SweepSlice
from storage.errors import StorageDegraded
from storage.memory import MemoryStore
from storage.protocols import Unit
from tests.actors.drafts import append
from tests.actors.world import World, running


def keeper(world: World, now_us: int = 0) -> Housekeeper:
    return Housekeeper(world.store, world.registry, world.tokens, lambda: now_us)


@pytest.mark.parametrize("command", [Purge(), DeleteInbox()])
async def test_what_was_dropped_is_swept_in_bounded_slices(command: Any) -> None:
    slices: list[SweepSlice] = []

    def note(unit: Unit[Any]) -> None:
        if isinstance(unit, SweepSlice):
            slices.append(unit)

    store = MemoryStore(fault=note)
    async with running(store) as world:
        inbox = await world.inbox()
        count = SLICE_ROWS + 20
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(world.registry.ask, inbox, append())
        await world.registry.ask(inbox, command)
        assert await keeper(world).sweep() >= count
        assert len(slices) >= 2
        assert await keeper(world).sweep() == 0


async def test_dedupe_keys_older_than_every_window_are_forgotten_and_younger_ones_kept() -> None:
    window_us = DEDUPE_WINDOW_MAX_SECONDS * 1_000_000
    store = MemoryStore(clock=lambda: 5_000_000)
    async with running(store) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append(key=b"k"))
        assert await keeper(world, now_us=5_000_000 + window_us).sweep() == 0
        assert (await world.registry.ask(inbox, append(key=b"k"))).duplicate
        assert await keeper(world, now_us=5_000_001 + window_us).sweep() == 1
        assert not (await world.registry.ask(inbox, append(key=b"k"))).duplicate


async def test_a_nudge_sweeps_now_and_a_failed_round_is_tried_again(
    mock_clock: trio.testing.MockClock,
) -> None:
    swept: list[float] = []

    def fail(unit: Unit[Any]) -> None:
        if isinstance(unit, SweepSlice):
            swept.append(trio.current_time())
            raise StorageDegraded("the disk is away")

    store = MemoryStore(fault=fail)
    async with running(store) as world, trio.open_nursery() as nursery:
        housekeeper = keeper(world)
        await nursery.start(housekeeper.run)
        await trio.testing.wait_all_tasks_blocked()
        assert len(swept) == 1
        housekeeper.nudge()
        await trio.testing.wait_all_tasks_blocked()
        assert len(swept) == 2
        mock_clock.jump(ROUND_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        assert len(swept) == 3
        nursery.cancel_scope.cancel()


async def test_who_was_heard_of_is_written_down_once_a_minute_at_most(
    mock_clock: trio.testing.MockClock,
) -> None:
    written: list[float] = []

    def note(unit: Unit[Any]) -> None:
        if isinstance(unit, TouchPresences):
            written.append(trio.current_time())

    store = MemoryStore(fault=note)
    async with running(store) as world, trio.open_nursery() as nursery:
        agent = await world.agent()
        roster = world.mesh.presences
        housekeeper = Housekeeper(store, world.registry, world.tokens, lambda: 0, roster=roster)
        await nursery.start(housekeeper.run)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(5):
            roster.touch(agent, "one")
            housekeeper.nudge()
            await trio.testing.wait_all_tasks_blocked()
        assert written == []
        mock_clock.jump(ROUND_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        assert written == [ROUND_SECONDS]
        nursery.cancel_scope.cancel()
