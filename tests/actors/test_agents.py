"""The agent book: agents come and go with their inboxes, their tokens and their beacons."""

from pathlib import Path

import pytest
import trio
import trio.testing

from actors.agents import AgentBook
from actors.ask import InboxQuarantined
from actors.commands import Refusal
from actors.units import Reading
from actors.watchers import Watcher
from storage.errors import OutcomeUnknown, SlugTaken
from storage.mail_records import AgentRecord
from storage.memory import MemoryStore
from storage.protocols import Unit
from storage.records import InboxSettings, Retention
from tests.actors.world import World, running
from tests.contract.builders import Do
from tests.contract.conftest import opens
from tests.contract.mail import beacon


async def stored(world: World) -> list[AgentRecord]:
    return await world.service.log.read(Reading(lambda snapshot: snapshot.agents()))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_agent_is_made_with_its_inbox_and_its_token_and_found_again(
    kind: str, tmp_path: Path
) -> None:
    open_log = opens(kind, tmp_path)
    async with open_log() as store, running(store) as world:
        token, text = world.tokens.draft("agent", inboxes=("demo",), agent="a")
        full = InboxSettings(retention=Retention(max_messages=5, policy="refuse"))
        await world.machines.create("m", full)
        agent = await world.mail.create_agent("a", full, machine="m", token=token)
        assert (agent.agent_id, agent.machine) == ("a", "m")
        found = world.tokens.find(text.encode())
        assert found is not None
        assert (found.agent, found.inboxes) == ("a", ("demo",))
        record = await world.service.find("agent.a")
        assert record is not None
        assert (record.inbox_id, record.kind) == (agent.inbox_id, "agent")
        assert record.settings.retention == Retention(max_messages=5), "it never refuses"
        await world.agent("0")
    async with open_log() as store, running(store) as world:
        assert [one.agent_id for one in world.agents.all()] == ["0", "a"]
        assert world.agents.get("a") == world.agents.of_inbox(agent.inbox_id) == agent
        assert world.agents.get("b") is None


async def test_an_id_is_taken_once_and_nothing_of_the_second_one_stays() -> None:
    async with running() as world:
        agent = await world.agent()
        token, text = world.tokens.draft("agent", inboxes=None, agent="a")
        with pytest.raises(SlugTaken):
            await world.mail.create_agent("a", InboxSettings(), token=token)
        assert world.agents.all() == await stored(world) == [agent]
        assert world.tokens.find(text.encode()) is None


async def test_deleting_an_agent_takes_inbox_beacons_and_tokens_and_tells_who_wants_to_know() -> None:
    async with running() as world:
        gone: list[AgentRecord] = []
        world.agents.when_gone(gone.append)
        agent, other = await world.agent("a"), await world.agent("b")
        texts = {}
        for owner in ("a", "b"):
            token, texts[owner] = world.tokens.draft("agent", inboxes=None, agent=owner)
            await world.tokens.create(token)
        await world.service.log.commit(Do(lambda tx: tx.put_beacon(beacon("a"))))
        watcher = Watcher()
        bound = world.tokens.find(texts["a"].encode())
        assert bound is not None
        with world.tokens.watching(bound, watcher):
            await world.mail.delete_agent("a")
        assert watcher.ended == "revoked"
        assert gone == [agent]
        assert world.agents.all() == await stored(world) == [other]
        assert world.tokens.find(texts["a"].encode()) is None
        assert world.tokens.find(texts["b"].encode()) is not None
        assert await world.service.find("agent.a") is None
        tokens = await world.service.log.read(Reading(lambda snapshot: snapshot.tokens()))
        assert [token.agent for token in tokens if token.revoked_at is not None] == ["a"]
        assert await world.service.log.read(Reading(lambda snapshot: snapshot.beacons())) == []
        with pytest.raises(Refusal, match="no such agent"):
            await world.mail.delete_agent("a")
        again = await world.agent("a")
        assert again.inbox_id != agent.inbox_id


async def test_deleting_the_private_inbox_deletes_the_agent() -> None:
    async with running() as world:
        agent = await world.agent()
        await world.service.delete_inbox(agent.inbox_id)
        assert world.agents.all() == await stored(world) == []


async def test_an_agent_that_cannot_be_deleted_keeps_everything() -> None:
    async with running(crashes_allowed=0) as world:
        agent = await world.agent()
        token, text = world.tokens.draft("agent", inboxes=None, agent="a")
        await world.tokens.create(token)
        world.registry._quarantined.add(agent.inbox_id)
        with pytest.raises(InboxQuarantined):
            await world.mail.delete_agent("a")
        assert world.agents.get("a") == agent
        assert world.tokens.find(text.encode()) is not None
        world.registry.lift(agent.inbox_id)
        await world.mail.delete_agent("a")
        assert world.tokens.find(text.encode()) is None


async def test_a_deletion_that_nobody_waits_for_is_carried_out_whole() -> None:
    store = MemoryStore()
    async with running(store) as world:
        await world.agent()
        token, text = world.tokens.draft("agent", inboxes=None, agent="a")
        await world.tokens.create(token)
        entered = trio.Event()

        async def hold() -> None:
            entered.set()
            await trio.testing.wait_all_tasks_blocked()

        store.gate = hold
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.mail.delete_agent, "a")
            await entered.wait()
            nursery.cancel_scope.cancel()
        assert world.agents.all() == await stored(world) == []
        assert world.tokens.find(text.encode()) is None


async def test_two_who_delete_an_agent_at_once_delete_it_once() -> None:
    async with running() as world:
        gone: list[AgentRecord] = []
        world.agents.when_gone(gone.append)
        await world.agent()
        refused = []

        async def delete() -> None:
            try:
                await world.mail.delete_agent("a")
            except Refusal as refusal:
                refused.append(refusal.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            nursery.start_soon(delete)
        assert (len(gone), refused) == (1, ["not_found"])


async def test_no_token_is_bound_to_an_agent_that_does_not_exist() -> None:
    async with running() as world:
        token, text = world.tokens.draft("agent", inboxes=None, agent="a")
        with pytest.raises(Refusal, match="no such agent") as refused:
            await world.tokens.create(token)
        assert (refused.value.code, refused.value.field) == ("not_found", "agent")
        await world.agent()
        await world.tokens.create(token)
        assert world.tokens.find(text.encode()) == token


async def test_what_became_of_a_deletion_may_be_unknown_until_the_next_start() -> None:
    def lose(unit: Unit[object]) -> None:
        raise OutcomeUnknown("the disk did not say")

    store = MemoryStore()
    async with running(store) as world:
        agent = await world.agent()
        store.fault = lose
        with pytest.raises(OutcomeUnknown):
            await world.mail.delete_agent("a")
        store.fault = None
        book = AgentBook(store, world.registry, world.directory, world.tokens)
        await book.load()
        assert book.all() == world.agents.all() == [agent]
