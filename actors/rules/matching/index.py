"""Which beacons should hear of a message, found without looking at the others: exact, in memory. Pure.

*Terms.* The terms of a beacon are put in order, those that the fewest beacons have first, and the beacon is filed under
the first ones only, until those that remain weigh too little for a match (which needs half of all, or more with a high
`min_score`). A message that holds none of the filed terms then cannot be a match: the prefix filter of set-similarity
joins. A beacon that needs two terms or more is filed under a few more of them, until those that remain weigh too little
with any single one of the others: then two of the filed ones must be there before anybody looks at it. A beacon that
requires a term is filed under that one alone when it is the rarer.

The order is that of the moment at which a beacon is filed. It decides what is looked at and nothing else: by any order
the same matches are found, so no beacon is filed anew because others come and go.

*Filters.* The files stand on shelves, one for each combination of inbox, type and kind that beacons name (any of them
may be left open), and a message looks at the eight shelves that it fits. So ten thousand beacons for ten thousand
inboxes, with text or without, are not looked at one by one.
"""

from collections.abc import Iterable, Iterator

from actors.rules.matching.beacons import Beacon, Key
from actors.rules.matching.judging import MatchInput
from actors.rules.matching.scoring import Match, ranked
from actors.rules.matching.shelves import Shelves
from actors.rules.matching.weights import weight_of


class MatchIndex:
    """The beacons in force, found by what a message says and where it is."""

    def __init__(self, beacons: Iterable[Beacon] = ()) -> None:
        self._holding: dict[str, int] = {}
        self._shelves = Shelves()
        distinct = {beacon.key: beacon for beacon in beacons}
        for beacon in distinct.values():
            self._count(beacon, 1)
        for beacon in distinct.values():
            self._shelves.file(beacon, self._rank)

    def __len__(self) -> int:
        return len(self._shelves)

    def __contains__(self, key: Key) -> bool:
        return key in self._shelves

    def __iter__(self) -> Iterator[Key]:
        return iter(self._shelves)

    def get(self, key: Key) -> Beacon | None:
        """Return the beacon in force with this agent and name."""
        return self._shelves.get(key)

    def add(self, beacon: Beacon) -> None:
        """Put a beacon in force, in place of the one with the same agent and name."""
        self.remove(beacon.key)
        self._count(beacon, 1)
        self._shelves.file(beacon, self._rank)

    def remove(self, key: Key) -> bool:
        """Take a beacon out of force; return whether it was in force."""
        beacon = self._shelves.drop(key)
        if beacon is None:
            return False
        self._count(beacon, -1)
        return True

    def covers(self, inbox: str, event_type: str, kind: str) -> bool:
        """Whether a message of this inbox, type and kind is worth reading: False only when no beacon can match it."""
        return self._shelves.covers(inbox, event_type, kind)

    def match(self, message: MatchInput) -> list[Match]:
        """Return every beacon that should hear of a message, ranked: the best score first."""
        terms = message.terms
        found: list[Match] = []
        for judge in self._shelves.candidates(message):
            held = judge.terms & terms
            if len(held) < judge.fewest:  # spares half of the candidates the sum
                continue
            weights = judge.weights
            mass = 0
            for term in held:
                mass += weights[term]
            if mass >= judge.needed and judge.lives_at(message):
                match = judge.match(message, mass)
                if match is not None:
                    found.append(match)
        return ranked(found)

    def _rank(self, term: str) -> float:
        """Return how common a term is among the beacons, for what it weighs: a light one spares little when filed."""
        return self._holding.get(term, 0) / weight_of(term)

    def _count(self, beacon: Beacon, by: int) -> None:
        for term in beacon.terms:
            number = self._holding.get(term, 0) + by
            if number:
                self._holding[term] = number
            else:
                del self._holding[term]
