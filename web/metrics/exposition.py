"""How metrics are asked for: `GET /metrics` with an admin token, or on a port of their own, which has nothing else.

Rendering reads the figures and makes text of them on the event loop: 2 to 10 ms, a few times a minute.
"""

from collections.abc import Iterator

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, LifespanScope, Scope
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from werkzeug.http import parse_accept_header

from web import request_ids
from web.admin import require_admin
from web.errors import ApiError
from web.http import Answer, RawHeaders, Request
from web.limits import Incoming
from web.metrics.families import FAMILIES
from web.metrics.sources import Sources
from web.openapi.about import About, Media
from web.replies import send_answer
from web.routes import Route

PATH = "/metrics"

OPENMETRICS = "application/openmetrics-text"
PLAIN = "text/plain"

TEXT = Media(
    PLAIN,
    "In Prometheus's text format, or in that of OpenMetrics for a client that would rather have it.",
    others=(OPENMETRICS,),
)


class Metrics(Collector):
    """The metrics of one server, together with those of its process and its garbage collector."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def collect(self) -> Iterator[Metric]:
        """Give every family with its present values."""
        for family in FAMILIES:
            yield family.metric(self._sources)

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter."""
        about = About("Server", "admin", None, TEXT, name="show_metrics")
        return (Route("GET", PATH, self.scrape, about),)

    async def scrape(self, request: Request) -> Answer:
        """`GET /metrics`: give the metrics, in a format for programs that watch servers."""
        require_admin(request)
        return self.answer(_accept(request.headers))

    def answer(self, accept: bytes = b"") -> Answer:
        """Return the metrics, in the OpenMetrics format for a client that would rather have it, else in Prometheus's
        own.
        """
        # Not by prometheus-client's own choice, which repeats parts of this header in the answer's.
        if prefers_openmetrics(accept):
            text = openmetrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]  # theirs has no types
            return Answer(200, text, openmetrics.CONTENT_TYPE_LATEST.encode())
        return Answer(200, generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4.encode())


def prefers_openmetrics(accept: bytes) -> bool:
    """Whether `Accept` names the OpenMetrics format, and with no less weight than it gives plain text.

    For that a wildcard is not enough: it is what says nothing of formats. Versions are passed over, since there is one
    of each format here, which its answer names.
    """
    weights: dict[str, float] = {}
    for kind, weight in parse_accept_header(accept.decode("latin-1")):
        name = kind.partition(";")[0].strip().lower()
        weights[name] = max(weights.get(name, 0.0), weight)
    plain = next((weights[kind] for kind in (PLAIN, "text/*", "*/*") if kind in weights), 0.0)
    return weights.get(OPENMETRICS, 0.0) > 0 and weights[OPENMETRICS] >= plain


class MetricsPort:
    """The ASGI application of the port that has the metrics alone. Whoever reaches it reads them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request, or take part in the port's start and end."""
        if scope["type"] == "lifespan":
            await _live(scope, receive, send)
        elif scope["type"] == "http":
            headers = list(scope["headers"])
            request_ids.begin(headers, trusted=False)
            answer = self._answer(scope["method"], scope["raw_path"], _accept(headers))
            await send_answer(answer, Incoming(headers, receive), send)
        else:
            raise ValueError(f"this application does not serve {scope['type']}")

    def _answer(self, method: str, raw_path: bytes, accept: bytes) -> Answer:
        if raw_path != PATH.encode():
            return ApiError("not_found", "There is nothing at this address but /metrics.").answer()
        if method not in ("GET", "HEAD"):
            allow = ((b"allow", b"GET, HEAD"),)
            message = "This address does not take this method."
            return ApiError("method_not_allowed", message, headers=allow).answer()
        return self._metrics.answer(accept)


def _accept(headers: RawHeaders) -> bytes:
    """Return the header `Accept`, which may stand on several lines."""
    return b", ".join(value for name, value in headers if name == b"accept")


async def _live(scope: LifespanScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Say yes to the start and the end: there is nothing to prepare."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
