"""Who reads an inbox, and how far they have come: `GET /v1/inboxes/{slug}/readers` (surface, section 5). For admins.

Cursors of webhook and topic inboxes belong to their clients, and the server knows none of them. An agent's inbox is
read by the agent, and that reader's state is the server's.
"""

import msgspec

from actors.service import Service
from actors.units import Reading
from storage.mail_records import SELF, ReaderRecord
from web.admin import require_admin
from web.errors import no_such_inbox
from web.http import Answer, Request
from web.openapi.about import About
from web.routes import Route

Runs = tuple[tuple[int, int], ...]


class ReaderView(msgspec.Struct, frozen=True):
    """One reader. Everything up to `ack_cursor` is acknowledged; `acked` and `served` are runs (first, last) of numbers
    above it that were acknowledged, or served by a plain read, one by one. `served_high`: how far pulls have looked.
    """

    reader: str
    ack_cursor: int
    served_high: int
    acked: Runs
    served: Runs


class ReadersView(msgspec.Struct, frozen=True):
    """The readers of one inbox, and the number of its newest message."""

    readers: list[ReaderView]
    latest_seq: int


class ReaderRoutes:
    """The route over one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for Quart."""
        about = About("Administration", "admin", None, ReadersView, name="show_readers")
        return (Route("GET", "/v1/inboxes/{slug}/readers", self.show, about),)

    async def show(self, request: Request) -> Answer:
        """`GET /v1/inboxes/{slug}/readers`: tell how far each agent has read. Who has read nothing yet stands at 0."""
        require_admin(request)
        inbox = await self._service.find(request.params["slug"])
        if inbox is None:
            raise no_such_inbox()
        inbox_id = inbox.inbox_id
        record, head = await self._service.log.read(
            Reading(lambda snapshot: (snapshot.reader(inbox_id, SELF), snapshot.head(inbox_id)))
        )
        readers = [_view(record or ReaderRecord())] if inbox.kind == "agent" else []
        return Answer(200, msgspec.json.encode(ReadersView(readers, head.latest_seq)))


def _view(record: ReaderRecord) -> ReaderView:
    return ReaderView(SELF, record.ack_cursor, record.served_high, record.acked, record.served)
