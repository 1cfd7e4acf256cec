"""Administration through Quart: one adapter from `web.http` handlers to a Quart application.

The front has authenticated the caller, matched the raw path and read the body within its limits before Quart
sees the request. Quart routes on the *template* of the matched route, which the front puts into the scope as
the path: the path that was authorised and the handler that runs cannot differ, whatever a decoded path would
look like (trap 15). Nothing runs in the application's own nursery (trap 5).

Quart is not told that a client has left, which would cancel its handler in the middle: a client that closes its
sending side after the request has not left, and waits for what it asked for, a token perhaps that is shown this once.
Handlers here are short; an answer that nobody reads is written and forgotten.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import quart
import trio
from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    HTTPRequestEvent,
    HTTPScope,
    LifespanScope,
)
from quart_trio import QuartTrio
from werkzeug.datastructures import Headers

from web.http import Answer, Request
from web.replies import answer_headers
from web.routes import Route

REQUEST_KEY = "postroom.request"
"""Where the scope carries the front's `Request`, with the principal and the path's parameters."""

Run = Callable[[Route, Request], Awaitable[Answer]]
"""Carries out a route's handler and turns whatever it raises into an answer."""


class Administration:
    """The Quart application with the administration's routes."""

    def __init__(self, routes: tuple[Route, ...], run: Run) -> None:
        self.quart = QuartTrio("postroom", static_folder=None)
        self.quart.url_map.merge_slashes = False
        self.quart.url_map.strict_slashes = False
        # What the adapter itself raises is logged and answered by the front, in the one error shape.
        self.quart.config["PROPAGATE_EXCEPTIONS"] = True
        for route in routes:
            self.quart.add_url_rule(
                route.template,
                endpoint=f"{route.method} {route.template}",
                view_func=_view(route, run),
                methods=[route.method],
                provide_automatic_options=False,
            )

    async def lifespan(
        self, scope: LifespanScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Start and stop the application."""
        await self.quart(scope, receive, send)

    async def __call__(
        self,
        scope: HTTPScope,
        route: Route,
        request: Request,
        body: bytes,
        send: ASGISendCallable,
    ) -> None:
        """Answer one request, whose body has been read."""
        inner = {**scope, "path": route.template, "raw_path": route.template.encode(), REQUEST_KEY: request}
        await self.quart(cast(HTTPScope, inner), _replay(body), send)


def _view(route: Route, run: Run) -> Callable[[], Awaitable[quart.Response]]:
    async def view() -> quart.Response:
        scope = cast(dict[str, Any], quart.request.scope)
        request: Request = scope[REQUEST_KEY]
        request.read_body = partial(quart.request.get_data, as_text=False)
        answer = await run(route, request)
        response = quart.Response(answer.body, status=answer.status)
        response.headers = Headers(
            [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer_headers(answer)]
        )
        return response

    return view


def _replay(body: bytes) -> ASGIReceiveCallable:
    """Return a `receive` that gives a body that has been read already, and then nothing more: Quart ends it with the
    answer.
    """
    first: HTTPRequestEvent | None = {"type": "http.request", "body": body, "more_body": False}

    async def replay() -> ASGIReceiveEvent:
        nonlocal first
        if first is None:
            await trio.sleep_forever()
        given, first = first, None
        return given

    return replay
