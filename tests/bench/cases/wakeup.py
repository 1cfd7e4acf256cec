"""Wake-up: from a POST sent to the message in the hands of a client that waited for it, with 500 other waits open.

The POST is signed, deduplicated and durable as in the case `ingest`. Baselines answer the same bytes at once and forget
them: what they take is the time of a bare request on the same Hypercorn. The three take turns request by request.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.bench.crowds import crowd, need_descriptors
from tests.bench.figures import Figure, compare, percentile_points, percentiles, quantile
from tests.bench.harness import Bench, run_client
from tests.bench.processes import running
from tests.bench.signed import requests
from tests.bench.subject import Subject, postroom
from tests.bench.turns import UNCLOCKED, Contender, Job, Turns

NAME = "wakeup"

P50_GOAL = 2.5
P99_GOAL = 8.0
"""Of a bare request's p50, for the p50 and the p99 from POST to message."""

LATENCY = "wakeup-latency"
"""The plot of all percentiles."""

OTHERS = 500
OTHER_INBOXES = 100
"""The other waits are spread evenly over so many inboxes."""

SHARE_OF_REQUESTS = 20
"""A round has the effort's requests divided by this, for each contender."""

PAUSE_MS = 4.0
"""Before each request: time enough for its wait to fall asleep. The baselines pause as long."""

WAIT_SECONDS = 60
SLUG = "woken"
SETTINGS = {"MAX_STREAMS": str(2 * OTHERS), "MAX_STREAMS_PER_INBOX": "64"}

POSTROOM, QUART, ASGI = "Postroom", "bare Quart-Trio", "bare ASGI"


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    need_descriptors(OTHERS)
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory)
        directory = Path(stack.enter_context(made))
        quart = stack.enter_context(
            running("bare-quart", ("-m", "tests.bench.servers.bare_quart"), directory)
        )
        asgi = stack.enter_context(running("bare-asgi", ("-m", "tests.bench.servers.bare_asgi"), directory))
        subject = stack.enter_context(postroom(directory, SETTINGS))
        inbox = subject.github_inbox(SLUG)
        slugs = [f"other-{n}" for n in range(OTHER_INBOXES)]
        for slug in slugs:
            subject.call("POST", "/v1/inboxes", {"slug": slug})
        count = UNCLOCKED + bench.effort.requests // SHARE_OF_REQUESTS

        def of_round(number: int) -> Turns:
            sent = requests(inbox.deliveries(f"round-{number}", count))
            latest = inbox.latest_seq
            reader = subject.reader(SLUG)
            waits = [
                reader.wait(after=latest + n, timeout_seconds=WAIT_SECONDS, bodies="true")
                for n in range(count)
            ]
            contenders = [
                Contender(POSTROOM, subject.server.port, sent, waits),
                Contender(QUART, quart.port, sent),
                Contender(ASGI, asgi.port, sent),
            ]
            with crowd() as others:
                others.hold(subject.server.port, _others(subject, slugs))
                turns = run_client("tests.bench.turns", Job(contenders, PAUSE_MS), Turns)
                others.check()
                return turns

        measured = bench.rounds(NAME, {POSTROOM: of_round})[POSTROOM]
    bench.note(f"{NAME}: beside {OTHERS} waits on {OTHER_INBOXES} other inboxes ({_shown(SETTINGS)}).")
    return _figures(bench, measured)


def _others(subject: Subject, slugs: list[str]) -> list[bytes]:
    return [
        subject.reader(slugs[n % len(slugs)]).wait(after=0, timeout_seconds=WAIT_SECONDS)
        for n in range(OTHERS)
    ]


def _figures(bench: Bench, measured: list[Turns]) -> list[Figure]:
    def of(contender: int, fraction: float) -> list[float]:
        return [quantile(turns.timed[contender].answered, fraction) for turns in measured]

    woken = [quantile(turns.timed[0].woken, 0.5) for turns in measured]
    late = [quantile(turns.timed[0].woken, 0.99) for turns in measured]
    bare = {ASGI: of(2, 0.5), QUART: of(1, 0.5)}
    bench.note(
        f"  POST to message: p50 {quantile(woken, 0.5):.2f} ms, p99 {quantile(late, 0.5):.2f} ms; its sender's answer "
        f"p50 {quantile(of(0, 0.5), 0.5):.2f} ms; a bare request p50 "
        + ", ".join(f"{quantile(p50, 0.5):.2f} ms ({name})" for name, p50 in bare.items())
    )
    distributions = {
        "Postroom, POST to message": [turns.timed[0].woken for turns in measured],
        "Postroom, POST to its answer": [turns.timed[0].answered for turns in measured],
        f"{QUART}, a request": [turns.timed[1].answered for turns in measured],
        f"{ASGI}, a request": [turns.timed[2].answered for turns in measured],
    }
    for name, of_rounds in distributions.items():
        bench.draw(LATENCY, name, percentile_points([percentiles(times) for times in of_rounds]))
    figures = []
    for name, p50 in bare.items():
        baseline = f"{name}, p50"
        # The goal is against the bare route of the framework that was asked for; the other is there to be known.
        goals = (P50_GOAL, P99_GOAL) if name == QUART else (None, None)
        figures += [
            compare(f"{NAME}.p50", woken, baseline, p50, unit="ms", better="lower", goal=goals[0]),
            compare(f"{NAME}.p99", late, baseline, p50, unit="ms", better="lower", goal=goals[1]),
        ]
    return figures


def _shown(settings: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
