"""What agents do with their beacons: placing, listing, removing, testing; and what becomes of them."""

from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from actors import router
from actors.beacon_units import PlaceBeacon
from actors.beacons import PastMatch, Term
from actors.commands import Refusal
from actors.in_force import LINGER_US
from actors.lookback import DAYS_US, Bounds, LookBack
from actors.rules.matching.beacons import Spec
from actors.units import Reading
from storage.errors import OutcomeUnknown
from storage.memory import MemoryStore
from storage.protocols import Unit
from tests.actors.conftest import Beacons
from tests.actors.routing import book_with, commons, hook, mail, place, publish, reader, routed
from tests.actors.world import running
from tests.virtual import pass_time

SECOND_US = 1_000_000


# -- placing -----------------------------------------------------------------------------------------------------
async def test_placing_says_what_the_beacon_s_words_are_worth_and_what_it_would_have_heard(
    beacons: Beacons,
) -> None:
    async with beacons() as world:
        await commons(world)
        ci, ada, ben = await world.inbox("ci"), await reader(world, "ada"), await reader(world, "ben")
        await place(world, ben, about="deploys")
        await hook(world, ci, "the deploy rolled back")
        await hook(world, ci, "all is well")
        await publish(world, ada, "my own words on deploys and rollbacks")
        placed = await place(world, ada, "mine", "deploy rollback")
        assert placed.name == "mine"
        assert [term.term for term in placed.terms] == ["deploy", "rollback"]
        assert [term.idf for term in placed.terms] == [1.0, 1.0]
        assert (placed.would_have_matched_7d, placed.backfilled) == (1, 0)
        assert await mail(world, ada) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (Spec("b", "the and of"), "about"),
        (Spec("b", "event"), "about"),
        (Spec("b", "deploys", require=("…",)), "require"),
        (Spec("b", "deploys", exclude=("…",)), "exclude"),
        (Spec("b", "deploys", min_score=0.99), "min_score"),
    ],
)
async def test_a_beacon_without_meaning_is_refused_with_the_reason_and_nothing_is_placed(
    beacons: Beacons, spec: Spec, field: str
) -> None:
    async with beacons() as world:
        ada = await reader(world, "ada")
        for ask in (world.beacons.place, world.beacons.test):
            if spec.about == "event" and ask == world.beacons.test:
                continue  # what a beacon of common words would hear may be asked
            with pytest.raises(Refusal) as refused:
                await ask(ada, spec, visible=None)
            assert (refused.value.code, refused.value.field) == ("invalid_argument", field)
            assert not refused.value.message[0].islower()
            assert refused.value.message.endswith(".")
        assert world.beacons.list(ada) == ()


async def test_an_agent_has_so_many_beacons_and_may_replace_one_or_wait_for_one_to_expire() -> None:
    now = [SECOND_US]
    store = MemoryStore(clock=lambda: now[0])
    async with running(store, lambda: now[0], beacons_per_agent=2) as world:
        ada, ben = await reader(world, "ada"), await reader(world, "ben")
        await place(world, ada, "one")
        await place(world, ada, "two", ttl_seconds=10)
        with pytest.raises(Refusal, match="may have 2 beacons") as refused:
            await place(world, ada, "three")
        assert (refused.value.code, refused.value.field) == ("conflict", "name")
        await place(world, ada, "one", "another interest")
        await place(world, ben, "three")
        now[0] += 10 * SECOND_US
        await place(world, ada, "three")
        assert [shown.spec.name for shown in world.beacons.list(ada)] == ["one", "three"]


async def test_placing_for_an_agent_that_was_deleted_meanwhile_places_nothing(beacons: Beacons) -> None:
    async with beacons() as world:
        ada = await reader(world, "ada")
        await world.mail.delete_agent("ada")
        again = await reader(world, "ada")
        with pytest.raises(Refusal) as refused:
            await place(world, ada)
        assert refused.value.code == "not_found"
        assert world.beacons.list(again) == ()


# -- looking back ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        (Bounds(), 8),
        (Bounds(messages=5), 5),
        (Bounds(read=3), 3),
        (Bounds(size=4 * len(b'{"text":"deploy 0"}') - 1), 4),
        (Bounds(age_us=4 * SECOND_US), 5),
    ],
)
async def test_a_look_back_ends_at_the_first_of_its_bounds_with_the_newest(
    bounds: Bounds, found: int
) -> None:
    now = [DAYS_US]
    store = MemoryStore(clock=lambda: now[0])
    async with running(store, lambda: now[0]) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        for number in range(8):
            now[0] += SECOND_US
            await hook(world, ci, f"deploy {number}")
        book = book_with(world, LookBack(world.store, lambda: now[0], bounds))
        matches = await book.test(ada, Spec("b", "deploys"), visible=None)
        assert [match.seq for match in matches] == list(range(8, 8 - found, -1))


async def test_a_test_names_the_newest_matches_of_what_the_caller_may_read_and_changes_nothing(
    beacons: Beacons,
) -> None:
    async with beacons() as world:
        ci, ops, ada = await world.inbox("ci"), await world.inbox("ops"), await reader(world, "ada")
        await hook(world, ci, "deploy of ci, rolled back")
        await hook(world, ops, "deploy of ops")
        await hook(world, ci, "deploy of ci")
        spec = Spec("b", "deploy rollback")
        assert await world.beacons.test(ada, spec, visible=frozenset({"ci"})) == (
            PastMatch("ci", 2, 0.5, ("deploy",)),
            PastMatch("ci", 1, 0.5, ("deploy",)),
        )
        assert len(await world.beacons.test(ada, spec, visible=None, limit=1)) == 1
        assert world.beacons.list(ada) == ()
        assert await mail(world, ada) == []


async def test_what_was_erased_is_not_looked_back_at(beacons: Beacons) -> None:
    async with beacons() as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        for number in range(3):
            await hook(world, ci, f"deploy {number}")
        await world.service.erase(ci, 2)
        matches = await world.beacons.test(ada, Spec("b", "deploys"), visible=None)
        assert [match.seq for match in matches] == [3, 1]


# -- listing and removing --------------------------------------------------------------------------------------------
async def test_an_agent_lists_its_own_beacons_as_it_asked_for_them(beacons: Beacons) -> None:
    async with beacons() as world:
        ada, ben = await reader(world, "ada"), await reader(world, "ben")
        spec = Spec("z", "deploys", inboxes=("ci",), require=("e2e",), weight=0.5)
        await world.beacons.place(ada, spec, visible=None, ttl_seconds=60)
        await place(world, ada, "a")
        await place(world, ben, "b")
    async with beacons() as world:  # also after a restart
        first, second = world.beacons.list(ada)
        assert (first.spec, first.terms, first.expires_at) == (Spec("a"), (), None)
        assert second.spec == spec
        assert [term.term for term in second.terms] == ["deploys"]
        assert second.expires_at == second.placed_at + 60 * SECOND_US
        assert (second.delivered_today, second.overflow_today) == (0, 0)
        assert world.beacons.find(ada, "z") == second
        assert world.beacons.find(ada, "b") is None


async def test_a_removed_beacon_brings_nothing_more_and_can_be_removed_once(beacons: Beacons) -> None:
    async with beacons(routing=True) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada)
        await hook(world, ci, "before")
        await routed(world)
        assert await world.beacons.remove(ada, "b")
        assert not await world.beacons.remove(ada, "b")
        await hook(world, ci, "after")
        await routed(world)
        assert (await mail(world, ada), world.beacons.list(ada)) == (["before"], ())


async def test_beacons_go_with_their_agent_and_one_of_the_same_name_begins_without(beacons: Beacons) -> None:
    async with beacons(routing=True) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada)
        await world.mail.delete_agent("ada")
        assert len(world.beacons.in_force.index) == 0
        again = await reader(world, "ada")
        await hook(world, ci, "news")
        await routed(world)
        assert (world.beacons.list(again), await mail(world, again)) == ((), [])


# -- expiry ----------------------------------------------------------------------------------------------------------
async def test_an_expired_beacon_hears_what_came_before_it_expired_and_is_cleared_away_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    now = [SECOND_US]
    store = MemoryStore(clock=lambda: now[0])
    async with running(store, lambda: now[0]) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada, ttl_seconds=5)
        await hook(world, ci, "in time")
        now[0] += 5 * SECOND_US
        await hook(world, ci, "too late")
        assert world.beacons.list(ada) == ()
    async with running(store, lambda: now[0], routing=True) as world:
        await routed(world)
        assert await mail(world, ada) == ["in time"]
        now[0] += LINGER_US
        await pass_time(router.ROUND_SECONDS + 1)
        assert len(world.beacons.in_force.index) == 0
        assert await store.read(Reading(lambda snapshot: snapshot.beacons())) == []


async def test_a_beacon_that_is_placed_anew_while_it_is_cleared_away_stays() -> None:
    now = [SECOND_US]
    store = MemoryStore(clock=lambda: now[0])
    async with running(store, lambda: now[0]) as world:
        ada = await reader(world, "ada")
        await place(world, ada, ttl_seconds=5)
        now[0] += 5 * SECOND_US + LINGER_US
        expired = world.beacons.in_force.expired()
        assert expired == [("ada", "b")]
        await place(world, ada)
        await world.beacons.in_force.drop_expired(expired)
        assert len(world.beacons.list(ada)) == 1


# -- between the store and memory --------------------------------------------------------------------------------------
async def test_a_message_that_is_committed_right_behind_a_beacon_is_heard_of(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The router reads the message before the one who placed the beacon has heard that it is placed."""
    store = MemoryStore()
    async with running(store, routing=True) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        placing: list[Unit[Any]] = []

        def note(unit: Unit[Any]) -> None:
            placing[:] = [unit] if isinstance(unit, PlaceBeacon) else []

        async def acknowledge() -> None:
            if placing:
                placing.clear()
                store.fault = None
                await hook(world, ci, "right behind")
                await pass_time(1)  # the router looks meanwhile, and waits

        store.fault, store.acknowledge = note, acknowledge
        await place(world, ada)
        await routed(world)
        assert await mail(world, ada) == ["right behind"]


@pytest.mark.parametrize("stored", [False, True])
async def test_a_placing_of_unknown_outcome_is_looked_up_before_anything_is_matched(stored: bool) -> None:
    store = MemoryStore()
    async with running(store, routing=True) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")

        def fail(unit: Unit[Any]) -> None:
            if isinstance(unit, PlaceBeacon):
                store.fault = None
                raise OutcomeUnknown

        async def lose() -> None:
            store.acknowledge = None
            raise OutcomeUnknown

        if stored:
            store.acknowledge = lose
        else:
            store.fault = fail
        with pytest.raises(OutcomeUnknown):
            await world.beacons.in_force.place(
                ada, PlaceBeacon(ada, "b", msgspec.json.encode(Spec("b")), None, 9)
            )
        await hook(world, ci, "news")
        await routed(world)
        assert await mail(world, ada) == (["news"] if stored else [])
        assert len(world.beacons.list(ada)) == stored


async def test_a_beacon_is_in_force_also_when_whoever_placed_it_has_left() -> None:
    store = MemoryStore()
    async with running(store, routing=True) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        with trio.CancelScope() as scope:

            async def leave() -> None:
                scope.cancel()
                await trio.lowlevel.checkpoint()

            store.acknowledge = leave
            await place(world, ada)
        assert scope.cancel_called
        store.acknowledge = None
        await hook(world, ci, "news")
        await routed(world)
        assert await mail(world, ada) == ["news"]


async def test_a_stored_beacon_that_this_version_cannot_read_hears_nothing_and_stops_nobody() -> None:
    store = MemoryStore()
    async with running(store) as world:
        ada = await reader(world, "ada")
        await world.beacons.in_force.place(ada, PlaceBeacon(ada, "odd", b'{"name":5}', None, 9))
        await place(world, ada, "fine")
    async with running(store, routing=True) as world:
        assert len(world.beacons.in_force.index) == 1
        assert [shown.spec.name for shown in world.beacons.list(ada)] == ["fine"]


def test_a_term_is_shown_with_its_weight() -> None:
    assert msgspec.json.encode(Term("deploy", 0.693)) == b'{"term":"deploy","idf":0.693}'
