"""What a match is worth: 0.6 r + 0.3 ι + 0.1 s, with its parts. Pure.

- r, *coverage*: the share of the beacon's weight whose terms the message holds, 1 without terms; below
  `LEAST_COVERAGE` there is no match at all.
- ι, *interest*: the beacon's own weight, halved unless it names inboxes, types or kinds.
- s: the message's salience.

Weights of terms are whole numbers (`weights.py`), so coverage is exact whatever order they are added in. A score is
rounded to six decimals before it is compared: 0.3 + 0.15 is less than 0.45 in binary.
"""

from collections.abc import Iterable

import msgspec

COVERAGE_SHARE, INTEREST_SHARE, SALIENCE_SHARE = 0.6, 0.3, 0.1

LEAST_COVERAGE = 0.5
"""Half of what a beacon is about. The index rests on it: what holds less is never even looked at."""

UNNAMED = 0.5
"""Interest of a beacon that listens everywhere, as a share of one that says where."""

WEBHOOK_SALIENCE = 0.5

DECIMALS = 6


class Match(msgspec.Struct, frozen=True):
    """One beacon that should hear of a message. `matched_terms`: the beacon's own words, in its order."""

    agent_id: str
    name: str
    score: float
    matched_terms: tuple[str, ...] = ()


class Heard(msgspec.Struct, frozen=True):
    """What one agent should hear of a message: by its best match, and by which other beacons, best first."""

    agent_id: str
    best: Match
    also: tuple[Match, ...] = ()


def interest(weight: float, names_something: bool) -> float:
    """Return ι."""
    return weight if names_something else weight * UNNAMED


def score(coverage: float, interest: float, salience: float) -> float:
    """Return the score of parts that lie between 0 and 1."""
    return round(COVERAGE_SHARE * coverage + INTEREST_SHARE * interest + SALIENCE_SHARE * salience, DECIMALS)


def best_score(weight: float, names_something: bool) -> float:
    """Return the score of a beacon's best message: all of its words, and most salient."""
    return score(1.0, interest(weight, names_something), 1.0)


def ranked(matches: Iterable[Match]) -> list[Match]:
    """Return matches by score, the best first; equal ones by agent and name, so that the order is always the same."""
    return sorted(matches, key=lambda match: (-match.score, match.agent_id, match.name))


def by_agent(matches: Iterable[Match]) -> list[Heard]:
    """Return one entry for each agent, ranked by their best matches: an agent hears of a message once."""
    of: dict[str, list[Match]] = {}
    for match in ranked(matches):
        of.setdefault(match.agent_id, []).append(match)
    return [Heard(agent_id, own[0], tuple(own[1:])) for agent_id, own in of.items()]
