"""Whether one beacon should hear of one message: the definition, which the index must never differ from. Pure."""

from math import ceil

import msgspec

from actors.rules.matching.beacons import Beacon
from actors.rules.matching.scoring import (
    COVERAGE_SHARE,
    INTEREST_SHARE,
    LEAST_COVERAGE,
    SALIENCE_SHARE,
    Match,
    interest,
    score,
)
from actors.rules.matching.weights import weight_of

_ROUNDING = 1e-6
"""More than a score gains by being rounded; taken off a bound so that the bound stays on the safe side."""


class MatchInput(msgspec.Struct, frozen=True):
    """What matching looks at in a message. `inbox` is a slug; `event_type` "" when there is none; `salience` 0 to 1.

    `mid` and `received_at` (microseconds) place it among the beacons' own times: the same message meets the same
    beacons whenever it is routed.
    """

    mid: int
    received_at: int
    inbox: str
    event_type: str
    kind: str
    salience: float
    terms: frozenset[str]


class Judge:
    """One beacon, ready to be compared.

    `weights`: of its terms; `total`: all of them. `needed`: no message whose terms weigh less can match; `fewest`: nor
    one that holds fewer of the terms.
    """

    __slots__ = ("beacon", "fewest", "interest", "needed", "terms", "total", "weights")

    def __init__(self, beacon: Beacon) -> None:
        self.beacon = beacon
        self.interest = interest(beacon.weight, beacon.names_something)
        self.weights = {term: weight_of(term) for term in beacon.terms}
        self.terms = frozenset(beacon.terms)
        self.total = sum(self.weights.values())
        # A high min_score needs more than half of the terms, however salient the message is.
        least = (beacon.min_score - INTEREST_SHARE * self.interest - SALIENCE_SHARE) / COVERAGE_SHARE
        self.needed = max(ceil(self.total * LEAST_COVERAGE), ceil(self.total * (least - _ROUNDING)))
        self.fewest = 0
        mass = 0
        for weight in sorted(self.weights.values(), reverse=True):
            if mass >= self.needed:
                break
            mass += weight
            self.fewest += 1

    def hears(self, message: MatchInput) -> Match | None:
        """Return what the message is worth to the beacon, whenever it was placed; None when it is no match."""
        weights = self.weights
        mass = sum([weights[term] for term in self.terms & message.terms])
        return self.match(message, mass) if mass >= self.needed else None

    def lives_at(self, message: MatchInput) -> bool:
        """Whether the beacon had been placed when the message was committed, and had not expired when it came."""
        beacon = self.beacon
        return beacon.placed_mid < message.mid and (
            beacon.expires_at is None or message.received_at < beacon.expires_at
        )

    def match(self, message: MatchInput, mass: int) -> Match | None:
        """Return what `hears` does, given what the beacon's terms in the message weigh, if that is enough."""
        beacon = self.beacon
        terms = message.terms
        if (
            (beacon.inboxes and message.inbox not in beacon.inboxes)
            or (beacon.types and message.event_type not in beacon.types)
            or (beacon.kinds and message.kind not in beacon.kinds)
            or not beacon.require <= terms
            or any(phrase <= terms for phrase in beacon.exclude)
        ):
            return None
        coverage = mass / self.total if self.total else 1.0
        worth = score(coverage, self.interest, message.salience)
        if worth < beacon.min_score:
            return None
        held = tuple([shown for term, shown in zip(beacon.terms, beacon.shown, strict=True) if term in terms])
        return Match(beacon.agent_id, beacon.name, worth, held)
