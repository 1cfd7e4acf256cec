"""The network of the simulated world: a listening socket in memory, and connections that a crash cuts off."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import trio
import trio.testing

from postroom.config import Config
from postroom.ports import Ports
from tests.virtual import pass_time
from tests.wire.client import Client
from tests.wire.harness import PipeStream

ADDRESS = ("127.0.0.1", 8025)

BUFFER_BYTES = 2_000
"""What a narrow connection holds that nobody has read: a refusal, but no page."""

LOOK_SECONDS = 0.1
"""How often the writer into a full one looks whether it is read."""


class Refused(Exception):
    """Nobody listens."""


class Listener:
    """What the server has in place of a listening socket, and of trio's listener around it."""

    family = socket.AF_INET

    def __init__(self) -> None:
        self._offer: trio.MemorySendChannel[PipeStream]
        self._offer, self._accept = trio.open_memory_channel(float("inf"))
        self._ends: dict[PipeStream, None] = {}

    def getsockname(self) -> tuple[str, int]:
        """Return where it listens."""
        return ADDRESS

    async def accept(self) -> PipeStream:
        """Return the next connection."""
        return await self._accept.receive()

    def connect(self, *, narrow: bool) -> trio.StapledStream[Any, Any]:
        """Return a client's end of a new connection. Through a `narrow` one, the server must wait for who does not
        read.
        """
        ours, theirs = trio.testing.memory_stream_pair()
        if narrow:
            sends = theirs.send_stream
            sends.send_all_hook = partial(
                _wait_for_reader, sends.send_all_hook, sends, ours.receive_stream._incoming
            )
        end = PipeStream(theirs)
        self._ends[end] = None
        try:
            self._offer.send_nowait(end)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Refused from None
        return ours

    def sever(self) -> None:
        """Cut every connection off, and listen no more."""
        self._accept.close()
        for end in self._ends:
            end.socket.shutdown(socket.SHUT_RDWR)
        self._ends.clear()

    async def aclose(self) -> None:
        """Listen no more; who was not accepted yet is cut off."""
        try:
            while True:
                self._accept.receive_nowait().socket.shutdown(socket.SHUT_RDWR)
        except (trio.WouldBlock, trio.ClosedResourceError):
            self._accept.close()

    async def __aenter__(self) -> "Listener":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


async def _wait_for_reader(move: Any, sends: trio.testing.MemorySendStream, unread: Any) -> None:
    """Move what was sent to its reader, and return when all but a buffer's worth of it has been read. Raises as a
    socket does that is closed meanwhile.
    """
    await move()
    while len(unread._data) > BUFFER_BYTES and not unread._closed:
        await pass_time(LOOK_SECONDS)
        if sends._outgoing._closed:
            raise trio.BrokenResourceError


class Network:
    """How clients find the server that lives at the moment."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.listener: Listener | None = None

    @contextmanager
    def ports(self, config: Config) -> Iterator[Ports]:
        """Open the server's ports, as `postroom.ports.open_ports`."""
        self.listener = Listener()
        try:
            yield Ports(http=self.listener)  # type: ignore[arg-type]  # it has what the server uses of a socket
        finally:
            self.listener = None

    def connect(self, *, narrow: bool = False) -> Client:
        """Open a connection. Raises `Refused`."""
        if self.listener is None:
            raise Refused
        return Client(self.listener.connect(narrow=narrow))

    def sever(self) -> None:
        """Cut everybody off, as the end of a process does."""
        if self.listener is not None:
            self.listener.sever()


@contextmanager
def no_sockets() -> Iterator[None]:
    """Let `web.serve` take a `Listener` where it would make one of a socket."""
    with (
        patch.object(trio, "SocketListener", lambda listener: listener),
        patch.object(trio.socket, "from_stdlib_socket", lambda listener: listener),
    ):
        yield
