"""HTTP/1.1 by hand: what goes out is exactly the bytes that a test wrote, in the segments that it chose.

A client library would tidy up the very things that the fidelity tests are about (case and order of headers, paths,
framing). Only answers are parsed, by h11. Every wait is bounded by the socket's timeout.
"""

import json
import socket
import struct
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import h11

WAIT_SECONDS = 15.0
"""For one send or receive. Everything here takes milliseconds; the rest is for a busy machine."""

RECEIVE_BYTES = 65_536

Headers = Sequence[tuple[bytes, bytes]]


class Reply:
    """One answer. Header names are in lower case, as h11 gives them; `interim` are the informational answers (1xx)
    that came before it.
    """

    def __init__(
        self, status: int, headers: list[tuple[bytes, bytes]], body: bytes, interim: tuple[int, ...] = ()
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.interim = interim

    def header(self, name: bytes) -> bytes | None:
        """Return the one value of a header, None when there is none."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, f"{name!r} is there {len(values)} times"
        return values[0] if values else None

    def json(self) -> Any:
        """Return the decoded body."""
        return json.loads(self.body)

    @property
    def undated(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Everything but the clock and the request's id: for comparing two answers byte for byte."""
        told = [(key, value) for key, value in self.headers if key not in (b"date", b"postroom-request-id")]
        return self.status, told, self.body


class Line:
    """One connection to the server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, WAIT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a piece is a segment
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, *pieces: bytes) -> None:
        """Send each piece by itself."""
        for piece in pieces:
            self._socket.sendall(piece)

    def finish_sending(self) -> None:
        """Say that nothing more comes; answers can still be read."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """End the connection as a crashing client does: with a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def interim(self) -> int:
        """Return the status of the next answer if it is informational (1xx)."""
        parser = self._parser("POST", whole=False)
        event = self._next(parser)
        assert isinstance(event, h11.InformationalResponse), event
        self._rest = parser.trailing_data[0]
        return event.status_code

    def reply(self, method: str = "POST") -> Reply:
        """Return the next final answer. Raises `ConnectionError` when the connection ends or breaks before it is
        whole."""
        parser = self._parser(method, whole=True)
        head: h11.Response | None = None
        body: list[bytes] = []
        interim: list[int] = []
        while True:
            event = self._next(parser)
            if isinstance(event, h11.InformationalResponse):
                interim.append(event.status_code)
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionError("the server closed the connection without an answer")
        assert head is not None
        self._rest = parser.trailing_data[0]
        headers = [(bytes(key), bytes(value)) for key, value in head.headers]
        return Reply(head.status_code, headers, b"".join(body), tuple(interim))

    def ended(self) -> bool:
        """Wait until the server has closed the connection; False when it sends something instead."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _parser(self, method: str, *, whole: bool) -> h11.Connection:
        # h11 pairs answers with requests: it is told of one, and the bytes that it makes of it are thrown away.
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method=method, target="/", headers=[("Host", "x"), ("Content-Length", "0")]))
        if whole:
            parser.send(h11.EndOfMessage())
        if self._rest:
            parser.receive_data(self._rest)
            self._rest = b""
        return parser

    def _next(self, parser: h11.Connection) -> h11.Event:
        while True:
            try:
                event = parser.next_event()
                if event is h11.NEED_DATA:
                    parser.receive_data(self._socket.recv(RECEIVE_BYTES))
                    continue
            except h11.RemoteProtocolError as error:  # also when the connection ends within an answer
                raise ConnectionError(str(error)) from error
            assert not isinstance(event, type), f"h11 is {event}"
            return event


def head(method: bytes, target: bytes, headers: Headers) -> bytes:
    """Return a request's head, every line as given, behind a Host."""
    lines = [b"%b %b HTTP/1.1" % (method, target), b"Host: postroom.test"]
    lines += [b"%b: %b" % line for line in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def chunked(pieces: Iterable[bytes]) -> list[bytes]:
    """Return a body's pieces as chunks, the empty last one included."""
    return [*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


class Sender:
    """Sends webhooks to one server, each on a connection of its own unless a test takes a `Line`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._address = (parts.hostname, parts.port)

    def line(self) -> Line:
        """Return a new connection; use it as a context manager."""
        return Line(self._address)

    def exchange(self, *pieces: bytes, method: str = "POST") -> Reply:
        """Send bytes and return the one answer."""
        with self.line() as line:
            line.send(*pieces)
            return line.reply(method)

    def request(
        self, method: bytes, target: bytes, headers: Headers = (), body: bytes | None = None
    ) -> Reply:
        """Send one request, with a Content-Length if there is a body."""
        framing = [] if body is None else [(b"Content-Length", b"%d" % len(body))]
        return self.exchange(head(method, target, [*headers, *framing]), body or b"", method=method.decode())

    def post(self, slug: str, body: bytes = b"", headers: Headers = (), *, suffix: bytes = b"") -> int:
        """Send a webhook that must be stored, and return its seq. `suffix` follows the slug in the target."""
        reply = self.request(b"POST", ingest(slug, suffix), headers, body)
        assert reply.status == 200, reply.undated
        return int(reply.json()["seq"])

    def post_chunked(self, slug: str, pieces: Sequence[bytes], headers: Headers = ()) -> int:
        """Send a webhook chunk by chunk, each in a segment of its own, and return its seq."""
        start = head(b"POST", ingest(slug), [*headers, (b"Transfer-Encoding", b"chunked")])
        reply = self.exchange(start, *chunked(pieces))
        assert reply.status == 200, reply.undated
        return int(reply.json()["seq"])


def ingest(slug: str, suffix: bytes = b"") -> bytes:
    """Return the request target of an inbox's ingest address, and what follows it."""
    return b"/in/" + slug.encode() + suffix
