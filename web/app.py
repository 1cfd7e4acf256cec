"""The web application, put together: which handlers exist and what they stand on."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from actors.backups import Backups
from actors.housekeeping import HousekeepingFigures
from actors.indexing import Indexer
from actors.service import Service
from storage.clock import wall_clock_us
from web.activity import Activity
from web.admin import Admin
from web.agents import AgentRoutes
from web.auth import Authenticator
from web.backups import BackupRoutes
from web.figures import CallFigures
from web.front import Front
from web.health import Health
from web.ingest import Ingest
from web.machines import MachineRoutes
from web.mail_routes import MailRoutes
from web.mcp.agents import AgentTools
from web.mcp.cancelling import Cancelling
from web.mcp.endpoint import Endpoint
from web.mcp.mailbox import Mailbox
from web.mcp.mesh import MeshTools
from web.mcp.tools import ToolBox
from web.mesh_routes import MeshRoutes
from web.metrics.exposition import Metrics
from web.metrics.sources import Sources
from web.options import WebOptions
from web.pages.build import build_pages
from web.pulse import Pulse
from web.readers import ReaderRoutes
from web.reads import Reads
from web.request_log import RequestLog
from web.routes import Route, switched_off
from web.samples import Samples
from web.searching import Searching
from web.slots import Slots
from web.stats import Stats
from web.streams import Streams
from web.upstream.connections import Connections
from web.waits import Waits

if TYPE_CHECKING:
    from web.tracing import Tracing  # not loaded unless there are traces

READ_API_OFF = "Reading is switched off on this server (READ_API_ENABLED)."


def read_routes(
    service: Service,
    options: WebOptions,
    slots: Slots,
    pulse: Pulse,
    clock: Callable[[], int] = wall_clock_us,
) -> tuple[Route, ...]:
    """Return the routes of reading, waiting and streaming, and those of agents; waits and streams share their slots.

    `clock` gives µs since the epoch.
    """
    return (
        *Activity(service).counted(
            (*Reads(service, options).routes(), *Searching(service, options).routes())
        ),
        *Waits(service, options, slots).routes(),
        *Streams(service, options, slots, pulse).routes(),
        *MailRoutes(service, options, slots).routes(),
        *MeshRoutes(service, options, clock).routes(),
    )


def admin_routes(service: Service, options: WebOptions) -> tuple[Route, ...]:
    """Return the routes of administration, which go through Quart."""
    return (
        *Activity(service).counted(Admin(service, options).routes()),
        *AgentRoutes(service, options).routes(),
        *MachineRoutes(service, options).routes(),
        *ReaderRoutes(service).routes(),
    )


def mcp_endpoint(
    service: Service,
    options: WebOptions,
    slots: Slots,
    clock: Callable[[], int] = wall_clock_us,
    tracing: "Tracing | None" = None,
) -> Endpoint:
    """Return the MCP endpoint with its tools; its waits share the slots of all others."""
    cancelling = Cancelling()
    readers = Mailbox(service, options, slots, cancelling).tools()
    agents = AgentTools(service, options, slots).tools()
    tools = (
        *readers,
        *agents,
        *MeshTools(service, options, clock).tools(),
    )
    box = ToolBox(tools if tracing is None else tracing.tools(tools))
    return Endpoint(box, options, cancelling, Activity(service).heard)


def build_app(
    service: Service,
    options: WebOptions,
    stopping: trio.Event,
    *,
    spool_dir: Path,
    backups: Backups,
    connections: Connections,
    pulse: Pulse,
    authenticator: Authenticator,
    housekeeping: HousekeepingFigures,
    calls: CallFigures,
    indexer: Indexer,
    tracing: "Tracing | None" = None,
) -> tuple[Front, Metrics]:
    """Return the ASGI application, and what is counted in it and below it.

    `spool_dir` is where large bodies wait for their verdict; `connections` are those of the server that will serve it,
    for its figures; `pulse` beats for its streams and is run by the caller; `authenticator` is that of every port, so
    that wrong tokens are counted together; `housekeeping`, `calls` (those of gRPC) and what `indexer` counts are
    counted elsewhere; `tracing` makes some parts traced ones.

    With the read API off, its routes answer 404, saying so, and there is no MCP endpoint: ingest and administration are
    what is left.
    """
    slots = Slots(options.max_streams, options.max_streams_per_inbox)
    ingest = (Ingest if tracing is None else tracing.ingest)(service, options, spool_dir)
    stats = Stats(service, options, slots=slots, connections=connections, in_flight=ingest.in_flight)
    samples = Samples(service, ingest)
    reading = read_routes(service, options, slots, pulse)
    requests = RequestLog()
    metrics = Metrics(
        Sources(
            service=service,
            options=options,
            ingest=ingest,
            requests=requests,
            slots=slots,
            pulse=pulse,
            connections=connections,
            authenticator=authenticator,
            housekeeping=housekeeping,
            calls=calls,
            indexer=indexer,
        )
    )
    front = Front(
        ingest=ingest,
        health=Health(service, stopping),
        authenticator=authenticator,
        hot=(
            *(reading if options.read_api_enabled else switched_off(reading, READ_API_OFF)),
            *BackupRoutes(backups).routes(),
            *stats.routes(),
            *samples.routes(),
            *metrics.routes(),
        ),
        administration=admin_routes(service, options),
        options=options,
        stopping=stopping,
        slots=slots,
        mcp=mcp_endpoint(service, options, slots, tracing=tracing) if options.read_api_enabled else None,
        pages=build_pages(
            service,
            options,
            authenticator,
            slots=slots,
            pulse=pulse,
            data_dir=spool_dir,
            own=(*stats.routes(), *samples.routes()),
        ),
        requests=requests,
    )
    return front, metrics
