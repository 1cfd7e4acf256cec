"""What is noted of a request when its answer is ready: a count, and at the level `debug` a line in the log.

A line per request costs more than many a request, so there is none above `debug`, and finding that out is one look. It
tells method, route, inbox, status, duration and the client's address: never a query string, a header, a body, or a
path as it came, in which some senders have their credential and some clients a token by mistake.
"""

import logging
import time

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

UNKNOWN = "other"
"""The part of the surface of whatever is not there."""

LOGGER = "postroom.requests"

log = structlog.get_logger(LOGGER)


class RequestLog:
    """Notes requests. `answers`: how many were answered, but for ingest, which counts its outcomes by itself."""

    def __init__(self) -> None:
        self.answers = AnswerFigures()
        self._level = logging.getLogger(LOGGER)

    def note(self, request: Request, status: int) -> None:
        """Note that a request is answered with this status."""
        if not request.raw_path.startswith(INGEST_PREFIX):
            self.answers.gave(surface_of(request.raw_path), status)
        if self._level.isEnabledFor(logging.DEBUG):
            log.debug(
                "answered",
                method=request.method,
                route=route_of(request),
                inbox=_inbox_of(request),
                status=status,
                seconds=round(time.perf_counter() - request.began_at, 6),
                address=request.source_ip,
            )


def surface_of(raw_path: bytes) -> str:
    """Return the part of the surface that a path belongs to, for the figures: one of a handful of names."""
    if raw_path.startswith((b"/v1/", b"/agent/")):
        return "api"
    if raw_path.startswith(INGEST_PREFIX):
        return "ingest"
    if raw_path == UI_PREFIX or raw_path.startswith(b"/ui/"):
        return "ui"
    return FIXED.get(raw_path, UNKNOWN)


def route_of(request: Request) -> str:
    """Return the template of a request's path; `…` for a path that no route has."""
    if request.route:
        return request.route
    if request.raw_path.startswith(INGEST_PREFIX):
        return INGEST_ROUTE
    return request.raw_path.decode("latin-1") if request.raw_path in FIXED else "…"


def _inbox_of(request: Request) -> str | None:
    """Return the slug in the path, when it is the slug of an inbox by its form; a token pasted there is none."""
    if request.raw_path.startswith(INGEST_PREFIX):
        slug = request.raw_path[len(INGEST_PREFIX) :].partition(b"/")[0].decode("latin-1")
    else:
        slug = request.params.get("slug", "")
    return slug if is_slug(slug) else None
