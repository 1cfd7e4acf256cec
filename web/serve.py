"""Serving: the listening socket, the accept loop, and the order in which connections end.

It is what `hypercorn.trio.serve` is, with `web.upstream.connections.Connection` in place of Hypercorn's
connection; that function gives no place to pass one, hides a KeyboardInterrupt (trap 20) and would own the
socket's options. Signals are not handled here: whoever calls sets `stopping`.
"""

import errno
import socket
from functools import partial
from time import time
from wsgiref.handlers import format_date_time

import msgspec
import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.logging import Logger
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState, LifespanState

from web.options import WebOptions
from web.upstream.accepting import accept_connections
from web.upstream.connections import RECEIVE_BYTES, Connection, Connections
from web.upstream.listening import listen

BACKLOG = 1024
"""Connections that the kernel holds for us while the loop is busy; a fan-out may take it for half a
second."""

KEEP_ALIVE_REQUESTS = 2**31
"""Requests on one connection: without limit. Hypercorn's 1,000 costs a reconnect now and drops polls on
HTTP/2 (trap 17)."""

STOP_GRACE_SECONDS = 1.0
"""After that a connection that still blocks the shutdown is shut down from outside (S17)."""

UNWIND_SECONDS = 2.0
"""After their sockets were shut down, handlers have so long to come to their end before they are
cancelled."""

log = structlog.get_logger("postroom.web")


class ServerLog(Logger):
    """Hypercorn's own log lines, as ours. Requests are not logged: a line costs more than many a request."""

    def __init__(self, config: Config) -> None:
        self.access_logger = None
        self.error_logger = None

    async def access(self, *args: object) -> None:
        """Log nothing."""

    async def info(self, message: str, *args: object, **kwargs: object) -> None:
        """Log nothing: what Hypercorn finds worth telling, `serve` has told already."""

    async def warning(self, message: str, *args: object, **kwargs: object) -> None:
        """Log a warning."""
        log.warning("from the HTTP server", said=message)

    async def exception(self, message: str, *args: object, **kwargs: object) -> None:
        """Log an exception that reached the server: a bug of ours in the front, which should have caught
        it.
        """
        log.exception("an exception reached the HTTP server", said=message)


class ServerConfig(Config):
    """Hypercorn's configuration for these options."""

    logger_class = ServerLog
    include_server_header = False
    keep_alive_max_requests = KEEP_ALIVE_REQUESTS
    read_timeout = None  # it would end clients that wait for an answer (trap 18)

    def __init__(self, options: WebOptions) -> None:
        # The front refuses larger heads in our own words; h11 only has to stop what is far beyond.
        self.h11_max_incomplete_size = options.header_bytes + RECEIVE_BYTES
        self._date_second = 0
        self._date_headers: list[tuple[bytes, bytes]] = []

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        """Return the `Date` header, made once a second."""
        second = int(time())
        if second != self._date_second:
            self._date_second = second
            self._date_headers = [(b"date", format_date_time(second).encode())]
        return self._date_headers


class Listening(msgspec.Struct, frozen=True):
    """Where the server listens: `address` as `host:port`, `url` with the scheme; the port is the one that was
    taken.
    """

    address: str
    url: str
    port: int


def parse_bind(bind: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[v6]:port`. Raises `ValueError`."""
    host, colon, port = bind.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{bind!r} is not an address like 127.0.0.1:8025 or [::1]:8025")
    return host, int(port)


class CannotListen(Exception):
    """The address cannot be had. The message is one sentence that names it."""


def open_listener(options: WebOptions, bind: str | None = None, flag: str = "--bind") -> socket.socket:
    """Return a listening socket on `bind`, `options.bind` unless given, from which nobody accepts yet.

    Raises `CannotListen`, naming the flag by which another address is chosen.
    """
    bind = options.bind if bind is None else bind
    try:
        host, port = parse_bind(bind)
        return listen(host, port, backlog=BACKLOG, stalled_reader_seconds=options.stalled_reader_seconds)
    except ValueError as error:
        raise CannotListen(f"{error}.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotListen(f"{bind} is in use by another program; choose {flag}.") from error
        reason = (error.strerror or "the system refused").lower()
        raise CannotListen(f"The server cannot listen on {bind}: {reason}.") from error


async def serve_http(
    app: ASGIFramework,
    options: WebOptions,
    *,
    stopping: trio.Event,
    connections: Connections | None = None,
    listening: socket.socket | None = None,
    kept: bool = False,
    task_status: trio.TaskStatus[Listening] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` until `stopping` is set and every connection has ended.

    `listening` is the socket that `open_listener` gave, else one is opened here; `kept` says that somebody else keeps
    it open, so that those who come after `stopping` wait there for the next server and are not turned away. `started`
    gives the address, once connections are accepted; `connections` is for whoever wants to watch them. Raises as
    `open_listener`. The end takes at most `STOP_GRACE_SECONDS` for clients and `UNWIND_SECONDS` for handlers that still
    do not come to theirs.
    """
    sock = open_listener(options) if listening is None else listening
    at = listening_at(sock)
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
    config = ServerConfig(options)
    context = WorkerContext(None)
    if connections is None:
        connections = Connections(options)
    wrapped = ASGIWrapper(app)
    state: LifespanState = {}
    lifespan = Lifespan(wrapped, config, state)
    handler = partial(Connection, connections, wrapped, config, context, ConnectionState(state))
    async with listener, trio.open_nursery() as outer:
        await outer.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        outer.start_soon(connections.watch)
        async with trio.open_nursery() as serving, trio.open_nursery() as accepting:
            await accepting.start(
                accept_connections, listener, handler, serving, connections.shut_down_longest_idle
            )
            task_status.started(at)
            await stopping.wait()
            if kept:
                accepting.cancel_scope.cancel()
            await context.terminated.set()
            connections.shut_down_idle()
            # Else newcomers are told (503) for as long as there is anybody to be seen off; then nobody listens.
            await _end(connections, serving.cancel_scope)
            accepting.cancel_scope.cancel()
        await lifespan.wait_for_shutdown()
        outer.cancel_scope.cancel()


def listening_at(sock: socket.socket) -> Listening:
    """Return where a socket listens."""
    host, port = sock.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Listening(address, f"http://{address}", port)


async def _end(connections: Connections, serving: trio.CancelScope) -> None:
    """See the connections off: politely, then from outside, then by cancelling their handlers."""
    with trio.move_on_after(STOP_GRACE_SECONDS):
        await connections.wait_until_none()
        return
    connections.shut_down_all()
    with trio.move_on_after(UNWIND_SECONDS):
        await connections.wait_until_none()
        return
    log.warning("handlers were cancelled at the shutdown", connections=len(connections.live))
    serving.cancel()
