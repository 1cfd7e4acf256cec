"""Many connections of one process that are no clients: they dribble, do not read, or leave. Raw sockets, one epoll."""

import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.bench.crowd import STEP, let_it_keep_up

CONNECT_SECONDS = 20.0
RECEIVE_BYTES = 65_536

RESET = b"\1\0\0\0\0\0\0\0"
"""`SO_LINGER` of no time: closing sends a reset, and leaves no port in TIME_WAIT."""

SMALL_SEGMENT = 1_400
"""Bytes of a segment, as on a real network. The kernel gives a connection of the loopback, whose segments are 64 KiB,
mebibytes of buffer at once, which a reader that has stopped would never fill.
"""


def dial(port: int, *, receive_buffer: int | None = None) -> socket.socket:
    """Open a connection that does not block, and is reset when it is closed; a small receive buffer is soon full."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SMALL_SEGMENT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        sock.settimeout(CONNECT_SECONDS)
        sock.connect(("127.0.0.1", port))
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def gently(port: int, count: int) -> Iterator[int]:
    """Count up to `count`, giving the server the time to accept after each few: its backlog must not overflow."""
    for n in range(count):
        if n and n % STEP == 0:
            let_it_keep_up(port)
        yield n


class Mob:
    """The connections. A context manager: leaving it resets them all.

    `ends`: how the server has ended connections, by the status of its answer, 0 for none. Whoever is answered leaves.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.ends: Counter[int] = Counter()
        self._poll = select.epoll()
        self._open: dict[int, Dribbler] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for dribbler in self._open.values():
            dribbler.socket.close()
        self._poll.close()

    def __len__(self) -> int:
        return len(self._open)

    def dribble(
        self, count: int, says: Callable[[int], "Said"], seconds: float, every_seconds: float
    ) -> None:
        """Keep `count` connections open for so long, of which each says its beginning at once and then one piece every
        so often. Those that the server ends begin anew.
        """
        begun = 0
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            missing = count - len(self._open)
            for _ in gently(self.port, missing):
                self._begin(says(begun))
                begun += 1
            for dribbler in list(self._open.values()):
                dribbler.say_on()
            self._listen(min(until, now + every_seconds))

    def _begin(self, said: "Said") -> None:
        sock = dial(self.port)
        self._open[sock.fileno()] = Dribbler(sock, said)
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _listen(self, until: float) -> None:
        """Take what comes until then."""
        while (left := until - time.monotonic()) > 0:
            for number, _ in self._poll.poll(left):
                dribbler = self._open.pop(number)
                dribbler.hear()
                self.ends[dribbler.status] += 1
                self._poll.unregister(number)
                dribbler.socket.close()


class Said:
    """What a connection says: `first` at once, then `pieces`, without an end."""

    def __init__(self, first: bytes, pieces: Iterable[bytes]) -> None:
        self.first = first
        self.pieces = iter(pieces)


class Dribbler:
    """One of them."""

    __slots__ = ("_said", "heard", "socket")

    def __init__(self, sock: socket.socket, said: Said) -> None:
        self.socket = sock
        self._said = said
        self.heard = b""
        sock.send(said.first)

    @property
    def status(self) -> int:
        """The status that it was told, 0 for none."""
        return int(self.heard[9:12]) if self.heard.startswith(b"HTTP/1.1 ") else 0

    def say_on(self) -> None:
        """Send the next piece."""
        with suppress(OSError):  # it has been ended, which is heard next
            self.socket.send(next(self._said.pieces))

    def hear(self) -> None:
        """Take what has come: an answer, or the end."""
        with suppress(OSError):
            self.heard = self.socket.recv(RECEIVE_BYTES)
