"""Matching as the surface defines it, over all beacons, one after the other, in exact fractions.

It shares no line with the index: not its files, not its bounds, not its order, not its arithmetic. Only the beacons'
and messages' own values are the same.
"""

from collections.abc import Iterable
from fractions import Fraction

from actors.rules.matching.beacons import Beacon
from actors.rules.matching.common import WORN_WORDS
from actors.rules.matching.judging import MatchInput
from actors.rules.matching.scoring import Match


def weight(term: str) -> int:
    """Return what a term is worth, in halves."""
    return 1 if term in WORN_WORDS else 2


def brute_force(beacons: Iterable[Beacon], message: MatchInput) -> list[Match]:
    """Return the matches of a message, ranked."""
    found = [match for beacon in beacons if (match := _judge(beacon, message)) is not None]
    return sorted(found, key=lambda match: (-match.score, match.agent_id, match.name))


def _judge(beacon: Beacon, message: MatchInput) -> Match | None:
    if message.mid <= beacon.placed_mid:
        return None
    if beacon.expires_at is not None and message.received_at >= beacon.expires_at:
        return None
    for names, name in (
        (beacon.inboxes, message.inbox),
        (beacon.types, message.event_type),
        (beacon.kinds, message.kind),
    ):
        if names and name not in names:
            return None
    if any(term not in message.terms for term in beacon.require):
        return None
    if any(all(term in message.terms for term in phrase) for phrase in beacon.exclude):
        return None
    coverage = Fraction(1)
    if beacon.terms:
        held = sum(weight(term) for term in beacon.terms if term in message.terms)
        if not held:
            return None
        coverage = Fraction(held, sum(weight(term) for term in beacon.terms))
    if coverage < Fraction(1, 2):
        return None
    named = bool(beacon.inboxes or beacon.types or beacon.kinds)
    interest = _decimal(beacon.weight) * (1 if named else Fraction(1, 2))
    score = round(
        Fraction(6, 10) * coverage
        + Fraction(3, 10) * interest
        + Fraction(1, 10) * _decimal(message.salience),
        6,
    )
    if score < _decimal(beacon.min_score):
        return None
    shown = tuple(
        shown for term, shown in zip(beacon.terms, beacon.shown, strict=True) if term in message.terms
    )
    return Match(beacon.agent_id, beacon.name, float(score), shown)


def _decimal(number: float) -> Fraction:
    """Return the number that was meant: 0.45, not the double next to it."""
    return Fraction(str(number))
