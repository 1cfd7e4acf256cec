"""A load client for small differences: several kinds of requests take turns on the same connections to one server.

A turn (a slice) lasts some 40 ms, so whatever the machine does meanwhile falls on all kinds alike, and connections,
caches and the state of the server are the same for all of them. The order of the turns is reversed each time: none is
always the one behind a certain other. After each turn the server's own processor clock is read.

As a program it takes a `SlicedJob` as JSON on stdin and prints `Sliced` as JSON.
"""

import gc
import sys
from collections.abc import Sequence

import msgspec

from tests.bench.client import Line, take_turns
from tests.bench.processes import Server
from tests.bench.signed import Deliveries, requests


class SlicedJob(msgspec.Struct, frozen=True):
    """What to send to whom: `kinds` differ in what they send, and all send as many. `slice` is how many requests of one
    kind are sent before it is another one's turn.
    """

    server: Server
    kinds: list[Deliveries]
    connections: int
    slice: int


class Sliced(msgspec.Struct, frozen=True):
    """What it took: for each kind the server's processor time for one request, in µs."""

    cpu_us: list[float]


def drive(job: SlicedJob) -> Sliced:
    """Send everything. Raises `tests.bench.client.WrongAnswer`, `OSError`."""
    prepared = [requests(kind) for kind in job.kinds]
    used = [0.0 for _ in job.kinds]
    lines = [Line(job.server.port) for _ in range(job.connections)]
    gc.disable()
    try:
        take_turns(lines, prepared[0][: job.slice])  # uncounted: it opens the connections' streams
        for at in range(job.slice, len(prepared[0]), job.slice):
            order: Sequence[int] = range(len(prepared))
            for kind in order if at // job.slice % 2 else reversed(order):
                before = job.server.cpu_seconds()
                take_turns(lines, prepared[kind][at : at + job.slice])
                used[kind] += job.server.cpu_seconds() - before
    finally:
        for line in lines:
            line.socket.close()
    counted = len(prepared[0]) - job.slice
    return Sliced([seconds / counted * 1e6 for seconds in used])


def main() -> None:
    """Do the job on stdin."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=SlicedJob)
    sys.stdout.buffer.write(msgspec.json.encode(drive(job)))


if __name__ == "__main__":
    main()
