"""The one writer: many units in one transaction, and what is answered when the disk fails.

Each unit has a savepoint of its own, but for neighbours that can be fused (`storage/fusing.py`).

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
| anything in what fused units need or left | roll back, repair if it is the disk,| all: what they get now        |
|                                           | run all one by one, none of it fused|                               |
| BEGIN, or the commit counter, failed      | roll back, repair                   | all: `StorageFull`/`NotStored`|
| COMMIT said full (or busy)                | roll back, repair                   | all: `StorageFull`/`NotStored`|
| any of these three on a full disk, and    | run those that do not grow again,   | they: what they get now       |
| the repair could give something up        | one by one, until that is used up   |                               |
| COMMIT failed otherwise: durable or not,  | repair                              | succeeded: `OutcomeUnknown`   |
| nobody can know                           |                                     | the rest: `NotStored`         |
| the repair failed                         | `degraded`: a probe each second     | all at once: `StorageDegraded`|
| little room, or above `max_data_bytes`    | `full`: refuse what grows before    | it: `StorageFull`             |
|                                           | any statement, run everything else  | the others: their result      |
| the writer itself has a bug               | as a COMMIT that failed             | as there                      |

Repair of a full disk: give up the reserve, truncate the write-ahead log, take back of the reserve what there is room
for; `full` unless that is all of it (S3). Repair of anything else: close the connection, open it again, and commit a
probe; where that fails and the disk is short of room, once more without the reserve.

A unit that failed in a transaction which was then lost is run again with the others: its error may have rested on
what the others had written. For the same reason it does not keep that error when COMMIT fails.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw

from storage.engine import Job
from storage.errors import (
    Fenced,
    InboxGone,
    NotStored,
    OutcomeUnknown,
    SlugTaken,
    StorageDegraded,
    StorageError,
    StorageFull,
    UnitFailed,
)
from storage.fusing import Fused, Needs, NotFused, needs_of
from storage.sql import TransactionLost
from storage.upkeep import Upkeep

BATCH_SECONDS = 0.02
"""A transaction takes no further unit after this long: the first sender in it waits for the last."""

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


NO_FAULT_OF_THE_DISK = (Fenced, apsw.ConstraintError)
"""What fused units left did not fit what is stored: the connection needs no repair."""


class _Lost(Exception):
    """The transaction is gone: because of `cause`, in the unit of `culprit` (None: in no unit).

    `left`: jobs that it had not come to, when that can be told from those that it is of no use to run again. `fused`:
    in statements of many units, and run by themselves they will show whose fault it is.
    """

    def __init__(
        self, culprit: Job | None, cause: BaseException, left: Sequence[Job] = (), *, fused: bool = False
    ) -> None:
        super().__init__()
        self.culprit = culprit
        self.cause = cause
        self.left = list(left)
        self.fused = fused


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

    # -- one batch ------------------------------------------------------------------------------------------
    def _run_batch(self, jobs: list[Job]) -> list[Job]:
        self._upkeep.look()
        admitted = [job for job in jobs if self._admit(job)]
        if not admitted:
            return []
        try:
            return self._transact(admitted, self._monotonic() + BATCH_SECONDS, fuse=True)
        except _Lost as lost:
            self._after_loss(lost, admitted[: len(admitted) - len(lost.left)])
            return lost.left

    def _after_loss(self, lost: _Lost, jobs: list[Job]) -> None:
        """Answer the unit that lost the transaction, repair, and run the others one by one."""
        broken = not (lost.fused and isinstance(lost.cause, NO_FAULT_OF_THE_DISK))
        made_room = broken and self._repair(lost.cause)
        for job in jobs:
            job.reset()
            is_culprit = not lost.fused and (lost.culprit is None or job is lost.culprit)
            if is_culprit and not (made_room and not job.work.grows):
                job.fail(_not_stored(lost.cause))
        for job in jobs:
            while not job.done and self._admit(job):
                self._run_alone(job)

    def _run_alone(self, job: Job) -> None:
        """Run one unit in a transaction of its own; leave it without an outcome if it is worth another try.

        That ends, because each try has taken something of the reserve or the log that the next one cannot take.
        """
        try:
            self._transact([job], float("inf"), fuse=False)
        except _Lost as lost:
            made_room = self._repair(lost.cause)
            job.reset()
            if job.work.grows or not made_room:
                job.fail(_not_stored(lost.cause))

    def _repair(self, cause: BaseException) -> bool:
        self._health.lost_transactions += 1
        return self._upkeep.repair(cause)

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

    def _transact(self, jobs: list[Job], deadline: float, *, fuse: bool) -> list[Job]:
        """Run jobs in one transaction and commit it; return those that came too late. Raises `_Lost`."""
        tx, db = self._upkeep.tx, self._upkeep.db
        began = self._monotonic()
        tx.sql.fault = None
        mid = tx.last_mid
        tx.shrink = self._health.state == "full"
        try:
            db.execute("BEGIN IMMEDIATE")
            changes = db.total_changes()
            count = self._run_units(jobs, deadline, fuse=fuse)
            if db.total_changes() != changes:
                # Nothing to make durable means no counter to move and no sync: a batch of nothing but duplicates.
                db.execute("UPDATE server SET commits = commits + 1, last_mid = ?", (tx.last_mid,))
        except _Lost:
            self._roll_back(mid)
            raise
        except apsw.Error as exc:
            self._roll_back(mid)
            raise _Lost(None, exc) from exc
        left = jobs[count:]
        self._commit(jobs[:count], left, mid, began)
        return left

    def _run_units(self, jobs: list[Job], deadline: float, *, fuse: bool) -> int:
        """Run jobs in their order until the time is up, neighbours fused that can be; return how many.

        Raises `_Lost`.
        """
        count = 0
        for step, needs in _steps(jobs, fuse=fuse):
            if count and self._monotonic() >= deadline:
                break
            count += len(step)
            waiting = [job for job in step if not job.cancelled]
            for job in step:
                if job.cancelled:
                    job.drop()
            for job in self._run_fused(waiting, needs) if needs else waiting:
                self._run_unit(job)
        return count

    def _run_fused(self, jobs: list[Job], needs: list[Needs]) -> list[Job]:
        """Run units as one; return those that have to be run by themselves: of these nothing is left.

        Raises `_Lost`.
        """
        tx = self._upkeep.tx
        alone: list[Job] = []
        try:
            tx.start_unit()
            fused = Fused(tx.sql, needs, tx.last_mid, tx.now())
            for job in jobs:
                try:
                    job.succeed(fused.run(job.work))
                except NotFused:
                    alone.append(job)
            fused.store()
        except (apsw.Error, TransactionLost, Fenced) as exc:
            raise _Lost(None, exc, fused=True) from exc
        tx.last_mid = fused.mid
        return alone

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

    def _commit(self, jobs: list[Job], left: list[Job], mid: int, began: float) -> None:
        """Commit the transaction of these jobs. Raises `_Lost` when it is known that nothing was stored."""
        done = self._monotonic()
        try:
            self._upkeep.db.execute("COMMIT")
        except apsw.Error as exc:
            self._roll_back(mid)
            if isinstance(exc, apsw.FullError | apsw.BusyError):
                raise _Lost(None, exc, left) from exc
            self._answer_after_commit(jobs, exc)
            self._upkeep.repair(exc)
            return
        ended = self._monotonic()
        self._upkeep.after_commit()
        self._health.committed(len(jobs), seconds=ended - began, commit_seconds=ended - done)

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


def _steps(jobs: list[Job], *, fuse: bool) -> Iterator[tuple[list[Job], list[Needs]]]:
    """Yield the jobs in their order, each by itself and without needs, or as neighbours that can be fused with theirs.

    Such neighbours are one step: two hundred of them take less than the time of a transaction.
    """
    together: list[Job] = []
    needs: list[Needs] = []
    for job in jobs:
        wanted = needs_of(job.work) if fuse else None
        if wanted is not None:
            together.append(job)
            needs.append(wanted)
            continue
        if together:
            yield together, needs
            together, needs = [], []
        yield [job], []
    if together:
        yield together, needs


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
