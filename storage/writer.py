"""The one writer: many units in one transaction, a savepoint each, and what is answered when the disk fails.

`Writer` is synchronous: whoever calls it (`WriterThread`, or an offline command on its own thread) is the only
caller. It owns the transaction and the failure table; the connection under it, and the states `open`, `full` and
`degraded`, are `Upkeep`'s. It decides nothing about messages.

The failure table (engineering study, S2). SQLite answers some errors by rolling the whole transaction back by itself;
statements that follow would then run in autocommit. So after every unit the transaction is looked at, and:

| what happened                             | what is done                        | who is answered what          |
|-------------------------------------------|-------------------------------------|-------------------------------|
| a unit raised, the transaction stands     | back to its savepoint, go on        | it: its error, `UnitFailed`   |
| SQLite reported a fault of the disk       | execute nothing more, roll back,    | it: `StorageFull`/`NotStored` |
| during a unit, or the transaction is gone | repair, run the others one by one   | the others: what they get now |
| BEGIN, or the commit counter, failed      | roll back, repair                   | all: `StorageFull`/`NotStored`|
| COMMIT said full (or busy)                | roll back, repair                   | all: `StorageFull`/`NotStored`|
| COMMIT failed otherwise: durable or not,  | repair                              | succeeded: `OutcomeUnknown`   |
| nobody can know                           |                                     | the rest: `NotStored`         |
| the repair failed                         | `degraded`: a probe each second     | all at once: `StorageDegraded`|
| little room, or above `max_data_bytes`    | `full`: refuse what grows before    | it: `StorageFull`             |
|                                           | any statement, run everything else  | the others: their result      |
| the writer itself has a bug               | as a COMMIT that failed             | as there                      |

Repair of a full disk: give up the reserve, truncate the write-ahead log, make the reserve again if there is room,
else stay `full` (S3). Repair of anything else: close the connection, open it again, and commit a probe.

A unit that failed in a transaction which was then lost is run again with the others: its error may have rested on
what the others had written. For the same reason it does not keep that error when COMMIT fails.
"""

import time
from collections.abc import Callable
from typing import Any, Generic

import apsw

from storage.engine import DatabaseThread, Job, JobQueue
from storage.errors import (
    Fenced,
    InboxGone,
    NotStored,
    OutcomeUnknown,
    SlugTaken,
    StorageClosed,
    StorageDegraded,
    StorageError,
    StorageFull,
    UnitFailed,
)
from storage.lanes import Lanes
from storage.protocols import Lane, T, Unit
from storage.upkeep import Upkeep

BATCH_SECONDS = 0.02
"""A transaction takes no further unit after this long: the first sender in it waits for the last."""

QUEUE_TAKE = 4_096
"""Most jobs taken from the queue into the lanes at a time; no limit of anything, only a bound on one look."""

DISK_ERRORS = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.InterruptError,
    apsw.NoMemError,
    apsw.NotADBError,
    apsw.ProtocolError,
    apsw.ReadOnlyError,
)
"""After these no further statement is worth trying in the same transaction, whether or not SQLite kept it open."""


class _Lost(Exception):
    """The transaction is gone: because of `cause`, in the unit of `culprit` (None: in no unit)."""

    def __init__(self, culprit: Job | None, cause: BaseException) -> None:
        super().__init__()
        self.culprit = culprit
        self.cause = cause


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


class Writer:
    """Runs units. Not thread-safe: one caller at a time."""

    def __init__(self, upkeep: Upkeep, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._upkeep = upkeep
        self._health = upkeep.health
        self._monotonic = monotonic

    def run_batch(self, jobs: list[Job]) -> list[Job]:
        """Run units in one transaction and give each its outcome.

        Returns the jobs that were left, without an outcome, because the transaction's time was up.
        """
        try:
            return self._run_batch(jobs)
        except (
            Exception
        ) as exc:  # crash policy: a bug here must not end the writer, nor leave a caller waiting
            self._answer_after_commit(jobs, exc)
            self._upkeep.reopen()
            return []

    def run_one(self, unit: Any) -> Any:
        """Run one unit in a transaction of its own, and return its result or raise, as `Log.commit` does."""
        job = Job(unit)
        self.run_batch([job])
        self._upkeep.trim_log()
        return job.unwrap()

    def run_between(self, job: Job) -> None:
        """Run a job whose work is `Between` and give it its outcome."""
        if job.cancelled:
            job.drop()
            return
        if self._health.state == "degraded":
            job.fail(StorageDegraded(self._health.reason))
            return
        try:
            job.succeed(job.work.of(self._upkeep))
        except BaseException as exc:  # crash policy: whatever it raises is its caller's, never the writer's
            job.fail(exc)

    # -- one batch ------------------------------------------------------------------------------------------
    def _run_batch(self, jobs: list[Job]) -> list[Job]:
        self._upkeep.look()
        admitted = [job for job in jobs if self._admit(job)]
        if not admitted:
            return []
        try:
            return self._transact(admitted, self._monotonic() + BATCH_SECONDS)
        except _Lost as lost:
            self._after_loss(lost, admitted)
            return []

    def _after_loss(self, lost: _Lost, jobs: list[Job]) -> None:
        """Answer the unit that lost the transaction, repair, and run the others one by one."""
        self._health.lost_transactions += 1
        self._upkeep.repair(lost.cause)
        for job in jobs:
            job.reset()
            if lost.culprit is None or job is lost.culprit:
                job.fail(_not_stored(lost.cause))
        for job in jobs:
            if job.done or not self._admit(job):
                continue
            try:
                self._transact([job], float("inf"))
            except _Lost as again:
                self._health.lost_transactions += 1
                job.fail(_not_stored(again.cause))
                self._upkeep.repair(again.cause)

    def _admit(self, job: Job) -> bool:
        """Whether a job may run now; answers it if not."""
        if job.cancelled:
            job.drop()
        elif self._health.state == "degraded":
            job.fail(StorageDegraded(self._health.reason))
        elif self._health.state == "full" and job.work.grows:
            self._health.refused_full += 1
            job.fail(StorageFull(self._health.reason))
        return not job.done

    def _transact(self, jobs: list[Job], deadline: float) -> list[Job]:
        """Run jobs in one transaction and commit it; return those that came too late. Raises `_Lost`."""
        tx, db = self._upkeep.tx, self._upkeep.db
        tx.sql.fault = None
        mid = tx.last_mid
        tx.shrink = self._health.state == "full"
        count = len(jobs)
        try:
            db.execute("BEGIN IMMEDIATE")
            changes = db.total_changes()
            for n, job in enumerate(jobs):
                if n and self._monotonic() >= deadline:
                    count = n
                    break
                if job.cancelled:
                    job.drop()
                else:
                    self._run_unit(job)
            if db.total_changes() != changes:
                # Nothing to make durable means no counter to move and no sync: a batch of nothing but duplicates.
                db.execute("UPDATE server SET commits = commits + 1, last_mid = ?", (tx.last_mid,))
        except _Lost:
            self._roll_back(mid)
            raise
        except apsw.Error as exc:
            self._roll_back(mid)
            raise _Lost(None, exc) from exc
        self._commit(jobs[:count], mid)
        return jobs[count:]

    def _run_unit(self, job: Job) -> None:
        """Run one unit between its savepoint and its release. Raises `_Lost`."""
        tx, db = self._upkeep.tx, self._upkeep.db
        mid = tx.last_mid
        try:
            db.execute("SAVEPOINT unit")
            tx.start_unit()
            try:
                value = job.work.run(tx)
            except (
                BaseException
            ) as exc:  # crash policy: whatever a unit raises is its caller's, never the writer's
                self._require_transaction(job, exc)
                db.execute("ROLLBACK TO unit; RELEASE unit").fetchall()
                tx.last_mid = mid
                tx.sql.fault = None
                job.fail(_own_error(exc))
            else:
                self._require_transaction(job, None)
                db.execute("RELEASE unit")
                job.succeed(value)
        except apsw.Error as exc:
            raise _Lost(job, exc) from exc

    def _require_transaction(self, job: Job, raised: BaseException | None) -> None:
        """Raise `_Lost` unless the transaction stands and no disk error was met, swallowed by the unit or not."""
        fault = self._upkeep.tx.sql.fault
        if isinstance(fault, DISK_ERRORS) or not self._upkeep.db.in_transaction:
            raise _Lost(job, fault or raised or NotStored("The transaction ended inside a unit."))

    def _commit(self, jobs: list[Job], mid: int) -> None:
        try:
            self._upkeep.db.execute("COMMIT")
        except apsw.Error as exc:
            self._roll_back(mid)
            if isinstance(exc, apsw.FullError | apsw.BusyError):
                for job in jobs:
                    job.fail(_not_stored(exc))
            else:
                self._answer_after_commit(jobs, exc)
            self._upkeep.repair(exc)
            return
        self._upkeep.after_commit()
        self._health.commits += 1
        self._health.batch_units += len(jobs)
        self._health.batch_units_max = max(self._health.batch_units_max, len(jobs))

    def _answer_after_commit(self, jobs: list[Job], cause: BaseException) -> None:
        """Answer jobs whose COMMIT may or may not have been durable."""
        self._health.unknown_commits += 1
        for job in jobs:
            if job.error is not None:
                job.fail(NotStored("The disk reported an error; this change was not stored."))
            else:
                unknown = OutcomeUnknown("The disk reported an error; this change may or may not be stored.")
                unknown.__cause__ = cause
                job.fail(unknown)

    def _roll_back(self, mid: int) -> None:
        """End the transaction, if SQLite has not done so; the connection is repaired or replaced afterwards."""
        self._upkeep.tx.last_mid = mid
        try:
            if self._upkeep.db.in_transaction:
                self._upkeep.db.execute("ROLLBACK")
        except apsw.Error:
            self._upkeep.abandon()  # closing rolls back; whoever comes next opens it again


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
                self._writer.run_between(job)
                self._queue.deliver([job])
        elif ended:
            return False
        else:
            self._upkeep.tick()
        return True

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


def _own_error(exc: BaseException) -> BaseException:
    """Return what the caller of a unit that raised is told."""
    if isinstance(exc, Fenced | InboxGone | SlugTaken | StorageError):
        return exc
    failed = UnitFailed(f"The change failed ({type(exc).__name__}) and was undone.")
    failed.__cause__ = exc
    return failed


def _not_stored(cause: BaseException) -> NotStored:
    """Return what a unit is told that was lost with its transaction; each caller gets an instance of its own."""
    if isinstance(cause, apsw.FullError):
        error: NotStored = StorageFull("The disk is full; nothing of this was stored.")
    elif isinstance(cause, apsw.BusyError):
        error = StorageDegraded(
            "Another program holds the database's write lock; nothing of this was stored."
        )
    else:
        error = NotStored("The disk reported an error; nothing of this was stored.")
    error.__cause__ = cause
    return error
