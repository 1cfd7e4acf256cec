"""What agents call over REST: their inbox, publishing, beacons (surface, section 7). Handlers from request to answer.

What is read, sent and refused is decided in `web/pulling.py`, `web/publishing.py` and `web/interests.py`; here are the
paths, the bodies and the query strings. (The stream of one's own inbox is with the other streams, `web/streams.py`.)
"""

from functools import partial
from typing import Any, TypeVar

import msgspec

from actors.beacons import Placed
from actors.service import Service
from web.activity import Activity, session_in
from web.admin import NO_CONTENT, NoParameters
from web.errors import invalid
from web.http import Answer, Request
from web.ingest import DUPLICATE
from web.interests import BeaconView, Interests, no_such_beacon
from web.mail_params import PullInbox, ReadInbox, WaitInbox
from web.mcp.shapes import BeaconMatches, Beacons, Published, PullPage, ReplayPage
from web.openapi.about import About
from web.options import WebOptions
from web.params import from_object, from_query, json_object
from web.publish_params import PlaceBeacon, Publish, TestBeacon
from web.publishing import Publications
from web.pulling import Pulling, render_pull
from web.reads import principal_of
from web.routes import Route
from web.slots import Slots

P = TypeVar("P", bound=msgspec.Struct)

REPEATED = ("Postroom-Duplicate",)


class MailRoutes:
    """The routes over one service; waits share the slots of all others."""

    def __init__(self, service: Service, options: WebOptions, slots: Slots) -> None:
        self._pulling = Pulling(service, options, slots)
        self._publications = Publications(service)
        self._interests = Interests(service)
        self._activity = Activity(service)

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter. Each is a sign of life, but for waits."""
        beacon = "/v1/beacons/{name}"
        about = partial(About, "Agents", "agent")
        waiting = about(WaitInbox, PullPage, 200, "too_many_waits", "wait_for_deliveries")
        counted = (
            Route("POST", "/v1/inbox:pull", self.pull, about(PullInbox, PullPage, name="pull_inbox")),
            Route("GET", "/v1/inbox", self.read, about(ReadInbox, ReplayPage, name="replay_inbox")),
            Route(
                "POST",
                "/v1/publish",
                self.publish,
                about(Publish, Published, gives=REPEATED),
            ),
            Route("GET", "/v1/beacons", self.list_beacons, about(None, Beacons)),
            Route(
                "PUT", "/v1/beacons", self.place_beacon, about(PlaceBeacon, Placed, name="place_named_beacon")
            ),
            Route("PUT", beacon, self.place_beacon, about(PlaceBeacon, Placed)),
            Route("GET", beacon, self.show_beacon, about(None, BeaconView)),
            Route("DELETE", beacon, self.remove_beacon, about(None, None, 204)),
            Route(
                "POST",
                "/v1/beacons:test",
                self.test_beacon,
                about(TestBeacon, BeaconMatches),
            ),
        )
        return (*self._activity.counted(counted), Route("POST", "/v1/inbox:wait", self.wait, waiting))

    # -- one's own inbox -----------------------------------------------------------------------------------
    async def pull(self, request: Request) -> Answer:
        """`POST /v1/inbox:pull`: acknowledge, then read a page."""
        params = await _body(request, PullInbox)
        return Answer(200, render_pull(await self._pulling.pull(principal_of(request), params)))

    async def wait(self, request: Request) -> Answer:
        """`POST /v1/inbox:wait`: pull, and wait for something to come. Raises `ClientGone`."""
        params = await _body(request, WaitInbox)
        if params.timeout_seconds == 0:
            self._activity.heard(principal_of(request), session_in(request))
        waited = await self._pulling.wait(principal_of(request), params, request.when_gone)
        return Answer(200, waited.body, sent=waited.release)

    async def read(self, request: Request) -> Answer:
        """`GET /v1/inbox`: read again what was delivered."""
        params = from_query(ReadInbox, request.raw_query)
        return Answer(200, await self._pulling.read(principal_of(request), params))

    # -- publishing ----------------------------------------------------------------------------------------
    async def publish(self, request: Request) -> Answer:
        """`POST /v1/publish`: publish a message. The answer says where it is; of a repeated key, where the first is."""
        params = await _body(request, Publish)
        published = await self._publications.publish(principal_of(request), params)
        headers = (DUPLICATE,) if published.duplicate else ()
        return Answer(200, published.body, headers=headers, sent=published.release)

    # -- beacons -------------------------------------------------------------------------------------------
    async def list_beacons(self, request: Request) -> Answer:
        """`GET /v1/beacons`: list the agent's beacons that are in force, by name."""
        from_query(NoParameters, request.raw_query)
        return Answer(200, self._interests.listed(principal_of(request)))

    async def show_beacon(self, request: Request) -> Answer:
        """`GET /v1/beacons/{name}`: show one of the agent's beacons."""
        from_query(NoParameters, request.raw_query)
        return Answer(200, self._interests.show(principal_of(request), request.params["name"]))

    async def place_beacon(self, request: Request) -> Answer:
        """`PUT /v1/beacons/{name}`: place a beacon, in place of one of this name, which may stand in the body, too."""
        params = await _body(request, PlaceBeacon, request.params)
        return Answer(200, await self._interests.place(principal_of(request), params))

    async def remove_beacon(self, request: Request) -> Answer:
        """`DELETE /v1/beacons/{name}`: remove a beacon. What it has delivered stays."""
        from_query(NoParameters, request.raw_query)
        if not await self._interests.remove(principal_of(request), request.params["name"]):
            raise no_such_beacon()
        return NO_CONTENT

    async def test_beacon(self, request: Request) -> Answer:
        """`POST /v1/beacons:test`: tell what such a beacon would have matched."""
        params = await _body(request, TestBeacon)
        return Answer(200, await self._interests.test(principal_of(request), params))


async def _body(request: Request, takes: type[P], path: dict[str, str] | None = None) -> P:
    """Return what a JSON body says, together with the parameters of the path, which it may repeat but not contradict.

    Raises `ApiError`.
    """
    from_query(NoParameters, request.raw_query)
    values: dict[str, Any] = json_object(await request.read_body())
    for name, value in (path or {}).items():
        if values.setdefault(name, value) != value:
            raise invalid(name, "This is another one than in the path.")
    return from_object(takes, values)
