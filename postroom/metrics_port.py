"""The port that has the metrics alone, as the composition root has it: `METRICS_BIND`.

It asks for no token, so whoever reaches it reads the figures. They name no inbox, no agent and no sender.
"""

import socket
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import msgspec
import structlog
import trio

from postroom.config import Config
from web.hosts import host_of, is_loopback
from web.metrics.exposition import Metrics, MetricsPort
from web.options import WebOptions
from web.serve import listening_at, open_listener, serve_http
from web.upstream.connections import Connections

MAX_CONNECTIONS = 64
"""Scrapers keep one connection each. Apart from those of the HTTP port: a full server is worth watching."""

log = structlog.get_logger("postroom")


def open_metrics_listener(config: Config) -> AbstractContextManager[socket.socket | None]:
    """Return the listening socket, None when the port is off. Raises `CannotListen`."""
    if config.metrics_bind is None:
        return nullcontext()
    return open_listener(config.web, config.metrics_bind, "--metrics-bind")


async def serve_metrics_port(
    metrics: Metrics,
    web: WebOptions,
    *,
    listening: socket.socket,
    stopping: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the metrics until `stopping` is set. `started` is called when connections are accepted."""
    options = msgspec.structs.replace(web, max_connections=MAX_CONNECTIONS)
    address = listening_at(listening).address
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, MetricsPort(metrics), options, listening=listening, stopping=stopping)
        await nursery.start(partial(serve, connections=Connections(options)))
        log.info("metrics ready", address=address)
        if not is_loopback(host_of(address) or ""):
            log.warning("metrics can be read from other machines, without a token", address=address)
        task_status.started()
