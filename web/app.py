"""The web application, put together: which handlers exist and what they stand on."""

from pathlib import Path

import trio

from actors.backups import Backups
from actors.service import Service
from web.admin import Admin
from web.agents import AgentRoutes
from web.auth import Authenticator
from web.backups import BackupRoutes
from web.front import Front
from web.health import Health
from web.ingest import Ingest
from web.mail_routes import MailRoutes
from web.mcp.agents import AgentTools
from web.mcp.cancelling import Cancelling
from web.mcp.endpoint import Endpoint
from web.mcp.mailbox import Mailbox
from web.mcp.tools import ToolBox
from web.options import WebOptions
from web.pulse import Pulse
from web.reads import Reads
from web.routes import Route, switched_off
from web.samples import Samples
from web.slots import Slots
from web.stats import Stats
from web.streams import Streams
from web.upstream.connections import Connections
from web.waits import Waits

READ_API_OFF = "Reading is switched off on this server (READ_API_ENABLED)."


def read_routes(service: Service, options: WebOptions, slots: Slots, pulse: Pulse) -> tuple[Route, ...]:
    """Return the routes of reading, waiting and streaming, and those of agents; waits and streams share their slots."""
    return (
        *Reads(service, options).routes(),
        *Waits(service, options, slots).routes(),
        *Streams(service, options, slots, pulse).routes(),
        *MailRoutes(service, options, slots).routes(),
    )


def mcp_endpoint(service: Service, options: WebOptions, slots: Slots) -> Endpoint:
    """Return the MCP endpoint with its tools; its waits share the slots of all others."""
    cancelling = Cancelling()
    readers = Mailbox(service, options, slots, cancelling).tools()
    agents = AgentTools(service, options, slots).tools()
    return Endpoint(ToolBox((*readers, *agents)), options, cancelling)


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
) -> Front:
    """Return the ASGI application. `spool_dir` is where large bodies wait for their verdict; `connections` are those of
    the server that will serve it, for its figures; `pulse` beats for its streams and is run by the caller;
    `authenticator` is that of every port, so that wrong tokens are counted together.

    With the read API off, its routes answer 404, saying so, and there is no MCP endpoint: ingest and administration are
    what is left.
    """
    slots = Slots(options.max_streams, options.max_streams_per_inbox)
    ingest = Ingest(service, options, spool_dir)
    stats = Stats(service, options, slots=slots, connections=connections, in_flight=ingest.in_flight)
    reading = read_routes(service, options, slots, pulse)
    return Front(
        ingest=ingest,
        health=Health(service, stopping),
        authenticator=authenticator,
        hot=(
            *(reading if options.read_api_enabled else switched_off(reading, READ_API_OFF)),
            *BackupRoutes(backups).routes(),
            *stats.routes(),
            *Samples(service, ingest).routes(),
        ),
        administration=(*Admin(service, options).routes(), *AgentRoutes(service, options).routes()),
        options=options,
        stopping=stopping,
        slots=slots,
        mcp=mcp_endpoint(service, options, slots) if options.read_api_enabled else None,
    )
