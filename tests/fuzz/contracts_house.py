"""Everything around the inboxes of `contracts_model`, in plain Python: agents, tokens, beacons, and the log of all
messages. Who hears of a message is found by asking everybody.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.fuzz.contracts_model import Box, Message, Visible

COMMONS = "commons"
OPEN_KINDS = ("webhook", "topic")


@dataclass(frozen=True)
class Beacon:
    """A standing interest without words. `after`: the last message that it does not hear."""

    inboxes: tuple[str, ...]
    kinds: tuple[str, ...]
    weight: float
    least: float
    after: int

    def score(self, message: Message) -> float | None:
        """Return what a message is worth to it, None when it does not hear of it."""
        home = message.home
        kind = "webhook" if home.kind == "webhook" else message.kind
        if (
            message.n <= self.after
            or (self.inboxes and home.slug not in self.inboxes)
            or (self.kinds and kind not in self.kinds)
        ):
            return None
        named = 1 if self.inboxes or self.kinds else 0.5
        score = round(0.6 + 0.3 * self.weight * named + 0.1 * message.salience, 6)
        return score if score >= self.least else None


@dataclass
class Token:
    """`agent` or `machine`: for whom it acts. `inboxes` None: all."""

    agent: str | None = None
    machine: str | None = None
    inboxes: tuple[str, ...] | None = ()

    @property
    def visible(self) -> Visible:
        return None if self.inboxes is None else frozenset((*self.inboxes, COMMONS))

    def reads(self, slug: str) -> bool:
        """Whether it may page through an inbox."""
        own = f"agent.{self.agent}" if self.agent else f"machine.{self.machine}"
        if slug in (own, COMMONS):
            return True
        return "." not in slug and (self.inboxes is None or slug in self.inboxes)


class House:
    """Everything: inboxes, agents, tokens, beacons, and the log of all messages."""

    def __init__(self, now: int, max_batch: int, row_bytes: int) -> None:
        self.now = now
        self.boxes: dict[str, Box] = {}
        self.graves: list[Box] = []
        self.log: list[Message] = []
        self.routed = 0
        self.machines: dict[str, str] = {}
        self.left: set[str] = set()
        self.tokens: dict[str, Token] = {}
        self.beacons: dict[tuple[str, str], Beacon] = {}
        self._sizes = (max_batch, row_bytes)

    def renew(self, agent: str) -> None:
        """Delete an agent, and make another one of its name."""
        for message in self.log:
            message.receipts.pop(agent, None)
        self.of(agent).owner = None
        self.box(f"agent.{agent}", "agent")
        self.left.discard(agent)
        self.beacons = {of: beacon for of, beacon in self.beacons.items() if of[0] != agent}

    def box(self, slug: str, kind: str) -> Box:
        """Make an inbox; one of this name is deleted."""
        if slug in self.boxes:
            self.boxes[slug].delete()
            self.graves.append(self.boxes[slug])
        self.boxes[slug] = Box(slug, kind, lambda: self.now, self._sizes)
        return self.boxes[slug]

    def of(self, agent: str) -> Box:
        return self.boxes[f"agent.{agent}"]

    def message(self, id: bytes, kind: str, **fields: object) -> Message:
        """Add a message to the log. The caller puts it where it is at home."""
        values = {"sender": None, "size": 2, "salience": 0.5, "expires_at": None, **fields}
        message = Message(len(self.log) + 1, id, kind, **values)  # type: ignore[arg-type]  # as Message has them
        self.log.append(message)
        return message

    def at_home(self, message: Message, slug: str) -> None:
        """Put a message where it is at home, in an inbox that is nobody's."""
        message.home = self.boxes[slug]
        message.sent_at = message.home.put(message, None)
        message.home.trim()

    def send(self, message: Message, to: Sequence[str]) -> None:
        """Put a message into the first agent's inbox; the others are to get it."""
        message.home = self.of(to[0])
        score = round(0.9 + 0.1 * message.salience, 6)
        message.sent_at = message.home.put(message, "direct", score)
        message.sent_to(to)
        message.receipts[to[0]].stored = message.sent_at
        message.came_to.add(to[0])
        message.home.trim()

    def broadcast(self, message: Message, machine: str, to: Iterable[str]) -> None:
        message.sent_to(to)
        self.at_home(message, f"machine.{machine}")

    def on(self, machine: str) -> list[str]:
        return sorted(agent for agent, its in self.machines.items() if its == machine)

    # -- routing ------------------------------------------------------------------------------------------
    def scope(self, agent: str) -> tuple[bool, set[str]]:
        """Return whether an agent is routed everything, and the slugs that it is."""
        bound = [token.inboxes for token in self.tokens.values() if token.agent == agent]
        named = {slug for inboxes in bound for slug in inboxes or ()}
        return None in bound, named | ({COMMONS} if bound else set())

    def seen_by_all(self, agent: str) -> Visible:
        everything, slugs = self.scope(agent)
        return None if everything else frozenset(slugs)

    def route(self) -> None:
        """Deliver to whom it concerns. What came to somebody once never does again."""
        for message in self.log[self.routed :]:
            if message.home not in message.places:
                continue
            for agent in sorted(self.machines):
                receipt = message.receipts.get(agent)
                if agent in message.came_to:
                    continue
                if receipt is not None:
                    broadcast = message.home.kind == "machine"
                    score = round(0.9 + 0.1 * (0.5 if broadcast else message.salience), 6)
                    receipt.stored = self._deliver(
                        message, agent, "broadcast" if broadcast else "direct", score
                    )
                else:
                    self._hear(message, agent)
        for box in self.boxes.values():
            box.trim()
        self.routed = len(self.log)

    def _hear(self, message: Message, agent: str) -> None:
        home = message.home
        everything, slugs = self.scope(agent)
        if home.kind not in OPEN_KINDS or home.gone or message.sender == agent:
            return
        if not everything and home.slug not in slugs:
            return
        scores = [
            (-score, name)
            for (whose, name), beacon in self.beacons.items()
            if whose == agent and (score := beacon.score(message)) is not None
        ]
        if scores:
            best, name = min(scores)
            self._deliver(message, agent, f"beacon:{name}", -best, home.slug)

    def _deliver(
        self, message: Message, agent: str, via: str, score: float, origin: str | None = None
    ) -> int:
        message.came_to.add(agent)
        return self.of(agent).put(message, via, score, origin)

    def sweep(self) -> None:
        for box in (*self.boxes.values(), *self.graves):
            if not box.sweep(self.routed) or not box.gone:
                continue
            for message in [one for one in self.log if one.listed_by is box]:
                message.listed_by = None
                message.forget()
