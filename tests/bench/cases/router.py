"""Router: entries delivered a second, from the first message sent until everybody who listens for them has all.

Agents publish to a topic inbox over HTTP; the beacons of a hundred agents, or of a crowd, match every message. The
server is the real one with all that it does besides: it answers the senders, and says meanwhile how far it is. A round
has a server of its own, so that its first message meets inboxes that nobody has used since the start.
"""

import random
import tempfile
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import msgspec

from actors.agents import private_slug
from actors.rules.matching.beacons import Spec
from actors.tokens import mint
from tests.actors.synthetic import MESSAGE_WORDS, Synthetic
from tests.bench.client import Line, WrongAnswer, drive
from tests.bench.figures import Figure, compare
from tests.bench.harness import Bench, LoadFailed
from tests.bench.mail import KIND, SUBJECT, Hearer, hearer, make_agents
from tests.bench.reading import post
from tests.bench.subject import NotWhatItSays, Subject, postroom

NAME = "router"

GOAL_RATE = 10_000
"""Entries a second."""

FEW = 100
"""Agents that hear of each message. The crowd are as many as there are waits in the case `fanout`."""

CROWD_MESSAGES = 10

SHARE_OF_REQUESTS = 10
"""A round has the effort's requests divided by this, as messages to the few."""

CONNECTIONS = 8
"""That publish at the same time, when there is enough to publish."""

SEED = 1

LOOK_SECONDS = 0.02
"""Between two looks at the router's figures: one costs the server less than a millisecond, and so late is the end seen
at most.
"""

ROUTED_SECONDS = 60.0
"""Longer than a router takes that is worth measuring."""

SENDER = "sender"
SETTINGS = {"BEACON_DELIVERIES_PER_DAY": "1000000"}
"""The ordinary limit is what one agent can read in a day, not what a benchmark sends it."""


class Audience(msgspec.Struct, frozen=True):
    """Agents that listen to one topic inbox."""

    topic: str
    agents: list[Hearer]


class Round(msgspec.Struct, frozen=True):
    """Entries a second: to the few, to the crowd, and of the first message that the crowd hears at all."""

    few: float
    crowd: float
    cold: float


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    words = _words()
    few, crowd = _audience("few", FEW, words), _audience("crowd", bench.effort.crowd, words)
    sender, admin_token = hearer(SENDER), mint("admin")
    messages = bench.effort.requests // SHARE_OF_REQUESTS
    with tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory) as made:
        directory = Path(made)
        make_agents(directory / "data", [sender, *few.agents, *crowd.agents], [few.topic, crowd.topic])

        def of_round(number: int) -> Round:
            with postroom(directory, SETTINGS, admin_token) as subject:
                routing = _Routing(subject, sender, words)
                cold = routing.rate(crowd, 1)
                return Round(routing.rate(few, messages), routing.rate(crowd, CROWD_MESSAGES), cold)

        rounds = bench.rounds(NAME, {NAME: of_round})[NAME]
    bench.note(
        f"{NAME}: {messages:,} messages to {FEW} agents; {CROWD_MESSAGES} to {bench.effort.crowd:,} (crowd), after a "
        f"first one that was the first to them since the start (cold). {MESSAGE_WORDS} words, two in each beacon."
    )
    return [_figure(name, rounds) for name in Round.__struct_fields__]


def _figure(name: str, rounds: Sequence[Round]) -> Figure:
    return compare(
        f"{NAME}.{name}",
        [getattr(one, name) for one in rounds],
        f"{GOAL_RATE:,} /s",
        [float(GOAL_RATE)] * len(rounds),
        unit="/s",
        better="higher",
        goal=1.0 if name == "few" else None,
    )


def _words() -> list[str]:
    """Return the words of every message: all different, so that each beacon is about two of them."""
    source = Synthetic(SEED)
    return list(dict.fromkeys(source.words(20 * MESSAGE_WORDS)))[:MESSAGE_WORDS]


def _audience(topic: str, size: int, words: list[str]) -> Audience:
    """Return agents, each with a beacon about another two of the words."""
    pairs = random.Random(topic).sample(list(combinations(words, 2)), size)
    beacons = [Spec("interest", about=" ".join(pair), inboxes=(topic,)) for pair in pairs]
    return Audience(topic, [hearer(f"{topic}-{number}", beacon) for number, beacon in enumerate(beacons)])


class _Routing:
    """One server's router."""

    def __init__(self, subject: Subject, sender: Hearer, words: list[str]) -> None:
        self._subject = subject
        self._sender = sender
        self._words = words
        self._random = random.Random(SEED)

    def rate(self, audience: Audience, messages: int) -> float:
        """Publish so many messages and return how many entries a second they became. Raises `NotWhatItSays`."""
        prepared = [self._request(audience.topic) for _ in range(messages)]
        entries = messages * len(audience.agents)
        before = self._figures()["delivered"]
        held_before = self._held(audience)
        began = time.perf_counter()
        self._send(prepared)
        while (figures := self._figures())["delivered"] < before + entries or figures["lag"]:
            if time.perf_counter() - began > ROUTED_SECONDS:
                raise NotWhatItSays(f"{entries:,} entries were not routed in {ROUTED_SECONDS:g} s: {figures}")
            time.sleep(LOOK_SECONDS)
        seconds = time.perf_counter() - began
        held = self._held(audience)
        if (
            figures["delivered"] != before + entries
            or figures["failed"]
            or figures["overflow"]
            or held != [seq + messages for seq in held_before]
        ):
            raise NotWhatItSays(f"{entries:,} entries: {figures}, {held} after {held_before}")
        return entries / seconds

    def _request(self, topic: str) -> bytes:
        text = " ".join(self._random.sample(self._words, len(self._words)))
        said = {"type": "created", "kind": KIND, "subject": SUBJECT, "text": text, "to": {"inbox": topic}}
        return post(self._subject.server.port, "/v1/publish", self._sender.token, said)

    def _send(self, prepared: list[bytes]) -> None:
        """Have messages stored. Raises `LoadFailed`."""
        port = self._subject.server.port
        try:
            if len(prepared) > 2 * CONNECTIONS:
                drive(port, prepared, CONNECTIONS)
                return
            line = Line(port)
            for request in prepared:
                line.send(request)
                while line.receive() is None:
                    pass
            line.socket.close()
        except (WrongAnswer, OSError) as error:
            raise LoadFailed(f"publishing: {error}") from error

    def _figures(self) -> dict[str, int]:
        figures: dict[str, int] = self._subject.call("GET", "/v1/stats")["routing"]
        return figures

    def _held(self, audience: Audience) -> list[int]:
        """Return how many entries the first and the last of an audience have."""
        ends = (audience.agents[0], audience.agents[-1])
        shown = [self._subject.call("GET", f"/v1/inboxes/{private_slug(one.agent_id)}") for one in ends]
        return [int(one["latest_seq"]) for one in shown]
