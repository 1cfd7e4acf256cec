"""How much a beacon may bring its agent in a day, and how many may hear of one message. Pure.

A day is a UTC day of the messages' own times, so that routing them again after a crash counts as it did before. Every
beacon that took part in a delivery has brought one message, also beside others; one that has brought its day's share
brings nothing, and what it would have brought is counted as its overflow.
"""

from collections.abc import Callable, Iterable

import msgspec

from actors.rules.matching.beacons import Key
from actors.rules.matching.scoring import Heard, Match, by_agent

DAY_US = 86_400 * 1_000_000


class Count(msgspec.Struct, frozen=True, gc=False):
    """What a beacon brought on a day (days since the epoch), and what was kept back."""

    day: int = 0
    delivered: int = 0
    overflow: int = 0

    def on(self, day: int) -> "Count":
        """Return the count that goes on on a day: a later one begins at zero, an earlier one counts as this."""
        return Count(day) if day > self.day else self

    def plus(self, delivered: int, overflow: int) -> "Count":
        """Return the count with more in it."""
        return Count(self.day, self.delivered + delivered, self.overflow + overflow)


class Tally:
    """Counts of some beacons that go on from what is known of them, without changing that."""

    def __init__(self, known: Callable[[Key], Count], per_day: int) -> None:
        self._known = known
        self._per_day = per_day
        self._counts: dict[Key, Count] = {}
        self._added: dict[tuple[Key, int], tuple[int, int]] = {}
        self.overflow = 0

    def admits(self, key: Key, day: int) -> bool:
        """Whether a beacon may bring one more message on a day."""
        return self._on(key, day).delivered < self._per_day

    def brought(self, key: Key, day: int) -> None:
        """Count a message that a beacon brings."""
        self._add(key, day, 1, 0)

    def kept_back(self, key: Key, day: int) -> None:
        """Count a message that a beacon does not bring."""
        self.overflow += 1
        self._add(key, day, 0, 1)

    def counts(self) -> Iterable[tuple[Key, Count]]:
        """Return what the beacons' counts are now."""
        return self._counts.items()

    def added(self) -> Iterable[tuple[Key, int, int, int]]:
        """Return what was added: beacon, day, delivered, overflow."""
        return [(key, day, *more) for (key, day), more in self._added.items()]

    def _on(self, key: Key, day: int) -> Count:
        count = self._counts.get(key)
        return (self._known(key) if count is None else count).on(day)

    def _add(self, key: Key, day: int, delivered: int, overflow: int) -> None:
        count = self._on(key, day)
        self._counts[key] = count.plus(delivered, overflow)
        before = self._added.get((key, count.day), (0, 0))
        self._added[key, count.day] = (before[0] + delivered, before[1] + overflow)


def admitted(matches: Iterable[Match], received_at: int, tally: Tally, recipients: int) -> list[Heard]:
    """Return who hears of a message, best first, at most so many agents, and count it."""
    day = received_at // DAY_US
    within: list[Match] = []
    for match in matches:
        key = (match.agent_id, match.name)
        if tally.admits(key, day):
            within.append(match)
        else:
            tally.kept_back(key, day)
    heard = by_agent(within)
    for place, one in enumerate(heard):
        count = tally.brought if place < recipients else tally.kept_back
        for match in (one.best, *one.also):
            count((match.agent_id, match.name), day)
    return heard[:recipients]
