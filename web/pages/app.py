"""The page put together: its routes, and what the front asks of it before it dispatches.

The front hands over every request at `/ui` and below. `admit` lets it in or answers at once; then its route runs, most
through Quart as administration does, streams and raw bytes through the plain adapter; `dressed` turns a refusal, which
comes in the shape of every other error, into a page for people.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import structlog

from actors.service import Service
from web.auth import Authenticator
from web.errors import unauthenticated
from web.http import Answer, Request, StreamedAnswer
from web.options import WebOptions
from web.pages import gate
from web.pages.asking import question
from web.pages.assets import Assets
from web.pages.calls import Calls
from web.pages.rendering import SAFETY_HEADERS, Templates
from web.pages.screens import PageHandler, Screens, StreamHandler
from web.pages.sessions import Sessions
from web.pages.signing import Signing, sign_in_path
from web.pages.visit import Visit, redirect
from web.routes import Route
from web.version import VERSION

PREFIX = "/ui"
OPEN = (b"/ui/sign-in", b"/ui/static/")
"""What is answered without a session."""

TITLES = {
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible here",
    429: "Too many requests",
    503: "Not now",
}

log = structlog.get_logger("postroom.web")


class Pages:
    """The page over one service."""

    def __init__(
        self,
        service: Service,
        options: WebOptions,
        authenticator: Authenticator,
        sessions: Sessions,
        calls: Iterable[Route],
        screens: Iterable[Screens],
    ) -> None:
        """Take `calls`, the routes of REST that it calls (`web/pages/calls.py`), and put the screens together."""
        self._service = service
        self._options = options
        self._sessions = sessions
        self._calls = Calls(calls)
        self._assets = Assets(f"{PREFIX}/static")
        self._templates = Templates(
            asset=self._assets.path, version=VERSION, options=options, question=question
        )
        signing = Signing(sessions, authenticator, self._templates)
        screens = tuple(screens)
        self.through_quart: tuple[Route, ...] = (
            Route("GET", f"{PREFIX}/sign-in", signing.show),
            Route("POST", f"{PREFIX}/sign-in", signing.sign_in),
            Route("POST", f"{PREFIX}/sign-out", self._visiting(signing.sign_out)),
            Route("GET", PREFIX, self._home),
            Route("GET", f"{PREFIX}/", self._home),
            *(
                Route(method, PREFIX + path, self._visiting(handler))
                for screen in screens
                for method, path, handler in screen.pages
            ),
        )
        self.hot: tuple[Route, ...] = (
            Route("GET", f"{PREFIX}/static/{{digest}}/{{name}}", self._assets.serve),
            *(
                Route("GET", PREFIX + path, self._streaming(handler))
                for screen in screens
                for path, handler in screen.streams
            ),
        )

    def owns(self, raw_path: bytes) -> bool:
        """Whether a path is the page's; none is while it is switched off."""
        return self._options.ui_enabled and (raw_path == b"/ui" or raw_path.startswith(b"/ui/"))

    def admit(self, request: Request) -> Answer | None:
        """Let a request in: its principal is set, if it has one, and None returned; or answer it.

        Raises `ApiError`: from another site, or a call of a script without a session.
        """
        is_open = request.raw_path.startswith(OPEN)
        gate.check_source(request, must_say=is_open)
        if is_open:
            return None
        found = gate.find(self._sessions, request)
        if found is not None:
            request.principal = found[1]
            return None
        if request.method in gate.SAFE_METHODS and _is_navigation(request):
            return redirect(sign_in_path(request), *_forget(request))
        raise unauthenticated(sent=bool(gate.cookies(request.headers)))

    def dressed(self, request: Request, answer: Answer) -> Answer:
        """Return a refusal as a page, for whoever wants one; with the headers of the page in any case."""
        if not self.owns(request.raw_path):
            return answer
        headers = tuple(header for header in answer.headers if header[0] != b"www-authenticate")
        if not _is_navigation(request):
            return msgspec.structs.replace(answer, headers=(*SAFETY_HEADERS, *headers))
        told = msgspec.json.decode(answer.body)["error"]
        values: dict[str, Any] = {
            "title": TITLES.get(answer.status, "That did not work"),
            "message": told["message"],
            "field": told.get("field"),
            "me": request.principal,
            "agent": None,
            "form_token": None,  # there is none without a session # nosec B105
            "path": request.raw_path.decode("latin-1"),
            "note": None,
        }
        found = gate.find(self._sessions, request) if request.principal is not None else None
        if found is not None:
            values |= {"form_token": found[0].form_token, "me": found[1]}
        return self._templates.answer("error.html", values, status=answer.status, headers=headers)

    def _visit(self, request: Request) -> Visit:
        found = gate.find(self._sessions, request)
        if found is None:  # it ended while the body was on its way
            raise unauthenticated(sent=True)
        session, caller = found
        return Visit(request, session, caller, self._calls, self._templates, self._service)

    def _visiting(self, handler: PageHandler) -> Callable[[Request], Awaitable[Answer]]:
        async def visiting(request: Request) -> Answer:
            return await handler(self._visit(request))

        return visiting

    def _streaming(self, handler: StreamHandler) -> Callable[[Request], Awaitable[Answer | StreamedAnswer]]:
        async def streaming(request: Request) -> Answer | StreamedAnswer:
            return await handler(self._visit(request))

        return streaming

    async def _home(self, request: Request) -> Answer:
        return redirect(f"{PREFIX}/inboxes")


def _is_navigation(request: Request) -> bool:
    """Whether a page is wanted: by somebody who follows a link, not by a script or a stream."""
    mode = request.header(b"sec-fetch-mode")
    if mode is not None:
        return mode == b"navigate"
    return b"text/html" in (request.header(b"accept") or b"")


def _forget(request: Request) -> tuple[tuple[bytes, bytes], ...]:
    return (gate.drop_cookie(),) if gate.cookies(request.headers) else ()
