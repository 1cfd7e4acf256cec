"""Connections, and the threads that they live on.

A thread hop per statement, or per read, is what costs (engineering study, S5). So a database thread takes whatever is
queued, works through it, and answers all of it by one call into the event loop. `JobQueue` is that border, in both
directions; `DatabaseThread` is a thread that serves one. Nothing else of this package touches trio's threads.

The call into the loop runs outside every task, where an exception would end the process: it only reschedules tasks
whose outcome is ready, and cannot raise. Threads are no daemons: they end through the sentinel that `close` queues, so
that a commit is never cut off by the end of the interpreter. `close` is synchronous: an `await` in a cancelled scope
would not run, and the process would never end (field notes, trap 7).
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw
import trio

from storage.errors import DataDirectoryError, StorageClosed

PAGE_BYTES = 8_192
"""15 % faster and 20 % smaller than 4,096 with 1 KiB messages (study, section 3)."""

AUTOCHECKPOINT_PAGES = 1_000
"""SQLite's own default, 8 MiB here; a checkpointer of our own was no better (study, section 3)."""

CACHE_KIB = 16_384
"""Page cache of the writer: the inner pages of every index of some millions of rows."""

READER_CACHE_KIB = 4_096
"""Page cache of one reader; three of them share the operating system's."""

PASSING_CACHE_KIB = 128
"""Page cache of a reader while it goes through a whole table: the way down a tree, and some leaves."""

STATEMENTS = 256
"""Prepared statements kept per connection: a few dozen statements times their shapes."""

WRITER_BUSY_MS = 1_000
"""Nobody else writes under the directory lock, but a person with the `sqlite3` shell might."""

READER_BUSY_MS = 5_000
"""Readers wait only while the write-ahead log is recovered or truncated: milliseconds."""


def connect_writer(database: Path, wal_limit_bytes: int, vfs: str | None = None) -> apsw.Connection:
    """Open the one writing connection. Raises `apsw.Error`; `DataDirectoryError` where WAL cannot work."""
    db = apsw.Connection(str(database), vfs=vfs, statementcachesize=STATEMENTS)
    try:
        db.set_busy_timeout(WRITER_BUSY_MS)
        if not db.execute("PRAGMA page_count").get:
            # They have an effect before the first table only; afterwards the second one would cost a commit each time.
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}; PRAGMA auto_vacuum = INCREMENTAL").fetchall()
        if db.execute("PRAGMA journal_mode = WAL").get != "wal":
            raise DataDirectoryError(
                f"The file system of {database.parent} does not support SQLite's write-ahead log; use a local disk."
            )
        db.execute(
            "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA temp_store = MEMORY;"
            f"PRAGMA wal_autocheckpoint = {AUTOCHECKPOINT_PAGES};"
            f"PRAGMA journal_size_limit = {wal_limit_bytes};"
            f"PRAGMA cache_size = {-CACHE_KIB}; PRAGMA trusted_schema = OFF"
        ).fetchall()
    except BaseException:
        db.close(True)
        raise
    return db


def connect_reader(database: Path, vfs: str | None = None) -> apsw.Connection:
    """Open a connection that cannot write, whatever is asked of it."""
    db = apsw.Connection(
        str(database), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs, statementcachesize=STATEMENTS
    )
    db.set_busy_timeout(READER_BUSY_MS)
    db.execute(
        f"PRAGMA query_only = ON; PRAGMA cache_size = {-READER_CACHE_KIB}; PRAGMA trusted_schema = OFF;"
        "PRAGMA temp_store = MEMORY"
    ).fetchall()
    return db


@contextlib.contextmanager
def passing_pages(reader: apsw.Connection) -> Iterator[None]:
    """Have a reader keep next to nothing of what it reads: one long look would fill its page cache for good, with
    pages that nobody asks for again.
    """
    reader.execute(f"PRAGMA cache_size = {-PASSING_CACHE_KIB}").fetchall()
    try:
        yield
    finally:
        reader.execute(f"PRAGMA cache_size = {-READER_CACHE_KIB}").fetchall()


class Job:
    """One unit or look on its way to a database thread and back.

    Each attribute has one writer at a time: the thread sets `value`, `error` and `done` until the job is delivered, the
    loop `cancelled` and `task`. A thread that looks at `cancelled` too early only does work in vain.
    """

    __slots__ = ("cancelled", "done", "error", "task", "value", "work")

    def __init__(self, work: Any, task: trio.lowlevel.Task | None = None) -> None:
        self.work = work
        self.task = task
        self.cancelled = False
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def succeed(self, value: Any) -> None:
        """Note the result."""
        self.value, self.error, self.done = value, None, True

    def fail(self, error: BaseException) -> None:
        """Note the exception that the caller gets."""
        self.value, self.error, self.done = None, error, True

    def drop(self) -> None:
        """Note that nobody waits for this any more."""
        self.done = True

    def reset(self) -> None:
        """Forget an outcome that turned out not to hold."""
        self.value, self.error, self.done = None, None, False

    def unwrap(self) -> Any:
        """Return the result or raise the exception, once; keeps neither (no reference cycle is left behind)."""
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        value, self.value = self.value, None
        return value


def _resume(jobs: list[Job]) -> None:
    """Wake the tasks that still wait. Runs in the event loop outside any task, and must not raise."""
    for job in jobs:
        task, job.task = job.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)


class JobQueue:
    """The way from tasks to one or several database threads and back. Made in the event loop."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        self._closed = False

    async def submit(self, work: Any) -> Any:
        """Have a thread do the work; return its result or raise its exception.

        Cancelled while it is queued: it is skipped. Cancelled later: it is done, and nobody learns how it went.
        Raises `StorageClosed`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._require_open()
        job = Job(work, trio.lowlevel.current_task())

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            job.cancelled = True
            job.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._queue.put(job)
        self._require_open(job)  # a thread that dies of a bug closes at any moment and may miss this job
        await trio.lowlevel.wait_task_rescheduled(abort)
        return job.unwrap()

    def _require_open(self, job: Job | None = None) -> None:
        if self._closed:
            if job is not None:
                job.cancelled, job.task = True, None
            raise StorageClosed("The store is closed.")

    def close(self) -> None:
        """Refuse further work; the threads finish what is queued and end."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)

    # -- the threads' side ------------------------------------------------------------------------------
    def take(self, most: int, timeout: float | None) -> tuple[list[Job], bool]:
        """Wait up to `timeout` seconds (None: for ever) for work and return what is there, at most `most` jobs.

        The second value is True from the moment that the queue is closed and this thread has seen the end of it.
        """
        jobs: list[Job] = []
        try:
            item = self._queue.get(timeout=timeout)
            while item is not None:
                jobs.append(item)
                if len(jobs) == most:
                    return jobs, False
                item = self._queue.get_nowait()
        except Empty:
            return jobs, False
        self._queue.put(None)  # for the next thread, and for the next call
        return jobs, True

    def deliver(self, jobs: list[Job]) -> None:
        """Give outcomes to the tasks that wait for them: one call into the loop for all."""
        try:
            self._token.run_sync_soon(_resume, jobs)
        except trio.RunFinishedError:
            return  # the loop has ended, and every waiting task with it


class DatabaseThread:
    """A thread that runs `serve` until the queue that it serves is closed and empty."""

    def __init__(self, name: str, serve: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=serve, name=name, daemon=False)
        self._thread.start()

    def join(self) -> None:
        """Wait for its end. Blocks the caller; close its queue first."""
        self._thread.join()
