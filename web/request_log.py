"""What is noted of a request when its answer is ready: a count, and at the level `debug` a line in the log.

A line per request costs more than many a request, so there is none above `debug`, and finding that out is one look. It
tells method, route, inbox, status, duration and the client's address: never a query string, a header, a body, or a
path as it came, in which some senders have their credential and some clients a token by mistake.
"""

import logging
import time
from collections.abc import Callable

import structlog

from web.figures import AnswerFigures
from web.grammar import is_slug
from web.http import Request

INGEST_PREFIX = b"/in/"
INGEST_ROUTE = "/in/{slug}"
UI_PREFIX = b"/ui"

FIXED = {
    b"/mcp": "mcp",
    b"/healthz": "health",
    b"/readyz": "health",
    b"/metrics": "metrics",
    b"/agents": "api",
    b"/openapi.json": "api",
}
"""Parts of the surface that are one path."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER_METHOD = "_OTHER"
"""What any other method is called: a sender may write what it likes there, and as much as it likes."""

UNKNOWN = "other"
"""The part of the surface of whatever is not there."""

SURFACES = ("api", "ui", *dict.fromkeys(FIXED.values()), UNKNOWN)

NO_ROUTE = "…"
"""The route of a path, or of a method there, that no route has."""

LOGGER = "postroom.requests"

log = structlog.get_logger(LOGGER)


class RequestLog:
    """Notes requests. `answers`: how many were answered, but for ingest, which counts its outcomes by itself.
    `template_of` finds a route by method and path, for what was answered before one was looked for.
    """

    def __init__(self) -> None:
        self.answers = AnswerFigures(SURFACES)
        self.template_of: Callable[[str, bytes], str] = lambda method, raw_path: ""
        self._level = logging.getLogger(LOGGER)

    def note(self, request: Request, status: int) -> None:
        """Note that a request is answered with this status."""
        if not request.raw_path.startswith(INGEST_PREFIX):
            self.answers.gave(surface_of(request.raw_path), status)
        if self._level.isEnabledFor(logging.DEBUG):
            log.debug(
                "answered",
                method=method_of(request.method),
                route=request.route or self.template_of(request.method, request.raw_path) or NO_ROUTE,
                inbox=_inbox_of(request),
                status=status,
                seconds=round(time.perf_counter() - request.began_at, 6),
                address=request.source_ip,
            )


def method_of(method: str) -> str:
    """Return a method as logs and traces call it."""
    return method if method in METHODS else OTHER_METHOD


def surface_of(raw_path: bytes) -> str:
    """Return the part of the surface that a path belongs to, for the figures: one of a handful of names."""
    if raw_path.startswith((b"/v1/", b"/agent/")):
        return "api"
    if raw_path.startswith(INGEST_PREFIX):
        return "ingest"
    if raw_path == UI_PREFIX or raw_path.startswith(b"/ui/"):
        return "ui"
    return FIXED.get(raw_path, UNKNOWN)


def _inbox_of(request: Request) -> str | None:
    """Return the slug in the path, when it is the slug of an inbox by its form; a token pasted there is none."""
    if request.raw_path.startswith(INGEST_PREFIX):
        slug = request.raw_path[len(INGEST_PREFIX) :].partition(b"/")[0].decode("latin-1")
    else:
        slug = request.params.get("slug", "")
    return slug if is_slug(slug) else None
