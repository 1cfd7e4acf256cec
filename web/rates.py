"""How much of something is taken per minute: one token bucket for each key, such as an inbox or an address.

Owns the buckets, in memory only: a restart refills them, which errs on the side of taking a message.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import trio

MAX_BUCKETS = 10_000
"""Buckets kept at most. The one that was used longest ago goes first; about 200 bytes each, so 2 MB."""

SECONDS_PER_MINUTE = 60.0

Key = TypeVar("Key", bound=Hashable)


class Rates(Generic[Key]):
    """Token buckets by key. A bucket holds one minute's worth, so a quiet key may take a burst of that size."""

    def __init__(
        self, clock: Callable[[], float] = trio.current_time, max_buckets: int = MAX_BUCKETS
    ) -> None:
        """`clock` gives seconds, never going backwards."""
        self._clock = clock
        self._max_buckets = max_buckets
        # key → tokens at the time of the last request, that time
        self._buckets: OrderedDict[Key, tuple[float, float]] = OrderedDict()

    def take(self, key: Key, per_minute: int) -> int | None:
        """Take one token. Return None, or the whole seconds after which one will be there (at least 1)."""
        now = self._clock()
        tokens, at = self._buckets.get(key, (float(per_minute), now))
        per_second = per_minute / SECONDS_PER_MINUTE
        # The limit may have been changed since: a lower one shrinks the bucket at once.
        tokens = min(float(per_minute), tokens + (now - at) * per_second)
        allowed = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if allowed else tokens, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._max_buckets:
            self._buckets.popitem(last=False)
        if allowed:
            return None
        return max(1, math.ceil((1.0 - tokens) / per_second)) if per_second > 0 else int(SECONDS_PER_MINUTE)
