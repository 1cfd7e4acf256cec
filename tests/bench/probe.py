"""How long a server's loop stands still, seen from outside: a process of its own that asks again and again.

A small request goes to each of its servers every few milliseconds, one at a time. Whatever keeps a loop from turning
(the garbage collector, a computation, a blocking call) keeps the answer back as long, so the longest answer bounds the
longest stop that began since the last one. A sample of the loop from within, such as the metric of a sleep of a second
that ends late, would pass over nearly all of them. A bare server in the same row shows what the machine itself does.

As a program it takes a `Job` as JSON, one line on stdin, says with empty `Stops` that it begins, asks until another
line comes, and prints `Stops` as JSON.
"""

import gc
import select
import sys
import time

import msgspec

from tests.bench.beside import lines_of_stdin, say
from tests.bench.client import Line
from tests.bench.reading import get

PAUSE_SECONDS = 0.002
"""Before each request."""


class Job(msgspec.Struct, frozen=True):
    """Whom to ask."""

    ports: list[int]


class Stops(msgspec.Struct, frozen=True):
    """For each server, in the order of the job: the longest answer in ms. `asked`: how often each of them was."""

    longest: list[float]
    asked: int


def ask(job: Job) -> Stops:
    """Ask until there is something on stdin. Raises `tests.bench.client.WrongAnswer`, `OSError`."""
    lines = [Line(port) for port in job.ports]
    requests = [get(port, "/healthz") for port in job.ports]
    longest = [0.0 for _ in lines]
    asked = 0
    gc.disable()
    try:
        while asked < 2 or not select.select([sys.stdin], (), (), PAUSE_SECONDS)[0]:
            for place, (line, request) in enumerate(zip(lines, requests, strict=True)):
                line.send(request)
                while line.receive() is None:
                    pass
                took = (time.perf_counter_ns() - line.began) / 1e6
                if asked:  # the first one opens the connection's stream
                    longest[place] = max(longest[place], took)
            asked += 1
    finally:
        gc.enable()
        for line in lines:
            line.socket.close()
    return Stops(longest, asked)


def main() -> None:
    """Do the job on stdin."""
    job = msgspec.json.decode(lines_of_stdin().readline(), type=Job)
    say(Stops([], 0))
    say(ask(job))


if __name__ == "__main__":
    main()
