"""The gRPC port, as the composition root has it: nothing of it is loaded unless `GRPC_BIND` is set.

Loading costs memory and time, and changes how asyncio behaves in this process (`web/grpc/`).
"""

import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import structlog
import trio

from actors.service import Service
from postroom.config import Config
from web.auth import Authenticator
from web.figures import CallFigures
from web.options import WebOptions
from web.pulling import HeardPulls, Pulling
from web.serve import CannotListen, listening_at, open_listener
from web.slots import Slots
from web.upstream.connections import Connections

if TYPE_CHECKING:
    from web.tracing import Tracing

log = structlog.get_logger("postroom")


def open_grpc_listener(config: Config) -> AbstractContextManager[socket.socket | None]:
    """Return the listening socket, None when the port is off. Raises `CannotListen`."""
    if config.grpc_bind is None:
        return nullcontext()
    return open_listener(config.web, config.grpc_bind, "--grpc-bind")


async def serve_grpc_port(
    service: Service,
    authenticator: Authenticator,
    web: WebOptions,
    *,
    listening: socket.socket,
    connections: Connections,
    calls: CallFigures,
    tracing: "Tracing | None" = None,
    stopping: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve gRPC until `stopping` is set; `connections` are those of HTTP; `calls` counts. Raises `CannotListen` when
    it is not installed.
    """
    # No wait comes by gRPC, so these slots are nobody's.
    heard = HeardPulls(Pulling(service, web, Slots(web.max_streams, web.max_streams_per_inbox)))
    pulling = heard if tracing is None else tracing.pulls(heard)
    serve_grpc = _load()
    log.info("gRPC ready", address=listening_at(listening).address)
    await serve_grpc(
        pulling,
        authenticator,
        web,
        listening=listening,
        connections=connections,
        calls=calls,
        ready=lambda: service.log.health.state == "open",
        stopping=stopping,
        task_status=task_status,
    )


def _load() -> Callable[..., Awaitable[None]]:
    try:
        from web.grpc.serve import serve_grpc
    except ModuleNotFoundError as error:  # as after an update of the files alone
        raise CannotListen(
            f"gRPC cannot be served: {error.name} is missing; install Postroom again."
        ) from error
    return serve_grpc
