"""The whole HTTP stack over memory streams: real Hypercorn, h11, front and actors; no socket, no thread, any
clock.

With `MockClock(autojump_threshold=0)` and the thread-free store, minutes pass in milliseconds, and every byte
on the wire can be asserted. What needs the kernel (resets, timeouts of TCP, descriptors) is tested in
`tests/live/`.
"""

import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
import trio.testing
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from actors.service import Service
from storage.clock import wall_clock_us
from storage.protocols import Log
from storage.records import InboxRecord, InboxSettings, NewInbox, Secret, TokenKind
from storage.secret import SecretBytes
from tests.actors.world import World, running
from tests.wire.client import Client
from web.app import admin_routes, mcp_endpoint, read_routes
from web.auth import Authenticator
from web.front import Front
from web.health import Health
from web.http import Handler
from web.ingest import Ingest
from web.options import WebOptions
from web.pages.app import Pages
from web.pages.build import build_pages
from web.pulse import Pulse
from web.routes import Route
from web.serve import ServerConfig
from web.slots import Slots
from web.upstream.connections import Connection, Connections

PEER = ("192.0.2.7", 40_000)
"""The address that every client of these tests has."""

NONE: Mapping[str, bytes] = {}


class PipeSocket:
    """What the server asks of a socket, for one end of a memory stream."""

    family = socket.AF_INET

    def __init__(self, stream: trio.StapledStream[Any, Any]) -> None:
        self._stream = stream

    def getpeername(self) -> tuple[str, int]:
        return PEER

    def getsockname(self) -> tuple[str, int]:
        return ("192.0.2.1", 80)

    def shutdown(self, how: int) -> None:
        """End both directions, as `SHUT_RDWR` does: whoever waits in them is woken."""
        self._stream.receive_stream.close()
        self._stream.send_stream.close()


class PipeStream:
    """The server's end of a memory stream, dressed as a socket stream."""

    def __init__(self, stream: trio.StapledStream[Any, Any]) -> None:
        self._stream = stream
        self.socket = PipeSocket(stream)

    async def send_all(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self._stream.receive_some(max_bytes))

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Wire:
    """A server without sockets. `connect` gives a client with a connection of its own."""

    def __init__(
        self, world: World, front: Front, options: WebOptions, slots: Slots, nursery: trio.Nursery
    ) -> None:
        self.world = world
        self.slots = slots
        self.pulse = Pulse()  # of the streams, where there are any
        self.service: Service = world.service
        self.front = front
        self.context = WorkerContext(None)
        self.connections = Connections(options)
        self._config = ServerConfig(options)
        self._app = ASGIWrapper(front)
        self._nursery = nursery

    def connect(self) -> Client:
        """Open a connection."""
        ours, theirs = trio.testing.memory_stream_pair()
        connection = Connection(
            self.connections, self._app, self._config, self.context, ConnectionState({}), PipeStream(theirs)
        )
        self._nursery.start_soon(connection.run)
        return Client(ours)

    async def inbox(
        self, slug: str = "demo", secrets: Mapping[str, bytes] = NONE, **settings: Any
    ) -> InboxRecord:
        """Make a webhook inbox; `secrets` by name, the oldest first."""
        kept = tuple(Secret(name, SecretBytes(value), n) for n, (name, value) in enumerate(secrets.items()))
        new = NewInbox(slug, "webhook", "", InboxSettings(**settings), kept)
        return (await self.service.create_inbox(new)).record

    async def token(self, kind: TokenKind = "admin", inboxes: Sequence[str] | None = None) -> tuple[str, str]:
        """Issue a token and return the header that carries it."""
        record, text = self.world.tokens.draft(kind, inboxes=inboxes)
        await self.world.tokens.create(record)
        return ("Authorization", f"Bearer {text}")


def front_of(
    world: World,
    spool_dir: Path,
    web: WebOptions,
    stopping: trio.Event,
    *,
    hot: Sequence[Route] = (),
    administration: Sequence[Route] = (),
    mcp: Handler | None = None,
    pages: Callable[[Authenticator], Pages] | None = None,
    clock: Callable[[], int] = wall_clock_us,
) -> Front:
    """Return the application over a world of actors; also for tests that serve it on a socket. `clock`: by which ingest
    judges timestamps, in µs since the Unix epoch.
    """
    authenticator = Authenticator(world.tokens, web)
    return Front(
        ingest=Ingest(world.service, web, spool_dir, clock),
        health=Health(world.service, stopping),
        authenticator=authenticator,
        hot=hot,
        administration=administration,
        options=web,
        stopping=stopping,
        mcp=mcp,
        pages=None if pages is None else pages(authenticator),
    )


@asynccontextmanager
async def wire(
    spool_dir: Path,
    *,
    store: Log | None = None,
    hot: Sequence[Route] = (),
    administration: Sequence[Route] = (),
    reading: bool = False,
    administering: bool = False,
    routing: bool = False,
    waking: bool = False,
    indexing: bool = False,
    pages: bool = False,
    stopping: trio.Event | None = None,
    clock: Callable[[], int] = wall_clock_us,
    now: Callable[[], int] = wall_clock_us,
    **options: Any,
) -> AsyncIterator[Wire]:
    """Run the stack; `options` are those of `WebOptions`, `reading` adds the routes of reading and `/mcp`,
    `administering` those of administration (which cost time), `routing` the router, `waking` the wakes, `indexing` the
    indexer, `pages` the web page, `clock` is the one of receipt (`front_of`), `now` the actors'. At the end every
    connection is shut down.
    """
    web = WebOptions(**options)
    slots = Slots(web.max_streams, web.max_streams_per_inbox)
    ends = trio.Event() if stopping is None else stopping
    parts = {"routing": routing, "waking": waking, "indexing": indexing}
    async with running(store, now, **parts) as world, trio.open_nursery() as nursery:
        mcp: Handler | None = None
        pulse = Pulse()
        if reading:
            nursery.start_soon(pulse.run)
            hot = (*hot, *read_routes(world.service, web, slots, pulse, now))
            mcp = mcp_endpoint(world.service, web, slots, now)
        if administering:
            administration = (*administration, *admin_routes(world.service, web))
        front = front_of(
            world,
            spool_dir,
            web,
            ends,
            hot=hot,
            administration=administration,
            mcp=mcp,
            pages=partial(build_pages, world.service, web, slots=slots, pulse=pulse, data_dir=spool_dir)
            if pages
            else None,
            clock=clock,
        )
        lifespan = Lifespan(ASGIWrapper(front), ServerConfig(web), {})
        await nursery.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        served = Wire(world, front, web, slots, nursery)
        served.pulse = pulse
        nursery.start_soon(served.connections.watch)
        yield served
        await served.context.terminated.set()
        served.connections.shut_down_all()
        await served.connections.wait_until_none()
        await lifespan.wait_for_shutdown()
        nursery.cancel_scope.cancel()
