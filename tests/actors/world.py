"""A registry with its actors over the thread-free store, for tests that own time and interleaving."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from actors.agents import AgentBook
from actors.beacons import BeaconBook
from actors.commands import Refusal
from actors.directory import Directory
from actors.doubts import Doubts
from actors.indexing import Indexer
from actors.machines import MachineBook
from actors.mail import Mail
from actors.mesh import Mesh
from actors.options import ActorOptions
from actors.publishing import Publishing
from actors.registry import Registry
from actors.router import Router
from actors.sending import Letter
from actors.service import Service
from actors.tokens import TokenBook
from actors.waking import WakeCall
from storage.clock import wall_clock_us
from storage.mail_records import AgentRecord
from storage.memory import MemoryStore
from storage.mesh_records import WakeTarget
from storage.protocols import Log
from storage.records import InboxKind, InboxSettings, NewInbox


def notice(target: WakeTarget) -> Letter:
    """Return what an agent is told that is not called any more."""
    return Letter(facts=b'{"sender":null}', said=b'{"msg_type":"system"}', body=b"{}", msg_type="system")


def check(url: str) -> None:
    """Refuse all but one place."""
    if not url.startswith("http://here/"):
        raise Refusal("invalid_argument", "not allowed", "wake.url")


class World:
    """A running registry and what belongs to it."""

    def __init__(self, store: Log, options: ActorOptions, clock: Callable[[], int]) -> None:
        self.store = store
        self.doubts = Doubts(store)
        self.directory = Directory(store, options.known_inboxes, self.doubts)
        self.indexer = Indexer(store)
        self.directory.on_put = self.indexer.changed
        self.registry = Registry(store, self.directory, options)
        self.tokens = TokenBook(store, clock, self.doubts)
        self.agents = AgentBook(store, self.registry, self.directory, self.tokens)
        self.mail = Mail(store, self.registry, self.agents, clock, options.pull_max_batch)
        self.beacons = BeaconBook(store, self.registry, self.agents, self.tokens, options, clock)
        self.publishing = Publishing(self.registry, self.directory, self.agents, options)
        self.router = Router(store, self.registry, self.agents, self.tokens, self.beacons.in_force, options)
        self.machines = MachineBook(store, self.registry, self.directory, self.tokens, self.agents)
        self.calls: list[WakeCall] = []
        self.answers: list[bool] = []
        self.mesh = Mesh(
            store,
            self.registry,
            self.agents,
            self.machines,
            self.tokens,
            options,
            clock,
            notice=notice,
            post=self._post,
            check=check,
        )
        self.service = Service(
            store,
            self.registry,
            self.directory,
            self.tokens,
            self.mail,
            self.beacons,
            self.publishing,
            self.router,
            self.mesh,
        )

    async def _post(self, call: WakeCall) -> bool:
        """Note a wake; answer as `answers` says, and with success after that."""
        self.calls.append(call)
        return self.answers.pop(0) if self.answers else True

    def mail_came(self, inbox_id: int) -> None:
        """Tell the wakes and the indexer that something came."""
        self.mesh.wakes.mail_came(inbox_id)
        self.indexer.mail_came(inbox_id)

    async def inbox(self, slug: str = "demo", kind: InboxKind = "webhook") -> int:
        """Make an inbox and return its id."""
        made = await self.service.create_inbox(NewInbox(slug, kind, "", InboxSettings()))
        return made.record.inbox_id

    async def agent(self, agent_id: str = "a", machine: str | None = None) -> AgentRecord:
        """Make an agent and return it."""
        return await self.mail.create_agent(agent_id, InboxSettings(), machine=machine)

    async def machine(self, name: str = "m", agents: tuple[str, ...] = ()) -> list[AgentRecord]:
        """Make a machine with these agents, and return them."""
        await self.machines.create(name, InboxSettings())
        return [await self.agent(agent_id, name) for agent_id in agents]


@asynccontextmanager
async def running(
    store: Log | None = None,
    clock: Callable[[], int] = wall_clock_us,
    routing: bool = False,
    waking: bool = False,
    indexing: bool = False,
    **options: float,
) -> AsyncIterator[World]:
    """Run a registry, and the router, the wakes and the indexer when these are wanted; closing it is an orderly
    shutdown that must end by itself.
    """
    world = World(store or MemoryStore(), ActorOptions(**options), clock)  # type: ignore[arg-type]  # ints pass as floats
    await world.tokens.load()
    await world.agents.load()
    await world.mesh.load()
    await world.beacons.in_force.load()
    world.registry.on_mail = world.mail_came
    async with trio.open_nursery() as nursery:
        await nursery.start(world.registry.run)
        async with trio.open_nursery() as background:
            if waking:
                await background.start(world.mesh.wakes.run)
            if indexing:
                await background.start(world.indexer.run)
            if routing:
                world.registry.on_messages = world.router.nudge
                await background.start(world.router.run)
            yield world
            background.cancel_scope.cancel()
        world.registry.close()
