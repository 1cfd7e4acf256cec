"""How often something may fail before it is left alone: a restart budget, as in Erlang's supervisors. Pure."""

from collections import deque


class RestartBudget:
    """At most `allowed` failures within any `window_seconds`."""

    def __init__(self, allowed: int, window_seconds: float) -> None:
        self._allowed = allowed
        self._window = window_seconds
        self._times: deque[float] = deque(maxlen=allowed + 1)

    def spend(self, now: float) -> bool:
        """Note a failure at a monotonic time in seconds; False when it is one too many."""
        self._times.append(now)
        return len(self._times) <= self._allowed or now - self._times[0] > self._window
