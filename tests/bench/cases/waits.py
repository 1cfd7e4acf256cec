"""Open waits and streams: what each costs in memory, what all cost in processor time while nothing happens, and what is
left of them when their clients die.

A round has a server of its own, because memory that was used once is not given back to the system. First all waits are
opened, then all streams, over a hundred inboxes; the server is left alone for a while; the process that holds the
connections is killed; and as many are opened again, which a message in every inbox must then reach.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.bench.crowds import CrowdProcess, crowd, need_descriptors, open_descriptors
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import Bench
from tests.bench.processes import Server, running
from tests.bench.reading import get
from tests.bench.subject import Subject, postroom

NAME = "waits"

MEMORY_KIB = 32.0
"""Of resident memory for one open wait or stream."""

IDLE_SHARE = 0.01
"""Of one core, while none polls again."""

INBOXES = 100
WAIT_SECONDS = 60
"""The longest wait there is: opening, measuring and killing take about half of it."""

BACK_SECONDS = 30.0
"""For the server to notice that everybody is dead."""

WARM_UP = 20
"""Waits and streams that come and go before memory is measured: the server's own first-time costs are not theirs."""

STEP_SECONDS = 0.25
QUIET_SHARE = 0.05
"""The server has settled when it used less of a core than this for two steps."""

SETTLE_SECONDS = 20.0


class Round(msgspec.Struct, frozen=True):
    """One server's measurements. Memory in KiB of each, `idle` as a share of one core.

    `back`: the share that could be opened again and was reached by a message. `left`: descriptors that were still open
    when the time was up; `seconds`: until all were closed.
    """

    wait_kib: float
    stream_kib: float
    bare_kib: float
    idle: float
    back: float
    left: int
    seconds: float


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    waits, streams = bench.effort.waits, bench.effort.streams
    everybody = waits + streams
    # After the kill, new connections may come while old ones are still being closed.
    settings = {
        "MAX_STREAMS": str(everybody),
        "MAX_STREAMS_PER_INBOX": str(-(-waits // INBOXES) + -(-streams // INBOXES)),
        "MAX_CONNECTIONS": str(2 * everybody + WARM_UP),
    }
    need_descriptors(2 * everybody)
    bench.note(
        f"{NAME}: {waits:,} waits and {streams:,} streams on {INBOXES} inboxes, with "
        + ", ".join(f"{name} {value}" for name, value in settings.items())
    )
    measured: list[Round] = []
    with bench.steps(NAME, bench.effort.long_rounds) as done:
        for _ in range(bench.effort.long_rounds):
            with tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory) as made:
                measured.append(_round(bench, Path(made), settings))
            done(1)
    return _figures(bench, measured)


def _round(bench: Bench, directory: Path, settings: dict[str, str]) -> Round:
    with postroom(directory, settings) as subject:
        server = subject.server
        slugs = [f"inbox-{n}" for n in range(INBOXES)]
        for slug in slugs:
            subject.call("POST", "/v1/inboxes", {"slug": slug})
        waits = [_wait(subject, slugs[n % INBOXES]) for n in range(bench.effort.waits)]
        streams = [subject.reader(slugs[n % INBOXES]).stream() for n in range(bench.effort.streams)]
        with crowd() as early:
            early.hold(server.port, waits[:WARM_UP])
            early.hold(server.port, streams[:WARM_UP], streams=True)
        _until(lambda: _settled(server), SETTLE_SECONDS)
        before = open_descriptors(server.pid)
        with crowd() as first:
            wait_kib = _memory(server, first, waits, streams=False)
            stream_kib = _memory(server, first, streams, streams=True)
            began, used = time.monotonic(), server.cpu_seconds()
            time.sleep(bench.effort.idle_seconds)
            idle = (server.cpu_seconds() - used) / (time.monotonic() - began)
        began = time.monotonic()
        _until(lambda: open_descriptors(server.pid) <= before, BACK_SECONDS)
        seconds, left = time.monotonic() - began, open_descriptors(server.pid) - before
        with crowd() as second:
            second.hold(server.port, waits)
            second.hold(server.port, streams, streams=True)
            for slug in slugs:
                subject.post(slug, [("Content-Type", "application/json")], b'{"action":"opened"}')
            heard = second.collect().heard
    with running("bare-wait", ("-m", "tests.bench.servers.bare_wait"), directory) as bare:
        requests = [get(bare.port, "/hold")] * bench.effort.streams
        with crowd() as early:
            early.hold(bare.port, requests[:WARM_UP])
        _until(lambda: _settled(bare), SETTLE_SECONDS)
        with crowd() as held:
            bare_kib = _memory(bare, held, requests, streams=False)
    back = heard / (bench.effort.waits + bench.effort.streams)
    return Round(wait_kib, stream_kib, bare_kib, idle, back, max(left, 0), seconds)


def _wait(subject: Subject, slug: str) -> bytes:
    return subject.reader(slug).wait(after=0, timeout_seconds=WAIT_SECONDS)


def _memory(server: Server, held: CrowdProcess, requests: list[bytes], *, streams: bool) -> float:
    """Open requests and return by how many KiB each of them has made the server larger."""
    before = server.resident_bytes()
    held.hold(server.port, requests, streams=streams)
    _until(lambda: _settled(server), SETTLE_SECONDS)
    held.check()
    return (server.resident_bytes() - before) / len(requests) / 1024


def _settled(server: Server) -> bool:
    """Watch the server for two steps and return whether it was quiet."""
    for _ in range(2):
        before = server.cpu_seconds()
        time.sleep(STEP_SECONDS)
        if server.cpu_seconds() - before > QUIET_SHARE * STEP_SECONDS:
            return False
    return True


def _until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition, but not longer than this; what is measured next says whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(STEP_SECONDS / 10)


def _figures(bench: Bench, measured: list[Round]) -> list[Figure]:
    def of(name: str) -> list[float]:
        return [getattr(one, name) for one in measured]

    count = len(measured)
    bench.note(
        f"  {quantile(of('wait_kib'), 0.5):.1f} KiB each wait, {quantile(of('stream_kib'), 0.5):.1f} KiB each stream; "
        f"{quantile(of('idle'), 0.5):.2%} of a core for all; {max(of('left')):.0f} descriptors left "
        f"{max(of('seconds')):.1f} s after the kill at the latest"
    )
    goal, bare = [MEMORY_KIB] * count, of("bare_kib")
    at_most = f"{MEMORY_KIB:g} KiB"
    held = "bare ASGI, held open"
    return [
        compare(f"{NAME}.memory", of("wait_kib"), at_most, goal, unit="KiB", better="lower", goal=1.0),
        compare(f"{NAME}.memory", of("wait_kib"), held, bare, unit="KiB", better="lower"),
        compare("streams.memory", of("stream_kib"), at_most, goal, unit="KiB", better="lower", goal=1.0),
        compare("streams.memory", of("stream_kib"), held, bare, unit="KiB", better="lower"),
        compare(
            f"{NAME}.idle_cpu",
            [100 * share for share in of("idle")],
            f"{IDLE_SHARE:.0%} of a core",
            [100 * IDLE_SHARE] * count,
            unit="%",
            better="lower",
            goal=1.0,
        ),
        compare(f"{NAME}.back", of("back"), "all", [1.0] * count, unit="of all", better="higher", goal=1.0),
        compare(
            f"{NAME}.descriptors_back",
            [1.0 - one.left / (bench.effort.waits + bench.effort.streams) for one in measured],
            "all",
            [1.0] * count,
            unit="of all",
            better="higher",
            goal=1.0,
        ),
    ]
