"""Logging: structlog for our own events, the standard library's records of others in the same form, on stderr.

stdout belongs to what a command prints. Nothing here logs a request's body, headers or token. What is logged while a
request is answered carries that request's id.

What the levels mean: `error` is a defect, or something that does not come right by itself; `warning` is something that
was refused or failed and may want a person; `info` is what happens to the server as a whole; `debug` has a line for
each request.
"""

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict

from postroom.tracebacks import as_json, as_text
from web.request_ids import REQUEST_ID

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

QUIET_LOGGERS = ("hypercorn.access", "httpx", "httpcore", "hpack", "urllib3")
"""Loggers of others that write a line per request; at 1,000 requests/s that line costs more than the request. hpack's
shows every header of HTTP/2, tokens too.
"""


def add_request_id(logger: Any, method: str, event: EventDict) -> EventDict:
    """Add the id of the request that is being answered, when there is one. A processor."""
    request_id = REQUEST_ID.get()
    if request_id is not None:
        event.setdefault("request_id", request_id)
    return event


def in_one_line(logger: Any, method: str, event: EventDict) -> EventDict:
    """Escape what is not printable in an event's texts, line feeds too: what a stranger chose must neither look like a
    line of its own nor act on a terminal. A processor; a traceback, which holds no such text, keeps its lines.
    """
    for name, value in event.items():
        if isinstance(value, str) and name != "exception" and not value.isprintable():
            event[name] = "".join(
                c if c.isprintable() else c.encode("unicode_escape").decode() for c in value
            )
    return event


def configure(log_format: str, log_level: str, stream: TextIO | None = None) -> None:
    """Set up logging for the process. `log_format`: `console` or `json`; may be called again.

    `stream` is where lines go, stderr unless given. Colours only when it is a terminal.
    """
    out = sys.stderr if stream is None else stream
    level = LEVELS[log_level]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        add_request_id,
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if log_format == "json":
        formatter: Any = structlog.processors.ExceptionRenderer(as_json)
        final: list[Any] = [formatter, structlog.processors.JSONRenderer()]
    else:
        colours = bool(getattr(out, "isatty", lambda: False)())
        formatter = structlog.processors.ExceptionRenderer(as_text)
        final = [formatter, in_one_line, structlog.dev.ConsoleRenderer(colors=colours)]
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
