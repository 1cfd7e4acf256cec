"""The web application, put together: which handlers exist and what they stand on."""

from pathlib import Path

import trio

from actors.backups import Backups
from actors.service import Service
from web.admin import Admin
from web.auth import Authenticator
from web.backups import BackupRoutes
from web.front import Front
from web.health import Health
from web.ingest import Ingest
from web.options import WebOptions
from web.pulse import Pulse
from web.reads import Reads
from web.routes import Route
from web.slots import Slots
from web.stats import Stats
from web.streams import Streams
from web.upstream.connections import Connections
from web.waits import Waits


def read_routes(service: Service, options: WebOptions, slots: Slots, pulse: Pulse) -> tuple[Route, ...]:
    """Return the routes of reading, waiting and streaming; waits and streams share their slots."""
    return (
        *Reads(service, options).routes(),
        *Waits(service, options, slots).routes(),
        *Streams(service, options, slots, pulse).routes(),
    )


def build_app(
    service: Service,
    options: WebOptions,
    stopping: trio.Event,
    *,
    spool_dir: Path,
    backups: Backups,
    connections: Connections,
    pulse: Pulse,
) -> Front:
    """Return the ASGI application. `spool_dir` is where large bodies wait for their verdict; `connections` are those of
    the server that will serve it, for its figures; `pulse` beats for its streams and is run by the caller.

    With the read API off, its routes do not exist: ingest and administration are what is left.
    """
    slots = Slots(options.max_streams, options.max_streams_per_inbox)
    ingest = Ingest(service, options, spool_dir)
    stats = Stats(service, options, slots=slots, connections=connections, in_flight=ingest.in_flight)
    return Front(
        ingest=ingest,
        health=Health(service, stopping),
        authenticator=Authenticator(service.tokens),
        hot=(
            *(read_routes(service, options, slots, pulse) if options.read_api_enabled else ()),
            *BackupRoutes(backups).routes(),
            *stats.routes(),
        ),
        administration=Admin(service, options).routes(),
        options=options,
        stopping=stopping,
        slots=slots,
    )
