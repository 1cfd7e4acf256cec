"""Targets for wake-ups: listeners on loopback that answer as told, names that mean what a test says, and a factory of
sockets that notes every one that is made.
"""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

import h11
import trio

from actors.waking import WakeCall
from storage.secret import SecretBytes
from web.options import WebOptions
from web.waking.resolving import Resolve
from web.waking.sender import WakeSender

LOOPBACK = "127.0.0.0/8"
NAME = "agent.example"
SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
WAKE_TOKEN = "a-wake-token-that-nobody-else-knows"
NOW_US = 1_800_000_000_000_000

READ_BYTES = 4_096
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

Answer = Callable[[trio.abc.Stream], Awaitable[None]]


def saying(answer: bytes) -> Answer:
    """Answer with these bytes, and then wait until the other end hangs up."""

    async def answering(stream: trio.abc.Stream) -> None:
        await stream.send_all(answer)
        await until_hung_up(stream)

    return answering


def without_end(begin: bytes, more: bytes) -> Answer:
    """Answer with a beginning, and with more of it for as long as somebody takes it."""

    async def answering(stream: trio.abc.Stream) -> None:
        await stream.send_all(begin)
        while True:
            await stream.send_all(more)

    return answering


async def until_hung_up(stream: trio.abc.Stream) -> None:
    """Return when the other end has closed the connection."""
    while await stream.receive_some(READ_BYTES):
        pass


class Target:
    """One listener. `requests` are whole ones, as (request, body); `hung_up`: a connection was closed by the other end.

    `opened` counts connections.
    """

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None) -> None:
        self.port = 0
        self.opened = 0
        self.requests: list[tuple[h11.Request, bytes]] = []
        self.heard = trio.Event()
        self.hung_up = trio.Event()
        self._answer = answer
        self._tls = tls

    def url(self, host: str = "127.0.0.1", *, scheme: str = "http", path: str = "/wake") -> str:
        """Return the URL of this listener under a name or an address."""
        return f"{scheme}://{host}:{self.port}{path}"

    def header(self, name: str) -> str:
        """Return a header of the last request."""
        [value] = [value for key, value in self.requests[-1][0].headers if key == name.encode()]
        return value.decode()

    async def serve(self, connection: trio.SocketStream) -> None:
        """Take one connection."""
        self.opened += 1
        stream: trio.abc.Stream = connection
        if self._tls is not None:
            stream = trio.SSLStream(connection, self._tls, server_side=True, https_compatible=True)
        try:
            self.requests.append(await self._request(stream))
            self.heard.set()
            await self._answer(stream)
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            pass
        self.hung_up.set()
        await connection.aclose()

    async def _request(self, stream: trio.abc.Stream) -> tuple[h11.Request, bytes]:
        http = h11.Connection(h11.SERVER)
        request: h11.Request | None = None
        body = b""
        while True:
            event = http.next_event()
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                return request, body
            else:
                assert event is h11.NEED_DATA
                http.receive_data(bytes(await stream.receive_some(READ_BYTES)))


@asynccontextmanager
async def listening(
    answer: Answer | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Target]:
    """Listen on an address of this machine; without `answer` with 200 and no body."""
    target = Target(saying(OK) if answer is None else answer, tls)
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(port, host=host)
        target.port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, target.serve, [listener])
        yield target
        nursery.cancel_scope.cancel()


class Names:
    """A resolver: what each name means; `asked` are the names that somebody asked for."""

    def __init__(self, meanings: Mapping[str, Sequence[str]]) -> None:
        self._meanings = meanings
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return what a name means."""
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        if host not in self._meanings:
            raise OSError("no such name")
        return self._meanings[host]


class Sockets(trio.abc.SocketFactory):
    """Makes real sockets, and notes that it did."""

    def __init__(self) -> None:
        self.made = 0

    def socket(self, family: int = 0, type: int = 0, proto: int = 0) -> trio.socket.SocketType:
        """Make one."""
        self.made += 1
        return trio.socket.from_stdlib_socket(socket.socket(family, type, proto))


@contextmanager
def watching_sockets() -> Iterator[Sockets]:
    """Note every socket that is made inside the block."""
    sockets = Sockets()
    before = trio.socket.set_custom_socket_factory(sockets)
    try:
        yield sockets
    finally:
        trio.socket.set_custom_socket_factory(before)


def sender(
    *allowed: str,
    meaning: Mapping[str, Sequence[str]] | None = None,
    resolve: Resolve | None = None,
    clock_us: Callable[[], int] = lambda: NOW_US,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> WakeSender:
    """Return a sender that may reach these networks, and for which names have this meaning, or ask `resolve`."""
    names = Names(meaning or {}) if resolve is None else resolve
    return WakeSender(WebOptions(wake_allowed_cidrs=allowed), clock_us=clock_us, resolve=names, tls=tls)


def call(url: str, *, secret: str | None = SECRET) -> WakeCall:
    """Return a wake for an agent with three unread messages."""
    sealed = None if secret is None else SecretBytes(secret.encode())
    return WakeCall("planner", url, sealed, 3, WAKE_TOKEN)
