"""Machines: made with their inbox, found again, and deleted with their agents, tokens and inbox."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from actors.commands import Refusal
from actors.machines import machine_slug
from actors.units import Reading
from storage.errors import SlugTaken
from storage.records import InboxSettings, Retention
from tests.actors.meeting import arrive, read, send, worlds
from tests.actors.world import World, running


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_machine_is_made_with_its_inbox_and_found_again(kind: str, tmp_path: Path) -> None:
    world_of = worlds(kind, tmp_path)
    async with world_of() as world:
        full = InboxSettings(retention=Retention(max_messages=5, policy="refuse"))
        machine = await world.machines.create("m", full)
        await world.agent("b", "m")
        await world.agent("a", "m")
        await world.agent("c")
        record = await world.service.find(machine_slug("m"))
        assert record is not None
        assert (record.inbox_id, record.kind) == (machine.inbox_id, "machine")
        assert record.settings.retention == Retention(max_messages=5), "it never refuses"
        with pytest.raises(SlugTaken):
            await world.machines.create("m", full)
        await world.machines.create("l", full)
    async with world_of() as world:
        assert [one.name for one in world.machines.all()] == ["l", "m"]
        assert world.machines.get("m") == world.machines.of_inbox(machine.inbox_id) == machine
        assert [one.agent_id for one in world.agents.on("m")] == ["a", "b"]
        assert world.agents.on("l") == world.agents.on("nowhere") == []


async def make_agent(world: World) -> None:
    """Make an agent on a machine."""
    await world.agent("a", "m")


async def make_token(world: World) -> None:
    """Make a token for a machine."""
    token, _ = world.tokens.draft("machine", inboxes=(), machine="m")
    await world.tokens.create(token)


@pytest.mark.parametrize("make", [make_agent, make_token])
async def test_an_agent_and_a_token_need_a_machine_that_exists(
    make: Callable[[World], Awaitable[None]],
) -> None:
    async with running() as world:
        with pytest.raises(Refusal) as refusal:
            await make(world)
        assert (refusal.value.code, refusal.value.field) == ("not_found", "machine")
        assert world.agents.all() == world.tokens.page("", 9) == []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("by", ["name", "inbox"])
async def test_a_machine_goes_with_its_agents_its_tokens_and_all_that_is_known_of_them(
    kind: str, by: str, tmp_path: Path
) -> None:
    world_of = worlds(kind, tmp_path)
    async with world_of() as world:
        ada, _ = await world.machine("m", ("ada", "ben"))
        (kim,) = await world.machine("other", ("kim",))
        await arrive(world, ada, status="here")
        await arrive(world, kim, status="here")
        await send(world, ada, "to all")
        texts = {}
        for name, machine, agent in (
            ("of m", "m", None),
            ("of ada", None, "ada"),
            ("of other", "other", None),
        ):
            bound = "agent" if agent else "machine"
            token, texts[name] = world.tokens.draft(
                bound, inboxes=(), machine=machine, agent=agent, machines=("m",)
            )
            await world.tokens.create(token)
        machine = world.machines.get("m")
        assert machine is not None
        if by == "name":
            await world.machines.delete("m")
        else:
            await world.service.delete_inbox(machine.inbox_id)
        with pytest.raises(Refusal) as again:
            await world.machines.delete("m")
        assert (again.value.code, again.value.field) == ("not_found", "machine")
    async with world_of() as world:
        assert [one.name for one in world.machines.all()] == ["other"]
        assert [one.agent_id for one in world.agents.all()] == ["kim"]
        assert await world.service.find(machine_slug("m")) is None
        assert [name for name, text in texts.items() if world.tokens.find(text.encode())] == ["of other"]
        known = await world.store.read(Reading(lambda snapshot: snapshot.presences()))
        assert [one.agent_id for one in known] == ["kim"]
        ada, ben = await world.machine("m", ("ada", "ben"))
        assert world.mesh.presences.of(ada).card.status is None
        assert (await read(world, ben)).rows == []
        assert await world.mesh.sent(ada, None, 9) == []
