"""How much a beacon may bring its agent in a day, and how many may hear of one message. Without I/O.

A day is a UTC day of the messages' own times, so that routing them again after a crash counts as it did before; what is
backfilled counts for the day on which that is done. Every beacon that took part in a delivery has brought one message,
also beside others; one that has brought its day's share brings nothing, and what it would have brought is counted as
its overflow.
"""

from collections.abc import Iterable, MutableMapping

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
    """What beacons bring within one piece of work, counted in the book of all counts at once: whoever else counts
    meanwhile goes on from it. It knows what it added, for the store.
    """

    def __init__(self, counts: MutableMapping[Key, Count], per_day: int) -> None:
        self._counts = counts
        self._per_day = per_day
        self._added: dict[tuple[Key, int], tuple[int, int]] = {}
        self.overflow = 0

    def room(self, key: Key, day: int) -> int:
        """Return how many more messages a beacon may bring on a day."""
        return max(0, self._per_day - self._on(key, day).delivered)

    def brought(self, key: Key, day: int, messages: int = 1) -> int:
        """Count messages that a beacon brings; return the day that they count for."""
        return self._add(key, day, messages, 0)

    def withdrew(self, key: Key, counted_on: int, messages: int) -> None:
        """Take back what was counted for a day, because the beacon did not bring it after all."""
        delivered, overflow = self._added[key, counted_on]
        self._added[key, counted_on] = (delivered - messages, overflow)
        count = self._counts.get(key)
        if count is not None and count.day == counted_on:
            self._counts[key] = Count(count.day, max(0, count.delivered - messages), count.overflow)

    def kept_back(self, key: Key, day: int, messages: int = 1) -> None:
        """Count messages that a beacon does not bring."""
        self.overflow += messages
        self._add(key, day, 0, messages)

    def added(self) -> list[tuple[Key, int, int, int]]:
        """Return what was added: beacon, day, delivered, overflow."""
        return [(key, day, *more) for (key, day), more in self._added.items() if any(more)]

    def _on(self, key: Key, day: int) -> Count:
        return self._counts.get(key, Count()).on(day)

    def _add(self, key: Key, day: int, delivered: int, overflow: int) -> int:
        count = self._on(key, day)
        self._counts[key] = count.plus(delivered, overflow)
        before = self._added.get((key, count.day), (0, 0))
        self._added[key, count.day] = (before[0] + delivered, before[1] + overflow)
        return count.day


def admitted(matches: Iterable[Match], received_at: int, tally: Tally, recipients: int) -> list[Heard]:
    """Return who hears of a message, best first, at most so many agents, and count it."""
    day = received_at // DAY_US
    within: list[Match] = []
    for match in matches:
        key = (match.agent_id, match.name)
        if tally.room(key, day):
            within.append(match)
        else:
            tally.kept_back(key, day)
    heard = by_agent(within)
    for place, one in enumerate(heard):
        count = tally.brought if place < recipients else tally.kept_back
        for match in (one.best, *one.also):
            count((match.agent_id, match.name), day)
    return heard[:recipients]
