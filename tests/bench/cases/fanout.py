"""Fan-out: a thousand waits on one inbox are woken by one message.

How long does its sender wait for the answer, against its usual time beside the same crowd, asleep? How long does
another sender wait meanwhile, against its own usual time? The two are measured in fan-outs of their own: a second
sender would make the first one's time longer in both states, and the ratio smaller. Messages are signed, deduplicated
and durable.
"""

import tempfile
from pathlib import Path

from tests.bench.crowds import need_descriptors
from tests.bench.crush import UNCLOCKED, Crush, Crushes, Job
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import Bench, run_client
from tests.bench.subject import postroom

NAME = "fanout"

SENDER_GOAL = 3.0
"""Of the sender's usual time."""

OTHERS_GOAL = 15.0
"""Of another sender's usual p50."""

QUIET_FANOUTS = 3
ACCOMPANIED_FANOUTS = 2
"""In one round."""

USUAL = 25
"""Messages before a fan-out that wake nobody."""

MOST_OTHERS = 1000
"""Messages that the other sender may need for a round: it sends for as long as the fan-outs take."""

SLUG, OTHER_SLUG = "crowded", "elsewhere"
EVENT = "release"
POSTROOM = "Postroom"


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    crowd = bench.effort.crowd
    settings = {"MAX_STREAMS": str(crowd), "MAX_STREAMS_PER_INBOX": str(crowd)}
    need_descriptors(crowd)
    with (
        tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory) as made,
        postroom(Path(made), settings) as subject,
    ):
        crowded, elsewhere = subject.github_inbox(SLUG), subject.github_inbox(OTHER_SLUG)
        fanouts = QUIET_FANOUTS + ACCOMPANIED_FANOUTS

        def of_round(number: int) -> list[Crush]:
            job = Job(
                reader=subject.reader(SLUG),
                crowd=crowd,
                event=EVENT,
                latest_seq=crowded.latest_seq,
                usual=crowded.deliveries(f"usual-{number}", fanouts * (USUAL + UNCLOCKED)),
                waking=crowded.deliveries(f"waking-{number}", fanouts, EVENT),
                others=elsewhere.deliveries(f"others-{number}", MOST_OTHERS),
                quiet=QUIET_FANOUTS,
                others_usual=USUAL,
            )
            return run_client("tests.bench.crush", job, Crushes).crushes

        measured = bench.rounds(NAME, {POSTROOM: of_round})[POSTROOM]
    bench.note(
        f"{NAME}: {crowd:,} waits on one inbox, with "
        + ", ".join(f"{name} {value}" for name, value in settings.items())
    )
    return _figures(bench, measured)


def _figures(bench: Bench, measured: list[list[Crush]]) -> list[Figure]:
    quiet = [of[:QUIET_FANOUTS] for of in measured]
    accompanied = [of[QUIET_FANOUTS:] for of in measured]
    usual = [quantile([ms for one in of for ms in one.usual], 0.5) for of in quiet]
    sender = [quantile([one.sender for one in of], 0.5) for of in quiet]
    everybody = [quantile([one.crowd for one in of], 0.5) for of in quiet]
    others_usual = [quantile([ms for one in of for ms in one.others_usual], 0.5) for of in accompanied]
    others = [quantile([ms for one in of for ms in one.others], 0.5) for of in accompanied]
    bench.note(
        f"  the sender waits {quantile(sender, 0.5):.1f} ms instead of {quantile(usual, 0.5):.1f} ms, another one "
        f"{quantile(others, 0.5):.1f} ms instead of {quantile(others_usual, 0.5):.1f} ms, "
        f"everybody has it after {quantile(everybody, 0.5):.0f} ms"
    )
    own, other = "its usual time", "its usual p50"
    return [
        compare(f"{NAME}.sender", sender, own, usual, unit="ms", better="lower", goal=SENDER_GOAL),
        compare(f"{NAME}.others", others, other, others_usual, unit="ms", better="lower", goal=OTHERS_GOAL),
        compare(
            f"{NAME}.each_wait",
            [ms / bench.effort.crowd for ms in everybody],
            "the sender's usual time",
            usual,
            unit="ms",
            better="lower",
        ),
    ]
