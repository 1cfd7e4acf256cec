"""The one ASGI application: it looks at the raw path and decides who answers.

- `/in/…`: ingest;
- `/healthz`, `/readyz`: health;
- `/openapi.json`: what this server can do (`web/openapi/`);
- `/mcp`: authenticated here, then the MCP endpoint (`web/mcp/`), where it is on;
- `/ui…`: the web page, where it is on, which lets callers in by itself (`web/pages/`);
- `/v1/…`, `/agent/…`, `/agents`, `/metrics`: authenticated here before anything else is said; then the hot routes
  through the plain adapter (`web/replies.py`), administration through Quart (`web/quartapp.py`), both with the same
  `Request` values;
- anything else: 404 in the one error shape; also `/.well-known/…`, where MCP clients look for OAuth, and would take any
  other answer for it.

An unexpected exception is logged once, here, and is `internal` to the client.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain
from typing import cast

import structlog
import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, HTTPScope, Scope

from web import request_ids
from web.addresses import TrustedProxies
from web.attempts import keep_back
from web.auth import Authenticator
from web.errors import ApiError
from web.faults import as_api_error
from web.grammar import is_slug
from web.health import Health
from web.http import Answer, Handler, RawHeaders, Request, StreamedAnswer
from web.ingest import Ingest
from web.limits import PEER, ClientGone, Incoming, Peer, framed_twice
from web.openapi.beside import BESIDE_THE_TABLES
from web.openapi.document import PATH, Document
from web.openapi.operations import operations
from web.options import WebOptions, adopt
from web.pages.app import Pages
from web.quartapp import Administration
from web.replies import send_answer, send_streamed
from web.request_log import FIXED, INGEST_PREFIX, INGEST_ROUTE, RequestLog
from web.routes import Route, RouteTable
from web.slots import Slots
from web.upstream.answers import shield_last_send

API_BODY_BYTES = 1024 * 1024
"""Bodies of the API (not of ingest) are JSON documents; the largest field that any of them allows is 64
KiB."""

UNKNOWN_BODY_BYTES = 16 * 1024
"""The same of who has not shown a token: somebody who signs in to the page."""

API_PREFIXES = (b"/v1/", b"/agent/")
API_PATHS = (b"/agents", b"/metrics")

DOCUMENT_PATH = PATH.encode()

LOGGED_PATH_BYTES = 256
"""No route of ours is longer, with a slug, a number and a name of 64 characters in it."""

HEADER_OVERHEAD_BYTES = 4
"""`: ` and CR LF, per header line."""

INTERNAL = ApiError("internal", "Something went wrong in the server; it has been logged.").answer()

log = structlog.get_logger("postroom.web")


class Front:
    """The ASGI application."""

    def __init__(
        self,
        *,
        ingest: Ingest,
        health: Health,
        authenticator: Authenticator,
        hot: Sequence[Route],
        administration: Sequence[Route],
        options: WebOptions,
        stopping: trio.Event,
        slots: Slots | None = None,
        mcp: Handler | None = None,
        pages: Pages | None = None,
        requests: RequestLog | None = None,
    ) -> None:
        """`hot` routes are answered by the plain adapter, those of `administration` through Quart; `mcp` is `/mcp`,
        `pages` the web page; `requests` is where every answer is noted.
        """
        self.ingest = ingest
        self._health = health
        self._authenticator = authenticator
        self._options = options
        self._stopping = stopping
        self._slots = slots
        self._mcp = mcp
        self._pages = pages
        self._proxies = TrustedProxies(options.trusted_proxies)
        self.requests = RequestLog() if requests is None else requests
        self.requests.template_of = self.template_of
        self.document = Document((*BESIDE_THE_TABLES, *operations((*hot, *administration))))
        if pages is not None:
            hot, administration = (*hot, *pages.hot), (*administration, *pages.through_quart)
        self._table = RouteTable((*hot, *administration))
        self._through_quart = frozenset((route.method, route.template) for route in administration)
        self.administration = Administration(tuple(administration), self._carry_out)

    def adopt(self, new: WebOptions) -> None:
        """Bring new options into force, without a restart. Synchronous: no request sees half of them."""
        adopt(self._options, new)
        self._proxies = TrustedProxies(new.trusted_proxies)
        self.ingest.in_flight.resize(new.bodies_in_flight_bytes)
        if self._slots is not None:
            self._slots.resize(new.max_streams, new.max_streams_per_inbox)

    def template_of(self, method: str, target: bytes) -> str:
        """Return the template of a request's path, `""` for one that no route has."""
        path = _origin_form(target)
        if path.startswith(INGEST_PREFIX):
            return INGEST_ROUTE
        if path in FIXED:
            return path.decode()
        found = self._table.match(path)
        route = None if found is None else found.route(method)
        return "" if route is None else route.template

    def trusts(self, peer: str | None, headers: RawHeaders) -> bool:
        """Whether a request comes from a trusted proxy, at the other end of its connection, or shows a valid token."""
        return self._proxies.trusts_peer(peer) or self._authenticator.knows(headers)

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request (or take part in the server's start and end)."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.administration.lifespan(scope, receive, send)
        else:
            raise ValueError(f"this application does not serve {scope['type']}")

    async def _http(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        headers = cast(RawHeaders, scope["headers"])  # a list, in Hypercorn as in the ASGI specification
        incoming = Incoming(headers, receive, cast("Peer | None", scope["state"].get(PEER)))
        client = scope["client"]
        peer = client[0] if client else None
        request_ids.begin(headers, trusted=self._proxies.trusts_peer(peer))

        async def read_body() -> bytes:
            # Without a word of the request, which holds this: a cycle for each would be a leak.
            return await incoming.whole(API_BODY_BYTES, self._options.body_timeout_seconds)

        request = Request(
            scope["method"],
            _origin_form(scope["raw_path"]),
            scope["query_string"],
            headers,
            self._proxies.client(peer, headers),
            read_body,
            when_gone=incoming.when_gone,
        )
        answer = await self._guarded(request, lambda: self._dispatch(scope, request, incoming, send))
        if answer is None:
            return
        self.requests.note(request, answer.status)
        try:
            if isinstance(answer, Answer):
                await send_answer(answer, incoming, send)
            else:
                await send_streamed(answer, incoming, send)
        finally:
            if answer.sent is not None:
                answer.sent()

    async def _guarded(
        self, request: Request, work: Callable[[], Awaitable[Answer | StreamedAnswer | None]]
    ) -> Answer | StreamedAnswer | None:
        """Do the work and turn whatever it raises into an answer; None when there is nothing (more) to
        answer.
        """
        try:
            return await work()
        except ClientGone:
            return None
        except Exception as error:
            answer = _told(error)
            if answer is None:
                log.exception("a request failed", method=request.method, path=_loggable(request.raw_path))
                answer = INTERNAL
            return answer if self._pages is None else self._pages.dressed(request, answer)

    async def _dispatch(
        self,
        scope: HTTPScope,
        request: Request,
        incoming: Incoming,
        send: ASGISendCallable,
    ) -> Answer | StreamedAnswer | None:
        self._check_head_size(request)
        path = request.raw_path
        if path.startswith(INGEST_PREFIX):
            if self._stopping.is_set():
                raise _stopping()
            return await self.ingest(request, incoming)
        if path in (b"/healthz", b"/readyz"):
            if request.method not in ("GET", "HEAD"):
                raise _wrong_method(b"GET, HEAD")
            return self._health.healthz() if path == b"/healthz" else self._health.readyz()
        if path == DOCUMENT_PATH:
            return await self.document.openapi(request)
        if self._pages is not None and self._pages.owns(path):
            if self._stopping.is_set():
                raise _stopping()
            answer = self._pages.admit(request)
            if request.principal is None:
                seconds = self._options.body_timeout_seconds
                request.read_body = partial(incoming.whole, UNKNOWN_BODY_BYTES, seconds)
            return answer or await self._route(scope, request, incoming, send)
        mcp = self._mcp if path == b"/mcp" and self._options.mcp_enabled else None
        if mcp is None and not path.startswith(API_PREFIXES) and path not in API_PATHS:
            raise _no_such_page()
        try:
            request.principal = self._authenticator.authenticate(request.headers, request.source_ip)
        except ApiError as refused:
            await keep_back(refused)
            raise
        if self._stopping.is_set():
            raise _stopping()
        if mcp is not None:
            return await mcp(request)
        return await self._route(scope, request, incoming, send)

    async def _route(
        self,
        scope: HTTPScope,
        request: Request,
        incoming: Incoming,
        send: ASGISendCallable,
    ) -> Answer | StreamedAnswer | None:
        if incoming.framed_twice:
            raise framed_twice()
        found = self._table.match(request.raw_path)
        if found is None:
            raise _no_such_page()
        route = found.route(request.method)
        if route is None:
            raise _wrong_method(found.allow)
        request.params = found.params
        request.route = route.template
        if (route.method, route.template) not in self._through_quart:
            return await route.handler(request)
        body = await request.read_body()
        await self._quart(scope, route, request, body, send)
        return None

    def _check_head_size(self, request: Request) -> None:
        size = len(request.raw_path) + len(request.raw_query) + HEADER_OVERHEAD_BYTES * len(request.headers)
        if size + sum(map(len, chain.from_iterable(request.headers))) > self._options.header_bytes:
            limit = self._options.header_bytes
            raise ApiError(
                "headers_too_large", f"The request's line and headers are larger than {limit} bytes."
            )

    async def _quart(
        self,
        scope: HTTPScope,
        route: Route,
        request: Request,
        body: bytes,
        send: ASGISendCallable,
    ) -> None:
        started = False

        async def noting(message: ASGISendEvent) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.administration(scope, route, request, body, shield_last_send(noting))
        except Exception:
            if not started:
                raise
            # The head is out: the connection ends without the rest, which no client takes for a whole answer.
            log.exception("an answer through Quart failed", template=route.template)

    async def _carry_out(self, route: Route, request: Request) -> Answer:
        """Run an administrative handler, inside Quart."""
        answer = await self._guarded(request, lambda: route.handler(request))
        if isinstance(answer, Answer):
            self.requests.note(request, answer.status)
            return answer
        raise TypeError(f"{route.template}: only complete answers go through Quart")


def _told(error: Exception) -> Answer | None:
    """Return what the client is told. Apart: a frame that an exception has passed, and that holds it, is a cycle."""
    told = as_api_error(error)
    return None if told is None else told.answer()


def _loggable(raw_path: bytes) -> str:
    """Return what a log may say of a request's target: never its query, and below `/in/` nothing after the slug, where
    some senders have their credential.
    """
    if not raw_path.startswith(INGEST_PREFIX):
        return raw_path[:LOGGED_PATH_BYTES].decode("latin-1")
    slug = raw_path[len(INGEST_PREFIX) :].partition(b"/")[0].decode("latin-1")
    return f"/in/{slug}" if is_slug(slug) else "/in/…"


def _wrong_method(allow: bytes) -> ApiError:
    return ApiError(
        "method_not_allowed", "This address does not take this method.", headers=((b"allow", allow),)
    )


def _origin_form(target: bytes) -> bytes:
    """Return the path of a request target; `http://host/path` counts as `/path` (RFC 9112, section 3.2.2)."""
    if target.startswith(b"/"):
        return target
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        return target
    _, slash, path = rest.partition(b"/")
    return slash + path or b"/"


def _no_such_page() -> ApiError:
    return ApiError("not_found", "There is nothing at this address.")


def _stopping() -> ApiError:
    return ApiError("shutting_down", "The server is shutting down; try again.")
