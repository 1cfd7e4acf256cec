"""Thousands of open waits and streams, held by one process that hardly costs anything: raw sockets, one epoll.

As a program it is led by lines on stdin: a `Hold` opens that many requests more, and an empty line collects what
every one of them gets. It answers each line with a `Held` on stdout. Killed, it says no farewell to anybody: the
kernel closes its sockets.
"""

import select
import socket
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from tests.bench.client import ANSWER_SECONDS, RECEIVE_BYTES, STATUS_OK, Line, whole_body
from tests.bench.reading import get

STEP = 64
"""Connections that are opened before the server is asked whether it has kept up: its backlog must not overflow."""

COLLECT_SECONDS = 60.0
"""For everybody to hear of a message; a wait gives up by itself then."""

EVENT_DATA = b"\ndata: "
NOTHING = b'"messages":[]'


class Hold(msgspec.Struct, frozen=True):
    """Open these requests, each on a connection of its own; none, to hear how it stands."""

    port: int
    requests: list[bytes]
    streams: bool = False


class Held(msgspec.Struct, frozen=True):
    """How it stands. `open`: requests without an end yet; `heard`: those that got a message; `refused`: those that were
    answered otherwise, or closed; `example`: the beginning of the first such answer.
    """

    open: int
    heard: int
    refused: int
    example: str


class Seat:
    """One connection with its request under way."""

    __slots__ = ("received", "socket", "streams")

    def __init__(self, connected: socket.socket, streams: bool) -> None:
        self.socket = connected
        self.streams = streams
        self.received = b""


class Crowd:
    """Everybody who waits. `open`, `heard`, `refused` and `example` as in `Held`."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._seats: dict[int, Seat] = {}
        self._guests: dict[int, socket.socket] = {}
        self.open = 0
        self.heard = 0
        self.refused = 0
        self.example = ""

    def hold(self, port: int, requests: Sequence[bytes], *, streams: bool = False) -> None:
        """Open requests on new connections. The server has accepted them all when this returns."""
        for start in range(0, len(requests), STEP):
            for request in requests[start : start + STEP]:
                connected = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
                connected.settimeout(None)
                self._seats[connected.fileno()] = Seat(connected, streams)
                self._poll.register(connected.fileno(), select.EPOLLIN)
                connected.sendall(request)
            self.open += len(requests[start : start + STEP])
            let_it_keep_up(port)
            self.receive(0)

    def again(self, requests: Sequence[bytes]) -> None:
        """Send the next request on every connection; its last one must have been answered."""
        for seat, request in zip(self._seats.values(), requests, strict=True):
            seat.socket.sendall(request)
        self.open += len(requests)

    def receive(self, seconds: float) -> None:
        """Take what has come, waiting so long for something."""
        self.watched(seconds)

    def watch(self, sock: socket.socket) -> None:
        """Watch a connection that is not of the crowd."""
        self._guests[sock.fileno()] = sock
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def unwatch(self, sock: socket.socket) -> None:
        """Watch it no longer."""
        self._poll.unregister(sock.fileno())
        del self._guests[sock.fileno()]

    def watched(self, seconds: float) -> list[socket.socket]:
        """Take what has come for the crowd, and return the watched connections for which something has come.

        Those are looked at first: the list is returned before the crowd's part of it is taken, which then waits for the
        next call.
        """
        ready = self._poll.poll(seconds)
        guests = [self._guests[number] for number, _ in ready if number in self._guests]
        if not guests:
            for number, _ in ready:
                self._take(self._seats[number])
        return guests

    def collect(self, done: Callable[[], bool] = lambda: False, seconds: float = COLLECT_SECONDS) -> None:
        """Receive until everybody has heard something, `done` says so, or the time is over."""
        deadline = time.monotonic() + seconds
        while self.open and not done() and (left := deadline - time.monotonic()) > 0:
            self.receive(left)

    def held(self) -> Held:
        """Return how it stands."""
        return Held(self.open, self.heard, self.refused, self.example)

    def close(self) -> None:
        """Close every connection."""
        for seat in self._seats.values():
            seat.socket.close()
        self._seats.clear()
        self._poll.close()

    def _take(self, seat: Seat) -> None:
        try:
            data = seat.socket.recv(RECEIVE_BYTES)
        except OSError:
            data = b""
        seat.received += data
        if not data or not (seat.received.startswith(STATUS_OK) or STATUS_OK.startswith(seat.received)):
            self._end(seat, heard=False)
        elif seat.streams:
            if EVENT_DATA in seat.received:
                self._end(seat, heard=True)
        else:
            body = whole_body(seat.received)
            if body is not None:
                self._end(seat, heard=NOTHING not in body)

    def _end(self, seat: Seat, *, heard: bool) -> None:
        """Note what came of a request. A stream goes on, but what it says after its first message is of no interest."""
        self.open -= 1
        if heard:
            self.heard += 1
            if seat.streams:
                self._poll.unregister(seat.socket.fileno())
        else:
            self.refused += 1
            self.example = self.example or seat.received[:300].decode("latin-1") or "closed without an answer"
            self._poll.unregister(seat.socket.fileno())
        seat.received = b""


def let_it_keep_up(port: int) -> None:
    """Have a request answered on a new connection, which the server accepts after those that were opened before."""
    line = Line(port)
    try:
        line.send(get(port, "/healthz"))
        while line.receive() is None:
            pass
    finally:
        line.socket.close()


def main() -> None:
    """Be led by the lines of stdin."""
    crowd = Crowd()
    for line in sys.stdin.buffer:
        if line.strip():
            job = msgspec.json.decode(line, type=Hold)
            crowd.hold(job.port, job.requests, streams=job.streams)
            crowd.receive(0)
        else:
            crowd.collect()
        sys.stdout.buffer.write(msgspec.json.encode(crowd.held()) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
