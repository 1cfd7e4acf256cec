"""Which beacons should hear of a message, found without looking at the others: exact, in memory. Pure.

*Terms.* The terms of a beacon are put in order of weight, and the beacon is filed under the first ones only, until
those that remain weigh less than what a match needs (half, or more with a high `min_score`). A message that holds
none of the filed terms then cannot be a match: the prefix filter of set-similarity joins. A beacon that requires a
term is filed under that one alone when it is the rarer.

*Filters.* The files stand on shelves, one for each combination of inbox, type and kind that beacons name (any of them
may be left open), and a message looks at the eight shelves that it fits. So ten thousand beacons for ten thousand
inboxes, with text or without, are not looked at one by one.

*Weights* are those of the last weighing (`weights.py`). One begins with the change, `add` or `remove`, that makes it
a tenth of the set since the last one, and puts up new shelves beside those in force, a few beacons with this change
and each that follows; then they replace the others at once. So all beacons are always judged by the same weights, and
no change takes long: ten thousand beacons are filed anew in 140 ms, by steps of 3 ms, and the old ones let go in 15.
"""

from collections.abc import Iterable, Iterator

from actors.rules.matching.beacons import Beacon, Key
from actors.rules.matching.judging import MatchInput
from actors.rules.matching.scoring import Match, ranked
from actors.rules.matching.shelves import Shelves
from actors.rules.matching.weights import Weights

CHANGED_ENOUGH = 10
"""A weighing is due when the changes since the last one, times this, reach the number of beacons at that time."""

STEP = 200
"""Beacons filed anew with one change, in 3 ms. A smaller set is weighed within one change."""


class MatchIndex:
    """The beacons in force, found by what a message says and where it is.

    `version`: of the last weighing of an earlier index, so that no version stands for two.
    """

    def __init__(self, beacons: Iterable[Beacon] = (), version: int = 0, step: int = STEP) -> None:
        self._step = step
        self._changes = 0
        self._with_terms = 0
        self._holding: dict[str, int] = {}
        self._next: Shelves | None = None
        self._waiting: list[Key] = []
        distinct = {beacon.key: beacon for beacon in beacons}
        for beacon in distinct.values():
            self._count(beacon, 1)
        self._shelves = Shelves(Weights(version + 1, self._with_terms, self._holding))
        for beacon in distinct.values():
            self._shelves.file(beacon)
        self._weighed = len(distinct)

    def __len__(self) -> int:
        return len(self._shelves)

    def __contains__(self, key: Key) -> bool:
        return key in self._shelves

    def __iter__(self) -> Iterator[Key]:
        return iter(self._shelves)

    @property
    def weights(self) -> Weights:
        """The weights in force; their `version` belongs to every score."""
        return self._shelves.weights

    @property
    def weighing(self) -> bool:
        """Whether a weighing is under way, which `advance` would end sooner."""
        return self._next is not None

    def get(self, key: Key) -> Beacon | None:
        """Return the beacon in force with this agent and name."""
        return self._shelves.get(key)

    def add(self, beacon: Beacon) -> None:
        """Put a beacon in force, in place of the one with the same agent and name."""
        self._drop(beacon.key)
        self._count(beacon, 1)
        self._shelves.file(beacon)
        if self._next is not None:
            self._next.file(beacon)
        self._changed()

    def remove(self, key: Key) -> bool:
        """Take a beacon out of force; return whether it was in force."""
        if not self._drop(key):
            return False
        self._changed()
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

    def weigh(self) -> None:
        """Weigh all beacons anew and at once."""
        self._begin()
        self.advance(len(self._waiting))

    def advance(self, beacons: int) -> None:
        """File so many beacons for the weighing under way, if one is; with the last one it comes into force."""
        if self._next is None:
            return
        for key in self._waiting[: -beacons - 1 : -1]:
            beacon = self._shelves.get(key)
            if beacon is not None and key not in self._next:  # else it was changed meanwhile
                self._next.file(beacon)
        del self._waiting[-beacons:]
        if not self._waiting:
            self._shelves = self._next
            self._next = None

    def _begin(self) -> None:
        self._changes = 0
        self._weighed = len(self._shelves)
        self._next = Shelves(Weights(self.weights.version + 1, self._with_terms, self._holding))
        self._waiting = list(self._shelves)

    def _changed(self) -> None:
        self._changes += 1
        if self._next is None and self._changes * CHANGED_ENOUGH >= self._weighed:
            self._begin()
        self.advance(self._step)

    def _drop(self, key: Key) -> bool:
        beacon = self._shelves.drop(key)
        if beacon is None:
            return False
        self._count(beacon, -1)
        if self._next is not None:
            self._next.drop(key)
        return True

    def _count(self, beacon: Beacon, by: int) -> None:
        if beacon.terms:
            self._with_terms += by
        for term in beacon.terms:
            number = self._holding.get(term, 0) + by
            if number:
                self._holding[term] = number
            else:
                del self._holding[term]
