"""Which units go into the next transaction: somebody's answer first, our own tidying last but never never.

Pure: no threads, no clock of its own. The writer's thread alone uses it.
"""

from collections import deque
from collections.abc import Iterable

from storage.engine import Job
from storage.protocols import Lane

BATCH_UNITS = 256
"""More units per transaction gain nothing (36 µs per row at 256), and the first one waits for the last."""

BATCH_BYTES = 1024 * 1024
"""Bounds the size of a transaction, and with it the stall of everyone in it. One unit always goes."""

HOUSEKEEPING_SECONDS = 0.05
"""Under steady load housekeeping gets one unit in each such interval, else it would starve (study, S20)."""


class Lanes:
    """Waiting units by lane, each lane in order of arrival."""

    def __init__(self) -> None:
        self._lanes: tuple[deque[Job], ...] = tuple(deque() for _ in Lane)
        self._housekept_at = float("-inf")

    def __bool__(self) -> bool:
        return any(self._lanes)

    def put(self, jobs: Iterable[Job]) -> None:
        """Queue jobs behind the others of their lanes."""
        for job in jobs:
            self._lanes[job.work.lane].append(job)

    def put_back(self, jobs: list[Job]) -> None:
        """Queue jobs that were chosen and did not run before the others of their lanes."""
        for job in reversed(jobs):
            self._lanes[job.work.lane].appendleft(job)

    def choose(self, now: float) -> list[Job]:
        """Take the jobs of the next transaction; empty when nothing waits. `now` in seconds, of any steady clock.

        Every lane gets its first unit in, whatever it costs, so that none starves. At most one piece of a body per
        transaction (S19), and one unit of housekeeping: when its interval has passed, or when there is nothing better
        to do. Cancelled jobs are dropped here.
        """
        chosen: list[Job] = []
        cost = 0
        for lane in (Lane.ANSWERS, Lane.BODIES, Lane.DELIVERIES):
            waiting = self._lanes[lane]
            most = 1 if lane is Lane.BODIES else BATCH_UNITS
            taken = 0
            while waiting and taken < most and (not taken or len(chosen) < BATCH_UNITS):
                if waiting[0].cancelled:
                    waiting.popleft()
                    continue
                if taken and cost + waiting[0].work.cost > BATCH_BYTES:
                    break
                cost += waiting[0].work.cost
                chosen.append(waiting.popleft())
                taken += 1
        return self._with_housekeeping(chosen, now)

    def _with_housekeeping(self, chosen: list[Job], now: float) -> list[Job]:
        waiting = self._lanes[Lane.HOUSEKEEPING]
        while waiting and waiting[0].cancelled:
            waiting.popleft()
        if waiting and (not chosen or now - self._housekept_at >= HOUSEKEEPING_SECONDS):
            self._housekept_at = now
            chosen.append(waiting.popleft())
        return chosen
