"""What a term is worth: the rarer among the beacons, the more (idf). Pure.

weight = ln(1 + N / n), N the beacons that have terms and n those that have this one, at least 1. It is positive for
every term, also when there is one beacon only or when all share a term, and steady: a hundred new beacons among ten
thousand move no weight by more than 0.01. Counted in millionths as whole numbers, so that sums are exact.

Weights are of one moment. They are in force, for beacons that come later too, until the set has changed by a tenth;
so most placements touch nothing but their own beacon, and scores do not drift between two of them.
"""

from collections.abc import Mapping
from math import log

MILLION = 1_000_000


class Weights:
    """The weights of one moment: how many beacons had terms, and how many of them had each term. Never changed.

    `version` counts weighings; it is stored with a delivery to tell scores of different moments apart.
    """

    __slots__ = ("_by_number", "_holding", "beacons", "version")

    def __init__(self, version: int = 0, beacons: int = 0, holding: Mapping[str, int] | None = None) -> None:
        self.version = version
        self.beacons = beacons
        self._holding = dict(holding or {})
        of_all = max(beacons, 1)
        numbers = {1, *self._holding.values()}
        self._by_number = {number: round(MILLION * log(1 + of_all / number)) for number in numbers}

    def of(self, term: str) -> int:
        """Return the weight of a term in millionths; of one that no beacon had, as if one had it."""
        return self._by_number[self._holding.get(term, 1)]

    def idf(self, term: str) -> float:
        """Return the weight of a term as it is shown."""
        return round(self.of(term) / MILLION, 3)
