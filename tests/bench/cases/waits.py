"""Open waits and streams: what each costs in memory, what all cost in processor time while nothing happens, whether the
loop stands still meanwhile, and what is left of them when their clients die.

A round has a server of its own, because memory that was used once is not given back to the system. First all waits
are opened, over a hundred inboxes, and the server is left alone with them for a while; then a client asks for answers
all the time (`tests.bench.probe`); then all streams are opened, and the server is left alone with both; the process
that holds the connections is killed; and as many are opened again, which a message in every inbox must then reach.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.bench.beside import beside
from tests.bench.crowds import CrowdProcess, crowd, need_descriptors, open_descriptors
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import Bench
from tests.bench.probe import Job as Probe
from tests.bench.probe import Stops
from tests.bench.processes import Server, running
from tests.bench.reading import get
from tests.bench.settling import settle, until
from tests.bench.subject import Subject, postroom

NAME = "waits"

WAIT_KIB = 28.0
STREAM_KIB = 32.0
"""Of resident memory for one that is open."""

IDLE_SHARE = 0.01
"""Of one core, for all waits, while none polls again; and for all waits and streams, whose heartbeats are sent."""

STOP_MS = 50.0
"""The longest that the loop may stand still beside the idle waits."""

ALONE_SHARE = 3
"""The waits are left alone, and then the loop is watched, for the idle time divided by this: no wait lasts longer than
a minute.
"""

MEMORY_STEPS = 5
"""The waits are opened in so many parts, and memory is measured after each, for the curve."""

MEMORY = "waits-memory"
"""The plot of memory against waiters."""

INBOXES = 100
WAIT_SECONDS = 60
"""The longest wait there is: opening, measuring and killing take about half of it."""

BACK_SECONDS = 30.0
"""For the server to notice that everybody is dead."""

WARM_UP = 20
"""Waits and streams that come and go before memory is measured: the server's own first-time costs are not theirs."""


class Round(msgspec.Struct, frozen=True):
    """One server's measurements. Memory in KiB of each, `idle` (waits alone) and `idle_all` as shares of one core.

    `growth`: (waits, MiB) while they were opened; `opening_stop`: the longest answer to another client meanwhile, in
    ms. `stop`, `bare_stop`: the longest answer beside the idle waits, and of a bare server at the same time; `asked`:
    how often. `back`: the share that could be opened again and was reached by a message. `left`: descriptors that were
    still open when the time was up; `seconds`: until all were closed.
    """

    wait_kib: float
    stream_kib: float
    bare_kib: float
    idle: float
    idle_all: float
    growth: list[tuple[float, float]]
    stop: float
    bare_stop: float
    opening_stop: float
    asked: int
    back: float
    left: int
    seconds: float


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    waits, streams = bench.effort.waits, bench.effort.streams
    everybody = waits + streams
    # After the kill, new connections may come while some of the old ones are still being closed.
    most = everybody + everybody // 2
    settings = {
        "MAX_STREAMS": str(everybody),
        "MAX_STREAMS_PER_INBOX": str(-(-waits // INBOXES) + -(-streams // INBOXES)),
        "MAX_CONNECTIONS": str(most + WARM_UP),
    }
    need_descriptors(most)
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
    with (
        running("bare-asgi", ("-m", "tests.bench.servers.bare_asgi"), directory) as machine,
        postroom(directory, settings) as subject,
    ):
        server = subject.server
        ports = [server.port, machine.port]
        slugs = [f"inbox-{n}" for n in range(INBOXES)]
        for slug in slugs:
            subject.call("POST", "/v1/inboxes", {"slug": slug})
        waits = [_wait(subject, slugs[n % INBOXES]) for n in range(bench.effort.waits)]
        streams = [subject.reader(slugs[n % INBOXES]).stream() for n in range(bench.effort.streams)]
        with crowd() as early:
            early.hold(server.port, waits[:WARM_UP])
            early.hold(server.port, streams[:WARM_UP], streams=True)
        settle(server)
        before = open_descriptors(server.pid)
        with crowd() as first:
            growth, opening = _growth(ports, server, first, waits)
            idle = _idle(server, bench.effort.idle_seconds / ALONE_SHARE)
            with _probing(ports) as stop_watching:
                time.sleep(bench.effort.idle_seconds / ALONE_SHARE)
                stops = stop_watching()
            stream_kib = _memory(server, first, streams, streams=True)
            idle_all = _idle(server, bench.effort.idle_seconds)
            first.check()
        began = time.monotonic()
        until(lambda: open_descriptors(server.pid) <= before, BACK_SECONDS)
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
        settle(bare)
        with crowd() as held:
            bare_kib = _memory(bare, held, requests, streams=False)
    return Round(
        wait_kib=growth[-1][1] * 1024 / bench.effort.waits,
        stream_kib=stream_kib,
        bare_kib=bare_kib,
        idle=idle,
        idle_all=idle_all,
        growth=growth,
        stop=stops.longest[0],
        bare_stop=stops.longest[1],
        opening_stop=opening,
        asked=stops.asked,
        back=heard / (bench.effort.waits + bench.effort.streams),
        left=max(left, 0),
        seconds=seconds,
    )


def _wait(subject: Subject, slug: str) -> bytes:
    return subject.reader(slug).wait(after=0, timeout_seconds=WAIT_SECONDS)


@contextmanager
def _probing(ports: list[int]) -> Iterator[Callable[[], Stops]]:
    """Ask these servers for answers until what is yielded is called, which returns what came of it."""
    with beside("tests.bench.probe") as probe:
        probe.ask(msgspec.json.encode(Probe(ports)), Stops)  # it has begun
        yield lambda: probe.ask(b"", Stops)


def _idle(server: Server, seconds: float) -> float:
    """Leave a server alone for so long and return the share of a core that it used."""
    began, used = time.monotonic(), server.cpu_seconds()
    time.sleep(seconds)
    return (server.cpu_seconds() - used) / (time.monotonic() - began)


def _growth(
    ports: list[int], server: Server, held: CrowdProcess, requests: list[bytes]
) -> tuple[list[tuple[float, float]], float]:
    """Open requests and return by how many MiB each part of them has made the server larger, and the longest answer to
    another client meanwhile, in ms.
    """
    before = server.resident_bytes()
    growth, longest = [(0.0, 0.0)], 0.0
    for step in range(MEMORY_STEPS):
        part = requests[step * len(requests) // MEMORY_STEPS : (step + 1) * len(requests) // MEMORY_STEPS]
        with _probing(ports) as stop_probing:
            held.hold(server.port, part)
            longest = max(longest, stop_probing().longest[0])
        settle(server)
        growth.append((growth[-1][0] + len(part), (server.resident_bytes() - before) / 1024**2))
    held.check()
    return growth, longest


def _memory(server: Server, held: CrowdProcess, requests: list[bytes], *, streams: bool) -> float:
    """Open requests and return by how many KiB each of them has made the server larger."""
    before = server.resident_bytes()
    held.hold(server.port, requests, streams=streams)
    settle(server)
    held.check()
    return (server.resident_bytes() - before) / len(requests) / 1024


def _figures(bench: Bench, measured: list[Round]) -> list[Figure]:
    def of(name: str) -> list[float]:
        return [getattr(one, name) for one in measured]

    count = len(measured)
    bench.note(
        f"  {quantile(of('wait_kib'), 0.5):.1f} KiB each wait, {quantile(of('stream_kib'), 0.5):.1f} KiB each stream; "
        f"{quantile(of('idle'), 0.5):.2%} of a core for all waits, "
        f"{quantile(of('idle_all'), 0.5):.2%} with all streams; {max(of('left')):.0f} descriptors left "
        f"{max(of('seconds')):.1f} s after the kill at the latest"
    )
    bench.note(
        f"  asked {max(of('asked')):,.0f} times beside the idle waits, it answered after {max(of('stop')):.1f} ms at "
        f"the latest, a bare server after {max(of('bare_stop')):.1f} ms; "
        f"while waits were opened, after {max(of('opening_stop')):.1f} ms"
    )
    bench.draw(MEMORY, "Postroom, waits", measured[-1].growth)
    each = quantile(of("bare_kib"), 0.5) / 1024
    bench.draw(MEMORY, "bare ASGI, requests held open", [(n, n * each) for n, _ in measured[-1].growth])
    bare = of("bare_kib")
    held = "bare ASGI, held open"

    def at_most(name: str, values: list[float], limit: float, shown: str, unit: str) -> Figure:
        return compare(name, values, shown, [limit] * count, unit=unit, better="lower", goal=1.0)

    one_percent = f"{IDLE_SHARE:.0%} of a core"
    return [
        at_most(f"{NAME}.memory", of("wait_kib"), WAIT_KIB, f"{WAIT_KIB:g} KiB", "KiB"),
        compare(f"{NAME}.memory", of("wait_kib"), held, bare, unit="KiB", better="lower"),
        at_most("streams.memory", of("stream_kib"), STREAM_KIB, f"{STREAM_KIB:g} KiB", "KiB"),
        compare("streams.memory", of("stream_kib"), held, bare, unit="KiB", better="lower"),
        at_most(
            f"{NAME}.idle_cpu", [100 * share for share in of("idle")], 100 * IDLE_SHARE, one_percent, "%"
        ),
        at_most(
            "streams.idle_cpu", [100 * share for share in of("idle_all")], 100 * IDLE_SHARE, one_percent, "%"
        ),
        at_most(f"{NAME}.longest_stop", of("stop"), STOP_MS, f"{STOP_MS:g} ms", "ms"),
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
