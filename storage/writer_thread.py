"""The writer's thread: it feeds the writer from a queue, lane by lane, and answers each batch by one call.

It owns the order in which units run and nothing of how. `Between` is the one kind of work that is no unit.
"""

import time
from collections.abc import Callable
from typing import Generic

from storage.engine import DatabaseThread, Job, JobQueue
from storage.errors import StorageClosed, StorageDegraded
from storage.lanes import Lanes
from storage.protocols import Lane, T, Unit
from storage.upkeep import Upkeep
from storage.writer import Writer

QUEUE_TAKE = 4_096
"""Most jobs taken from the queue into the lanes at a time; no limit of anything, only a bound on one look."""


class Between(Generic[T]):
    """Work on the writer's connection outside any transaction: a slice of a backup. It waits in a lane like a unit.

    Not undone, not committed, and not subject to the failure table: `of` leaves no transaction open.
    """

    __slots__ = ("of",)
    lane = Lane.HOUSEKEEPING
    cost = 0
    grows = False

    def __init__(self, of: Callable[[Upkeep], T]) -> None:
        self.of = of


class WriterThread:
    """The thread that feeds the writer from a queue, lane by lane, and answers each batch by one call.

    What queued while the last commit ran is the next batch; nothing waits for company. When the queue is closed, what
    is in it still runs, then the database is closed.
    """

    def __init__(self, writer: Writer, upkeep: Upkeep, queue: JobQueue) -> None:
        self._writer = writer
        self._upkeep = upkeep
        self._queue = queue
        self._lanes = Lanes()
        self._thread = DatabaseThread("postroom-writer", self._serve)

    async def commit(self, unit: Unit[T]) -> T:
        """Queue a unit and wait for its outcome, as `Log.commit` says."""
        # An ill-made unit is its caller's fault: asked here, these never raise on the writer's thread.
        if not (isinstance(unit.lane, Lane) and unit.cost >= 0 and unit.grows in (True, False)):
            raise ValueError("a unit has a lane, a cost and says whether it grows")
        result: T = await self._queue.submit(unit)
        return result

    async def between(self, of: Callable[[Upkeep], T]) -> T:
        """Run something on the writer's connection between two transactions, as `Between` says.

        Raises what it raises, `StorageDegraded`, `StorageClosed`.
        """
        result: T = await self._queue.submit(Between(of))
        return result

    def join(self) -> None:
        """Wait until everything queued is committed and the database is closed."""
        self._thread.join()

    def _serve(self) -> None:
        try:
            while self._turn():
                pass
        except (
            BaseException
        ):  # crash policy: `run_batch` lets nothing out, so this is a bug; nobody may wait for it
            self._give_up()
            raise
        finally:
            self._upkeep.close()

    def _turn(self) -> bool:
        """Take what is queued, run one batch or do what is due; False when there will never be anything more."""
        jobs, ended = self._queue.take(QUEUE_TAKE, 0 if self._lanes else self._upkeep.seconds_until_due())
        self._lanes.put(jobs)
        batch = self._lanes.choose(time.monotonic())
        if batch:
            between = [job for job in batch if isinstance(job.work, Between)]
            units = [job for job in batch if not isinstance(job.work, Between)]
            if units:
                self._lanes.put_back(self._writer.run_batch(units))
                self._queue.deliver([job for job in units if job.done])
                self._upkeep.trim_log()
            for job in between:
                self._run_between(job)
                self._queue.deliver([job])
        elif ended:
            return False
        else:
            self._upkeep.tick()
        return True

    def _run_between(self, job: Job) -> None:
        health = self._upkeep.health
        if job.cancelled:
            job.drop()
        elif health.state == "degraded":
            job.fail(StorageDegraded(health.reason))
        else:
            try:
                job.succeed(job.work.of(self._upkeep))
            except (
                BaseException
            ) as exc:  # crash policy: whatever it raises is its caller's, never the writer's
                job.fail(exc)

    def _give_up(self) -> None:
        """Refuse what is queued and whatever comes."""
        self._queue.close()
        left: list[Job] = []
        ended = False
        while not ended:
            jobs, ended = self._queue.take(QUEUE_TAKE, None)
            left += jobs
        while jobs := self._lanes.choose(time.monotonic()):
            left += jobs
        for job in left:
            job.fail(StorageClosed("The writer has ended by a fault of its own."))
        self._queue.deliver(left)
