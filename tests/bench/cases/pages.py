"""Pages: `query_messages` on an inbox of a million messages against one of ten thousand, of the same server.

Four ways of reading (forward, backward, by a rare type, by time), each at places drawn anew for every request, the same
fractions of both inboxes. Requests to the two inboxes alternate, one under way at a time.
"""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import Bench, run_client
from tests.bench.reading import Reader
from tests.bench.seeding import RARE_TYPE, Inbox, received_at, seed
from tests.bench.subject import NotWhatItSays, Subject, postroom
from tests.bench.turns import UNCLOCKED, Contender, Job, Turns

NAME = "pages"

GOAL = 1.3
"""Of the small inbox's time for a page."""

SMALL_MESSAGES = 10_000
LIMIT = 20
"""Messages of a page; the server's default."""

SHARE_OF_REQUESTS = 20
"""A round of one way of reading has the effort's requests divided by this, for each inbox."""

LARGE, SMALL = "large", "small"

Place = Callable[[Reader, Inbox, float], bytes]


def _forward(reader: Reader, inbox: Inbox, at: float) -> bytes:
    return reader.page(after=int(at * (inbox.messages - LIMIT)), limit=LIMIT)


def _backward(reader: Reader, inbox: Inbox, at: float) -> bytes:
    return reader.page(before=LIMIT + 1 + int(at * (inbox.messages - LIMIT)), limit=LIMIT)


def _rare_type(reader: Reader, inbox: Inbox, at: float) -> bytes:
    after = int(at * (inbox.messages - LIMIT * inbox.rare_every()))
    return reader.page(after=after, limit=LIMIT, types=[RARE_TYPE])


def _time(reader: Reader, inbox: Inbox, at: float) -> bytes:
    first = 1 + int(at * (inbox.messages - LIMIT))
    since, until = received_at(first), received_at(first + LIMIT)
    return reader.page(after=0, limit=LIMIT, since=since, until=until)


WAYS: dict[str, Place] = {
    "forward": _forward,
    "backward": _backward,
    "rare_type": _rare_type,
    "time": _time,
}


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    inboxes = [Inbox(LARGE, bench.effort.large_inbox), Inbox(SMALL, SMALL_MESSAGES)]
    with tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory) as made:
        directory = Path(made)
        total = sum(inbox.messages for inbox in inboxes)
        with bench.steps(f"{NAME}: writing {total:,} messages", total) as written:
            seed(directory / "data", inboxes, written)
        with postroom(directory) as subject:
            _try_out(subject, inboxes)
            measured = bench.rounds(NAME, {way: _contender(bench, subject, inboxes, way) for way in WAYS})
    bench.note(f"{NAME}: {LIMIT} of {inboxes[0].messages:,} messages against {LIMIT} of {SMALL_MESSAGES:,}.")
    return [_figure(bench, way, of) for way, of in measured.items()]


def _contender(bench: Bench, subject: Subject, inboxes: list[Inbox], way: str) -> Callable[[int], Turns]:
    """Return what measures one way of reading for a round."""
    count = UNCLOCKED + bench.effort.requests // SHARE_OF_REQUESTS

    def of_round(number: int) -> Turns:
        places = [random.Random(f"{way} {number} {n}").random() for n in range(count)]
        contenders = []
        for inbox in inboxes:
            reader = subject.reader(inbox.slug)
            requests = [WAYS[way](reader, inbox, at) for at in places]
            contenders.append(Contender(inbox.slug, reader.port, requests))
        return run_client("tests.bench.turns", Job(contenders), Turns)

    return of_round


def _figure(bench: Bench, way: str, of: list[Turns]) -> Figure:
    large = [quantile(turns.timed[0].answered, 0.5) for turns in of]
    small = [quantile(turns.timed[1].answered, 0.5) for turns in of]
    sizes = [one.size for one in of[0].timed]
    bench.note(
        f"  {way}: p50 {quantile(large, 0.5):.2f} ms against {quantile(small, 0.5):.2f} ms, "
        f"{sizes[0]:,.0f} and {sizes[1]:,.0f} bytes"
    )
    baseline = f"{SMALL_MESSAGES:,} messages"
    return compare(f"{NAME}.{way}", large, baseline, small, unit="ms", better="lower", goal=GOAL)


def _try_out(subject: Subject, inboxes: list[Inbox]) -> None:
    """Read both ends and the middle of each inbox in each way. Raises `NotWhatItSays`."""
    for inbox in inboxes:
        reader = subject.reader(inbox.slug)
        for way, place in WAYS.items():
            for at in (0.0, 0.5, 0.999):
                target = place(reader, inbox, at).split(b" ", 2)[1].decode()
                page = subject.call("GET", target)
                if len(page["messages"]) != LIMIT or page["latest_seq"] != inbox.messages:
                    raise NotWhatItSays(f"{target}: {len(page['messages'])} of {page['latest_seq']} messages")
                types = {message["untrusted"]["event_type"] for message in page["messages"]}
                if way == "rare_type" and types != {RARE_TYPE}:
                    raise NotWhatItSays(f"{target}: messages of the types {sorted(types)}")
