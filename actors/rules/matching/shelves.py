"""Where beacons stand in the index, under the weights of one moment (`index.py` says why). In memory, pure."""

from collections.abc import Iterator
from itertools import product

from actors.rules.matching.beacons import Beacon, Key
from actors.rules.matching.judging import Judge, MatchInput
from actors.rules.matching.weights import Weights

MOST_SHELVES = 256
"""Of one beacon. One that names more combinations stands under fewer of its filters, which is still exact: filters are
looked at again."""

Place = tuple[str | None, str | None, str | None]
"""Inbox, type and kind; None is "any"."""


class _Shelf:
    """Judges by the terms that they are filed under, and those that need none."""

    __slots__ = ("always", "by_term")

    def __init__(self) -> None:
        self.always: set[Judge] = set()
        self.by_term: dict[str, set[Judge]] = {}


class _Filed:
    """Where a judge stands, so that it can be taken away. Without terms it is among those that need none."""

    __slots__ = ("judge", "places", "terms")

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.places = _places(judge.beacon)
        self.terms = _filing_terms(judge)


class Shelves:
    """All beacons in force under one set of weights."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
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

    def file(self, beacon: Beacon) -> None:
        """Put a beacon where it belongs; none with its key may be there."""
        filed = self._filed[beacon.key] = _Filed(Judge(beacon, self.weights))
        for place in filed.places:
            shelf = self._shelves.get(place)
            if shelf is None:
                shelf = self._shelves[place] = _Shelf()
            if not filed.terms:
                shelf.always.add(filed.judge)
                continue
            for term in filed.terms:
                of_term = shelf.by_term.get(term)
                if of_term is None:
                    shelf.by_term[term] = {filed.judge}
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
            for term in filed.terms:
                of_term = shelf.by_term[term]
                of_term.discard(filed.judge)
                if not of_term:
                    del shelf.by_term[term]
            if not shelf.always and not shelf.by_term:
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
            if shelf is not None:
                found |= shelf.always
                by_term = shelf.by_term
                for term in by_term.keys() & terms:
                    found |= by_term[term]
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


def _filing_terms(judge: Judge) -> tuple[str, ...]:
    """Return the terms of which a message must hold one to match; none when it need not hold any."""
    rest = judge.total
    prefix: list[str] = []
    for term, weight in judge.weights.items():
        if rest < judge.needed:
            break
        prefix.append(term)
        rest -= weight
    required = judge.rarest_required
    if required is not None and (not prefix or required[1] >= judge.weights[prefix[-1]]):
        return (required[0],)
    return tuple(prefix)
