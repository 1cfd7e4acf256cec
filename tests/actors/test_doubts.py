"""After a change whose outcome nobody knows, memory comes to agree with the store, whichever it was."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import pytest
import trio

from actors.commands import ChangeInbox, PutSecret, Refusal
from actors.doubts import RETRY_SECONDS
from actors.rules.presence import Card
from storage.errors import OutcomeUnknown, SecretUnreadable, SlugTaken, StorageDegraded
from storage.memory import MemoryStore
from storage.mesh_records import WakeTarget
from storage.protocols import Unit
from storage.records import InboxSettings, NewInbox, Retention, Secret, TokenRecord
from storage.secret import SecretBytes
from tests.actors.drafts import append
from tests.actors.world import World, running
from tests.virtual import pass_time

AGED = InboxSettings(retention=Retention(max_age_seconds=60))


def lose_the_answer(store: MemoryStore, *, stored: bool) -> None:
    """Let nobody know what becomes of the next unit."""

    def fault(unit: Unit[Any]) -> None:
        store.fault = None
        raise OutcomeUnknown("the answer was lost")

    async def acknowledge() -> None:
        store.acknowledge = None
        await trio.lowlevel.checkpoint()
        raise OutcomeUnknown("the answer was lost")

    if stored:
        store.acknowledge = acknowledge
    else:
        store.fault = fault


async def unknown(world: World, change: Callable[[], Awaitable[object]], *, stored: bool) -> None:
    """Make a change of which nobody knows whether it was stored, and settle it."""
    assert isinstance(world.store, MemoryStore)
    lose_the_answer(world.store, stored=stored)
    with pytest.raises(OutcomeUnknown):
        await change()
    await world.doubts.settle()


def aged(record: Any) -> tuple[str, InboxSettings]:
    return "aged", msgspec.structs.replace(record.settings, retention=AGED.retention)


@pytest.fixture(params=[True, False], ids=["stored", "not stored"])
def stored(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_settings_are_those_that_are_stored(stored: bool) -> None:
    async with running() as world:
        inbox = await world.inbox()
        before = await world.service.find("demo")
        heard: list[str] = []
        world.directory.on_put = lambda record: heard.append(record.name)
        await unknown(world, partial(world.registry.ask, inbox, ChangeInbox(aged)), stored=stored)
        after = await world.service.find("demo")
        assert before is not None
        assert after is not None
        assert after.name == ("aged" if stored else before.name)
        assert heard == [after.name]


async def test_the_retention_that_is_stored_is_in_force_for_the_next_message(stored: bool) -> None:
    async with running() as world:
        inbox = await world.inbox()
        await unknown(world, partial(world.registry.ask, inbox, ChangeInbox(aged)), stored=stored)
        await world.registry.ask(inbox, append())
        live = world.registry.running_live(inbox)
        assert live is not None
        assert live.tail.head is not None
        assert (live.tail.head.due_at is not None) is stored


async def test_a_secret_that_is_stored_is_one(stored: bool) -> None:
    async with running() as world:
        inbox = await world.inbox()
        secret = Secret("new", SecretBytes(b"value"), 1)
        await unknown(
            world, partial(world.registry.ask, inbox, PutSecret(secret, lambda record: None)), stored=stored
        )
        found = await world.service.find("demo")
        assert found is not None
        assert [one.name for one in found.secrets] == (["new"] if stored else [])


async def test_an_inbox_that_was_made_is_there_with_its_token(stored: bool) -> None:
    async with running() as world:
        token, text = world.tokens.draft("agent", inboxes=("fresh",))
        heard: list[str] = []
        world.directory.on_put = lambda record: heard.append(record.slug)
        new = NewInbox("fresh", "webhook", "", AGED)
        await unknown(world, partial(world.service.create_inbox, new, token), stored=stored)
        assert (await world.service.find("fresh") is not None) is stored
        assert (world.tokens.find(text.encode()) is not None) is stored
        assert heard == (["fresh"] if stored else [])


async def test_a_token_that_was_revoked_opens_nothing(stored: bool) -> None:
    async with running() as world:
        token, text = world.tokens.draft("agent", inboxes=None)
        await world.tokens.create(token)
        await unknown(world, partial(world.tokens.revoke, token.token_id), stored=stored)
        assert (world.tokens.find(text.encode()) is None) is stored


async def test_a_token_has_the_scope_that_is_stored(stored: bool) -> None:
    def narrower(token: TokenRecord) -> TokenRecord:
        return msgspec.structs.replace(token, inboxes=("a",))

    async with running() as world:
        token, text = world.tokens.draft("agent", inboxes=("a", "b"))
        await world.tokens.create(token)
        assert world.tokens.find(text.encode())
        await world.tokens.flush_use()
        await unknown(world, partial(world.tokens.change, token.token_id, narrower), stored=stored)
        found = world.tokens.find(text.encode())
        assert found is not None
        assert found.inboxes == (("a",) if stored else ("a", "b"))
        assert found.last_used_at is not None


async def test_a_token_that_was_made_is_listed_and_can_be_revoked(stored: bool) -> None:
    async with running() as world:
        token, _ = world.tokens.draft("agent", inboxes=None)
        await unknown(world, partial(world.tokens.create, token), stored=stored)
        assert (world.tokens.get(token.token_id) is not None) is stored


async def test_an_agent_that_was_made_is_there_with_its_token(stored: bool) -> None:
    async with running() as world:
        await world.machine("m")
        token, text = world.tokens.draft("agent", inboxes=None, agent="ada")
        make = partial(world.agents.create, "ada", InboxSettings(), machine="m", token=token)
        await unknown(world, make, stored=stored)
        assert [agent.agent_id for agent in world.agents.on("m")] == (["ada"] if stored else [])
        assert (world.tokens.find(text.encode()) is not None) is stored
        if stored:
            with pytest.raises(SlugTaken):
                await make()
        else:
            await make()


async def test_an_agent_that_was_deleted_is_gone_with_its_tokens(stored: bool) -> None:
    async with running() as world:
        await world.agent("ada")
        token, text = world.tokens.draft("agent", inboxes=None, agent="ada")
        await world.tokens.create(token)
        gone: list[str] = []
        world.agents.when_gone(lambda agent: gone.append(agent.agent_id))
        await unknown(world, partial(world.agents.delete, "ada"), stored=stored)
        assert (world.agents.get("ada") is None) is stored
        assert (world.tokens.find(text.encode()) is None) is stored
        assert gone == (["ada"] if stored else [])
        if stored:
            await world.agent("ada")


async def test_a_machine_that_was_made_is_there_and_one_that_was_deleted_is_gone(stored: bool) -> None:
    async with running() as world:
        await unknown(world, partial(world.machines.create, "m", InboxSettings()), stored=stored)
        assert (world.machines.get("m") is not None) is stored
        if not stored:
            await world.machines.create("m", InboxSettings())
        await unknown(world, partial(world.machines.delete, "m"), stored=stored)
        assert (world.machines.get("m") is None) is stored
        if stored:
            with pytest.raises(Refusal):
                await world.machines.delete("m")


async def test_who_is_there_and_where_it_is_called_is_what_is_stored(stored: bool) -> None:
    async with running() as world:
        [agent] = await world.machine("m", ("ada",))
        target = WakeTarget("ada", "http://here/wake")
        check_in = partial(
            world.mesh.presences.check_in, agent, Card(status="at work"), 60, "session", target
        )
        await unknown(world, check_in, stored=stored)
        presences = world.mesh.presences
        assert presences.of(agent).card.status == ("at work" if stored else None)
        assert (presences.target(agent) is not None) is stored
        await check_in()
        with presences.waiting(agent):
            await unknown(world, partial(presences.check_out, agent), stored=stored)
            assert presences.of(agent).waits == 1
        assert (presences.of(agent).gone_at is not None) is stored
        assert (presences.target(agent) is None) is stored
        if stored:
            await check_in()
        known = presences.target(agent)
        assert known is not None
        failed = msgspec.structs.replace(known, failures=3)
        await unknown(world, partial(presences.change_target, agent, known, failed), stored=stored)
        found = presences.target(agent)
        assert found is not None
        assert found.failures == (3 if stored else 0)


async def test_what_changes_while_memory_is_read_again_is_kept() -> None:
    async with running() as world:
        await world.machine("m", ("ada",))
        store = world.store
        assert isinstance(store, MemoryStore)
        read, between = (
            store.read,
            [world.agents.delete("ada"), world.machines.delete("m"), world.agent("bob")],
        )

        async def slowly(look: Any) -> Any:
            found = await read(look)
            if between:
                await between.pop(0)
            return found

        store.read = slowly  # type: ignore[method-assign]  # what happens meanwhile is the test's
        await world.agents._read_again()
        await world.machines._read_again()
        await world.agents._read_again()
        assert [agent.agent_id for agent in world.agents.all()] == ["bob"]
        assert world.machines.all() == []


async def test_an_inbox_whose_secrets_do_not_open_is_settled_without_them() -> None:
    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        read = store.read

        async def sealed(look: Any) -> Any:
            store.read = read  # type: ignore[method-assign]  # once is enough
            raise SecretUnreadable("the key is another one")

        store.read = sealed  # type: ignore[method-assign,assignment]  # what a wrong key does to the real one
        await unknown(world, partial(world.registry.ask, inbox, ChangeInbox(aged)), stored=True)
        found = await world.service.find("demo")
        assert found is not None
        assert found.name == "aged"


async def test_what_cannot_be_settled_yet_is_settled_when_the_disk_works_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()

    def down(unit: Unit[Any]) -> None:
        raise StorageDegraded("the disk does not work")

    async with running(store) as world:
        inbox = await world.inbox()
        async with trio.open_nursery() as nursery:
            await nursery.start(world.doubts.run)
            lose_the_answer(store, stored=True)
            with pytest.raises(OutcomeUnknown):
                await world.registry.ask(inbox, ChangeInbox(aged))
            store.fault = down
            await pass_time(3 * RETRY_SECONDS)
            store.fault = None
            heard: list[str] = []
            world.directory.on_put = lambda record: heard.append(record.name)
            await pass_time(2 * RETRY_SECONDS)
            assert heard == ["aged"]
            await pass_time(10 * RETRY_SECONDS)
            assert heard == ["aged"]
            nursery.cancel_scope.cancel()
