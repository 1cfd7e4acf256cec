"""Agents on machines over REST: `/agent/…` and `/agents` (surface, section 8). Handlers from request to answer.

What is done and refused is decided in `web/mesh.py`. An argument that is not as it must be is 422 here, as it is in the
contract of these routes, in the same words as everywhere.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from actors.service import Service
from storage.clock import wall_clock_us
from web.activity import Activity, session_in
from web.admin import NoParameters
from web.decoding import raw_members
from web.faults import as_api_error
from web.http import Answer, Handler, Request, StreamedAnswer
from web.ingest import DUPLICATE
from web.mcp.shapes import Acked, CheckedIn, CheckedOut, Mail, Roster, SentMail, SentTo
from web.mesh import Meeting
from web.mesh_params import AckMail, CheckIn, CheckOut, ListRoster, ListSent, ReadMail, SendMail
from web.openapi.about import About
from web.options import WebOptions
from web.params import from_json, from_object, from_query
from web.reads import principal_of
from web.routes import Route

UNPROCESSABLE = 422

REPEATED = "Postroom-Duplicate"

P = TypeVar("P", bound=msgspec.Struct)


class MeshRoutes:
    """The routes over one service."""

    def __init__(
        self, service: Service, options: WebOptions, clock: Callable[[], int] = wall_clock_us
    ) -> None:
        """`clock` gives µs since the epoch."""
        self._meeting = Meeting(service, options, clock)
        self._activity = Activity(service)

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter."""
        about = partial(About, "Agents on machines", "member", headers=("Postroom-Session",))
        sending = about(SendMail, SentTo, 200, "no_recipient", "send_mail", gives=(REPEATED,))
        reading = about(ReadMail, Mail, 200, "insufficient_storage", "read_mail")
        routes = (
            Route("POST", "/agent/checkin", self.check_in, about(CheckIn, CheckedIn)),
            Route("POST", "/agent/checkout", self.check_out, about(CheckOut, CheckedOut)),
            Route("GET", "/agents", self.roster, about(ListRoster, Roster, name="list_roster")),
            Route("POST", "/agent/send", self.send, sending),
            Route("GET", "/agent/inbox", self.read, reading),
            Route("POST", "/agent/ack", self.ack, about(AckMail, Acked, 200, "conflict", "ack_mail")),
            Route("GET", "/agent/sent", self.sent, about(ListSent, SentMail, name="list_sent")),
        )
        return tuple(
            msgspec.structs.replace(route, handler=_unprocessable(route.handler))
            for route in self._activity.counted(routes, but=_is_silent)
        )

    async def check_in(self, request: Request) -> Answer:
        """`POST /agent/checkin`: say that an agent is there, and what it is."""
        params = await _body(request, CheckIn)
        return Answer(200, await self._meeting.check_in(principal_of(request), params, session_in(request)))

    async def check_out(self, request: Request) -> Answer:
        """`POST /agent/checkout`: say that an agent leaves."""
        params = await _body(request, CheckOut)
        return Answer(200, await self._meeting.check_out(principal_of(request), params))

    async def roster(self, request: Request) -> Answer:
        """`GET /agents`: tell who is there."""
        params = from_query(ListRoster, request.raw_query)
        return Answer(200, await self._meeting.roster(principal_of(request), params, session_in(request)))

    async def send(self, request: Request) -> Answer:
        """`POST /agent/send`: send to one agent or to all of a machine. A repeated key is answered as at first."""
        from_query(NoParameters, request.raw_query)
        params = sent_form(await request.read_body())
        sent = await self._meeting.send(principal_of(request), params, session_in(request))
        return Answer(200, sent.body, headers=(DUPLICATE,) if sent.duplicate else (), sent=sent.release)

    async def read(self, request: Request) -> Answer:
        """`GET /agent/inbox`: read an agent's mail. HEAD, whose answer shows nothing, marks nothing."""
        params = from_query(ReadMail, request.raw_query)
        if request.method == "HEAD":
            params = msgspec.structs.replace(params, peek=True)
        return Answer(200, await self._meeting.read(principal_of(request), params, session_in(request)))

    async def ack(self, request: Request) -> Answer:
        """`POST /agent/ack`: acknowledge what an agent has handled."""
        params = await _body(request, AckMail)
        return Answer(200, await self._meeting.ack(principal_of(request), params, session_in(request)))

    async def sent(self, request: Request) -> Answer:
        """`GET /agent/sent`: list what an agent has sent."""
        params = from_query(ListSent, request.raw_query)
        return Answer(200, await self._meeting.sent(principal_of(request), params, session_in(request)))


def sent_form(body: bytes) -> SendMail:
    """Return what a body asks to send, the payload in the bytes that it came in. Raises `ApiError`."""
    members = raw_members(body)
    payload = members.pop("payload", None)
    values: dict[str, Any] = {name: msgspec.json.decode(value) for name, value in members.items()}
    if payload is not None:
        values["payload"] = payload
    return from_object(SendMail, values)


async def _body(request: Request, takes: type[P]) -> P:
    from_query(NoParameters, request.raw_query)
    return from_json(takes, await request.read_body())


def _is_silent(request: Request) -> bool:
    """Whether a call is no sign of life: a roster for nobody, a read in the background (not checked yet)."""
    given = parse_qsl(request.raw_query.decode("latin-1"), keep_blank_values=True)
    if request.raw_path == b"/agents":
        return "agent_id" not in dict(given)
    return request.raw_path == b"/agent/inbox" and ("background", "true") in given


def _unprocessable(handler: Handler) -> Handler:
    """Return a handler that answers what it refuses as `invalid_argument` with 422."""

    @wraps(handler)
    async def answering(request: Request) -> Answer | StreamedAnswer:
        try:
            return await handler(request)
        except Exception as error:
            answer = _refused(error)
            if answer is None:
                raise
            return answer

    return answering


def _refused(error: Exception) -> Answer | None:
    """Return the answer to a wrong argument. A function apart: a frame that holds what it was passed by is a cycle."""
    told = as_api_error(error)
    if told is None or told.code != "invalid_argument":
        return None
    return msgspec.structs.replace(told.answer(), status=UNPROCESSABLE)
