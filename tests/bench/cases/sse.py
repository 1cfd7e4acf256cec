"""Streams: one message to a thousand subscribers of one inbox, against bare requests in the same run.

How many deliveries fit into the time of one bare ASGI request? From the first byte of the POST, which is signed and
durable, to the last byte of the event at the last subscriber; divided by their number, that is the time of one
delivery. Between two fan-outs a bare ASGI application answers the same POST, one at a time: their p50 is compared.
"""

import tempfile
from pathlib import Path

from tests.bench.crowds import need_descriptors
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import CLIENT_NEAR_LIMIT, Bench, run_client
from tests.bench.processes import running
from tests.bench.signed import Deliveries
from tests.bench.spread import Job, Spread, Spreads
from tests.bench.subject import postroom

NAME = "sse"

GOAL = 4.5
"""Deliveries in the time of one bare ASGI request."""

FANOUTS = 6
"""In one round; the first of them is not counted."""

BARE = 40
"""Bare requests before each of them."""

SLUG = "news"
POSTROOM = "Postroom"


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    crowd = bench.effort.crowd
    # The next round's subscribers come while those of the last one are still being taken leave of.
    settings = {"MAX_STREAMS": str(2 * crowd), "MAX_STREAMS_PER_INBOX": str(2 * crowd)}
    need_descriptors(2 * crowd)
    event_bytes = 0
    with (
        tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory) as made,
        running("bare-asgi", ("-m", "tests.bench.servers.bare_asgi"), Path(made)) as asgi,
        postroom(Path(made), settings) as subject,
    ):
        inbox = subject.github_inbox(SLUG)

        def of_round(number: int) -> list[Spread]:
            nonlocal event_bytes
            job = Job(
                port=subject.server.port,
                subscribe=subject.reader(SLUG).stream_among(bodies="true"),
                subscribers=crowd,
                waking=inbox.deliveries(f"waking-{number}", FANOUTS),
                bare=Deliveries(asgi.port, SLUG, inbox.secret, f"bare-{number}", FANOUTS * BARE),
            )
            done = run_client("tests.bench.spread", job, Spreads)
            event_bytes = done.event_bytes
            return done.spreads[1:]

        measured = bench.rounds(NAME, {POSTROOM: of_round})[POSTROOM]
    bench.note(
        f"{NAME}: {crowd:,} subscribers of one inbox, events of {event_bytes:,} bytes with the whole message, with "
        + ", ".join(f"{name} {value}" for name, value in settings.items())
    )
    return _figures(bench, measured)


def _figures(bench: Bench, measured: list[list[Spread]]) -> list[Figure]:
    everybody = [quantile([one.everybody for one in of], 0.5) for of in measured]
    sender = [quantile([one.sender for one in of], 0.5) for of in measured]
    bare = [quantile([ms for one in of for ms in one.bare], 0.5) for of in measured]
    busy = quantile([one.busy for of in measured for one in of], 0.5)
    warning = " – too busy, the figures are the client's" if busy > CLIENT_NEAR_LIMIT else ""
    bench.note(
        f"  everybody has it after {quantile(everybody, 0.5):.1f} ms, its sender an answer after "
        f"{quantile(sender, 0.5):.1f} ms; a bare request p50 {quantile(bare, 0.5):.2f} ms; the client used {busy:.0%} "
        f"of a core{warning}"
    )
    baseline = "bare ASGI, p50"
    return [
        compare(
            f"{NAME}.deliveries",
            [1000 * bench.effort.crowd / ms for ms in everybody],
            baseline,
            [1000 / ms for ms in bare],
            unit="/s",
            better="higher",
            goal=GOAL,
        ),
        compare(f"{NAME}.sender", sender, baseline, bare, unit="ms", better="lower"),
    ]
