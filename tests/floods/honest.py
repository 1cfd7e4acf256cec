"""The honest client, a process of its own: what it asks of a server while others flood it, and how long it waits.

Round by round it sends a message over a kept connection and over a new one, reads a page, and is woken from a wait by a
message of its own. Every answer must be a 200: to be refused, cut off or left without an answer ends the process, and
with it the test. It pauses after each round, so that it is no load itself.

As a program it is led by lines on stdin: each is a `Client` that begins to ask (it says so with empty `Times`), and is
ended by the next line, an empty one; then it says `Times`.
"""

import gc
import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from statistics import median

import msgspec

from tests.bench.beside import lines_of_stdin, say
from tests.bench.client import Line
from tests.bench.reading import Reader

PAUSE_SECONDS = 0.01
"""After each round, which takes about as long on a quiet machine."""

ANSWER_SECONDS = 20.0
"""Without an answer for so long the honest client has been shut out."""

FEWEST_ROUNDS = 5
"""However short the flood: of fewer a median says nothing."""

MESSAGE = b'{"text": "%b"}' % (b"x" * 1_000)
PAGE_MESSAGES = 20


class Client(msgspec.Struct, frozen=True):
    """Whose inbox it is, where, and how many rounds are enough; None: as many as there are until the next line."""

    reader: Reader
    rounds: int | None = None


class Times(msgspec.Struct, frozen=True):
    """How long each kind of answer took, in ms."""

    send: list[float] = []
    newcomer: list[float] = []
    page: list[float] = []
    wake: list[float] = []

    @property
    def medians(self) -> dict[str, float]:
        """The median of each kind in ms."""
        return {name: median(taken) for name, taken in msgspec.structs.asdict(self).items()}


class Posted(msgspec.Struct):
    """What is answered to a message."""

    seq: int


class Honest:
    """The client of one inbox. A context manager by `closing`."""

    def __init__(self, reader: Reader) -> None:
        self.times = Times()
        self._reader = reader
        head = f"POST /in/{reader.slug} HTTP/1.1\r\nHost: test\r\nContent-Length: {len(MESSAGE)}\r\n\r\n"
        self._message = head.encode() + MESSAGE
        self._sender, self._waiter = self._line(), self._line()

    def round(self) -> None:
        """Ask for everything once. Raises `WrongAnswer`, `OSError`."""
        with _clocked(self.times.send):
            seq = self._send(self._sender)
        with _clocked(self.times.newcomer), self._one_more() as line:
            seq = self._send(line)
        with _clocked(self.times.page):
            self._sender.send(self._reader.page(limit=PAGE_MESSAGES))
            _answer(self._sender)
        self._waiter.send(self._reader.wait(after=seq, timeout_seconds=int(ANSWER_SECONDS)))
        with _clocked(self.times.wake):
            self._send(self._sender)
            _answer(self._waiter)

    def close(self) -> None:
        """Close its connections."""
        self._sender.socket.close()
        self._waiter.socket.close()

    def _line(self) -> Line:
        line = Line(self._reader.port)
        line.socket.settimeout(ANSWER_SECONDS)
        return line

    @contextmanager
    def _one_more(self) -> Iterator[Line]:
        line = self._line()
        try:
            yield line
        finally:
            # With a reset: thousands of rounds must not leave thousands of ports in TIME_WAIT.
            line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            line.socket.close()

    def _send(self, line: Line) -> int:
        line.send(self._message)
        return msgspec.json.decode(_answer(line), type=Posted).seq


def _answer(line: Line) -> bytes:
    while (body := line.receive()) is None:
        pass
    return body


@contextmanager
def _clocked(into: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    into.append((time.perf_counter() - began) * 1e3)


def ask(client: Client) -> Times:
    """Ask, for so many rounds or until there is something on stdin."""
    with closing(Honest(client.reader)) as honest:
        say(Times())
        done = 0
        while client.rounds is None or done < client.rounds:
            pause = 0.0 if done < FEWEST_ROUNDS else PAUSE_SECONDS
            if select.select([sys.stdin], (), (), pause)[0] and done >= FEWEST_ROUNDS:
                break
            honest.round()
            done += 1
        return honest.times


def main() -> None:
    """Be led by the lines of stdin."""
    gc.disable()
    lines = lines_of_stdin()
    while line := lines.readline():
        client = msgspec.json.decode(line, type=Client)
        times = ask(client)
        if client.rounds is None:
            lines.readline()
        say(times)


if __name__ == "__main__":
    main()
