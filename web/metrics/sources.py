"""Where the figures are that are published: the parts of one server that count something."""

import msgspec

from actors.housekeeping import HousekeepingFigures
from actors.indexing import Indexer
from actors.service import Service
from web.auth import Authenticator
from web.figures import CallFigures
from web.ingest import Ingest
from web.options import WebOptions
from web.pulse import Pulse
from web.request_log import RequestLog
from web.slots import Slots
from web.upstream.connections import Connections


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one server, read at the moment of a scrape. `calls`: those over gRPC."""

    service: Service
    options: WebOptions
    ingest: Ingest
    requests: RequestLog
    slots: Slots
    pulse: Pulse
    connections: Connections
    authenticator: Authenticator
    housekeeping: HousekeepingFigures
    calls: CallFigures
    indexer: Indexer
