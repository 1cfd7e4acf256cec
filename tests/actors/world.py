"""A registry with its actors over the thread-free store, for tests that own time and interleaving."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from actors.directory import Directory
from actors.options import ActorOptions
from actors.registry import Registry
from actors.service import Service
from actors.tokens import TokenBook
from storage.clock import wall_clock_us
from storage.memory import MemoryStore
from storage.records import InboxSettings, NewInbox


class World:
    """A running registry and what belongs to it."""

    def __init__(self, store: MemoryStore, options: ActorOptions) -> None:
        self.store = store
        self.directory = Directory(store, options.known_inboxes)
        self.registry = Registry(store, self.directory, options)
        self.tokens = TokenBook(store, wall_clock_us)
        self.service = Service(store, self.registry, self.directory, self.tokens)

    async def inbox(self, slug: str = "demo") -> int:
        """Make an inbox and return its id."""
        made = await self.service.create_inbox(NewInbox(slug, "webhook", "", InboxSettings()))
        return made.record.inbox_id


@asynccontextmanager
async def running(store: MemoryStore | None = None, **options: float) -> AsyncIterator[World]:
    """Run a registry; closing it is an orderly shutdown that must end by itself."""
    world = World(store or MemoryStore(), ActorOptions(**options))  # type: ignore[arg-type]  # ints pass as floats
    async with trio.open_nursery() as nursery:
        await nursery.start(world.registry.run)
        yield world
        world.registry.close()
