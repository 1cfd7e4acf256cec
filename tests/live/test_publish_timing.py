"""Whether the time that publishing takes tells its sender that somebody listens: against a real server, black-box."""

import random
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec

from tests.bench.client import Line
from tests.bench.reading import post
from tests.live.api import Api
from tests.live.harness import Server
from tests.live.test_agents import new_agent, until

CALLS = 500
UNCLOCKED = 20
"""Calls before the first that counts: actors start, caches are filled. Of each attempt."""

ATTEMPTS = 3
MOST = 1.2

HEARD = "granite harvest lantern pilgrim"
UNHEARD = "cabinet orchard trumpet village"
"""As long, and as rare among the words of beacons: one is about these, too, but for another inbox."""


class Publisher:
    """An agent on one connection, whose calls are built before they are timed."""

    def __init__(self, server: Server, token: str) -> None:
        self.line = Line(server.port)
        self.requests = {
            words: post(server.port, "/v1/publish", token, {"type": "created", "kind": "note", **text(words)})
            for words in (HEARD, UNHEARD)
        }

    def seconds(self, words: str) -> float:
        """Publish and return how long it took."""
        began = perf_counter()
        self.line.send(self.requests[words])
        while (answer := self.line.receive()) is None:
            pass
        seconds = perf_counter() - began
        assert msgspec.json.decode(answer)["inbox"] == "commons"
        return seconds


def text(words: str) -> dict[str, str]:
    return {"subject": "What is there to see", "text": f"On the way home there was this to see: {words}."}


def medians_apart(publisher: Publisher, pick: random.Random) -> float:
    """Return by what factor the two medians differ.

    The calls take turns in pairs, each pair in an order that is drawn: the router works a few calls later, and on
    which of the two that falls must not be always the same.
    """
    seconds: dict[str, list[float]] = {HEARD: [], UNHEARD: []}
    for call in range(0, UNCLOCKED + CALLS, 2):
        for words in pick.sample((HEARD, UNHEARD), 2):
            took = publisher.seconds(words)
            if call >= UNCLOCKED:
                seconds[words].append(took)
    heard, unheard = median(seconds[HEARD]), median(seconds[UNHEARD])
    return max(heard / unheard, unheard / heard)


def test_publishing_takes_as_long_whether_or_not_a_beacon_of_another_agent_matches(tmp_path: Path) -> None:
    """The medians of 500 calls, half of each kind, differ by a factor of 1.2 at most.

    Of three attempts the first that holds counts: a busy machine spoils one now and then; a sender who would be
    answered after what the match brings is stored is slower by half in each of them.
    """
    assert len(HEARD) == len(UNHEARD)
    with (
        Server(tmp_path / "data", beacon_deliveries_per_day=10 * CALLS) as server,
        Api(server.url, server.token) as api,
    ):
        elsewhere = api.inbox()
        listener, sender = new_agent(api, agent_id="listener"), new_agent(api, agent_id="sender")
        listener.ok("PUT", "/beacons/here", {"about": HEARD, "inboxes": ["commons"]})
        listener.ok("PUT", "/beacons/elsewhere", {"about": UNHEARD, "inboxes": [elsewhere]})
        assert sender.token is not None
        publisher, pick = Publisher(server, sender.token), random.Random(1)
        factors: list[float] = []
        while not factors or (factors[-1] > MOST and len(factors) < ATTEMPTS):
            factors.append(medians_apart(publisher, pick))
        publisher.line.socket.close()

        heard = len(factors) * (UNCLOCKED + CALLS) // 2
        until(lambda: list(range(api.get("/inboxes/agent.listener")["latest_seq"])), heard)
        assert factors[-1] <= MOST, factors
