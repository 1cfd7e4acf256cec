from typing import TypeVar

import trio
import trio.testing

from actors.commands import ChangeInbox, DeleteInbox
from actors.directory import Directory
from storage.memory import MemoryStore
from storage.protocols import Look
from storage.records import InboxSettings, NewInbox
from tests.actors.world import running

T = TypeVar("T")


class CountingStore(MemoryStore):
    """A store that counts its reads, and holds the next one back while `hold` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.hold: trio.Event | None = None

    async def read(self, look: Look[T]) -> T:
        self.reads += 1
        result = await super().read(look)
        if self.hold is not None:
            await self.hold.wait()
        return result


async def test_an_inbox_in_use_is_found_without_a_read() -> None:
    store = CountingStore()
    async with running(store) as world:
        await world.inbox()
        store.reads = 0
        for _ in range(5):
            assert await world.service.find("demo") is not None
        assert store.reads == 0


async def test_a_read_that_was_under_way_during_a_change_is_not_remembered() -> None:
    store = CountingStore()
    async with running(store) as world:
        inbox = await world.inbox()
        directory = Directory(store, 10)
        store.hold = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(directory.find, "demo")
            await trio.testing.wait_all_tasks_blocked()
            record = await world.registry.ask(inbox, ChangeInbox(lambda record: ("new", record.settings)))
            directory.put(record)
            store.hold.set()
        found = await directory.find("demo")
        assert found is not None
        assert found.name == "new"


async def test_only_the_inboxes_used_lately_are_remembered() -> None:
    store = CountingStore()
    async with running(store, known_inboxes=2) as world:
        for slug in ("a", "b", "c"):
            await world.service.create_inbox(NewInbox(slug, "webhook", "", InboxSettings()))
        store.reads = 0
        await world.service.find("b")
        await world.service.find("c")
        assert store.reads == 0
        await world.service.find("a")
        assert store.reads == 1


async def test_forgetting_an_old_life_leaves_the_new_one_alone() -> None:
    async with running() as world:
        old = await world.inbox()
        await world.registry.ask(old, DeleteInbox())
        new = await world.inbox()
        world.directory.forget(old)
        found = await world.service.find("demo")
        assert found is not None
        assert found.inbox_id == new
