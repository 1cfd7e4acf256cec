"""Ingest: durable (`synchronous=FULL`), signed, deduplicated messages of 1 KiB, at 32 keep-alive connections.

Baselines read the same requests and forget them: a bare Quart-Trio route and a bare ASGI application on the
same Hypercorn. beanstalkd, which stores 1 KiB and syncs before it answers, is there to be known: it speaks no HTTP,
verifies nothing and recognises no duplicate.
"""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec

from tests.bench import beanstalk, puts
from tests.bench.client import Exchange
from tests.bench.figures import Figure, compare, percentile_points, quantile
from tests.bench.harness import CLIENT_NEAR_LIMIT, Bench, load, run_client
from tests.bench.processes import Server, running
from tests.bench.signed import BODY_BYTES, Deliveries
from tests.bench.subject import postroom

NAME = "ingest"

CONNECTIONS = 32

RATE_GOAL = 1.2
"""Of the bare Quart-Trio route's requests a second."""

P99_GOAL = 1.5
"""Of the bare Quart-Trio route's p99."""

QUART = "bare Quart-Trio"
ASGI = "bare ASGI"
QUEUE = "beanstalkd, synced"
POSTROOM = "Postroom"

SLUG = "bench"
PREFIX = "round-{}"

LATENCY = "ingest-latency"
"""The plot of all percentiles of latency."""


class Measured(msgspec.Struct, frozen=True):
    """One round of one server. `cpu_us`: the server's processor time for one request, in µs."""

    exchange: Exchange
    cpu_us: float


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory)
        directory = Path(stack.enter_context(made))
        quart = stack.enter_context(
            running("bare-quart", ("-m", "tests.bench.servers.bare_quart"), directory)
        )
        asgi = stack.enter_context(running("bare-asgi", ("-m", "tests.bench.servers.bare_asgi"), directory))
        subject = stack.enter_context(postroom(directory))
        inbox = subject.github_inbox(SLUG)
        count = bench.effort.requests + CONNECTIONS

        def of_baseline(server: Server, number: int) -> Measured:
            wanted = Deliveries(server.port, inbox.slug, inbox.secret, PREFIX.format(number), count)
            return one_round(server, lambda: load(wanted, CONNECTIONS))

        def of_postroom(number: int) -> Measured:
            prefix = PREFIX.format(number)
            measured = one_round(subject.server, lambda: load(inbox.deliveries(prefix, count), CONNECTIONS))
            inbox.answered(prefix, measured.exchange)
            return measured

        contenders: dict[str, Callable[[int], Measured]] = {
            QUART: partial(of_baseline, quart),
            ASGI: partial(of_baseline, asgi),
            POSTROOM: of_postroom,
        }
        if beanstalk.is_there():
            yardstick = stack.enter_context(beanstalk.beanstalkd(directory))
            contenders[QUEUE] = lambda number: one_round(
                yardstick,
                lambda: run_client(
                    "tests.bench.puts", puts.Job(yardstick.port, count, CONNECTIONS), Exchange
                ),
            )
        else:
            bench.note(f"{NAME}: without beanstalkd, which `make bench` unpacks where there is apt-get.")
        measured = bench.rounds("ingest", contenders)
        stored = inbox.check()
    bench.note(f"ingest: {stored:,} messages of {BODY_BYTES} bytes were answered, and every one is stored.")
    _note_medians(bench, measured)
    for name, of in measured.items():
        bench.draw(LATENCY, name, percentile_points([one.exchange.percentiles_ms for one in of]))
    return figures(measured)


def figures(measured: dict[str, list[Measured]]) -> list[Figure]:
    """Return the case's figures of what the rounds measured."""
    own = measured[POSTROOM]

    def rates(of: Sequence[Measured]) -> list[float]:
        return [one.exchange.per_second for one in of]

    def p50s(of: Sequence[Measured]) -> list[float]:
        return [one.exchange.p50_ms for one in of]

    def p99s(of: Sequence[Measured]) -> list[float]:
        return [one.exchange.p99_ms for one in of]

    def cpu(of: Sequence[Measured]) -> list[float]:
        return [one.cpu_us for one in of]

    quart, asgi = measured[QUART], measured[ASGI]
    yardstick = measured.get(QUEUE, [])
    found = [
        compare("ingest.rate", rates(own), QUART, rates(quart), unit="/s", better="higher", goal=RATE_GOAL),
        compare("ingest.rate", rates(own), ASGI, rates(asgi), unit="/s", better="higher"),
        compare("ingest.p50", p50s(own), QUART, p50s(quart), unit="ms", better="lower"),
        compare("ingest.p99", p99s(own), QUART, p99s(quart), unit="ms", better="lower", goal=P99_GOAL),
        compare("ingest.p50", p50s(own), ASGI, p50s(asgi), unit="ms", better="lower"),
        compare("ingest.p99", p99s(own), ASGI, p99s(asgi), unit="ms", better="lower"),
        compare("ingest.cpu", cpu(own), QUART, cpu(quart), unit="µs", better="lower"),
        compare("ingest.cpu", cpu(own), ASGI, cpu(asgi), unit="µs", better="lower"),
    ]
    if yardstick:
        found.append(compare("ingest.rate", rates(own), QUEUE, rates(yardstick), unit="/s", better="higher"))
    return found


def one_round(server: Server, send: Callable[[], Exchange]) -> Measured:
    """Load a server and measure it."""
    before = server.cpu_seconds()
    exchange = send()
    used = server.cpu_seconds() - before
    return Measured(exchange, used / len(exchange.answers) * 1e6)


def _note_medians(bench: Bench, measured: dict[str, list[Measured]]) -> None:
    """Say what the servers and the client did, in absolute terms."""
    for name, of in measured.items():
        rate = quantile([one.exchange.per_second for one in of], 0.5)
        p50 = quantile([one.exchange.p50_ms for one in of], 0.5)
        p99 = quantile([one.exchange.p99_ms for one in of], 0.5)
        client = quantile([one.exchange.cpu_seconds / one.exchange.seconds for one in of], 0.5)
        warning = " – too busy, the figures are the client's" if client > CLIENT_NEAR_LIMIT else ""
        bench.note(
            f"  {name}: {rate:,.0f} requests/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms; "
            f"the client used {client:.0%} of a core{warning}"
        )
