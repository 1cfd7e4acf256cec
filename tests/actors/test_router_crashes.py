"""Exactly once, whatever crashes: the power fails before or after every single commit of routing, and the next start
finds each message delivered to each recipient once, in order, and counted once.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from actors import ahead, router
from actors.beacon_units import Routed
from actors.units import Reading
from storage.errors import OutcomeUnknown, StorageFull
from storage.memory import MemoryStore
from storage.protocols import Unit
from tests.actors.routing import Got, commons, got, hook, mail, place, publish, reader, routed
from tests.actors.world import World, running
from tests.virtual import pass_time

NAMES = ("ada", "ben", "cleo")
ROUNDS = 3
EXPECTED = {
    "ada": [
        entry
        for n in range(ROUNDS)
        for entry in (Got(f"hook {n}", "beacon:all"), Got(f"to all {n}", "direct"))
    ],
    "ben": [
        entry
        for n in range(ROUNDS)
        for entry in (
            Got(f"hook {n}", "beacon:ci", ("beacon:all",)),
            Got(f"note {n}", "beacon:all"),
            Got(f"to all {n}", "direct"),
        )
    ],
    "cleo": [Got(f"to all {n}", "direct") for n in range(ROUNDS)],
}
COUNTS = {("ada", "all"): ROUNDS, ("ben", "all"): 2 * ROUNDS, ("ben", "ci"): ROUNDS}
FEWEST_COMMITS = 10
"""Of routing all that: with fewer there is hardly anything to fail at."""


LIVES = 4
LIFE_SECONDS = 0.3
"""Far less than the time after which the cursor is stored in the life of a healthy server."""


class PowerFailure(BaseException):
    """Nothing that runs may catch it, and nothing is stored any more."""


class Plug:
    """Pulled at the n-th unit, before it runs or after it took effect. `units` counts those that were tried."""

    def __init__(self, store: MemoryStore, at: int, *, after: bool) -> None:
        self._at = at
        self._after = after
        self._pulled = False
        self.units = 0
        store.fault = self._before
        store.acknowledge = self._acknowledge

    def _before(self, unit: Unit[Any]) -> None:
        if self._pulled:
            raise PowerFailure
        self.units += 1
        if self.units == self._at and not self._after:
            self._pulled = True
            raise PowerFailure

    async def _acknowledge(self) -> None:
        if self.units == self._at and self._after:
            self._pulled = True
        if self._pulled:
            raise PowerFailure


async def filled(store: MemoryStore) -> dict[str, int]:
    """Fill a store with messages that nobody has routed yet; return the agents' inboxes."""
    async with running(store) as world:
        await commons(world)
        ci = await world.inbox("ci")
        agents = [await reader(world, name) for name in (*NAMES, "dora")]
        await place(world, agents[0], "all", inboxes=("ci",))
        await place(world, agents[1], "all")
        await place(world, agents[1], "ci", inboxes=("ci",))
        for number in range(ROUNDS):
            await hook(world, ci, f"hook {number}")
            await publish(world, agents[0], f"note {number}")
            await publish(world, agents[0], f"to all {number}", to_agents=("dora", *NAMES))
        return {agent.agent_id: agent.inbox_id for agent in agents}


async def end_of_log(world: World) -> None:
    """Wait until everything is routed, and so that its being routed is stored."""
    await routed(world)
    await pass_time(2 * router.STORE_SECONDS)


async def check(store: MemoryStore, *, counted: bool = True) -> None:
    """Start once more, and look at what was delivered and counted; without `counted` some counts may be missing."""
    store.fault = store.acknowledge = None
    store.reopen()
    async with running(store, routing=True) as world:
        await end_of_log(world)
        for name, expected in EXPECTED.items():
            agent = world.agents.get(name)
            assert agent is not None
            assert await got(world, agent) == expected, name
        beacons = await store.read(Reading(lambda snapshot: snapshot.beacons()))
        counts = {(one.agent_id, one.name): one.delivered for one in beacons}
        assert counts == COUNTS or (not counted and all(counts[key] <= COUNTS[key] for key in COUNTS))


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be several portions in this little, and so several moves of the cursor, each stored at once."""
    monkeypatch.setattr(router, "PORTION", 4)
    monkeypatch.setattr(ahead, "SLICE_MESSAGES", 5)
    monkeypatch.setattr(router, "STORE_SECONDS", 0.0)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at_once", [1_024, 1], ids=["counts-with-the-cursor", "counts-in-pieces"])
async def test_each_message_is_delivered_once_at_whichever_commit_the_power_fails(
    after: bool, at_once: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Counts go with the cursor; of more beacons than one unit takes some may be lost, and none is counted twice."""
    monkeypatch.setattr(router, "COUNTED_AT_ONCE", at_once)
    at, cut_short = 0, True
    while cut_short:
        at += 1
        store = MemoryStore()
        await filled(store)
        Plug(store, at, after=after)
        try:
            async with running(store, routing=True) as world:
                await end_of_log(world)
        except* PowerFailure:
            pass
        else:
            cut_short = False
        await check(store, counted=at_once > 1)
    assert at > FEWEST_COMMITS


@pytest.mark.parametrize("seed", range(8))
async def test_the_power_may_fail_again_and_again(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    dice = random.Random(seed)
    store = MemoryStore()
    await filled(store)
    for _ in range(dice.randint(2, 8)):
        Plug(store, dice.randint(1, 6), after=dice.random() < 0.5)
        try:
            async with running(store, routing=True) as world:
                await end_of_log(world)
        except* PowerFailure:
            pass
        store.reopen()
    await check(store)


async def test_a_server_that_never_lives_for_a_second_gets_on_all_the_same(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Else each life would begin where the first one did, with ever more to route again before anything new."""
    monkeypatch.setattr(router, "STORE_SECONDS", 1.0)
    store = MemoryStore()
    async with running(store) as world:
        ci = await world.inbox("ci")
        agent = await reader(world, "ada")
        await place(world, agent, "all")
    begun_at = []
    for number in range(LIVES):
        try:
            async with running(store, routing=True) as world:
                begun_at.append(world.router.routed_mid)
                await hook(world, ci, f"hook {number}")
                await pass_time(LIFE_SECONDS)
                Plug(store, 1, after=False)
                raise PowerFailure
        except* PowerFailure:
            pass
        store.fault = store.acknowledge = None
        store.reopen()
    assert begun_at == list(range(LIVES)), "no life may begin where the last one did"
    async with running(store, routing=True) as world:
        await routed(world)
        assert await mail(world, agent) == [f"hook {number}" for number in range(LIVES)]


@pytest.mark.parametrize(
    ("kind", "lost"), [(StorageFull, False), (OutcomeUnknown, False), (OutcomeUnknown, True)]
)
async def test_a_fault_of_the_store_at_any_commit_is_waited_out(
    kind: type[Exception], lost: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """`lost`: the unit took effect all the same, which an unknown outcome may mean."""
    at, failed = 0, True
    while failed:
        at += 1
        store = MemoryStore()
        await filled(store)
        failing = Failing(store, at, kind("a fault"), lost=lost)
        async with running(store, routing=True) as world:
            await end_of_log(world)
            failed = failing.failed
            assert world.router.figures.failed == 0
        await check(store, counted=kind is not OutcomeUnknown)
    assert at > FEWEST_COMMITS


class Failing:
    """Fails the n-th unit once, three times in a row."""

    def __init__(self, store: MemoryStore, at: int, error: Exception, *, lost: bool) -> None:
        self._range = range(at, at + 3)
        self._error = error
        self._units = 0
        self.failed = False
        if lost:
            store.fault = self._count
            store.acknowledge = self._acknowledge
        else:
            store.fault = self._before

    def _count(self, unit: Unit[Any]) -> None:
        self._units += 1

    def _before(self, unit: Unit[Any]) -> None:
        self._units += 1
        self._fail()

    async def _acknowledge(self) -> None:
        self._fail()

    def _fail(self) -> None:
        if self._units in self._range:
            self.failed = True
            raise type(self._error)(*self._error.args)


async def test_it_stops_at_any_commit_when_it_is_told_to_and_goes_on_at_the_next_start(
    autojump_clock: trio.testing.MockClock,
) -> None:
    at, stopped = 0, True
    while stopped:
        at += 1
        store = MemoryStore()
        await filled(store)
        stop = Stop(store, at)
        async with running(store) as world, trio.open_nursery() as nursery:
            world.registry.on_messages = world.router.nudge
            stop.cancel = nursery.cancel_scope.cancel
            await nursery.start(world.router.run)
            await end_of_log(world)
            nursery.cancel_scope.cancel()
        stopped = stop.told
        stored = await store.read(Reading(lambda snapshot: snapshot.routed_mid()))
        assert stored == world.router.routed_mid
        await check(store)
    assert at > FEWEST_COMMITS


class Stop:
    """Cancels the router as the n-th unit runs."""

    def __init__(self, store: MemoryStore, at: int) -> None:
        self._at = at
        self._units = 0
        self.told = False
        self.cancel: Callable[[], None] = lambda: None
        store.fault = self._count

    def _count(self, unit: Unit[Any]) -> None:
        self._units += 1
        if self._units == self._at and not isinstance(unit, Routed):
            self.told = True
            self.cancel()
        elif self._units == self._at:
            self._at += 1  # the end of a stop is a commit of the cursor: count on to what comes before it


async def test_a_defect_ends_the_process_instead_of_being_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    await filled(store)

    def defect(*_: Any) -> None:
        raise ZeroDivisionError

    with (
        monkeypatch.context() as patch,
        pytest.RaisesGroup(pytest.RaisesExc(ZeroDivisionError), flatten_subgroups=True),
    ):
        async with running(store, routing=True) as world:
            patch.setattr(world.router, "_match", defect)
            await trio.sleep_forever()
    await check(store)
