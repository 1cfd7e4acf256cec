"""Who is there: check-ins and farewells that last, signs of life that are written down later, and the roster."""

from pathlib import Path

import msgspec
import pytest
import trio

from actors.mesh import CheckIn, RosterLine, WakeWish
from actors.rules.presence import NEVER_SEEN, Card, State
from actors.units import Reading
from storage.errors import InboxGone, StorageFull
from storage.memory import MemoryStore
from storage.mesh_records import PresenceRecord
from storage.secret import SecretBytes
from tests.actors import post
from tests.actors.meeting import Clock, Running, ack, arrive, ids, peek, plain, refused, send, worlds
from tests.actors.routing import reader, routed
from tests.actors.world import World, running

SECOND = 1_000_000


@pytest.fixture(params=["memory", "sqlite"])
def world_of(request: pytest.FixtureRequest, tmp_path: Path) -> Running:
    """Return how to run a world over one store; each time anew over the same data."""
    return worlds(request.param, tmp_path)


async def roster(
    world: World, *, stale: bool = False, machines: tuple[str, ...] | None = ("m",)
) -> list[RosterLine]:
    """Return who is on the machines."""
    return await world.mesh.roster(machines, include_stale=stale)


async def states(world: World) -> dict[str, State]:
    """Return the state of everybody on the machine."""
    return {line.agent.agent_id: line.state for line in await roster(world, stale=True)}


async def stored(world: World) -> dict[str, PresenceRecord]:
    """Return the presences as they are stored."""
    found = await world.store.read(Reading(lambda snapshot: snapshot.presences()))
    return {one.agent_id: one for one in found}


# -- check-ins and farewells ---------------------------------------------------------------------------------------
async def test_a_check_in_says_until_when_it_counts_and_what_waits(world_of: Running) -> None:
    clock = Clock()
    async with world_of(clock=clock) as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await send(world, ada, to_agent="ben", require_alive=False)
        done = await arrive(world, ben, ttl_seconds=30, session="one")
        assert (done.expires_at, done.unread, done.shared_reader) == (clock.now + 30 * SECOND, 1, False)


async def test_what_is_said_at_a_check_in_lasts_and_replaces_what_was_said_before(world_of: Running) -> None:
    clock = Clock()
    async with world_of(clock=clock) as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await arrive(world, ada, role="author", repo="postroom", caps=("review",), status="writing")
        await arrive(world, ben, role="author", status="reading")
        clock.pass_seconds(5)
        await arrive(world, ben, repo="other")
    async with world_of(clock=clock) as world:
        one, other = await roster(world)
        assert one.presence.card == Card("author", "postroom", ("review",), "writing", clock.now - 5 * SECOND)
        assert other.presence.card == Card(repo="other")
        assert (one.state, other.state) == (State.ACTIVE, State.ACTIVE)


async def test_a_farewell_lasts_until_the_next_check_in_whatever_else_comes(world_of: Running) -> None:
    async with world_of() as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await arrive(world, ada)
        await arrive(world, ben)
        await world.mesh.check_out(ben)
        await plain(world, ben)
        world.mesh.touch(ben, "one")
        with world.mesh.waiting(ben):
            assert await states(world) == {"ada": State.ACTIVE, "ben": State.GONE}
        await world.mesh.presences.flush()
        assert [line.agent.agent_id for line in await roster(world)] == ["ada"]
        assert (await refused(world, ada)).code == "no_recipient"
    async with world_of() as world:
        ben = world.agents.all()[1]
        assert (await states(world))["ben"] is State.GONE
        await arrive(world, ben)
        assert (await states(world))["ben"] is State.ACTIVE
    async with world_of() as world:
        assert (await states(world))["ben"] is State.ACTIVE


async def test_an_agent_that_was_never_heard_of_is_stale_and_may_say_farewell(world_of: Running) -> None:
    async with world_of() as world:
        (ada,) = await world.machine("m", ("ada",))
        (line,) = await roster(world, stale=True)
        presence = line.presence
        assert (line.state, presence.last_activity_at, presence.expires_at) == (State.STALE, None, None)
        assert await roster(world) == []
        await world.mesh.check_out(ada)
        assert await states(world) == {"ada": State.GONE}


async def test_what_could_not_be_stored_is_not_known_either() -> None:
    store = MemoryStore()
    async with running(store) as world:
        (ada,) = await world.machine("m", ("ada",))
        await arrive(world, ada)

        def full(unit: object) -> None:
            raise StorageFull("full")

        store.fault = full
        with pytest.raises(StorageFull):
            await world.mesh.check_out(ada)
        store.fault = None
        assert await states(world) == {"ada": State.ACTIVE}


async def test_check_ins_and_farewells_at_once_leave_memory_and_store_agreeing(tmp_path: Path) -> None:
    async with worlds("sqlite", tmp_path)() as world:  # it answers several at once, who go on in any order
        agents = await world.machine("m", tuple("abcdefgh"))
        async with trio.open_nursery() as nursery:
            for agent in agents:
                for number in range(4):
                    nursery.start_soon(world.mesh.check_in, agent, CheckIn(status=str(number)))
                    nursery.start_soon(world.mesh.check_out, agent)
                    nursery.start_soon(world.mesh.presences.flush)
        found = await stored(world)
        for agent in agents:
            known, there = world.mesh.presences.of(agent), found[agent.agent_id]
            assert (msgspec.json.decode(there.card, type=Card), there.gone_at) == (known.card, known.gone_at)


async def test_an_agent_that_is_deleted_meanwhile_leaves_nothing_behind() -> None:
    async with running() as world:
        (ada,) = await world.machine("m", ("ada",))
        await arrive(world, ada, status="old")
        with world.mesh.waiting(ada):
            await world.mail.delete_agent("ada")
        with pytest.raises(InboxGone):
            await arrive(world, ada)
        world.mesh.touch(ada, "one")
        await world.mesh.presences.flush()
        assert world.mesh.presences.of(ada) == NEVER_SEEN
        again = await world.agent("ada", "m")
        assert (await states(world), world.mesh.presences.of(again).card) == ({"ada": State.STALE}, Card())


# -- signs of life -------------------------------------------------------------------------------------------------
async def test_reads_alone_renew_nothing_and_a_sign_of_life_does(world_of: Running) -> None:
    clock = Clock()
    async with world_of(clock=clock) as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        expires_at = (await arrive(world, ben)).expires_at
        await send(world, ada, to_agent="ben")
        for number in range(100):
            clock.pass_seconds(1)
            await (plain if number % 2 else peek)(world, ben)
        assert world.mesh.presences.of(ben).expires_at == expires_at
        assert await peek(world, ben) == ["hello"]
        world.mesh.touch(ben, "one")
        assert world.mesh.presences.of(ben).expires_at == expires_at + 100 * SECOND


async def test_a_sign_of_life_commits_nothing_until_it_is_written_down(world_of: Running) -> None:
    clock = Clock()
    async with world_of(clock=clock) as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await arrive(world, ada)
        clock.pass_seconds(100)
        commits = world.store.health.commits
        world.mesh.touch(ada, "one")
        world.mesh.touch(ben, "one")
        assert world.store.health.commits == commits
        assert list(await stored(world)) == ["ada"]
        await world.mesh.presences.flush()
        assert world.store.health.commits == commits + 1
        await world.mesh.presences.flush()
        assert world.store.health.commits == commits + 1, "nothing new"
    async with world_of(clock=clock) as world:
        clock.pass_seconds(290)
        assert await states(world) == {"ada": State.IDLE, "ben": State.IDLE}


async def test_what_could_not_be_written_down_is_written_the_next_time() -> None:
    store = MemoryStore()
    async with running(store) as world:
        (ada,) = await world.machine("m", ("ada",))
        world.mesh.touch(ada, "one")

        def full(unit: object) -> None:
            raise StorageFull("full")

        store.fault = full
        with pytest.raises(StorageFull):
            await world.mesh.presences.flush()
        store.fault = None
        await world.mesh.presences.flush()
        assert list(await stored(world)) == ["ada"]


async def test_sessions_that_share_an_agent_are_told_so_until_it_says_farewell(world_of: Running) -> None:
    async with world_of() as world:
        (ada,) = await world.machine("m", ("ada",))
        assert not (await arrive(world, ada, session="one")).shared_reader
        assert not (await arrive(world, ada, session="one")).shared_reader
        assert (await arrive(world, ada, session="two")).shared_reader
        assert (await arrive(world, ada, session="one")).shared_reader
        await world.mesh.check_out(ada)
        world.mesh.touch(ada, "one")
        assert not (await arrive(world, ada, session="two")).shared_reader, (
            "one that straggles does not count"
        )
        world.mesh.touch(ada, "three")
        assert (await arrive(world, ada, session="two")).shared_reader


async def test_whoever_holds_a_wait_is_waiting(world_of: Running) -> None:
    clock = Clock()
    async with world_of(clock=clock) as world:
        (ada,) = await world.machine("m", ("ada",))
        await arrive(world, ada)
        with world.mesh.waiting(ada):
            clock.pass_seconds(100)
            assert await states(world) == {"ada": State.WAITING}
            clock.pass_seconds(201)
            assert await states(world) == {"ada": State.STALE}
        assert await states(world) == {"ada": State.STALE}


# -- the roster ----------------------------------------------------------------------------------------------------
async def test_the_roster_has_the_agents_of_the_machines_asked_for_with_what_waits_for_them(
    world_of: Running,
) -> None:
    async with world_of(routing=True) as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        (kim,) = await world.machine("other", ("kim",))
        lone = await world.agent("lone")
        for agent in (ada, ben, kim, lone):
            await arrive(world, agent)
        await send(world, ada, "to all")
        await send(world, ada, "to ben", to_agent="ben")
        await routed(world)
        await ack(world, ben, (await ids(world, ben))[:1])
        found = await roster(world, machines=("m", "other", "m"))
        assert [(line.agent.agent_id, line.unread) for line in found] == [("ada", 0), ("ben", 1), ("kim", 0)]
        assert [line.agent.agent_id for line in await roster(world, machines=("other", "nowhere"))] == ["kim"]
        assert [line.agent.agent_id for line in await roster(world, machines=None)] == ["ada", "ben", "kim"]


async def test_the_roster_counts_what_any_of_an_agent_s_tokens_sees(world_of: Running) -> None:
    async with world_of() as world:
        await world.machine("m")
        ada = await reader(world, "ada", (post.OPEN,), "m")
        made = await post.origins(world)
        await post.deliver(world, ada, made[post.OPEN])
        await post.deliver(world, ada, made[post.CLOSED])
        (line,) = await roster(world, stale=True)
        assert line.unread == 1
        assert (await arrive(world, ada, visible=frozenset({post.CLOSED, post.OPEN}))).unread == 2


# -- where to be woken -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["memory", "sqlite", "sealed"])
async def test_a_wake_target_lasts_and_goes_with_the_farewell(kind: str, tmp_path: Path) -> None:
    world_of = worlds(kind, tmp_path)
    wish = WakeWish("http://here/", SecretBytes(b"secret"))
    async with world_of() as world:
        ada, ben, cleo = await world.machine("m", ("ada", "ben", "cleo"))
        await arrive(world, ada, wake=wish)
        await arrive(world, ben, wake=wish)
        await world.mesh.check_out(ben)
        await arrive(world, cleo, wake=wish)
        await arrive(world, cleo)
    async with world_of() as world:
        targets = {agent.agent_id: world.mesh.presences.target(agent) for agent in world.agents.all()}
        one = targets.pop("ada")
        assert targets == {"ben": None, "cleo": None}
        assert one is not None
        assert (one.url, one.failures, one.off_at) == ("http://here/", 0, None)
        assert one.secret is not None
        assert one.secret.reveal() == b"secret"


async def test_a_place_that_may_not_be_called_is_refused_and_nothing_is_changed() -> None:
    async with running() as world:
        (ada,) = await world.machine("m", ("ada",))
        with pytest.raises(Exception, match="not allowed"):
            await arrive(world, ada, wake=WakeWish("http://there/"))
        assert await states(world) == {"ada": State.STALE}
