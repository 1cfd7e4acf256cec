"""Serving gRPC: an asyncio loop inside trio, the accept loop beside it, and the order in which both end.

The inboxes do not depend on this endpoint. When it fails as a whole, which takes a bug, it is logged and begun again
on the same socket; newcomers wait in the kernel's queue meanwhile. One call that fails is that call's alone.
"""

import logging
import socket
from collections.abc import Callable

import structlog
import trio
from grpclib.reflection.service import ServerReflection

from web.auth import Authenticator
from web.figures import CallFigures
from web.grpc.bridge import Bridge
from web.grpc.calls import handlers
from web.grpc.connections import Links
from web.grpc.health import HealthService
from web.grpc.inbox import SERVICE, InboxService, Pulls
from web.grpc.upstream import note_failure, open_loop
from web.options import WebOptions
from web.upstream.accepting import accept_connections
from web.upstream.connections import Connections

RESTART_SECONDS = 1.0
"""After a failure; a bug that comes back at once must not keep a core busy."""

CHATTY = ("grpclib", "asyncio")
"""Loggers with a line for each call that is cancelled, or for each peer that has gone."""

log = structlog.get_logger("postroom.grpc")


async def serve_grpc(
    pulling: Pulls,
    authenticator: Authenticator,
    options: WebOptions,
    *,
    listening: socket.socket,
    connections: Connections,
    calls: CallFigures,
    ready: Callable[[], bool],
    stopping: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on `listening` until `stopping` is set and every connection has ended, within two seconds.

    `connections` are those of HTTP, which count against the same limit; `calls` counts what is answered; `ready` says
    whether messages can be stored and read. `started` is called when connections are accepted.
    """
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
    served = False

    async def run() -> None:
        nonlocal served
        async with open_loop() as loop:
            loop.set_exception_handler(note_failure)
            async with trio.open_nursery() as serving:
                bridge = Bridge(serving)
                inbox = InboxService(pulling, authenticator, options, bridge)
                health = HealthService((SERVICE,), ready, stopping)
                methods = handlers(ServerReflection.extend([inbox, health]), calls)
                links = Links(loop, methods, options, connections)
                async with trio.open_nursery() as accepting:
                    await accepting.start(accept_connections, listener, links.take, serving, links.make_room)
                    accepting.start_soon(links.watch, health.look)
                    if not served:
                        served = True
                        task_status.started()
                    await stopping.wait()
                    accepting.cancel_scope.cancel()
                await listener.aclose()
                health.end()
                await links.end()
                serving.cancel_scope.cancel()  # a connection that came too late to be seen off

    async with listener:
        while not stopping.is_set():
            try:
                await run()
            except* Exception:
                if not served:
                    raise
                log.exception("gRPC failed and is begun again")
            with trio.move_on_after(RESTART_SECONDS):
                await stopping.wait()
