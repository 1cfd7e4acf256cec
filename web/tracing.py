"""Spans, for OpenTelemetry. Loaded only where tracing is configured (`postroom/traces.py`); whoever is traced does not
know it: each part here is put around, or in the place of, a part that works alike without it.

A span holds what a log may hold: routes, outcomes, verdicts, statuses, ids of requests. Never a path as it came, a
query, a header, a body, an address, nor an exception's message or trace, which may repeat any of them.

The trace of a caller (`traceparent`) is continued for whoever shows a valid token, and behind a trusted proxy.
Strangers do not decide what is traced, nor under which id.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import msgspec
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
    Scope,
)
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from actors.commands import Appended
from actors.waking import Post, WakeCall
from storage.protocols import Health, Log, Look, Unit
from web.auth import Principal
from web.faults import as_api_error
from web.figures import IngestFigures
from web.front import Front
from web.ingest import Ingest
from web.limits import ClientGone
from web.mail_params import PullInbox
from web.mcp.jsonrpc import RpcError
from web.mcp.result import Outcome
from web.mcp.tools import Arguments, Call, Run, Tool
from web.pulling import PullPage
from web.request_ids import REQUEST_ID
from web.request_log import method_of
from web.verify.model import Judgement

T = TypeVar("T")

EVENT_STREAM = b"text/event-stream"

SERVER_FAULT = 500
"""From this status on it is the server that has failed."""

CARRIED = frozenset({b"traceparent", b"tracestate"})
"""The headers by which a trace is continued."""


class Pulls(Protocol):
    """What is asked of pulling, as `web.grpc.inbox` has it."""

    async def pull(self, caller: Principal, params: PullInbox) -> PullPage:
        """Acknowledge and return a page."""


class Tracing:
    """Makes the traced parts of one server. Its spans go to one tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def application(self, front: Front) -> ASGIFramework:
        """Return the application with a span around each request."""
        return TracedFront(self._tracer, front)

    def ingest(self, *given: Any) -> Ingest:
        """Return what takes messages in; arguments as those of `Ingest`."""
        return TracedIngest(self._tracer, *given)

    def store(self, store: Log) -> Log:
        """Return a store whose reads and commits are spans of the requests that they are made for."""
        return TracedStore(self._tracer, store)

    def tools(self, tools: Iterable[Tool]) -> tuple[Tool, ...]:
        """Return the same tools, each call of which is a span."""

        def traced(tool: Tool) -> Run:
            async def run(call: Call, arguments: Arguments) -> Outcome:
                with _span(self._tracer, f"tools/call {tool.name}"):
                    return await tool.run(call, arguments)

            return run

        return tuple(msgspec.structs.replace(tool, run=traced(tool)) for tool in tools)

    def post(self, post: Post) -> Post:
        """Return what calls agents, each call of which is a span without the agent and without the place."""

        async def traced(call: WakeCall) -> bool:
            with _span(self._tracer, "wake", SpanKind.CLIENT) as span:
                reached = await post(call)
                span.set_attribute("postroom.outcome", "reached" if reached else "failed")
            return reached

        return traced

    def pulls(self, pulls: Pulls) -> Pulls:
        """Return what is pulled from over gRPC, each call of which is a span."""
        return TracedPulls(self._tracer, pulls)


class TracedFront:
    """An application around the front: one span for each request, which a stream's ends with its head."""

    def __init__(self, tracer: Tracer, front: Front) -> None:
        self._tracer = tracer
        self._front = front
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._front(scope, receive, send)
            return
        route = self._front.template_of(scope["method"], scope["raw_path"])
        span = self._begin(scope, route)
        told = False

        async def noting(event: ASGISendEvent) -> None:
            nonlocal told
            if not told and event["type"] == "http.response.start":
                told = True
                _tell(span, event["status"])
                if any(name == b"content-type" and EVENT_STREAM in value for name, value in event["headers"]):
                    span.end()  # it may go on for days
            await send(event)

        token = attach(set_span_in_context(span))
        try:
            await self._front(scope, receive, noting)
        finally:
            detach(token)
            if span.is_recording():  # not ended with its head
                span.end()

    def _begin(self, scope: HTTPScope, route: str) -> Span:
        method = method_of(scope["method"])
        attributes = {"http.request.method": method}
        if route:
            attributes["http.route"] = route
        name = f"{method} {route}".rstrip()
        context = self._context(scope)
        return self._tracer.start_span(name, context, SpanKind.SERVER, attributes)

    def _context(self, scope: HTTPScope) -> Context:
        """Return what the span is made below: the caller's span, or nothing."""
        client, headers = scope["client"], list(scope["headers"])
        if not self._front.trusts(client[0] if client else None, headers):
            return Context()
        carried = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in CARRIED
        }
        return self._propagator.extract(carried, Context())


class TracedIngest(Ingest):
    """Ingest whose spans say what became of a request, when it was judged, and how long it took to be durable."""

    def __init__(self, tracer: Tracer, *given: Any) -> None:
        super().__init__(*given)
        self._tracer = tracer
        self.figures = SpanFigures()

    async def _store(self, *given: Any) -> Appended:
        with _span(self._tracer, "append"):
            return await super()._store(*given)


class SpanFigures(IngestFigures):
    """Figures that are told to the present span, too."""

    __slots__ = ()

    def judged(self, verifier: str, judgement: Judgement) -> str:
        """Count a verdict, and note it and its time."""
        verdict = super().judged(verifier, judgement)
        get_current_span().add_event("judged", {"postroom.verifier": verifier, "postroom.verdict": verdict})
        return verdict

    def took(self, appended: Appended | None) -> str:
        """Count a request that was taken in, and note the outcome."""
        return _outcome(super().took(appended))

    def failed(self, error: Exception) -> str:
        """Count a request that ended with an exception, and note the outcome."""
        return _outcome(super().failed(error))


class TracedPulls:
    """Pulling over gRPC. It is what `Pulls` asks for."""

    def __init__(self, tracer: Tracer, pulls: Pulls) -> None:
        self._tracer = tracer
        self._pulls = pulls

    async def pull(self, caller: Principal, params: PullInbox) -> PullPage:
        """Acknowledge and return a page."""
        with _span(self._tracer, "postroom.v1.Inbox/PullInbox", SpanKind.SERVER):
            return await self._pulls.pull(caller, params)


class TracedStore:
    """A store whose reads and commits are spans, where there is one to be below of. It is a `Log`."""

    def __init__(self, tracer: Tracer, store: Log) -> None:
        self._tracer = tracer
        self._store = store

    @property
    def health(self) -> Health:
        """How the store is."""
        return self._store.health

    async def commit(self, unit: Unit[T]) -> T:
        """Run a unit, as `Log.commit` says."""
        if not get_current_span().is_recording():
            return await self._store.commit(unit)
        with _span(self._tracer, "store.commit") as span:
            span.set_attribute("postroom.unit", type(unit).__name__)
            return await self._store.commit(unit)

    async def read(self, look: Look[T]) -> T:
        """Run a look, as `Log.read` says."""
        if not get_current_span().is_recording():
            return await self._store.read(look)
        with _span(self._tracer, "store.read"):
            return await self._store.read(look)


@contextmanager
def _span(tracer: Tracer, name: str, kind: SpanKind = SpanKind.INTERNAL) -> Iterator[Span]:
    # The library would write the message and the trace of an exception into the span.
    with tracer.start_as_current_span(
        name, kind=kind, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            _blame(span, error)
            raise


def _blame(span: Span, error: Exception) -> None:
    told = as_api_error(error)
    span.set_attribute("error.type", type(error).__name__ if told is None else told.code)
    ours = not isinstance(error, ClientGone | RpcError) if told is None else told.status >= SERVER_FAULT
    if ours:
        span.set_status(Status(StatusCode.ERROR))


def _outcome(outcome: str) -> str:
    get_current_span().set_attribute("postroom.outcome", outcome)
    return outcome


def _tell(span: Span, status: int) -> None:
    """Write into a request's span what is known when its answer begins."""
    span.set_attribute("http.response.status_code", status)
    request_id = REQUEST_ID.get()
    if request_id is not None:
        span.set_attribute("postroom.request_id", request_id)
    if status >= SERVER_FAULT:
        span.set_status(Status(StatusCode.ERROR))
