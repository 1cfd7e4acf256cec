"""`GET /v1/inboxes/{slug}/wait`: waiting over REST. What a wait is, and what ends it, is in `web/waiting.py`."""

from actors.service import Service
from web.activity import Activity, session_in
from web.http import Answer, Request
from web.mcp.shapes import ForwardPage
from web.openapi.about import About
from web.options import WebOptions
from web.params import WaitForMessages, from_query
from web.reading import readable
from web.reads import principal_of
from web.routes import Route
from web.slots import Slots
from web.waiting import Waiting


class Waits:
    """The route of waiting over one service."""

    def __init__(self, service: Service, options: WebOptions, slots: Slots) -> None:
        self._waiting = Waiting(service, options, slots)
        self._activity = Activity(service)

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter."""
        about = About(
            "Reading", "reader", WaitForMessages, ForwardPage, 200, "too_many_waits", "wait_for_messages"
        )
        return (Route("GET", "/v1/inboxes/{slug}/wait", self.wait, about),)

    async def wait(self, request: Request) -> Answer:
        """Answer with the first page that has something in it, or an empty one. Raises `ClientGone`."""
        caller = principal_of(request)
        inbox = await readable(self._waiting.service, caller, request.params["slug"])
        params = from_query(WaitForMessages, request.raw_query, {"inbox": inbox.slug})
        if params.timeout_seconds == 0:
            self._activity.heard(caller, session_in(request))
        await request.read_body()  # of no use, but in the way of hearing that the client has left
        waited = await self._waiting.wait(caller, inbox, params, request.when_gone)
        return Answer(200, waited.body, sent=waited.release)
