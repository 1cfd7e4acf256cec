"""Reading over REST: lists, pages, single messages, raw bytes (surface, section 5). Handlers from request to answer.

What is read, and what is refused, is decided in `web/reading.py`; here are the paths and the query strings.
"""

from functools import partial

import msgspec

from actors.service import Service
from storage.records import InboxRecord
from web import raw
from web.auth import Principal
from web.errors import unauthenticated
from web.http import Answer, Request, StreamedAnswer
from web.mcp.shapes import Message, Page
from web.openapi.about import About
from web.options import WebOptions
from web.params import GetMessage, ListInboxes, QueryMessages, from_query
from web.reading import Reading, readable
from web.routes import Route
from web.views import InboxPage

TOO_LARGE = "payload_too_large"


def principal_of(request: Request) -> Principal:
    """Return the caller; every route below `/v1` has one, because the front authenticates before it dispatches."""
    if request.principal is None:
        raise unauthenticated(sent=False)
    return request.principal


class Reads:
    """The read routes over one service."""

    def __init__(self, service: Service, options: WebOptions) -> None:
        self._reading = Reading(service, options)

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter."""
        messages = "/v1/inboxes/{slug}/messages"
        about = partial(About, "Reading", "reader")
        return (
            Route("GET", "/v1/inboxes", self.list_inboxes, About("Reading", "token", ListInboxes, InboxPage)),
            Route("GET", messages, self.query_messages, about(QueryMessages, Page)),
            Route("GET", messages + "/{seq}", self.get_message, about(GetMessage, Message, 200, TOO_LARGE)),
            Route("GET", messages + "/{seq}/raw", self.get_raw, raw.ABOUT),
        )

    async def list_inboxes(self, request: Request) -> Answer:
        """`GET /v1/inboxes`: list the inboxes that the token reads."""
        params = from_query(ListInboxes, request.raw_query)
        page = await self._reading.list_inboxes(principal_of(request), params.limit, params.after_slug)
        return Answer(200, msgspec.json.encode(page))

    async def query_messages(self, request: Request) -> Answer:
        """`GET …/messages`: read a page of messages."""
        caller, inbox = await self._readable(request)
        params = from_query(QueryMessages, request.raw_query, {"inbox": inbox.slug})
        return Answer(200, await self._reading.query(caller, inbox, params))

    async def get_message(self, request: Request) -> Answer:
        """`GET …/messages/{seq}`: read one message, whole."""
        caller, inbox = await self._readable(request)
        return Answer(200, await self._reading.whole(caller, inbox, _one_message(request, inbox)))

    async def get_raw(self, request: Request) -> Answer | StreamedAnswer:
        """`GET …/messages/{seq}/raw`: read the bytes as they were received."""
        caller, inbox = await self._readable(request)
        _, row = await self._reading.stored(caller, inbox, _one_message(request, inbox))
        return raw.answer(self._reading.service, request, inbox.slug, row)

    async def _readable(self, request: Request) -> tuple[Principal, InboxRecord]:
        caller = principal_of(request)
        return caller, await readable(self._reading.service, caller, request.params["slug"])


def _one_message(request: Request, inbox: InboxRecord) -> GetMessage:
    path = {"inbox": inbox.slug, "seq": request.params["seq"]}
    return from_query(GetMessage, request.raw_query, path)
