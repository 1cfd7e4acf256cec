"""Agents and inboxes for tests of mail under fire: who must hear of which message, worked out without the server.

A beacon here wants one word, or everything that comes to some inboxes, and a message has a word or has it not. So who
hears of a message is a matter of a few comparisons, and nothing depends on scores. `Ledger` has everything that anybody
tried to send, and what became of it.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec

from tests.live.api import SECRET, Api, github_headers

COMMONS = "commons"
OPEN, SIGNED, SHORT, TOPIC = "hooks", "signed", "short", "bulletin"
"""Inboxes: for webhooks without and with signatures, one that keeps little, and one that agents publish to."""

KEPT = 1
"""Messages that the inbox `SHORT` keeps: what was dropped from it before it was routed must still arrive."""

WORDS = ("granite", "lantern", "harbour")

WORD_ODDS = 0.4
"""How often a message has one of the words."""


@dataclass(frozen=True)
class Beacon:
    """An interest: in one word, or in all that comes to these inboxes."""

    name: str
    word: str | None = None
    inboxes: tuple[str, ...] = ()

    @property
    def wish(self) -> dict[str, Any]:
        """What is asked of the server."""
        return {"about": self.word, "inboxes": list(self.inboxes)} if self.word else {"inboxes": self.inboxes}


@dataclass(frozen=True)
class Agent:
    """An agent: what its token reads (None: everything), and its beacons."""

    name: str
    reads: tuple[str, ...] | None
    beacons: tuple[Beacon, ...] = ()

    def may_read(self, slug: str) -> bool:
        """Whether an inbox is in its scope."""
        return self.reads is None or slug == COMMONS or slug in self.reads


NORTH = Agent("north", (OPEN, SHORT), (Beacon("stone", "granite"), Beacon("hooks", inboxes=(OPEN,))))
EAST = Agent("east", None, (Beacon("light", "lantern"), Beacon("harbour", "harbour")))
SOUTH = Agent("south", (SIGNED, TOPIC), (Beacon("stone", "granite"), Beacon("signed", inboxes=(SIGNED,))))
WEST = Agent("west", (), (Beacon("all", inboxes=(COMMONS,)),))
PRESS = Agent("press", (TOPIC,), (Beacon("light", "lantern"), Beacon("topics", inboxes=(TOPIC, COMMONS))))
DESK = Agent("desk", (TOPIC,), (Beacon("stone", "granite"),))
STEADY = Agent("steady", None, (Beacon("short", inboxes=(SHORT,)), Beacon("harbour", "harbour")))

AGENTS = (NORTH, EAST, SOUTH, WEST, PRESS, DESK, STEADY)
PUBLISHERS = (PRESS, DESK)
"""They hear of each other's messages, and never of their own."""

HOMES = (OPEN, OPEN, SIGNED, SIGNED, SHORT, TOPIC, COMMONS, None, None)
"""Where messages go, as often as each is named; None: to agents by name."""


@dataclass(eq=False)
class Sent:
    """One message that somebody tried to send. `inbox`: its home, None when it goes to agents by name.

    `id` is what the server answered, if it did; it is settled when nobody sends it any more.
    """

    key: str
    inbox: str | None
    sender: Agent | None
    to: tuple[str, ...]
    words: frozenset[str]
    id: str | None = None
    settled: bool = False

    @property
    def text(self) -> str:
        """What is said in it."""
        return " ".join(["Report", self.key, *sorted(self.words)])

    @property
    def once(self) -> bool:
        """Whether it may be sent again without becoming two."""
        return self.sender is not None or self.inbox == SIGNED

    def hears(self, agent: Agent) -> bool:
        """Whether this agent must get it."""
        if self.inbox is None:
            return agent.name in self.to
        if agent is self.sender or not agent.may_read(self.inbox):
            return False
        return any(
            (not beacon.inboxes or self.inbox in beacon.inboxes)
            and (beacon.word is None or beacon.word in self.words)
            for beacon in agent.beacons
        )

    @property
    def recipients(self) -> frozenset[str]:
        """Who must get it."""
        return frozenset(agent.name for agent in AGENTS if self.hears(agent))

    @property
    def path(self) -> str:
        """Where it is sent to."""
        return f"/in/{self.inbox}?key={self.key}" if self.sender is None else "/v1/publish"

    def body(self) -> bytes:
        """Return what is sent."""
        if self.sender is None:
            return msgspec.json.encode({"key": self.key, "text": self.text})
        request: dict[str, Any] = {
            "type": "created",
            "kind": "note",
            "subject": self.key,
            "text": self.text,
            "idempotency_key": self.key,
        }
        if self.inbox is None:
            request["to"] = {"agents": self.to}
        elif self.inbox != COMMONS:
            request["to"] = {"inbox": self.inbox}
        return msgspec.json.encode(request)

    def headers(self, tokens: dict[str, str]) -> dict[str, str]:
        """Return what its sender sends along."""
        if self.sender is not None:
            return {"Authorization": f"Bearer {tokens[self.sender.name]}", "Content-Type": "application/json"}
        return (
            github_headers(self.body(), "push", f"delivery-{self.key}")
            if self.inbox == SIGNED
            else {"Content-Type": "application/json"}
        )


def answered_id(answer: Any) -> str:
    """Return the id of a message as its sender was told it."""
    return str(answer["id"] if "id" in answer else answer["diff_id"])


def key_of(item: Any) -> str:
    """Return the key of a message that was served, whose content must be that of its key."""
    claims = item["diff"]["untrusted"]
    key, text = (
        (claims["body"]["key"], claims["body"]["text"])
        if "body" in claims
        else (
            claims["subject"],
            claims["text"],
        )
    )
    assert text.split()[1] == key, item
    return str(key)


@dataclass
class Ledger:
    """Everything that was ever sent to the data directory, and what was counted for the report.

    `stored`: keys of messages that are known to be there. `delivered`: the number of each delivery that was found in
    the store, by message and agent.
    """

    rng: random.Random
    tokens: dict[str, str] = field(default_factory=dict)
    sent: dict[str, Sent] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    delivered: dict[tuple[str, str], int] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)
    keys: Iterator[int] = field(default_factory=count)

    def add(self, figure: str, n: int = 1) -> None:
        """Count something."""
        self.figures[figure] = self.figures.get(figure, 0) + n

    def most(self, figure: str, n: int) -> None:
        """Keep the highest of a figure."""
        self.figures[figure] = max(self.figures.get(figure, 0), n)

    def next(self) -> Sent:
        """Make up a message."""
        rng = self.rng
        inbox = rng.choice(HOMES)
        words = frozenset(word for word in WORDS if rng.random() < WORD_ODDS)
        publishes = inbox in (TOPIC, COMMONS, None)
        to = tuple(agent.name for agent in rng.sample(AGENTS, rng.randint(1, 4))) if inbox is None else ()
        sent = Sent(f"k{next(self.keys)}", inbox, rng.choice(PUBLISHERS) if publishes else None, to, words)
        self.sent[sent.key] = sent
        self.add("messages tried")
        return sent

    def due(self, agent: Agent) -> set[str]:
        """Return the keys of all that an agent must have got once everything is routed."""
        return {key for key in self.stored if self.sent[key].hears(agent)}


def furnish(admin: Api, ledger: Ledger) -> None:
    """Make the inboxes, the agents, their tokens and their beacons."""
    admin.inbox(slug=OPEN)
    admin.inbox(slug=SIGNED, verifier="github", secret=SECRET)
    admin.inbox(slug=SHORT, retention={"max_messages": KEPT})
    admin.inbox(slug=TOPIC, kind="topic")
    for agent in AGENTS:
        admin.ok("POST", "/agents", {"agent_id": agent.name}, status=201)
        reads = "all" if agent.reads is None else list(agent.reads)
        token = admin.agent(reads, agent=agent.name)
        ledger.tokens[agent.name] = token
        for beacon in agent.beacons:
            admin.as_(token).ok("PUT", f"/beacons/{beacon.name}", beacon.wish)
