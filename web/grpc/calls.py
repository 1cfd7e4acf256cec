"""From a stream with headers to a call that is answered: what is read of the head, and what becomes of exceptions.

`CallHandler` is grpclib's own, which runs a task for each call, with a head that was read here first. `guarded` stands
around each method: whatever it raises becomes a status, and nothing of it reaches the client or grpclib's log.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, cast

import structlog
import trio
from google.protobuf.message import DecodeError
from grpclib._typing import IServable
from grpclib.const import Handler as Method
from grpclib.const import Status
from grpclib.encoding.proto import ProtoCodec
from grpclib.events import _DispatchServerEvents
from grpclib.protocol import Stream as H2Stream
from grpclib.server import Handler, Stream
from h2.exceptions import H2Error

from web import request_ids
from web.errors import ApiError
from web.faults import as_api_error
from web.figures import CallFigures
from web.grpc.statuses import Told, told
from web.grpc.upstream import NEVER, BoundStream, Link, bound

Headers = list[tuple[str, str]]
Function = Callable[[Stream[Any, Any]], Awaitable[None]]

USED = frozenset(
    {":method", ":path", "content-type", "te", "authorization", "x-forwarded-for", "forwarded"},
)
"""What is handed on of a head; the rest can only do harm."""

TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
UNIT_SECONDS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}

REQUEST_ID_KEY = request_ids.ANSWER_HEADER.decode()

log = structlog.get_logger("postroom.grpc")


class CallHandler(Handler):
    """The calls of one connection, `link`, which is taken away when it has ended: two that hold each other are a cycle,
    and one that has lived for a while stays in memory until the collector's next full run, which may be never.
    """

    link: Link | None = None

    def accept(self, stream: H2Stream, headers: Headers, release_stream: Callable[[], Any]) -> None:
        """Start a call."""
        link, ours = cast(Link, self.link), cast(BoundStream, stream)
        timeout, kept = read_head(headers)
        ours.deadline = trio.current_time() + timeout
        if link.leaving:
            ours.verdict = stopping_now()
        link.idle_since = NEVER
        super().accept(stream, kept, release_stream)
        ours.task = self._tasks[stream]
        ours.task.add_done_callback(partial(self._ended, link, ours, release_stream))

    def _ended(
        self, link: Link, stream: BoundStream, release_stream: Callable[[], Any], task: asyncio.Task[None]
    ) -> None:
        """Let go of a call, at once, and also of one that was reset before its task had begun."""
        stream.task = None
        if stream.wrapper is not None:
            stream.wrapper._error = None  # which was raised, and holds the frame that holds the wrapper
        self._tasks.pop(stream, None)
        self._cancelled.discard(task)
        if stream.id in link.processor.streams:
            release_stream()
        if not link.processor.streams:
            link.idle_since = trio.current_time()
            link.on_change()


def read_head(headers: Headers) -> tuple[float, Headers]:
    """Return in how many seconds the client wants its answer (never: infinity), and the headers that are handed on.

    A timeout that is none is handed on, for grpclib to refuse. Pseudo-headers that are missing are empty.
    """
    timeout = NEVER
    kept = [(":method", ""), (":path", "")]
    for name, value in headers:
        if name in USED:
            kept.append((name, value))
        elif name == "grpc-timeout":
            given = TIMEOUT.fullmatch(value)
            if given is None:
                kept.append((name, ""))
            else:
                timeout = min(timeout, int(given[1]) * UNIT_SECONDS[given[2]])
    return timeout, kept


def handlers(services: Collection[IServable], figures: CallFigures) -> dict[str, Method]:
    """Return the methods of services by their paths, each of them guarded, and counted in `figures`."""
    return {
        path: method._replace(func=partial(guarded, figures, path, method.func))
        for service in services
        for path, method in service.__mapping__().items()
    }


def call_handler(methods: dict[str, Method]) -> CallHandler:
    """Return a handler for one connection; its `link` is to be set."""
    return CallHandler(methods, ProtoCodec(), None, _DispatchServerEvents())


async def guarded(figures: CallFigures, path: str, function: Function, stream: Stream[Any, Any]) -> None:
    """Answer one call: run the method, and tell the client what it raises, if it is still there."""
    ended = Status.CANCELLED  # the client has gone, unless there is something to tell it
    request_id = request_ids.begin((), trusted=False)
    try:
        refusal = await _refusal(path, function, stream, bound(stream))
        ended = Status.OK if refusal is None else refusal.status
        if refusal is not None:
            await stream.send_trailing_metadata(
                status=refusal.status,
                status_message=refusal.message,
                metadata=(*refusal.metadata, (REQUEST_ID_KEY, request_id)),
            )
    except H2Error:
        raise asyncio.CancelledError from None  # the stream is closed: as grpclib has it when the client has gone
    finally:
        figures.ended(ended.name)


async def _refusal(
    path: str, function: Function, stream: Stream[Any, Any], below: BoundStream
) -> Told | None:
    """Run the method and return what the client is told instead of an answer, None when it got one."""
    try:
        if below.verdict is None and below.deadline > trio.current_time():
            await function(stream)
            return None
        return told(below.verdict or too_late())
    except asyncio.CancelledError:
        if below.verdict is None:
            raise
        return told(below.verdict)
    except H2Error:
        raise
    except Refused as refused:
        return refused.told
    except Exception as error:
        return refusal_of(error, path)


class Refused(Exception):
    """Raised by a method that knows already what its client is told."""

    def __init__(self, told: Told) -> None:
        super().__init__(told)
        self.told = told


def refusal_of(error: Exception, path: str) -> Told:
    """Return what the client is told of an exception. A bug of ours is logged here, once.

    A function apart, which returns no exception: a frame that an exception has passed, and that holds it, is a cycle.
    """
    if isinstance(error, DecodeError | AssertionError):  # grpclib asserts that a message has its length
        return told(ApiError("invalid_argument", "The message is cut off, or none that this method takes."))
    if isinstance(error, NotImplementedError):  # grpclib's, of a message that is marked as compressed
        return told(ApiError("not_acceptable", "Compressed messages are not taken."))
    known = as_api_error(error)
    if known is None:
        log.error("a call failed", method=path, exc_info=error)
        return told(ApiError("internal", "Something went wrong in the server; it has been logged."))
    return told(known)


def too_late() -> ApiError:
    """Return what a client is told whose deadline has passed, if it still listens."""
    return ApiError("timeout", "The deadline of the call has passed.")


def stopping_now() -> ApiError:
    """Return what is told at the shutdown."""
    return ApiError("shutting_down", "The server is shutting down; try again.")
