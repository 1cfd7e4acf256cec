"""The readers: a few threads with connections that cannot write, behind the limit of concurrent reads.

One thread has the pages, another what may take long, so that a page never stands behind a download. A thread takes the
looks that are queued, runs them in one read transaction, and answers them by one call into the loop (engineering study,
S5). A second thread for pages steps in while the first is held up by a slow disk: as a rule two are slower than one,
because they split the batches and hand the interpreter to and fro. One look's exception concerns only that look. Every
row is fetched inside its look and the transaction ends with the batch, so no reader holds up a checkpoint (field notes,
traps 8 and 22).

A connection whose file went wrong under it (an I/O error, a file that cannot be opened) may never read again. It is
replaced once for the look that met the fault; a look that meets it again fails, and the next one begins with a new
connection.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import apsw
import trio

from storage.engine import DatabaseThread, Job, JobQueue
from storage.errors import ReadersBusy, StorageError
from storage.health import StoreHealth
from storage.protocols import Look, T
from storage.sealing import Seal
from storage.snapshot import SqliteSnapshot

STUCK_SECONDS = 0.02
"""After so long in one batch a thread is held up: most batches take less than a tenth of it."""

BATCH_LOOKS = 32
"""Most looks in one read transaction."""

BATCH_SECONDS = 0.005
"""After this long a batch is answered as far as it is done, and the rest goes on with a new snapshot."""

NEVER = float("inf")

BROKEN_CONNECTION = (apsw.CantOpenError, apsw.IOError)
"""Faults of the file, after which the same connection may fail for ever and a new one need not."""


class Readers:
    """Runs looks. Owns the read threads and the read slots."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        health: StoreHealth,
        seal: Seal,
        *,
        max_concurrent: int,
        slot_timeout_seconds: float,
    ) -> None:
        self._slots = trio.CapacityLimiter(max_concurrent)
        self._health = health
        self._slot_timeout_seconds = slot_timeout_seconds
        names = ("postroom-pages", "postroom-pages-held-up", "postroom-slow-reads")
        connections: list[apsw.Connection] = []
        try:
            for _ in names:
                connections.append(connect())  # noqa: PERF401 — what is open must be known when one fails
        except BaseException:
            for db in connections:
                db.close(True)
            raise
        self._pages, self._second, self._slow = (
            _ReaderThread(name, db, connect, JobQueue(), health, seal)
            for name, db in zip(names, connections, strict=True)
        )

    async def read(self, look: Look[T]) -> T:
        """Run a look as `Log.read` says."""
        began = time.monotonic()
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            with trio.move_on_after(self._slot_timeout_seconds) as waiting:
                await self._slots.acquire()
            if waiting.cancelled_caught:
                self._health.reads_refused += 1
                raise ReadersBusy("Too many reads at once; try again.") from None
        try:
            thread = self._slow if look.slow else self._second if self._pages.is_stuck() else self._pages
            result: T = await thread.queue.submit(look)
            self._health.read_seconds.add(time.monotonic() - began)
            return result
        finally:
            self._slots.release()

    def close(self) -> None:
        """Finish what is queued, close the connections, end the threads. Blocks; safe in a cancelled scope."""
        threads = (self._pages, self._second, self._slow)
        for thread in threads:
            thread.queue.close()
        for thread in threads:
            thread.join()


class _ReaderThread:
    """One thread with one connection, which it alone replaces."""

    def __init__(
        self,
        name: str,
        db: apsw.Connection,
        connect: Callable[[], apsw.Connection],
        queue: JobQueue,
        health: StoreHealth,
        seal: Seal,
    ) -> None:
        self.queue = queue
        self._busy_since = NEVER
        self._connect = connect
        self._health = health
        self._seal = seal
        self._snapshot: SqliteSnapshot | None = SqliteSnapshot(db, seal)
        self._thread = DatabaseThread(name, self._serve)

    def is_stuck(self) -> bool:
        """Whether its present batch takes unusually long. From any thread."""
        return time.monotonic() - self._busy_since > STUCK_SECONDS

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def _serve(self) -> None:
        try:
            ended = False
            while not ended:
                jobs, ended = self.queue.take(BATCH_LOOKS, None)
                while jobs:
                    jobs = self._run(jobs)
        finally:
            self._disconnect()

    def _run(self, jobs: list[Job]) -> list[Job]:
        """Run looks in one snapshot until the time is up, answer those, return the rest."""
        self._busy_since = time.monotonic()
        ends = self._busy_since + BATCH_SECONDS
        count = 0
        for job in jobs:
            count += 1
            if job.cancelled:
                job.drop()
                continue
            self._look(job)
            if time.monotonic() >= ends:
                break
        self._end_snapshot()
        self._health.read_batches += 1
        self._health.read_looks += count
        self.queue.deliver(jobs[:count])
        self._busy_since = NEVER
        return jobs[count:]

    def _look(self, job: Job) -> None:
        """Run one look; crash policy: whatever it raises is its caller's, and the others never hear of it."""
        try:
            try:
                value = self._attempt(job)
            except BROKEN_CONNECTION:
                self._disconnect()
                value = self._attempt(job)
            job.succeed(value)
        except apsw.Error as exc:
            if isinstance(exc, BROKEN_CONNECTION):
                self._disconnect()
            elif self._snapshot is not None:
                self._snapshot.sql.fault = None  # told; kept, it would keep the whole look alive
            failed = StorageError("The store could not be read.")
            failed.__cause__ = exc
            job.fail(failed)
        except BaseException as exc:
            job.fail(exc)

    def _attempt(self, job: Job) -> Any:
        if self._snapshot is None:
            self._snapshot = SqliteSnapshot(self._connect(), self._seal)
            self._health.readers_reopened += 1
        db = self._snapshot.sql.db
        if not db.in_transaction:
            db.execute("BEGIN")
        return job.work.run(self._snapshot)

    def _end_snapshot(self) -> None:
        # Ending a read has no outcome that anybody waits for; a connection that cannot even do that is of no more use.
        try:
            if self._snapshot is not None and self._snapshot.sql.db.in_transaction:
                self._snapshot.sql.db.execute("ROLLBACK")
        except apsw.Error:
            self._disconnect()

    def _disconnect(self) -> None:
        """Close the connection; the next look opens another."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            with contextlib.suppress(apsw.Error):
                snapshot.sql.db.close(True)
