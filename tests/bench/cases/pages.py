"""Pages: `query_messages` on an inbox of ten million messages against one of ten thousand, of the same server; and how
long the start of a server takes that has them all and ten thousand inboxes besides, against one that has nothing.

Every documented way of reading (forward, backward, each filter alone and all together), each at places drawn anew for
every request, the same fractions of both inboxes. Requests to the two inboxes alternate, one under way at a time. Then
inboxes of the sizes between them are read in the same ways, for the curve.
"""

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from actors.tokens import mint
from storage.records import InboxSettings, NewInbox
from tests.bench.client import Line
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import Bench, run_client
from tests.bench.reading import Query, Reader, get
from tests.bench.seeding import RARE_TYPE, Inbox, need_room, received_at, seed
from tests.bench.signed import ORDINARY_EVENT
from tests.bench.subject import NotWhatItSays, Subject, postroom, served
from tests.bench.turns import UNCLOCKED, Contender, Job, Turns

NAME = "pages"

GOAL = 1.2
"""Of the small inbox's time for a page."""

START_GOAL = 2.0
"""Of an empty server's time from its start to its first answer."""

SMALL_MESSAGES = 10_000
LIMIT = 20
"""Messages of a page; the server's default."""

SHARE_OF_REQUESTS = 20
"""A round of one way of reading has the effort's requests divided by this, for each inbox."""

LARGE, SMALL = "large", "small"
FULL, EMPTY = "full", "empty"

BY_SIZE = "pages-size"
"""The plot of cost against size."""

Way = Callable[[Inbox, float], Query]


def _forward(inbox: Inbox, at: float) -> Query:
    return {"after": int(at * (inbox.messages - LIMIT))}


def _backward(inbox: Inbox, at: float) -> Query:
    return {"before": LIMIT + 1 + int(at * (inbox.messages - LIMIT))}


def _newest(inbox: Inbox, at: float) -> Query:
    return {}


def _rare(inbox: Inbox, at: float) -> Query:
    """Return a cursor after which there is a page of what is rare."""
    return {"after": int(at * (inbox.messages - (LIMIT + 1) * inbox.rare_every()))}


def _rare_back(inbox: Inbox, at: float) -> Query:
    """Return a cursor before which there is a page of what is rare."""
    least = (LIMIT + 1) * inbox.rare_every()
    return {"before": least + int(at * (inbox.messages - least))}


def _since(inbox: Inbox, at: float) -> Query:
    return {"after": 0, "since": received_at(1 + int(at * (inbox.messages - LIMIT)))}


def _until(inbox: Inbox, at: float) -> Query:
    return {"until": received_at(1 + LIMIT + int(at * (inbox.messages - LIMIT)))}


def _time(inbox: Inbox, at: float) -> Query:
    first = 1 + int(at * (inbox.messages - LIMIT))
    return {"after": 0, "since": received_at(first), "until": received_at(first + LIMIT)}


def _everything(inbox: Inbox, at: float) -> Query:
    """Every filter at once, over a window with a page of the rare type."""
    least = (LIMIT + 1) * inbox.rare_every()
    first = 1 + int(at * (inbox.messages - least))
    window: Query = {"after": 0, "since": received_at(first), "until": received_at(first + least)}
    return {**window, "types": [RARE_TYPE], "verified": "true"}


WAYS: dict[str, Way] = {
    "forward": _forward,
    "backward": _backward,
    "newest": _newest,
    "rare_type": lambda inbox, at: {**_rare(inbox, at), "types": [RARE_TYPE]},
    "rare_type_backward": lambda inbox, at: {**_rare_back(inbox, at), "types": [RARE_TYPE]},
    "types": lambda inbox, at: {**_forward(inbox, at), "types": [ORDINARY_EVENT, RARE_TYPE]},
    "since": _since,
    "until": _until,
    "time": _time,
    "verified": lambda inbox, at: {**_backward(inbox, at), "verified": "true"},
    "failed": lambda inbox, at: {**_rare(inbox, at), "verified": "false"},
    "everything": _everything,
}
"""Of the types, `types` asks for the ordinary one and a rare one; the messages that were not verified are rare too."""

WITHOUT_SOME = frozenset({"verified"})
"""Ways that may find a message less than a page at the very beginning of an inbox."""


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    inboxes = [Inbox(LARGE, bench.effort.huge_inbox), Inbox(SMALL, SMALL_MESSAGES)]
    between = _between(bench.effort.huge_inbox)
    others = [
        NewInbox(f"inbox-{n}", "webhook", "", InboxSettings())
        for n in range(bench.effort.inboxes - len(inboxes))
    ]
    total = sum(inbox.messages for inbox in (*inboxes, *between))
    need_room(bench.directory, total)
    token = mint("admin")
    with tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory) as made:
        full, empty = Path(made, FULL), Path(made, EMPTY)
        for directory in (full, empty):
            directory.mkdir()
        with bench.steps(f"{NAME}: writing {total:,} messages", total) as written:
            began = time.monotonic()
            seed(full / "data", [*inboxes, *between], written, others)
            seconds = time.monotonic() - began
        with postroom(full, admin_token=token) as subject:
            _try_out(subject, [*inboxes, *between])
            measured = bench.rounds(NAME, {way: _contender(bench, subject, inboxes, way) for way in WAYS})
            _draw(bench, subject, [inboxes[1], *between, inboxes[0]])
        starts = bench.rounds(
            f"{NAME}, starts",
            {
                FULL: lambda number: _start(full, token, f"/v1/inboxes/{LARGE}/messages?limit={LIMIT}"),
                EMPTY: lambda number: _start(empty, token, f"/v1/inboxes?limit={LIMIT}"),
            },
        )
    bench.note(
        f"{NAME}: {LIMIT} of {inboxes[0].messages:,} messages against {LIMIT} of {SMALL_MESSAGES:,}; "
        f"{total / seconds:,.0f} messages a second were written"
    )
    figures = [_figure(bench, way, of) for way, of in measured.items()]
    bench.note(
        f"  a start finds {total:,} messages in {bench.effort.inboxes + len(between):,} inboxes, or nothing"
    )
    return [
        *figures,
        compare(
            f"{NAME}.start",
            starts[FULL],
            "an empty start",
            starts[EMPTY],
            unit="s",
            better="lower",
            goal=START_GOAL,
        ),
    ]


def _between(largest: int) -> list[Inbox]:
    """Return inboxes of ten times the small one's size and so on, below the largest."""
    sizes = []
    size = SMALL_MESSAGES * 10
    while size < largest:
        sizes.append(Inbox(f"of-{size}", size))
        size *= 10
    return sizes


def _contender(bench: Bench, subject: Subject, inboxes: Sequence[Inbox], way: str) -> Callable[[int], Turns]:
    """Return what measures one way of reading for a round."""
    count = UNCLOCKED + bench.effort.requests // SHARE_OF_REQUESTS

    def of_round(number: int) -> Turns:
        places = [random.Random(f"{way} {number} {n}").random() for n in range(count)]
        contenders = []
        for inbox in inboxes:
            reader = subject.reader(inbox.slug)
            requests = [_page(reader, way, inbox, at) for at in places]
            contenders.append(Contender(inbox.slug, reader.port, requests))
        return run_client("tests.bench.turns", Job(contenders), Turns)

    return of_round


def _page(reader: Reader, way: str, inbox: Inbox, at: float) -> bytes:
    return reader.page(**WAYS[way](inbox, at), limit=LIMIT)


def _draw(bench: Bench, subject: Subject, inboxes: Sequence[Inbox]) -> None:
    """Keep the curve of each way of reading over the sizes of these inboxes."""
    with bench.steps(f"{NAME}: by size", len(WAYS)) as done:
        for way in WAYS:
            turns = _contender(bench, subject, inboxes, way)(0)
            points = [
                (float(inbox.messages), quantile(timed.answered, 0.5))
                for inbox, timed in zip(inboxes, turns.timed, strict=True)
            ]
            bench.draw(BY_SIZE, way.replace("_", " "), points)
            done(1)


def _start(directory: Path, token: str, target: str) -> float:
    """Start a server and return after how many seconds it has given its first answer."""
    began = time.perf_counter()
    with served(directory, token) as server:
        line = Line(server.port)
        try:
            line.send(get(server.port, target, f"Authorization: Bearer {token}"))
            while line.receive() is None:
                pass
        finally:
            line.socket.close()
        return time.perf_counter() - began


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


def _try_out(subject: Subject, inboxes: Sequence[Inbox]) -> None:
    """Read both ends and the middle of each inbox in each way. Raises `NotWhatItSays`."""
    for inbox in inboxes:
        reader = subject.reader(inbox.slug)
        for way in WAYS:
            for at in (0.0, 0.5, 0.999):
                target = _page(reader, way, inbox, at).split(b" ", 2)[1].decode()
                page = subject.call("GET", target)
                found = page["messages"]
                fewest = LIMIT - 1 if way in WITHOUT_SOME else LIMIT
                if len(found) < fewest or page["latest_seq"] != inbox.messages:
                    raise NotWhatItSays(f"{target}: {len(found)} of {page['latest_seq']} messages")
                _check(target, way, found)


def _check(target: str, way: str, found: Sequence[dict[str, Any]]) -> None:
    """Raise `NotWhatItSays` when a filter let something else through."""
    types = {message["untrusted"]["event_type"] for message in found}
    verified = {message["verified"] for message in found}
    if (way.startswith("rare_type") or way == "everything") and types != {RARE_TYPE}:
        raise NotWhatItSays(f"{target}: messages of the types {sorted(types)}")
    wanted = {"verified": {True}, "failed": {False}, "everything": {True}}.get(way)
    if wanted is not None and verified != wanted:
        raise NotWhatItSays(f"{target}: messages that are verified: {sorted(map(str, verified))}")
