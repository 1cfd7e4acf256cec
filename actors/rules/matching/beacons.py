"""What a beacon is: a standing interest of one agent, as it was asked for (`Spec`) and as it is matched (`Beacon`).

A `Spec` is what is stored; a `Beacon` is made of it anew whenever one is needed, so that a better tokeniser needs no
migration. Ranges and grammar of single fields are the surface's business; what is refused here (`Unplaceable`) is
what has no meaning as a beacon.

`about` is cut after `MAX_TERMS` terms, in the order of writing. Not the rarest: which these are would depend on what
others have placed, so the same text would mean something else tomorrow, and its terms would tell of their beacons.
"""

import msgspec

from actors.rules.matching.common import NO_SAMPLE, Sample, telling, tells_apart, too_common
from actors.rules.matching.scoring import best_score
from actors.rules.matching.words import Word, beacon_words

MAX_TERMS = 32
"""Of one beacon. Half of them (by weight) must be in a message: more words make a beacon deaf, not keen."""

DEFAULT_MIN_SCORE = 0.45
DEFAULT_WEIGHT = 1.0

Key = tuple[str, str]
"""Agent id and name: what a beacon is known by."""


class Unplaceable(Exception):
    """The beacon has no meaning; `field` names what must change, `reason` says why, for the agent to read."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Spec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A beacon as its agent asked for it. `types` are event types; empty filters let everything pass.

    `about`: half of its words, by weight, must be in a message; None: its words do not matter. `require`: all of
    these terms must be there as well; `exclude`: none of them may. A term of several words ("e2e-staging") is there
    when all of its words are.
    """

    name: str
    about: str | None = None
    inboxes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    min_score: float = DEFAULT_MIN_SCORE
    weight: float = DEFAULT_WEIGHT


class Beacon(msgspec.Struct, frozen=True):
    """A beacon as it is matched. `terms` and `shown` run parallel; without terms it is a subscription.

    It hears of messages that were committed after it (`mid` > `placed_mid`) and received before `expires_at`
    (microseconds since the epoch; None: never expires).
    """

    agent_id: str
    name: str
    terms: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    inboxes: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    require: frozenset[str] = frozenset()
    exclude: tuple[frozenset[str], ...] = ()
    min_score: float = DEFAULT_MIN_SCORE
    weight: float = DEFAULT_WEIGHT
    placed_mid: int = 0
    expires_at: int | None = None

    @property
    def key(self) -> Key:
        """What it is known by."""
        return (self.agent_id, self.name)

    @property
    def names_something(self) -> bool:
        """Whether it names inboxes, types or kinds, which makes it a closer interest."""
        return bool(self.inboxes or self.types or self.kinds)


def beacon_of(
    agent_id: str, spec: Spec, placed_mid: int = 0, expires_at: int | None = None, max_terms: int = MAX_TERMS
) -> Beacon:
    """Return what a spec means. Raises `Unplaceable`."""
    words = [] if spec.about is None else telling(beacon_words(spec.about))[:max_terms]
    if spec.about is not None and not words:
        raise Unplaceable("about", "it holds no word that tells one message from another")
    required = [_term("require", entry) for entry in spec.require]
    beacon = Beacon(
        agent_id=agent_id,
        name=spec.name,
        terms=tuple(word.term for word in words),
        shown=tuple(word.shown for word in words),
        inboxes=frozenset(spec.inboxes),
        types=frozenset(spec.types),
        kinds=frozenset(spec.kinds),
        require=frozenset().union(*required),
        exclude=tuple(_term("exclude", entry) for entry in spec.exclude),
        min_score=spec.min_score,
        weight=spec.weight,
        placed_mid=placed_mid,
        expires_at=expires_at,
    )
    best = best_score(beacon.weight, beacon.names_something)
    if best < beacon.min_score:
        raise Unplaceable("min_score", f"no message can reach it: the best score of this beacon is {best:g}")
    return beacon


def objection(beacon: Beacon, sample: Sample = NO_SAMPLE) -> str | None:
    """Return why a new beacon would hear of nearly everything that its filters let pass, to be told to its agent; None
    if it would not.

    Only what is about something is judged: a subscription says openly that it wants everything. A required term narrows
    a beacon down when it tells messages apart itself. Whether filters do is for whoever knows what there is besides.
    """
    if not beacon.terms or any(tells_apart(term, sample) for term in beacon.require):
        return None
    return too_common(words_of(beacon), sample)


def words_of(beacon: Beacon) -> list[Word]:
    """Return the words that a beacon is about, in the order of writing."""
    return [Word(term, shown) for term, shown in zip(beacon.terms, beacon.shown, strict=True)]


def _term(field: str, entry: str) -> frozenset[str]:
    words = beacon_words(entry)
    if not words:
        raise Unplaceable(field, f"{entry!r} holds no word")
    return frozenset(word.term for word in words)
