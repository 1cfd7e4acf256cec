"""The load client, a process of its own: raw sockets, prebuilt requests, hardly any parsing.

It must be far cheaper than any server under test (about 25 µs a request), else it would measure itself; it
reports its own processor time so that anybody can check. Closed loop: every connection sends its next request
when the answer to the last one is complete. Each connection is used once before the clock starts.

As a program it takes a `Job` as JSON on stdin and prints an `Exchange` as JSON.
"""

import gc
import select
import socket
import sys
import time
from collections.abc import Sequence

import msgspec

from tests.bench.figures import percentiles, quantile
from tests.bench.signed import Deliveries, requests

ANSWER_SECONDS = 30.0
"""Without a single answer on any connection for so long, the server hangs."""

RECEIVE_BYTES = 65_536

STATUS_OK = b"HTTP/1.1 200"
LENGTH = b"content-length:"


class WrongAnswer(Exception):
    """A server gave another answer than 200 with a Content-Length, or none."""


class Job(msgspec.Struct, frozen=True):
    """What to send, over how many connections."""

    deliveries: Deliveries
    connections: int


class Exchange(msgspec.Struct, frozen=True):
    """What came of it. `answers`: every answer's body, those of the unclocked requests included.

    `seconds`: from the first clocked request to the last answer. `p50_ms`, `p99_ms`: from a request's first
    byte sent to its answer's last byte received; `percentiles_ms`: the same from 0 to 100. `cpu_seconds`: the client's
    own, within the clock.
    """

    clocked: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_seconds: float
    answers: list[str]
    percentiles_ms: list[float]

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return self.clocked / self.seconds


def whole_body(received: bytes) -> bytes | None:
    """Return the body of an answer, None while it is not whole. Raises `WrongAnswer`."""
    head_ends = received.find(b"\r\n\r\n")
    if head_ends < 0:
        return None
    if not received.startswith(STATUS_OK):
        raise WrongAnswer(f"not a 200: {received[:500]!r}")
    at = received.lower().find(LENGTH, 0, head_ends)
    if at < 0:
        raise WrongAnswer("an answer without a Content-Length")
    length = int(received[at + len(LENGTH) : received.index(b"\r\n", at)])
    body = received[head_ends + 4 :]
    if len(body) > length:
        raise WrongAnswer("more bytes than one answer")
    return body if len(body) == length else None


class Line:
    """One keep-alive connection with at most one request under way. `whole` tells when its answer is."""

    __slots__ = ("began", "received", "socket")

    whole = staticmethod(whole_body)

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
        self.socket.settimeout(None)  # a timeout would cost one more system call with every send and receive
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began = 0
        self.received = b""

    def send(self, request: bytes) -> None:
        """Send a request whole; it is far smaller than the kernel's buffer, so this does not block."""
        self.began = time.perf_counter_ns()
        self.socket.sendall(request)

    def receive(self) -> bytes | None:
        """Take what has come; return the answer's body when it is whole. Raises `WrongAnswer`."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise WrongAnswer("the server closed a connection")
        self.received += data
        body = self.whole(self.received)
        if body is not None:
            self.received = b""
        return body


def drive(port: int, prepared: Sequence[bytes], connections: int, line_to: type[Line] = Line) -> Exchange:
    """Send every prepared request once and return what came of it. Raises `WrongAnswer`, `OSError`.

    The first `connections` of them go before the clock starts.
    """
    if len(prepared) <= connections:
        raise ValueError("there must be more requests than connections")
    answers: list[bytes] = []
    lines = [line_to(port) for _ in range(connections)]
    try:
        for line, request in zip(lines, prepared, strict=False):
            line.send(request)
            while (answer := line.receive()) is None:
                pass
            answers.append(answer)
        latencies, seconds, cpu_seconds = _clocked(lines, prepared[connections:], answers)
    finally:
        for line in lines:
            line.socket.close()
    in_ms = [nanoseconds / 1e6 for nanoseconds in latencies]
    return Exchange(
        clocked=len(latencies),
        seconds=seconds,
        p50_ms=quantile(in_ms, 0.5),
        p99_ms=quantile(in_ms, 0.99),
        cpu_seconds=cpu_seconds,
        answers=[answer.decode() for answer in answers],
        percentiles_ms=percentiles(in_ms),
    )


def _clocked(
    lines: Sequence[Line], prepared: Sequence[bytes], answers: list[bytes]
) -> tuple[list[int], float, float]:
    """Return latencies (ns), seconds and the client's processor seconds of sending `prepared`."""
    gc.disable()
    cpu_began, began = time.process_time(), time.perf_counter()
    latencies, given = take_turns(lines, prepared)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    gc.enable()
    answers += given
    return latencies, seconds, cpu_seconds


def take_turns(lines: Sequence[Line], prepared: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
    """Send every request once, each line its next one after an answer. Return the latencies (ns) and the answers."""
    latencies: list[int] = []
    answers: list[bytes] = []
    poll = select.epoll() if hasattr(select, "epoll") else select.poll()
    by_number = {line.socket.fileno(): line for line in lines}
    for number in by_number:
        poll.register(number, select.POLLIN)
    wait = ANSWER_SECONDS if hasattr(select, "epoll") else ANSWER_SECONDS * 1000
    upcoming = iter(prepared)
    under_way = 0
    for line, request in zip(lines, upcoming, strict=False):
        line.send(request)
        under_way += 1
    while under_way:
        ready = poll.poll(wait)
        if not ready:
            raise WrongAnswer(f"no answer for {ANSWER_SECONDS:g} s")
        for number, _ in ready:
            line = by_number[number]
            answer = line.receive()
            if answer is None:
                continue
            latencies.append(time.perf_counter_ns() - line.began)
            answers.append(answer)
            request_or_none = next(upcoming, None)
            if request_or_none is None:
                under_way -= 1
            else:
                line.send(request_or_none)
    return latencies, answers


def main() -> None:
    """Do the job on stdin."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    exchange = drive(job.deliveries.port, requests(job.deliveries), job.connections)
    sys.stdout.buffer.write(msgspec.json.encode(exchange))


if __name__ == "__main__":
    main()
