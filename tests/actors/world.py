"""A registry with its actors over the thread-free store, for tests that own time and interleaving."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from actors.agents import AgentBook
from actors.beacons import BeaconBook
from actors.directory import Directory
from actors.mail import Mail
from actors.options import ActorOptions
from actors.publishing import Publishing
from actors.registry import Registry
from actors.router import Router
from actors.service import Service
from actors.tokens import TokenBook
from storage.clock import wall_clock_us
from storage.mail_records import AgentRecord
from storage.memory import MemoryStore
from storage.protocols import Log
from storage.records import InboxKind, InboxSettings, NewInbox


class World:
    """A running registry and what belongs to it."""

    def __init__(self, store: Log, options: ActorOptions, clock: Callable[[], int]) -> None:
        self.store = store
        self.directory = Directory(store, options.known_inboxes)
        self.registry = Registry(store, self.directory, options)
        self.tokens = TokenBook(store, clock)
        self.agents = AgentBook(store, self.registry, self.directory, self.tokens)
        self.mail = Mail(store, self.registry, self.agents, clock, options.pull_max_batch)
        self.beacons = BeaconBook(store, self.registry, self.agents, self.tokens, options, clock)
        self.publishing = Publishing(self.registry, self.directory, self.agents, options)
        self.router = Router(store, self.registry, self.agents, self.tokens, self.beacons.in_force, options)
        self.service = Service(
            store,
            self.registry,
            self.directory,
            self.tokens,
            self.mail,
            self.beacons,
            self.publishing,
            self.router,
        )

    async def inbox(self, slug: str = "demo", kind: InboxKind = "webhook") -> int:
        """Make an inbox and return its id."""
        made = await self.service.create_inbox(NewInbox(slug, kind, "", InboxSettings()))
        return made.record.inbox_id

    async def agent(self, agent_id: str = "a") -> AgentRecord:
        """Make an agent and return it."""
        return await self.mail.create_agent(agent_id, InboxSettings())


@asynccontextmanager
async def running(
    store: Log | None = None,
    clock: Callable[[], int] = wall_clock_us,
    routing: bool = False,
    **options: float,
) -> AsyncIterator[World]:
    """Run a registry, and the router when that is wanted; closing it is an orderly shutdown that must end by itself."""
    world = World(store or MemoryStore(), ActorOptions(**options), clock)  # type: ignore[arg-type]  # ints pass as floats
    await world.tokens.load()
    await world.agents.load()
    await world.beacons.in_force.load()
    async with trio.open_nursery() as nursery:
        await nursery.start(world.registry.run)
        async with trio.open_nursery() as background:
            if routing:
                world.registry.on_messages = world.router.nudge
                await background.start(world.router.run)
            yield world
            background.cancel_scope.cancel()
        world.registry.close()
