"""One request and its answer, between Hypercorn's connection and the application: in the place of its HTTPStream.

There each message of the application becomes an object that goes through two state machines, and h11 looks at every
header of the answer: more than half of what a small answer costs. Here an answer is framed and written at once. What
the connection may do next is still h11's to say, which is told that an answer begins and ends (`Http1.begin`, `end`).
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol
from urllib.parse import unquote

import h11
from hypercorn.typing import ASGIReceiveEvent, ASGISendEvent, ConnectionState, HTTPScope

Headers = Iterable[tuple[bytes, bytes]]

UNSIZED = frozenset({204, 304})
"""Statuses whose answers end with their head (RFC 9112, 6.3)."""

CLOSE = (b"connection", b"close")
CHUNKED = (b"transfer-encoding", b"chunked")
LAST_CHUNK = b"0\r\n\r\n"

NOTHING_WAS_SAID = 500
"""The answer of an application that ended without one."""

_LINES = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [^\x00\r\n]*\r\n)*")
"""Header lines that nobody can have broken out of (RFC 9110, 5.1 and 5.5)."""


class Wire(Protocol):
    """What an exchange needs of its connection."""

    @property
    def speaks_chunks(self) -> bool:
        """Whether the client knows bodies whose length is not said in front of them."""

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow."""

    def close_after(self) -> None:
        """Let no other request follow."""

    def own_headers(self) -> Headers:
        """Return the server's own headers."""

    def begin(self) -> bool:
        """Note that an answer begins; False when there is nobody to be answered any more."""

    def end(self) -> None:
        """Note that an answer is whole."""

    async def write(self, data: bytes) -> None:
        """Send bytes."""

    async def recycle(self) -> None:
        """Go on with the next request, or close."""


class Exchange:
    """A request whose answer is under way. `take` is for what arrives, `app_send` for what the application sends."""

    __slots__ = (
        "_bodiless",
        "_chunked",
        "_ended",
        "_gone",
        "_held",
        "_left",
        "_method",
        "_put",
        "_started",
        "_tell",
        "_wire",
    )

    def __init__(self, wire: Wire, method: str) -> None:
        self._wire = wire
        self._method = method
        self._put: Callable[[ASGIReceiveEvent], Awaitable[None]] = _nobody
        self._tell: Callable[[], None] | None = None
        self._held = b""  # the head, until it goes out with the first piece of the body
        self._left: int | None = None  # bytes of the declared length that are still to come
        self._chunked = self._bodiless = self._started = self._ended = self._gone = False

    def reach(self, put: Callable[[ASGIReceiveEvent], Awaitable[None]]) -> None:
        """Say where the application takes what arrives."""
        self._put = put

    def when_gone(self, tell: Callable[[], None] | None) -> bool:
        """As `web.limits.Peer.when_gone`."""
        self._tell = tell
        return self._gone

    async def take(self, data: bytes, *, more: bool) -> None:
        """Hand a piece of the body on to the application."""
        if not self._gone:
            await self._put({"type": "http.request", "body": data, "more_body": more})

    async def interrupt(self) -> None:
        """Tell the application that its client has nothing more to say; an answer that is under way may be finished."""
        await self._put({"type": "http.disconnect"})

    async def leave(self) -> None:
        """Tell the application that it is over, once."""
        if not self._gone:
            self._gone = True
            if self._tell is not None:
                self._tell()
            await self._put({"type": "http.disconnect"})

    async def app_send(self, message: ASGISendEvent | None) -> None:
        """Write what the application sends; None: it has ended. Raises `h11.LocalProtocolError` for what is no answer,
        or not the one that was begun.
        """
        if message is None:
            if self._gone:
                return
            if not self._started:
                await self._begin(NOTHING_WAS_SAID, ((b"content-length", b"0"), CLOSE))
                await self._end(b"")
            await self._wire.recycle()
        elif message["type"] == "http.response.start" and not self._started:
            await self._begin(message["status"], message.get("headers", ()))
        elif message["type"] == "http.response.body" and self._started and not self._ended:
            data = message.get("body", b"")
            if message.get("more_body", False):
                await self._write(self._framed(data))
            else:
                await self._end(data)
                await self._wire.recycle()
        else:
            raise h11.LocalProtocolError(f"{message['type']} does not belong here")

    async def _begin(self, status: int, headers: Headers) -> None:
        wire = self._wire
        lines = [b"%b: %b\r\n" % pair for pair in headers]
        closes = False
        for name, value in headers:
            match name.lower():
                case b"content-length":
                    self._left = int(value)
                case b"connection":
                    closes = b"close" in value.lower()
        if self._left is None and status not in UNSIZED:
            if wire.speaks_chunks:
                self._chunked = True
                lines.append(b"%b: %b\r\n" % CHUNKED)
            elif self._method != "HEAD":
                wire.close_after()  # its end is that of the connection
        if closes:
            wire.close_after()
        elif not wire.keeps_alive:
            lines.append(b"%b: %b\r\n" % CLOSE)
        block = b"".join(lines)
        if block.count(b"\n") != len(lines) or _LINES.fullmatch(block) is None:
            raise h11.LocalProtocolError("an answer has a header that is none")
        self._started = True
        self._bodiless = status in UNSIZED or self._method == "HEAD"
        if not wire.begin():
            self._bodiless = True
            return
        own = b"".join([b"%b: %b\r\n" % pair for pair in wire.own_headers()])
        self._held = b"HTTP/1.1 %d \r\n%b%b\r\n" % (status, block, own)
        if closes:
            await self._write(b"")  # the end of such an answer may be long in coming

    async def _end(self, data: bytes) -> None:
        data = self._framed(data)
        if not self._bodiless:
            if self._chunked:
                data += LAST_CHUNK
            elif self._left:
                raise h11.LocalProtocolError(f"an answer is {self._left} bytes short of its length")
        await self._write(data)
        self._ended = True
        self._wire.end()

    def _framed(self, data: bytes) -> bytes:
        if self._bodiless or not data:
            return b""
        if self._chunked:
            return b"%x\r\n%b\r\n" % (len(data), data)
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise h11.LocalProtocolError("an answer is longer than its length")
        return data

    async def _write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        if data:
            await self._wire.write(data)


async def _nobody(message: ASGIReceiveEvent) -> None:
    raise RuntimeError("an exchange without an application")


def scope_of(
    request: h11.Request,
    client: tuple[str, int] | None,
    server: tuple[str, int] | None,
    state: ConnectionState,
) -> HTTPScope:
    """Return a request's scope, as Hypercorn makes it."""
    raw_path, _, query_string = request.target.partition(b"?")
    return {
        "type": "http",
        "http_version": request.http_version.decode(),
        "asgi": {"spec_version": "2.1", "version": "3.0"},
        "method": request.method.decode("ascii").upper(),
        "scheme": "http",
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query_string,
        "root_path": "",
        "headers": list(request.headers),
        "client": client,
        "server": server,
        "state": ConnectionState(state.copy()),
        "extensions": {},
    }
