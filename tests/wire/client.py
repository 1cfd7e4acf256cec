"""A client of HTTP/1.1 that controls every byte it sends, over any stream. h11 reads the answers."""

from collections.abc import AsyncIterable, Iterable
from types import TracebackType
from typing import Any, Self

import h11
import msgspec
import trio

Headers = Iterable[tuple[str, str]]


class Reply(msgspec.Struct, frozen=True):
    """One answer as it was received; header names in lower case."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    complete: bool
    informational: tuple[int, ...] = ()

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next((value.decode() for key, value in self.headers if key == name.encode()), None)

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        code: str = self.json["error"]["code"]
        return code


def head(method: str, target: str, headers: Headers = ()) -> bytes:
    """Return the bytes of a request's head; a Host header is added unless there is one."""
    fields = list(headers)
    if not any(name.lower() == "host" for name, _ in fields):
        fields.insert(0, ("Host", "test"))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body; of `b""` the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Client:
    """One connection. A context manager: leaving it closes the connection."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.stream = stream
        self._reader = h11.Connection(h11.CLIENT)
        self._closed = False

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def request(
        self,
        method: str,
        target: str,
        headers: Headers = (),
        body: bytes | AsyncIterable[bytes] | None = None,
    ) -> Reply:
        """Send a request, with a Content-Length for a body of bytes and chunked for an iterable, and read the
        answer.
        """
        fields = list(headers)
        if isinstance(body, bytes):
            fields.append(("Content-Length", str(len(body))))
            await self.send(head(method, target, fields) + body)
        elif body is None:
            await self.send(head(method, target, fields))
        else:
            await self.send(head(method, target, [*fields, ("Transfer-Encoding", "chunked")]))
            async for piece in body:
                await self.send(chunk(piece))
            await self.send(chunk(b""))
        return await self.reply(method)

    async def reply(self, method: str = "POST") -> Reply:
        """Read one answer to a request of this method. `complete` is false when the connection ended before
        it did.
        """
        self._begin(method)
        informational: list[int] = []
        status, headers, body = 0, [], bytearray()
        while True:
            event = await self._event()
            if isinstance(event, h11.InformationalResponse):
                informational.append(event.status_code)
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, list(event.headers)
            elif isinstance(event, h11.Data):
                body += event.data
            else:
                complete = isinstance(event, h11.EndOfMessage)
                return Reply(status, headers, bytes(body), complete, tuple(informational))

    async def start(self, target: str, headers: Headers = (), method: str = "GET") -> Reply:
        """Send a request without a body and read the head of its answer; `data` reads the rest piece by piece."""
        await self.send(head(method, target, headers))
        self._begin(method)
        event = await self._event()
        assert isinstance(event, h11.Response), event
        return Reply(event.status_code, list(event.headers), b"", complete=False)

    async def data(self) -> bytes:
        """Return the next piece of the body that `start` has begun, `b""` at its end.

        Raises `ConnectionError` when the connection ends before the body does.
        """
        event = await self._event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.EndOfMessage):
            return b""
        raise ConnectionError("the answer was cut off")

    async def until(self, mark: bytes) -> bytes:
        """Read raw bytes until a mark is among them, or to the end; return them all."""
        seen = bytearray()
        while mark not in seen and not self._closed:
            seen += await self._receive()
        return bytes(seen)

    async def until_closed(self) -> bytes:
        """Read to the end of the connection and return what came."""
        rest = bytearray(self._reader.trailing_data[0])
        while not self._closed:
            rest += await self._receive()
        return bytes(rest)

    async def aclose(self) -> None:
        """Close the connection at once."""
        await trio.aclose_forcefully(self.stream)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _begin(self, method: str) -> None:
        # The request was written by hand; h11 is only told its method, by which it knows how the answer is framed.
        rest, _ = self._reader.trailing_data
        self._reader = h11.Connection(h11.CLIENT)
        self._reader.send(h11.Request(method=method, target="/", headers=[("Host", "test")]))
        self._reader.send(h11.EndOfMessage())
        if rest:
            self._reader.receive_data(rest)

    async def _event(self) -> Any:
        while True:
            try:
                event = self._reader.next_event()
            except h11.RemoteProtocolError:
                return h11.ConnectionClosed()
            if event is not h11.NEED_DATA:
                return event
            self._reader.receive_data(await self._receive())

    async def _receive(self) -> bytes:
        try:
            data = await self.stream.receive_some(65_536)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            self._closed = True
        return bytes(data)
