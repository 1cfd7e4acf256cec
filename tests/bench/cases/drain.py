"""Drain: an agent's pulls of 50 deliveries, each acknowledging the last one, of an inbox that holds a million.

One request at a time, as an agent works. It authenticates, commits the acknowledgement, and reads and renders the next
page. Baselines read the same requests and answer with a page of the same size, which they hold ready: that is a bare
request on the same Hypercorn. The three take turns request by request.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from tests.actors.synthetic import Synthetic
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import Bench, run_client
from tests.bench.mail import Hearer, fill_inbox, hearer
from tests.bench.processes import Server, running
from tests.bench.reading import post
from tests.bench.subject import CALL_SECONDS, NotWhatItSays, postroom
from tests.bench.turns import UNCLOCKED, Contender, Job, Turns

NAME = "drain"

GOAL = 4.0
"""Of a bare request's p50."""

PAGE = 50
TEXTS = 200
SEED = 1
SHARE_OF_REQUESTS = 20
"""A round has the effort's requests divided by this, for each contender."""

READER, TOPIC = "reader", "notes"
PULL = "/v1/inbox:pull"

POSTROOM, ASGI, QUART = "Postroom", "bare ASGI", "bare Quart-Trio"


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    total = bench.effort.large_inbox
    reader = hearer(READER)
    source = Synthetic(SEED)
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory)
        directory = Path(stack.enter_context(made))
        with bench.steps(f"{NAME}: delivering {total:,} messages", total) as written:
            texts = [source.text() for _ in range(TEXTS)]
            fill_inbox(directory / "data", reader, TOPIC, texts, total, written)
        subject = stack.enter_context(postroom(directory))
        page = directory / "page.json"
        page.write_bytes(_try_out(subject.server, reader, total))
        bare = {
            ASGI: stack.enter_context(_bare("bare_asgi_page", page)),
            QUART: stack.enter_context(_bare("bare_quart_page", page)),
        }
        ports = {POSTROOM: subject.server.port, **{name: server.port for name, server in bare.items()}}
        count = UNCLOCKED + bench.effort.requests // SHARE_OF_REQUESTS

        def of_round(number: int) -> Turns:
            first = number * count
            acks = [PAGE * pulled for pulled in range(first, first + count)]
            contenders = [
                Contender(
                    name, port, [post(port, PULL, reader.token, {"ack": ack, "limit": PAGE}) for ack in acks]
                )
                for name, port in ports.items()
            ]
            return run_client("tests.bench.turns", Job(contenders), Turns)

        measured = bench.rounds(NAME, {POSTROOM: of_round})[POSTROOM]
        _check(subject.server, reader, PAGE * (count * (bench.effort.rounds + 1) - 1))
    return _figures(bench, measured, total)


def _bare(module: str, page: Path) -> Any:
    return running(module.replace("_", "-"), ("-m", f"tests.bench.servers.{module}", str(page)), page.parent)


def _pull(server: Server, reader: Hearer, **params: int) -> httpx.Response:
    headers = {"Authorization": f"Bearer {reader.token}"}
    answer = httpx.post(
        server.url + PULL, json=params, headers=headers, timeout=CALL_SECONDS, trust_env=False
    )
    if answer.is_error:
        raise NotWhatItSays(f"{PULL} {params}: {answer.status_code} {answer.text[:500]}")
    return answer


def _try_out(server: Server, reader: Hearer, total: int) -> bytes:
    """Return the first page, when the inbox is what was written. Raises `NotWhatItSays`."""
    for since in (0, total // 2, total - PAGE):
        page = _pull(server, reader, since=since, limit=PAGE).json()
        seqs = sorted(item["delivery_seq"] for item in page["items"])
        if seqs != list(range(since + 1, since + PAGE + 1)) or page["has_more"] != (since < total - PAGE):
            raise NotWhatItSays(f"a page after {since}: {seqs[:1]} to {seqs[-1:]}, {page['has_more']}")
    return _pull(server, reader, limit=PAGE).content


def _check(server: Server, reader: Hearer, acknowledged: int) -> None:
    """Raise `NotWhatItSays` unless exactly this is acknowledged after all rounds."""
    cursor = _pull(server, reader, limit=PAGE).json()["cursor"]
    if cursor != acknowledged:
        raise NotWhatItSays(f"acknowledged up to {cursor}, not {acknowledged}")


def _figures(bench: Bench, measured: list[Turns], total: int) -> list[Figure]:
    def of(contender: int, fraction: float) -> list[float]:
        return [quantile(turns.timed[contender].answered, fraction) for turns in measured]

    own, late = of(0, 0.5), of(0, 0.99)
    bare = {ASGI: of(1, 0.5), QUART: of(2, 0.5)}
    sizes = [one.size for one in measured[0].timed]
    bench.note(
        f"{NAME}: {PAGE} of {total:,} deliveries, {sizes[0]:,.0f} bytes ({ASGI}: {sizes[1]:,.0f}); pull with ack p50 "
        f"{quantile(own, 0.5):.2f} ms, p99 {quantile(late, 0.5):.2f} ms; a bare request p50 "
        + ", ".join(f"{quantile(p50, 0.5):.2f} ms ({name})" for name, p50 in bare.items())
    )
    figures = []
    for name, p50 in bare.items():
        baseline, goal = f"{name}, p50", GOAL if name == ASGI else None
        figures += [
            compare(f"{NAME}.p50", own, baseline, p50, unit="ms", better="lower", goal=goal),
            compare(f"{NAME}.p99", late, baseline, p50, unit="ms", better="lower"),
        ]
    return figures
