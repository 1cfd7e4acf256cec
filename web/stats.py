"""`GET /v1/stats`: how the server is doing, in figures, for an administrator. One JSON document, made from what is
already counted in memory: asking costs no read of the store, and tells nothing of any single inbox.
"""

import msgspec
import trio

from actors.service import Service
from web.admin import require_admin
from web.http import Answer, Request
from web.limits import BodiesInFlight
from web.openapi.about import About
from web.options import WebOptions
from web.routes import Route
from web.slots import Slots
from web.upstream.connections import Connections
from web.version import VERSION


class StoreFigures(msgspec.Struct, frozen=True):
    """The store. `state` and `reason` as in `/readyz`; counters are from the start of the process."""

    state: str
    reason: str
    commits: int
    units: int
    units_per_commit_max: int
    database_bytes: int
    wal_bytes: int


class ActorFigures(msgspec.Struct, frozen=True):
    """The actors, one for each inbox in use. `restarts`: after a failure."""

    running: int
    restarts: int
    quarantined: int
    mailbox_peak: int
    tail_bytes: int
    tail_bytes_limit: int


class RoutingFigures(msgspec.Struct, frozen=True):
    """The router, since the start: as `actors.router.RouterFigures`. `beacons`: how many are in force."""

    lag: int
    routed: int
    delivered: int
    overflow: int
    failed: int
    beacons: int


class WaitFigures(msgspec.Struct, frozen=True):
    """Waits and streams together. `refused`: those answered `too_many_waits`."""

    open: int
    refused: int
    limit: int
    limit_per_inbox: int


class ConnectionFigures(msgspec.Struct, frozen=True):
    """Connections. `evicted`: readers that had stopped reading; `refused`: over the limit."""

    open: int
    limit: int
    evicted: int
    refused: int


class BodyFigures(msgspec.Struct, frozen=True):
    """Bytes of bodies that are being received or stored at this moment."""

    in_flight_bytes: int
    limit_bytes: int


class Figures(msgspec.Struct, frozen=True):
    """The document."""

    version: str
    uptime_seconds: float
    store: StoreFigures
    actors: ActorFigures
    routing: RoutingFigures
    waits: WaitFigures
    connections: ConnectionFigures
    bodies: BodyFigures


class Stats:
    """The route over one service and the counters of the web layer."""

    def __init__(
        self,
        service: Service,
        options: WebOptions,
        *,
        slots: Slots,
        connections: Connections,
        in_flight: BodiesInFlight,
    ) -> None:
        self._service = service
        self._options = options
        self._slots = slots
        self._connections = connections
        self._in_flight = in_flight
        self._started_at = trio.current_time()

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter."""
        about = About("Administration", "admin", None, Figures, name="show_figures")
        return (Route("GET", "/v1/stats", self.stats, about),)

    async def stats(self, request: Request) -> Answer:
        """`GET /v1/stats`: tell the figures of this moment."""
        require_admin(request)
        return Answer(200, msgspec.json.encode(self._figures()))

    def _figures(self) -> Figures:
        options, registry, health = self._options, self._service.registry, self._service.log.health
        return Figures(
            version=VERSION,
            uptime_seconds=round(trio.current_time() - self._started_at, 3),
            store=StoreFigures(
                state=health.state,
                reason=health.reason,
                commits=health.commits,
                units=health.batch_units,
                units_per_commit_max=health.batch_units_max,
                database_bytes=health.database_bytes,
                wal_bytes=health.wal_bytes,
            ),
            actors=ActorFigures(
                running=registry.running,
                restarts=registry.restarts,
                quarantined=registry.quarantined,
                mailbox_peak=registry.mailbox_peak,
                tail_bytes=registry.tails.bytes,
                tail_bytes_limit=registry.tails.limit_bytes,
            ),
            routing=RoutingFigures(
                **msgspec.structs.asdict(self._service.router.figures),
                beacons=len(self._service.beacons.in_force.index),
            ),
            waits=WaitFigures(
                open=self._slots.taken,
                refused=self._slots.refused,
                limit=options.max_streams,
                limit_per_inbox=options.max_streams_per_inbox,
            ),
            connections=ConnectionFigures(
                open=len(self._connections.live),
                limit=options.max_connections,
                evicted=self._connections.evicted,
                refused=self._connections.refused,
            ),
            bodies=BodyFigures(
                in_flight_bytes=self._in_flight.small + self._in_flight.large,
                limit_bytes=options.bodies_in_flight_bytes,
            ),
        )
