"""Where a published message is at home, who gets it, and which ones are refused."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.commands import Refusal
from actors.publishing import COMPARED_NAMES, Published
from actors.units import Reading
from storage.mail_records import AgentRecord
from storage.memory import MemoryStore
from storage.records import INLINE_BODY_BYTES, InboxSettings, NewInbox, Retention, StoredMessage, Verdict
from tests.actors.routing import Got, commons, got, note, publish, reader, routed
from tests.actors.world import World, running
from tests.contract.conftest import opens

Running = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture(params=["memory", "sqlite"])
def world_of(request: pytest.FixtureRequest, tmp_path: Path) -> Running:
    """Return how to run a world over one store."""
    opened = opens(request.param, tmp_path)

    @asynccontextmanager
    async def run(**options: Any) -> AsyncIterator[World]:
        async with opened() as store, running(store, **options) as world:
            yield world

    return run


async def stored(world: World, slug: str, seq: int) -> StoredMessage:
    """Return a message of an inbox."""
    inbox = await world.service.find(slug)
    assert inbox is not None
    _, row = await world.store.read(
        Reading(lambda snapshot: snapshot.message(inbox.inbox_id, seq, INLINE_BODY_BYTES))
    )
    assert row is not None
    return row


async def refused(world: World, sender: AgentRecord, **fields: Any) -> Refusal:
    """Return why a note is refused."""
    with pytest.raises(Refusal) as refusal:
        await publish(world, sender, "a note", **fields)
    return refusal.value


# -- where it goes -------------------------------------------------------------------------------------------------
async def test_without_an_address_it_goes_to_the_commons_as_it_was_written(world_of: Running) -> None:
    async with world_of() as world:
        await commons(world)
        ada = await reader(world, "ada")
        sent = note("ada", "hello ☃")
        published = await world.publishing.publish(ada, sent)
        row = await stored(world, "commons", 1)
        assert published == Published(row.id, "commons", 1, None, duplicate=False)
        assert (row.facts, row.said, row.body) == (sent.facts, sent.said, sent.body)
        assert (row.event_type, row.verified, row.size) == ("note", Verdict.NONE, len("hello ☃".encode()))


async def test_it_goes_to_the_topic_inbox_that_it_names(world_of: Running) -> None:
    async with world_of() as world:
        await world.inbox("plans", "topic")
        published = await publish(world, await reader(world, "ada"), "a plan", to_inbox="plans")
        assert (published.slug, published.seq, published.recipients) == ("plans", 1, None)


async def test_to_agents_it_is_at_home_with_the_first_and_the_router_brings_it_to_the_others(
    world_of: Running,
) -> None:
    async with world_of(routing=True) as world:
        ada, ben, cleo = [await reader(world, name) for name in ("ada", "ben", "cleo")]
        names = ("ben", "cleo", "ben", "ada")
        published = await publish(world, ada, "to you", to_agents=names, expires_at=7)
        assert (published.slug, published.seq) == ("agent.ben", 1)
        assert published.recipients == ("ben", "cleo", "ada")
        await routed(world)
        for agent in (ada, ben, cleo):  # to oneself, too: it is asked for by name
            assert await got(world, agent) == [Got("to you", "direct")]
            (row,) = await world.store.read(
                Reading(lambda snapshot, of=agent: snapshot.deliveries(of.inbox_id, [1], 0))  # type: ignore[misc]  # as in in_force.py
            )
            assert (row.own, row.expires_at) == (True, 7)


async def test_direct_mail_is_scored_as_a_full_match_of_its_salience(world_of: Running) -> None:
    async with world_of() as world:
        ada, ben = await reader(world, "ada"), await reader(world, "ben")
        await publish(world, ada, "to you", to_agents=("ben",), salience=0.2)
        (row,) = await world.store.read(Reading(lambda snapshot: snapshot.deliveries(ben.inbox_id, [1], 0)))
        assert row.delivery is not None
        assert msgspec.json.decode(row.delivery) == {
            "score": 0.92,
            "via": "direct",
            "also_via": [],
            "matched_terms": [],
        }


async def test_a_message_may_be_empty_but_for_its_subject(world_of: Running) -> None:
    async with world_of() as world:
        await commons(world)
        await publish(world, await reader(world, "ada"), "")
        row = await stored(world, "commons", 1)
        assert (row.body, row.size) == (None, 0)


# -- once ----------------------------------------------------------------------------------------------------------
async def test_the_same_request_publishes_once_and_another_one_under_its_key_is_a_conflict(
    world_of: Running,
) -> None:
    async with world_of(routing=True) as world:
        ada, ben, cleo = [await reader(world, name) for name in ("ada", "ben", "cleo")]
        call = {"to_agents": ("ben", "cleo"), "key": b"k", "request": b"r"}
        first = await publish(world, ada, "once", **call)
        again = await publish(world, ada, "once", **call)
        assert again == msgspec.structs.replace(first, duplicate=True)
        conflict = await refused(world, ada, to_agents=("ben",), key=b"k", request=b"other")
        assert (conflict.code, conflict.field) == ("conflict", "idempotency_key")
        await publish(world, cleo, "another's", to_agents=("ben",), key=b"k", request=b"other")
        await routed(world)
        assert [one.mail for one in await got(world, ben)] == ["once", "another's"]
        assert [one.mail for one in await got(world, cleo)] == ["once"]


# -- refusals --------------------------------------------------------------------------------------------------------
async def test_an_unknown_agent_is_named_with_those_of_a_like_name_and_nobody_gets_anything(
    world_of: Running,
) -> None:
    async with world_of(routing=True) as world:
        ada = await reader(world, "ada", machine="hut")
        ben = await reader(world, "reviewer-1", machine="hut")
        await reader(world, "reviewer-2", machine="hut")
        await reader(world, "reviewr-3", machine="barn")
        await reader(world, "reviewr-4")
        refusal = await refused(world, ada, to_agents=("reviewer-1", "reviewr-2", "zoe"))
        assert (refusal.code, refusal.field) == ("not_found", "to")
        assert refusal.message == 'There is no agent "reviewr-2". Did you mean reviewer-2 or reviewer-1?'
        unlike = await refused(world, ada, to_agents=("zoe",))
        assert unlike.message == 'There is no agent "zoe".'
        await routed(world)
        assert await got(world, ben) == []


async def test_who_is_on_no_machine_learns_nobody_s_name_by_guessing(world_of: Running) -> None:
    async with world_of() as world:
        lone = await reader(world, "lone")
        await reader(world, "reviewer-1")
        await reader(world, "reviewer-2", machine="hut")
        refusal = await refused(world, lone, to_agents=("reviewer-3",))
        assert refusal.message == 'There is no agent "reviewer-3".'


@pytest.mark.parametrize(
    ("machine", "to", "machines"),
    [
        ("hut", "hut", ()),
        ("hut", None, ()),
        ("hut", "barn", ("barn",)),
        (None, "barn", ("barn",)),
        (None, None, ()),
    ],
)
async def test_an_agent_writes_to_those_of_its_own_machine_of_none_and_of_those_it_reaches(
    world_of: Running, machine: str | None, to: str | None, machines: tuple[str, ...]
) -> None:
    async with world_of() as world:
        sender = await reader(world, "ada", machine=machine)
        ben = await reader(world, "ben", machine=to)
        await publish(world, sender, "hello", to_agents=("ben",), machines=frozenset(machines))
        assert [one.mail for one in await got(world, ben)] == ["hello"]


@pytest.mark.parametrize(("machine", "machines"), [("hut", ()), (None, ()), ("hut", ("loft",))])
async def test_an_agent_out_of_reach_is_not_there_in_the_same_words(
    world_of: Running, machine: str | None, machines: tuple[str, ...]
) -> None:
    async with world_of() as world:
        sender = await reader(world, "ada", machine=machine)
        ben = await reader(world, "ben", machine="barn")
        for name in ("ben", "nobody"):
            refusal = await refused(world, sender, to_agents=(name,), machines=frozenset(machines))
            assert (refusal.code, refusal.message) == ("not_found", f'There is no agent "{name}".')
        assert await got(world, ben) == []


async def test_a_key_is_of_another_request_when_its_recipient_was_made_anew(world_of: Running) -> None:
    async with world_of(routing=True) as world:
        ada, _ = [await reader(world, name) for name in ("ada", "ben")]
        call = {"to_agents": ("ben",), "key": b"k", "request": b"r"}
        await publish(world, ada, "once", **call)
        await world.mail.delete_agent("ben")
        ben = await reader(world, "ben")
        conflict = await refused(world, ada, **call)
        assert (conflict.code, conflict.field) == ("conflict", "idempotency_key")
        await routed(world)
        assert await got(world, ben) == []


async def test_a_wrong_name_is_compared_with_a_bounded_number_of_others() -> None:
    async with running(MemoryStore()) as world:
        ada = await reader(world, "ada", machine="hut")
        for number in range(COMPARED_NAMES + 5):
            world.agents._take(AgentRecord(f"worker-{number}", 10_000 + number, "hut", 0))
        refusal = await refused(world, ada, to_agents=("worker-x",))
        assert "Did you mean worker-" in refusal.message


@pytest.mark.parametrize(
    ("slug", "code"),
    [
        ("nowhere", "not_found"),
        ("agent.ada", "not_found"),
        ("machine.m", "not_found"),
        ("ci", "invalid_argument"),
    ],
)
async def test_only_a_topic_inbox_takes_messages_and_a_private_one_is_not_even_there(
    world_of: Running, slug: str, code: str
) -> None:
    async with world_of() as world:
        ada = await reader(world, "ada")
        await world.inbox("ci")
        await world.inbox("machine.m", "machine")
        refusal = await refused(world, ada, to_inbox=slug)
        assert (refusal.code, refusal.field) == (code, "to")


async def test_without_commons_a_message_needs_an_address(world_of: Running) -> None:
    async with world_of() as world:
        assert (await refused(world, await reader(world, "ada"))).code == "not_found"


async def test_a_message_is_to_so_many_agents_at_most(world_of: Running) -> None:
    async with world_of(route_recipients=2) as world:
        ada = await reader(world, "ada")
        for name in ("ben", "cleo"):
            await reader(world, name)
        assert (await refused(world, ada, to_agents=("ada", "ben", "cleo"))).code == "invalid_argument"
        await publish(world, ada, "fine", to_agents=("ada", "ben", "ben"))


async def test_a_text_over_what_is_kept_with_the_message_is_refused(world_of: Running) -> None:
    async with world_of() as world:
        await commons(world)
        ada = await reader(world, "ada")
        await publish(world, ada, "x" * INLINE_BODY_BYTES)
        with pytest.raises(Refusal) as refusal:
            await publish(world, ada, "x" * (INLINE_BODY_BYTES + 1))
        assert (refusal.value.code, refusal.value.field) == ("payload_too_large", "text")


async def test_a_topic_that_is_full_and_refuses_says_so(world_of: Running) -> None:
    async with world_of() as world:
        ada = await reader(world, "ada")
        full = InboxSettings(retention=Retention(max_messages=1, policy="refuse"))
        await world.service.create_inbox(NewInbox("plans", "topic", "", full))
        await publish(world, ada, "fits", to_inbox="plans")
        assert (await refused(world, ada, to_inbox="plans")).code == "insufficient_storage"


async def test_a_recipient_that_is_deleted_at_that_moment_is_not_found() -> None:
    async with running() as world:
        ada, ben = await reader(world, "ada"), await reader(world, "ben")
        await world.mail.delete_agent("ben")
        world.agents._take(ben)  # as if the deletion were not known yet
        refusal = await refused(world, ada, to_agents=("ben",))
        assert (refusal.code, refusal.field) == ("not_found", "to")
