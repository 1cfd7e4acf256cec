"""The client that lets contenders take turns request by request, a process of its own.

One request is under way at a time, each contender on its own keep-alive connection, in an order that rotates: nothing
that slows the machine for longer than a few milliseconds can fall on one of them alone. It measures latencies of a
quiet server; `client.py` measures what a loaded one can do.

As a program it takes a `Job` as JSON on stdin and prints `Turns` as JSON.
"""

import gc
import select
import sys
import time
from collections.abc import Sequence

import msgspec

from tests.bench.client import ANSWER_SECONDS, Line, WrongAnswer

UNCLOCKED = 10
"""Turns before the clock counts: connections are made, caches are filled, the reader has a cursor."""

NOTHING = b'"messages":[]'


class Contender(msgspec.Struct, frozen=True):
    """One in the row. With `waits`, the n-th of them is sent on a second connection before the n-th request, which is
    to wake it.
    """

    name: str
    port: int
    requests: list[bytes]
    waits: list[bytes] = []


class Job(msgspec.Struct, frozen=True):
    """Who takes turns; all have equally many requests. `pause_ms`: before each request, after its wait was sent."""

    contenders: list[Contender]
    pause_ms: float = 0.0


class Timed(msgspec.Struct, frozen=True):
    """One contender's clocked turns, in ms from a request's first byte sent.

    `answered`: to its answer's last byte received. `woken`: to the last byte of the wait's answer. `size`: mean
    bytes of an answer's body.
    """

    name: str
    answered: list[float]
    woken: list[float]
    size: float


class Turns(msgspec.Struct, frozen=True):
    """What came of it, in the order of the contenders."""

    timed: list[Timed]


class Player:
    """A contender at play."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.line = Line(contender.port)
        self.waiting = Line(contender.port) if contender.waits else None
        self.answered: list[float] = []
        self.woken: list[float] = []
        self.bytes = 0

    def play(self, turn: int, pause_seconds: float) -> None:
        """Take one turn. Raises `WrongAnswer`, `OSError`."""
        if self.waiting is not None:
            self.waiting.send(self.contender.waits[turn])
        if pause_seconds:
            time.sleep(pause_seconds)
        self.line.send(self.contender.requests[turn])
        if self.waiting is None:
            while (answer := self.line.receive()) is None:
                pass
            self._note(turn, self.answered, self.line.began)
        else:
            answer = self._both(turn, self.waiting)
        self.bytes += len(answer)

    def _both(self, turn: int, waiting: Line) -> bytes:
        """Receive the request's answer and the wait's, in whichever order they come; return the latter."""
        began = self.line.began
        pending = {self.line.socket: (self.line, self.answered), waiting.socket: (waiting, self.woken)}
        woke = b""
        while pending:
            ready, _, _ = select.select(list(pending), (), (), ANSWER_SECONDS)
            if not ready:
                raise WrongAnswer(f"no answer for {ANSWER_SECONDS:g} s")
            for socket in ready:
                line, times = pending[socket]
                answer = line.receive()
                if answer is not None:
                    self._note(turn, times, began)
                    del pending[socket]
                    woke = answer if line is waiting else woke
        if NOTHING in woke:
            raise WrongAnswer("a wait ended without a message")
        return woke

    def _note(self, turn: int, times: list[float], began: int) -> None:
        if turn >= UNCLOCKED:
            times.append((time.perf_counter_ns() - began) / 1e6)

    def close(self) -> None:
        """Close the connections."""
        self.line.socket.close()
        if self.waiting is not None:
            self.waiting.socket.close()


def take_turns(contenders: Sequence[Contender], pause_seconds: float) -> Turns:
    """Let every contender send each of its requests and return the times. Raises `WrongAnswer`, `OSError`."""
    turns = len(contenders[0].requests)
    if turns <= UNCLOCKED or any(len(one.requests) != turns for one in contenders):
        raise ValueError("contenders must have equally many requests, and more than are not clocked")
    players: list[Player] = []
    try:
        players.extend(map(Player, contenders))
        gc.disable()
        for turn in range(turns):
            first = turn % len(players)
            for player in players[first:] + players[:first]:
                player.play(turn, pause_seconds)
    finally:
        gc.enable()
        for player in players:
            player.close()
    return Turns([Timed(p.contender.name, p.answered, p.woken, p.bytes / turns) for p in players])


def main() -> None:
    """Do the job on stdin."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(take_turns(job.contenders, job.pause_ms / 1000)))


if __name__ == "__main__":
    main()
