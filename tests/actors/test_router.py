"""Who hears of what: the router over both stores. In one module, because all of it happens in the scene below."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors import ahead, router
from actors.commands import Append, Deliver, Purge
from actors.router import RouterFigures
from actors.tokens import TokenBook
from actors.units import Reading
from storage.mail_records import Delivered
from storage.memory import MemoryStore
from storage.memory_read import MemorySnapshot
from storage.protocols import Snapshot
from storage.records import TokenRecord
from tests.actors.drafts import draft
from tests.actors.post import delivered, record
from tests.actors.routing import Got, commons, got, hook, mail, place, publish, reader, routed
from tests.actors.world import World, running
from tests.contract.conftest import opens

Routing = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture(params=["memory", "sqlite"])
def routing(request: pytest.FixtureRequest, tmp_path: Path) -> Routing:
    """Return how to run a world that routes, over one store; each time anew over the same data."""
    opened = opens(request.param, tmp_path)

    @asynccontextmanager
    async def run(**options: Any) -> AsyncIterator[World]:
        async with opened() as store, running(store, **{"routing": True, **options}) as world:
            yield world

    return run


# -- beacons ---------------------------------------------------------------------------------------------------
async def test_what_matches_comes_to_whoever_asked_for_it_and_to_nobody_else(routing: Routing) -> None:
    async with routing() as world:
        ci, docs = await world.inbox("ci"), await world.inbox("docs")
        ada, ben, cleo = [await reader(world, name) for name in ("ada", "ben", "cleo")]
        await place(world, ada, "lag", "replication lag on postgres")
        await place(world, ben, "docs", inboxes=("docs",))
        for inbox, text in ((ci, "postgres replication lag grows"), (docs, "a typo"), (ci, "a green build")):
            await hook(world, inbox, text)
        await routed(world)
        assert await got(world, ada) == [Got("postgres replication lag grows", "beacon:lag")]
        assert await got(world, ben) == [Got("a typo", "beacon:docs")]
        assert await got(world, cleo) == []
        assert world.router.figures == RouterFigures(0, 3, 2, 0, 0)


async def test_a_delivery_says_why_it_was_made(routing: Routing) -> None:
    async with routing() as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada, "words", "deploy rollback")
        await place(world, ada, "place", inboxes=("ci",))
        await hook(world, ci, "rollback of the deploy")
        await routed(world)
        (row,) = await world.store.read(Reading(partial(_first, inbox_id=ada.inbox_id)))
        assert row.delivery is not None
        assert msgspec.json.decode(row.delivery) == {
            "score": 0.95,
            "via": "beacon:place",
            "also_via": ["beacon:words"],
            "matched_terms": [],
        }
        assert (row.home, row.own, row.event_type) == ("ci", False, "push")


async def test_an_agent_does_not_hear_of_what_it_wrote_itself(routing: Routing) -> None:
    async with routing() as world:
        await commons(world)
        ada, ben = await reader(world, "ada"), await reader(world, "ben")
        for agent in (ada, ben):
            await place(world, agent, about="failing deploy")
        await publish(world, ada, "the deploy is failing")
        await routed(world)
        assert (await mail(world, ada), await mail(world, ben)) == ([], ["the deploy is failing"])


async def test_a_beacon_hears_what_came_after_it_and_nothing_from_before(routing: Routing) -> None:
    async with routing() as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await hook(world, ci, "before")
        await place(world, ada, inboxes=("ci",))
        await hook(world, ci, "after")
        await routed(world)
        assert await mail(world, ada) == ["after"]


async def test_a_beacon_that_takes_another_s_place_leaves_no_gap(routing: Routing) -> None:
    async with routing(routing=False) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada, inboxes=("ci",))
        await hook(world, ci, "between")
        await place(world, ada, inboxes=("ci",), weight=0.9)
    async with routing() as world:
        await hook(world, ci, "after")
        await routed(world)
        assert await mail(world, ada) == ["between", "after"]


async def test_order_is_the_order_of_the_log_whoever_it_came_from(routing: Routing) -> None:
    async with routing(routing=False) as world:
        await commons(world)
        ci, ada, ben = await world.inbox("ci"), await reader(world, "ada"), await reader(world, "ben")
        await place(world, ada)
        for number in range(6):
            await hook(world, ci, f"hook {number}")
            await publish(world, ben, f"note {number}")
            await publish(world, ben, f"direct {number}", to_agents=("ben", "ada"))
    async with routing() as world:
        await routed(world)
        expected = [f"{what} {number}" for number in range(6) for what in ("hook", "note", "direct")]
        assert await mail(world, ada) == expected
        assert await mail(world, ben) == [f"direct {number}" for number in range(6)]


# -- scopes ----------------------------------------------------------------------------------------------------
async def test_nothing_is_routed_out_of_an_inbox_that_no_token_of_the_agent_may_read(
    routing: Routing,
) -> None:
    async with routing() as world:
        await commons(world)
        ci, ops = await world.inbox("ci"), await world.inbox("ops")
        ada, ben = await reader(world, "ada", ("ci",)), await reader(world, "ben", ())
        cleo = await world.agent("cleo")
        for agent in (ada, ben, cleo):
            await place(world, agent)
        await hook(world, ci, "of ci")
        await hook(world, ops, "of ops")
        await publish(world, cleo, "of the commons")
        await routed(world)
        assert await mail(world, ada) == ["of ci", "of the commons"]
        assert await mail(world, ben) == ["of the commons"]
        assert await mail(world, cleo) == []


async def test_a_scope_is_that_of_all_live_tokens_at_the_moment_of_routing(routing: Routing) -> None:
    now = [1_000_000]
    async with routing(clock=lambda: now[0]) as world:
        ci, ops = await world.inbox("ci"), await world.inbox("ops")
        ada = await reader(world, "ada", ("ci",))
        await place(world, ada)
        tokens: TokenBook = world.tokens
        token, _ = tokens.draft("agent", inboxes=("ops",), agent="ada", expires_at=2_000_000)
        await tokens.create(token)
        await hook(world, ops, "with a second token")
        await routed(world)
        now[0] = 2_000_000
        await hook(world, ops, "when it has expired")
        await routed(world)
        (bound,) = tokens.bound_to("ada")
        await tokens.change(bound.token_id, partial(_named, inboxes=("ops",)))
        await hook(world, ci, "out of scope now")
        await hook(world, ops, "in scope now")
        await routed(world)
        await tokens.revoke(bound.token_id)
        await hook(world, ops, "without a token")
        await routed(world)
        assert await mail(world, ada) == ["with a second token", "in scope now"]


def _named(token: TokenRecord, inboxes: tuple[str, ...]) -> TokenRecord:
    return msgspec.structs.replace(token, inboxes=inboxes)


# -- private mail ------------------------------------------------------------------------------------------------
async def test_direct_mail_comes_to_those_it_names_and_is_matched_against_nobody_s_beacons(
    routing: Routing,
) -> None:
    async with routing() as world:
        ada, ben, cleo, dora = [await reader(world, name) for name in ("ada", "ben", "cleo", "dora")]
        await place(world, dora)
        await place(world, ben)
        await publish(world, ada, "to you both", to_agents=("ben", "cleo"))
        await routed(world)
        assert await got(world, ben) == await got(world, cleo) == [Got("to you both", "direct")]
        assert await mail(world, dora) == []
        assert world.router.figures.delivered == 1  # the first one had it already
        for agent in (ben, cleo):  # it is their own, whatever their tokens name
            (row,) = await world.store.read(Reading(partial(_first, inbox_id=agent.inbox_id)))
            assert row.own


def _first(snapshot: Snapshot, inbox_id: int) -> list[Delivered]:
    return snapshot.deliveries(inbox_id, [1], 0)


async def test_a_delivery_is_never_routed_again(routing: Routing) -> None:
    async with routing() as world:
        ci, ada, ben = await world.inbox("ci"), await reader(world, "ada"), await reader(world, "ben")
        await place(world, ada)
        await place(world, ben)
        await hook(world, ci, "once")
        await routed(world)
        await hook(world, ci, "twice")
        await routed(world)
        assert await mail(world, ada) == await mail(world, ben) == ["once", "twice"]
        assert world.router.figures.routed == 2


async def test_an_agent_gets_its_own_copy_whatever_becomes_of_the_first_one_s(routing: Routing) -> None:
    async with routing() as world:
        ada, ben, cleo = [await reader(world, name) for name in ("ada", "ben", "cleo")]
        await publish(world, ada, "to both", to_agents=("ben", "cleo"))
        await routed(world)
        await world.registry.ask(ben.inbox_id, Purge())
        assert (await mail(world, ben), await mail(world, cleo)) == ([], ["to both"])


async def test_what_is_erased_where_it_is_at_home_is_erased_where_it_was_delivered_to(
    routing: Routing,
) -> None:
    async with routing() as world:
        ada, ben, cleo = [await reader(world, name) for name in ("ada", "ben", "cleo")]
        await publish(world, ada, "to both", to_agents=("ben", "cleo"))
        await routed(world)
        await world.service.erase(cleo.inbox_id, 1)
        assert (await mail(world, ben), await mail(world, cleo)) == (["to both"], [])
        await publish(world, ada, "again", to_agents=("ben", "cleo"))
        await routed(world)
        await world.service.erase(ben.inbox_id, 2)
        assert (await mail(world, ben), await mail(world, cleo)) == (["to both"], [])


async def test_more_recipients_than_one_read_looks_at_all_get_it(
    routing: Routing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "PENDING_PAGE", 2)
    monkeypatch.setattr(router, "PENDING_PAGE", 2)
    async with routing(routing=False) as world:
        names = ["ada", "ben", "cleo", "dora", "emil", "fritz"]
        agents = [await reader(world, name) for name in names]
        await publish(world, agents[0], "to all", to_agents=tuple(names))
        await publish(world, agents[0], "to some", to_agents=("ada", "ben", "cleo"))
        await publish(world, agents[0], "to all again", to_agents=tuple(names))
    async with routing() as world:
        await routed(world)
        for agent in agents[1:3]:
            assert await mail(world, agent) == ["to all", "to some", "to all again"]
        for agent in agents[3:]:
            assert await mail(world, agent) == ["to all", "to all again"]


async def test_a_restored_copy_delivers_what_was_addressed_and_routes_nothing_old(routing: Routing) -> None:
    async with routing(routing=False) as world:
        ci, ada, ben = await world.inbox("ci"), await reader(world, "ada"), await reader(world, "ben")
        await place(world, ben)
        await hook(world, ci, "old news")
        await publish(world, ada, "to both", to_agents=("ada", "ben"))
        await world.store.commit(router.Routed(2))  # as the start of a restored copy does
    async with routing() as world:
        await hook(world, ci, "news")
        await routed(world)
        assert await got(world, ben) == [Got("to both", "direct"), Got("news", "beacon:b")]


# -- limits ------------------------------------------------------------------------------------------------------
async def test_a_beacon_brings_so_much_a_day_and_its_agent_sees_what_was_kept_back(routing: Routing) -> None:
    async with routing(beacon_deliveries_per_day=3) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada)
        for number in range(5):
            await hook(world, ci, str(number))
        await routed(world)
        assert await mail(world, ada) == ["0", "1", "2"]
        (shown,) = world.beacons.list(ada)
        assert (shown.delivered_today, shown.overflow_today) == (3, 2)
        assert world.router.figures.overflow == 2
    async with routing(beacon_deliveries_per_day=3) as world:
        (shown,) = world.beacons.list(ada)
        assert (shown.delivered_today, shown.overflow_today) == (3, 2)
        await hook(world, ci, "after a restart")
        await routed(world)
        assert len(await mail(world, ada)) == 3


async def test_a_message_reaches_so_many_at_most_those_with_the_best_matches(routing: Routing) -> None:
    async with routing(route_recipients=2) as world:
        ci = await world.inbox("ci")
        agents = [await reader(world, name) for name in ("ada", "ben", "cleo")]
        for agent, weight in zip(agents, (0.6, 1.0, 0.8), strict=True):
            await place(world, agent, inboxes=("ci",), weight=weight)
        await hook(world, ci, "news")
        await routed(world)
        assert [len(await mail(world, agent)) for agent in agents] == [0, 1, 1]
        assert world.beacons.list(agents[0])[0].overflow_today == 1


@pytest.mark.parametrize("portion", [1, 2, 5])
async def test_however_little_is_delivered_at_a_time_everything_is(
    routing: Routing, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    monkeypatch.setattr(router, "PORTION", portion)
    monkeypatch.setattr(ahead, "SLICE_MESSAGES", 4)
    monkeypatch.setattr(ahead, "CONTENT_BYTES", 64)
    async with routing(routing=False) as world:
        ci = await world.inbox("ci")
        agents = [await reader(world, name) for name in ("ada", "ben", "cleo")]
        for agent in agents:
            await place(world, agent)
        for number in range(9):
            await hook(world, ci, f"message {number} of nine")
    async with routing() as world:
        await routed(world)
        for agent in agents:
            assert await mail(world, agent) == [f"message {number} of nine" for number in range(9)]


# -- reading no more than needed -----------------------------------------------------------------------------------
class Looking(MemoryStore):
    """A store that notes which slices and contents are read."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[str] = []

    async def read(self, look: Any) -> Any:
        return look.run(_Noting(self._state, self.looks))


class _Noting(MemorySnapshot):
    def __init__(self, state: Any, looks: list[str]) -> None:
        super().__init__(state)
        self._looks = looks

    def routable(self, after_mid: int, limit: int) -> Any:
        self._looks.append("slice")
        return super().routable(after_mid, limit)

    def contents(self, mids: Any, body_limit: int, byte_budget: int) -> Any:
        self._looks.append(f"contents of {len(mids)}")
        return super().contents(mids, body_limit, byte_budget)


async def test_without_beacons_no_message_is_looked_at_and_without_one_that_may_match_none_is_read() -> None:
    store = Looking()
    async with running(store, routing=True) as world:
        ci, docs, ada = await world.inbox("ci"), await world.inbox("docs"), await reader(world, "ada")
        await hook(world, ci, "unheard")
        await routed(world)
        assert store.looks == []
        await place(world, ada, inboxes=("docs",), types=("push",))
        store.looks.clear()
        await hook(world, ci, "of another inbox")
        await hook(world, docs, "of another type", event_type="ping")
        await routed(world)
        assert set(store.looks) == {"slice"}
        await hook(world, docs, "for ada")
        await routed(world)
        assert "contents of 1" in store.looks
        assert await mail(world, ada) == ["for ada"]


# -- ends ------------------------------------------------------------------------------------------------------------
async def test_a_deleted_recipient_holds_up_nobody(routing: Routing) -> None:
    async with routing(routing=False) as world:
        ci, ada, ben = await world.inbox("ci"), await reader(world, "ada"), await reader(world, "ben")
        await place(world, ada)
        await publish(world, ada, "to both", to_agents=("ada", "ben"))
        await hook(world, ci, "news")
        await world.mail.delete_agent("ben")
    async with routing() as world:
        await routed(world)
        assert await mail(world, ada) == ["to both", "news"]
        again = await reader(world, "ben")
        assert again.inbox_id != ben.inbox_id
        await routed(world)
        assert await mail(world, again) == []


async def test_what_an_agent_has_already_is_not_given_to_it_again(routing: Routing) -> None:
    async with routing(routing=False) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada)
        await world.registry.ask(ci, Append(draft(b'{"text":"once"}')))
        await world.registry.ask(ada.inbox_id, Deliver((delivered(1, ci, delivery=record(0.9)),)))
    async with routing() as world:
        await routed(world)
        assert await mail(world, ada) == ["once"]
        assert world.router.figures.delivered == 0


async def test_where_it_is_is_written_down_at_the_end_and_the_next_start_goes_on_from_there(
    routing: Routing,
) -> None:
    async with routing() as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada)
        await hook(world, ci, "one")
        await routed(world)
    async with routing() as world:
        assert world.router.routed_mid == 1
        assert world.router.figures.routed == 0
        await hook(world, ci, "two")
        await routed(world)
        assert await mail(world, ada) == ["one", "two"]
