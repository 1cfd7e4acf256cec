"""The client of a fan-out to streams, a process of its own: a thousand subscribers, the sender, and a bare server's.

All subscribers are connections in one epoll, each read with one system call when its event is there, and the clock is
read once, when the last of them has it: a few ms of processor time for all, which the job reports. As a program it
takes a `Job` as JSON on stdin and prints `Spreads` as JSON.
"""

import gc
import json
import select
import socket
import sys
import time

import msgspec

from tests.bench.client import ANSWER_SECONDS, RECEIVE_BYTES, STATUS_OK, Line, WrongAnswer
from tests.bench.crowd import EVENT_DATA, STEP, let_it_keep_up
from tests.bench.signed import Deliveries, requests

BEGUN = b"retry:"
"""What the server says first, before any event."""

EVENT_END = b"\n\n\r\n"
"""The empty line after an event, and the end of the chunk that carries it."""

CALM_SECONDS = 0.1
"""Before a fan-out: for what the last one left to be done."""


class Job(msgspec.Struct, frozen=True):
    """`subscribers` send `subscribe` and are told of each message of `waking`, while `bare` goes to the bare server, as
    many of them before each of the fan-outs, one at a time.
    """

    port: int
    subscribe: bytes
    subscribers: int
    waking: Deliveries
    bare: Deliveries


class Spread(msgspec.Struct, frozen=True):
    """One fan-out, times in ms from the first byte of its POST sent: `everybody` has the event, `sender` its answer.

    `busy`: the client's share of a core meanwhile. `bare`: what each of the bare requests before it took.
    """

    everybody: float
    sender: float
    busy: float
    bare: list[float]


class Spreads(msgspec.Struct, frozen=True):
    """All fan-outs of a job, in their order. `event_bytes`: of one event on the wire."""

    spreads: list[Spread]
    event_bytes: int


class Audience:
    """The subscribers."""

    def __init__(self) -> None:
        self.poll = select.epoll()
        self.sockets: dict[int, socket.socket] = {}
        self._parts: dict[int, bytes] = {}

    def gather(self, port: int, request: bytes, count: int) -> None:
        """Open the streams; each has begun when this returns. Raises `WrongAnswer`, `OSError`."""
        for start in range(0, count, STEP):
            for _ in range(start, min(start + STEP, count)):
                connected = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
                connected.settimeout(None)
                connected.sendall(request)
                self.sockets[connected.fileno()] = connected
                self.poll.register(connected.fileno(), select.EPOLLIN)
            let_it_keep_up(port)
        waiting = set(self.sockets)
        while waiting:
            for number, _ in self.wait():
                received = self.receive(number)
                if not (received.startswith(STATUS_OK) or STATUS_OK.startswith(received)):
                    raise WrongAnswer(f"not a stream: {received[:500]!r}")
                if BEGUN in received:
                    waiting.discard(number)
        self._parts.clear()

    def wait(self) -> list[tuple[int, int]]:
        """Return for whom something has come. Raises `WrongAnswer`."""
        ready = self.poll.poll(ANSWER_SECONDS)
        if not ready:
            raise WrongAnswer(f"nothing for {ANSWER_SECONDS:g} s")
        return ready

    def receive(self, number: int) -> bytes:
        """Take what has come for one of them and return all that has since the last event. Raises `WrongAnswer`."""
        data = self.sockets[number].recv(RECEIVE_BYTES)
        if not data:
            raise WrongAnswer("a stream ended")
        if number in self._parts:
            data = self._parts[number] + data
        self._parts[number] = data
        return data

    def whole(self) -> dict[int, bytes]:
        """Return what everybody has received, and begin anew."""
        parts, self._parts = self._parts, {}
        return parts

    def close(self) -> None:
        """Close every connection."""
        for connected in self.sockets.values():
            connected.close()
        self.poll.close()


def has_event(received: bytes) -> bool:
    """Return whether an event with a message has come to its end."""
    return received.endswith(EVENT_END) and EVENT_DATA in received


def fan_out(audience: Audience, sender: Line, message: bytes, bare: list[float]) -> tuple[Spread, int]:
    """Send a message, watch until everybody has it, and return the size of the event too. Raises `WrongAnswer`."""
    door = sender.socket.fileno()
    left = set(audience.sockets)
    answer: bytes | None = None
    answered = 0
    used, finished = time.process_time(), 0
    sender.send(message)
    while left or answer is None:
        for number, _ in audience.wait():
            if number == door:
                answer = sender.receive()
                answered = time.perf_counter_ns()
            elif has_event(audience.receive(number)):
                left.discard(number)
        if not left and not finished:
            finished = time.perf_counter_ns()
    used = time.process_time() - used
    took = max(finished, answered) - sender.began
    received = audience.whole()
    told = b'"seq":%d,' % json.loads(answer)["seq"]
    if any(told not in one for one in received.values()):
        raise WrongAnswer("a subscriber was told of something else")
    spread = Spread(
        everybody=(finished - sender.began) / 1e6,
        sender=(answered - sender.began) / 1e6,
        busy=used / (took / 1e9),
        bare=bare,
    )
    return spread, max(map(len, received.values()))


def play(job: Job) -> Spreads:
    """Do a job. Raises `WrongAnswer`, `OSError`."""
    each = job.bare.count // job.waking.count
    plain = iter(requests(job.bare))
    sender, other = Line(job.waking.port), Line(job.bare.port)
    audience = Audience()
    spreads, size = [], 0
    try:
        audience.gather(job.port, job.subscribe, job.subscribers)
        audience.poll.register(sender.socket.fileno(), select.EPOLLIN)
        gc.disable()
        for message in requests(job.waking):
            bare = [_alone(other, next(plain)) for _ in range(each)]
            time.sleep(CALM_SECONDS)
            spread, size = fan_out(audience, sender, message, bare)
            spreads.append(spread)
    finally:
        gc.enable()
        audience.close()
        sender.socket.close()
        other.socket.close()
    return Spreads(spreads, size)


def _alone(line: Line, request: bytes) -> float:
    """Send a request and return what its answer took, in ms."""
    line.send(request)
    while line.receive() is None:
        pass
    return (time.perf_counter_ns() - line.began) / 1e6


def main() -> None:
    """Do the job on stdin."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(play(job)))


if __name__ == "__main__":
    main()
