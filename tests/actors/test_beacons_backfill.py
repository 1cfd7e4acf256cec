"""What a new beacon brings of what was there before it, and how much any of them may bring in a day."""

from typing import Any

import pytest

from actors.lookback import LookBack
from actors.rules.allowance import DAY_US
from actors.rules.matching.beacons import Spec
from actors.turn import Turn
from storage.clock import wall_clock_us
from storage.errors import NotStored, OutcomeUnknown
from storage.mail_records import AgentRecord
from storage.memory import MemoryStore
from storage.protocols import Unit
from tests.actors.conftest import Beacons
from tests.actors.routing import Got, book_with, commons, got, hook, mail, place, publish, reader, routed
from tests.actors.world import World, running

SECOND_US = 1_000_000


async def test_backfill_delivers_the_newest_that_match_oldest_first_and_once(beacons: Beacons) -> None:
    async with beacons() as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        for number in range(6):
            await hook(world, ci, f"deploy {number}")
            await hook(world, ci, f"other {number}")
        placed = await place(world, ada, "b", "deploys", backfill=3)
        assert (placed.would_have_matched_7d, placed.backfilled) == (6, 3)
        assert await got(world, ada) == [Got(f"deploy {number}", "beacon:b") for number in (3, 4, 5)]
        placed = await place(world, ada, "b", "deploys", backfill=4)
        assert placed.backfilled == 1
        assert await mail(world, ada) == ["deploy 3", "deploy 4", "deploy 5", "deploy 2"]


async def test_backfill_reaches_as_far_as_the_agent_may_be_routed_and_counts_what_the_caller_sees(
    beacons: Beacons,
) -> None:
    async with beacons() as world:
        ci, ops, docs = [await world.inbox(slug) for slug in ("ci", "ops", "docs")]
        ada = await reader(world, "ada", ("ci", "ops"))
        for inbox, text in ((ci, "deploy of ci"), (ops, "deploy of ops"), (docs, "deploy of docs")):
            await hook(world, inbox, text)
        placed = await world.beacons.place(ada, Spec("b", "deploys"), visible=frozenset({"ci"}), backfill=9)
        assert (placed.would_have_matched_7d, placed.backfilled) == (1, 2)
        assert await mail(world, ada) == ["deploy of ci", "deploy of ops"]


async def test_what_comes_while_a_beacon_is_placed_is_backfilled_too() -> None:
    async with running() as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")

        class Late(LookBack):
            async def newest(self) -> int:
                newest = await super().newest()
                await hook(world, ci, "deploy meanwhile")
                return newest

        await hook(world, ci, "deploy before")
        book = book_with(world, Late(world.store, wall_clock_us))
        placed = await book.place(ada, Spec("b", "deploys"), visible=None, backfill=9)
        assert (placed.would_have_matched_7d, placed.backfilled) == (1, 2)
        assert await mail(world, ada) == ["deploy before", "deploy meanwhile"]


async def test_what_has_expired_is_neither_backfilled_nor_counted_nor_found() -> None:
    now = [SECOND_US]
    store = MemoryStore(clock=lambda: now[0])
    async with running(store, lambda: now[0]) as world:
        await commons(world)
        ada, ben = await reader(world, "ada"), await reader(world, "ben")
        for number, expires_at in enumerate((None, 2 * SECOND_US, 3 * SECOND_US)):
            await publish(world, ben, f"deploy {number}", expires_at=expires_at)
        now[0] = 2 * SECOND_US
        spec = Spec("b", "deploys")
        assert [one.seq for one in await world.beacons.test(ada, spec, visible=None)] == [3, 1]
        placed = await place(world, ada, "b", "deploys", backfill=9)
        assert (placed.would_have_matched_7d, placed.backfilled) == (2, 2)
        assert await mail(world, ada) == ["deploy 0", "deploy 2"]


async def test_what_an_agent_sent_itself_is_not_brought_back_to_it(beacons: Beacons) -> None:
    async with beacons() as world:
        await commons(world)
        ada, ben = await reader(world, "ada"), await reader(world, "ben")
        await publish(world, ada, "my deploy")
        await publish(world, ben, "your deploy")
        placed = await place(world, ada, "b", "deploys", backfill=9)
        assert (placed.would_have_matched_7d, placed.backfilled) == (1, 1)
        assert await mail(world, ada) == ["your deploy"]


# -- the daily limit -------------------------------------------------------------------------------------------------
def today(world: World, agent: AgentRecord, name: str = "b") -> tuple[int, int]:
    """Return what a beacon brought today, and what was kept back."""
    shown = world.beacons.find(agent, name)
    assert shown is not None
    return shown.delivered_today, shown.overflow_today


async def test_what_is_backfilled_counts_for_the_day_and_ends_at_its_limit(beacons: Beacons) -> None:
    limit = {"beacon_deliveries_per_day": 3}
    async with beacons(**limit) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        for number in range(5):
            await hook(world, ci, f"deploy {number}")
        placed = await place(world, ada, "b", "deploys", backfill=9)
        assert (placed.would_have_matched_7d, placed.backfilled) == (5, 3)
        assert await mail(world, ada) == ["deploy 2", "deploy 3", "deploy 4"]
        assert today(world, ada) == (3, 2)
        assert (await place(world, ada, "b", "deploys", backfill=9)).backfilled == 0
        assert today(world, ada) == (3, 7)
    async with beacons(routing=True, **limit) as world:  # it was stored, and is that of routing
        assert today(world, ada) == (3, 7)
        await hook(world, ci, "deploy 5")
        await routed(world)
        assert today(world, ada) == (3, 8)
        assert len(await mail(world, ada)) == 3


async def test_what_the_agent_has_already_does_not_count(beacons: Beacons) -> None:
    async with beacons(beacon_deliveries_per_day=3) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        for number in range(6):
            await hook(world, ci, f"deploy {number}")
        await place(world, ada, "a", "deploys", backfill=2)
        placed = await place(world, ada, "b", "deploys", backfill=6)
        assert placed.backfilled == 3
        assert await mail(world, ada) == [f"deploy {number}" for number in (4, 5, 3, 1, 2)]
        assert (today(world, ada, "a"), today(world, ada)) == ((2, 0), (3, 1))


async def test_a_beacon_that_is_removed_and_placed_again_goes_on_with_its_day() -> None:
    now = [5 * DAY_US]
    store = MemoryStore(clock=lambda: now[0])
    async with running(store, lambda: now[0], beacon_deliveries_per_day=3, routing=True) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada)
        for number in range(2):
            await hook(world, ci, f"deploy {number}")
        await routed(world)
        for wishes in ({}, {"ttl_seconds": 1}, {}):  # removed, removed, expired
            await world.beacons.remove(ada, "b")
            await place(world, ada, **wishes)
            assert today(world, ada) == (2, 0)
            if wishes:
                now[0] += 2 * SECOND_US
                assert world.beacons.find(ada, "b") is None
        await place(world, ada, "other")
        assert today(world, ada, "other") == (0, 0)
        await world.beacons.remove(ada, "other")
        for number in range(2, 4):
            await hook(world, ci, f"deploy {number}")
        await routed(world)
        assert today(world, ada) == (3, 1)
        await world.beacons.remove(ada, "b")
        now[0] += DAY_US
        await place(world, ada)
        assert today(world, ada) == (0, 0)


async def test_what_gone_beacons_have_brought_is_forgotten_with_the_day_and_with_their_agent() -> None:
    now = [5 * DAY_US]
    store = MemoryStore(clock=lambda: now[0])
    async with running(store, lambda: now[0]) as world:
        ci, ada, ben = await world.inbox("ci"), await reader(world, "ada"), await reader(world, "ben")
        await hook(world, ci, "deploy")
        for agent in (ada, ben):
            await place(world, agent, backfill=1)
            await world.beacons.remove(agent, "b")
        assert len(world.beacons.in_force._counts) == 2
        await world.mail.delete_agent("ada")
        again = await reader(world, "ada")
        await place(world, again)
        assert today(world, again) == (0, 0)
        now[0] += DAY_US
        await world.beacons.remove(again, "b")
        assert world.beacons.in_force._counts == {}


@pytest.mark.parametrize(("error", "counted"), [(NotStored, 0), (OutcomeUnknown, 2)])
async def test_what_could_not_be_delivered_is_not_counted_unless_it_may_be_there(
    error: type[Exception], counted: int
) -> None:
    store = MemoryStore()
    async with running(store) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        for number in range(2):
            await hook(world, ci, f"deploy {number}")

        def fail(unit: Unit[Any]) -> None:
            if isinstance(unit, Turn):
                raise error

        store.fault = fail
        with pytest.raises(error):
            await place(world, ada, "b", "deploys", backfill=9)
        assert today(world, ada) == (counted, 0)
        store.fault = None
        assert (await place(world, ada, "b", "deploys", backfill=9)).backfilled == 2
        assert today(world, ada) == (counted + 2, 0)
