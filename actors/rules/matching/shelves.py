"""Where beacons stand in the index (`index.py` says why). In memory, pure."""

from collections.abc import Callable, Iterator
from itertools import product

from actors.rules.matching.beacons import Beacon, Key
from actors.rules.matching.judging import Judge, MatchInput

MOST_SHELVES = 256
"""Of one beacon. One that names more combinations stands under fewer of its filters, which is still exact: filters are
looked at again."""

Rank = Callable[[str], float]
"""How common a term is, in any measure: beacons are filed under their least common terms."""

Place = tuple[str | None, str | None, str | None]
"""Inbox, type and kind; None is "any"."""


class _Shelf:
    """Judges by the terms that they are filed under: those that one of these terms is enough to look at, and those that
    need two of theirs; and those that need none.
    """

    __slots__ = ("always", "by_one", "by_two")

    def __init__(self) -> None:
        self.always: set[Judge] = set()
        self.by_one: dict[str, set[Judge]] = {}
        self.by_two: dict[str, set[Judge]] = {}


class _Filed:
    """Where a judge stands, so that it can be taken away: under `terms`, `hits` of which a message must hold."""

    __slots__ = ("hits", "judge", "places", "terms")

    def __init__(self, judge: Judge, rank: Rank) -> None:
        self.judge = judge
        self.places = _places(judge.beacon)
        self.terms, self.hits = _filing(judge, rank)

    def files(self, shelf: _Shelf) -> dict[str, set[Judge]]:
        """Return the files of a shelf that the judge is in by its terms."""
        return shelf.by_two if self.hits > 1 else shelf.by_one


class Shelves:
    """All beacons in force."""

    def __init__(self) -> None:
        self._filed: dict[Key, _Filed] = {}
        self._shelves: dict[Place, _Shelf] = {}

    def __len__(self) -> int:
        return len(self._filed)

    def __contains__(self, key: Key) -> bool:
        return key in self._filed

    def __iter__(self) -> Iterator[Key]:
        return iter(self._filed)

    def get(self, key: Key) -> Beacon | None:
        """Return a beacon by its agent and name."""
        filed = self._filed.get(key)
        return None if filed is None else filed.judge.beacon

    def file(self, beacon: Beacon, rank: Rank) -> None:
        """Put a beacon where it belongs; none with its key may be there. `rank` is that of this moment: another one
        would put it under other terms, and find it all the same.
        """
        filed = self._filed[beacon.key] = _Filed(Judge(beacon), rank)
        for place in filed.places:
            shelf = self._shelves.get(place)
            if shelf is None:
                shelf = self._shelves[place] = _Shelf()
            if not filed.hits:
                shelf.always.add(filed.judge)
                continue
            files = filed.files(shelf)
            for term in filed.terms:
                of_term = files.get(term)
                if of_term is None:
                    files[term] = {filed.judge}
                else:
                    of_term.add(filed.judge)

    def drop(self, key: Key) -> Beacon | None:
        """Take a beacon away and return it, if it was there."""
        filed = self._filed.pop(key, None)
        if filed is None:
            return None
        for place in filed.places:
            shelf = self._shelves[place]
            shelf.always.discard(filed.judge)
            files = filed.files(shelf)
            for term in filed.terms:
                of_term = files[term]
                of_term.discard(filed.judge)
                if not of_term:
                    del files[term]
            if not (shelf.always or shelf.by_one or shelf.by_two):
                del self._shelves[place]
        return filed.judge.beacon

    def covers(self, inbox: str, event_type: str, kind: str) -> bool:
        """Whether there may be a beacon whose filters let such messages pass; what they say is not asked."""
        return any(place in self._shelves for place in _fitting(inbox, event_type, kind))

    def candidates(self, message: MatchInput) -> set[Judge]:
        """Return judges among which all are that can let the message through."""
        found: set[Judge] = set()
        terms = message.terms
        for place in _fitting(message.inbox, message.event_type, message.kind):
            shelf = self._shelves.get(place)
            if shelf is None:
                continue
            found |= shelf.always
            by_one, by_two = shelf.by_one, shelf.by_two
            for term in by_one.keys() & terms:
                found |= by_one[term]
            once: set[Judge] = set()
            for term in by_two.keys() & terms:
                judges = by_two[term]
                found |= once & judges
                once |= judges
        return found


def _fitting(inbox: str, event_type: str, kind: str) -> Iterator[Place]:
    """Yield the eight places that a message fits."""
    return product((inbox, None), (event_type, None), (kind, None))


def _places(beacon: Beacon) -> list[Place]:
    inboxes, types, kinds = (
        tuple(names) or (None,) for names in (beacon.inboxes, beacon.types, beacon.kinds)
    )
    if len(inboxes) * len(types) * len(kinds) > MOST_SHELVES and (beacon.inboxes or beacon.types):
        kinds = (None,)
    if len(inboxes) * len(types) > MOST_SHELVES and beacon.inboxes:
        types = (None,)
    return list(product(inboxes, types, kinds))


def _filing(judge: Judge, rank: Rank) -> tuple[tuple[str, ...], int]:
    """Return terms, and how many of them (0 to 2) a message must hold to match; 0 also when none can.

    Whatever the ranks are, what is not filed weighs too little for a match; and where two terms are asked for, too
    little together with any one of those that are.
    """
    hits = min(judge.fewest, 2)
    spare = max(judge.weights.values(), default=0) if hits > 1 else 0
    rest = judge.total
    filed: list[tuple[float, str]] = []
    for place in sorted((rank(term), term) for term in judge.terms):
        if rest + spare < judge.needed:
            break
        filed.append(place)
        rest -= judge.weights[place[1]]
    required = min(((rank(term), term) for term in judge.beacon.require), default=None)
    if required is not None and (not filed or required[0] <= filed[-1][0]):
        return (required[1],), 1
    return tuple([term for _, term in filed]), hits if filed else 0
