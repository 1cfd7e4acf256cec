"""Requests and answers as plain values: handlers are functions from one to the other, free of any framework.

Two thin adapters turn them into HTTP: `web/front.py` (plain ASGI, the hot routes) and `web/quartapp.py` (Quart,
administration and documents).
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from web.auth import Principal

RawHeaders = list[tuple[bytes, bytes]]

WhenGone = Callable[[Callable[[], None] | None], bool]
"""Has what it is given called, once, when the client leaves; None: nobody is told any more. True: it has left."""


def stays(_: Callable[[], None] | None) -> bool:
    """Know of no client that could leave."""
    return False


class Request:
    """One request as it came: raw bytes, nothing decoded, nothing merged.

    `raw_path` and `raw_query` are the request target's own bytes (`%2F` stays `%2F`, `//` stays `//`). Header
    names arrive lower-cased from the server; order and duplicates are the sender's. `read_body` returns the
    whole body and raises `ApiError` (413, 408) when it is too large or too slow; ingest reads it in pieces instead.
    `when_gone` tells a handler that sleeps that the client has left (`web.waiting.unless_gone`).
    `params` are the path's parameters, percent-decoded, by their names in the route's template (`web/routes.py`), which
    is `route`, `""` before it is found. `began_at` is when it came, on `time.perf_counter`.
    """

    __slots__ = (
        "began_at",
        "headers",
        "method",
        "params",
        "principal",
        "raw_path",
        "raw_query",
        "read_body",
        "route",
        "source_ip",
        "when_gone",
    )

    def __init__(
        self,
        method: str,
        raw_path: bytes,
        raw_query: bytes,
        headers: RawHeaders,
        source_ip: str | None,
        read_body: Callable[[], Awaitable[bytes]],
        principal: "Principal | None" = None,
        params: dict[str, str] | None = None,
        when_gone: WhenGone = stays,
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.raw_query = raw_query
        self.headers = headers
        self.source_ip = source_ip
        self.read_body = read_body
        self.principal = principal
        self.params = {} if params is None else params
        self.when_gone = when_gone
        self.route = ""
        self.began_at = time.perf_counter()

    def header(self, name: bytes) -> bytes | None:
        """Return the first value of a header (name in lower case), or None."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A complete answer. `sent` is called once when it has been sent, or cannot be.

    The adapter adds `Content-Length` and the headers that every answer carries (`Cache-Control: no-store`,
    `X-Content-Type-Options: nosniff`). `lasting`: what this address answers never changes and is no secret, so that
    whoever asked may keep it; the one exception to `no-store`.
    """

    status: int
    body: bytes = b""
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    sent: Callable[[], None] | None = None
    lasting: bool = False


class StreamedAnswer(msgspec.Struct, frozen=True):
    """An answer whose body is pulled piece by piece at the reader's pace.

    `pieces` opens the source: an async context manager that yields an iterator of pieces (`@trio.as_safe_channel`).
    When the source raises, the adapter aborts the connection, so that a body that is short of its
    `Content-Length` is never mistaken for a whole one. `sent` is called once at the end, however it came.
    """

    status: int
    pieces: Callable[[], AbstractAsyncContextManager[AsyncIterator[bytes]]]
    content_type: bytes
    content_length: int | None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    sent: Callable[[], None] | None = None


Handler = Callable[[Request], Awaitable[Answer | StreamedAnswer]]
