"""Backups while the server runs: a copy of the database, made page by page on the writer's own connection.

On that connection SQLite carries every write into the copy as well, so it never starts over, however many messages
arrive; from another connection it would start over at each of them, and one long read would keep the write-ahead log
from shrinking (engineering study, S15). `Copying` is the writer's side: slices between two transactions, each of a
few milliseconds. `back_up` is the task's side, which waits for slices, has the copy synced now and then from another
thread (one sync of all of it at the end would stall the commits of the same disk), and leaves either a whole copy or
nothing.

A copy is one plain file with a lineage of its own: put in the place of the database, however that is done, it begins
a new life (`storage.life`).
"""

import contextlib
import errno
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import trio

from storage.errors import StorageError, StorageFull
from storage.lifefile import sync_directory
from storage.lock import FILE_MODE, reason

if TYPE_CHECKING:
    from storage.upkeep import Upkeep

SLICE_MOST_PAGES = 256
"""2 MiB: 1.2 ms from a warm cache (study, S15); more gains nothing."""
SLICE_FIRST_PAGES = 32
"""The first slice finds out how fast the disk is."""
SLICE_LONG_SECONDS = 0.01
"""A slice that took longer halves the next one: pages that come from a slow disk must not hold up ingest."""
SLICE_SHORT_SECONDS = 0.004
"""A slice that took less doubles the next one."""

SYNC_BYTES = 8 * 1024 * 1024
"""Copied between two syncs: bounds what a single sync has to write, and with it the wait of a commit beside it."""

ABANDON_SECONDS = 5.0
"""How long a cancelled backup waits for the writer to let go of it; what is left is removed at the next start."""

PARTIAL = ".partial"
"""Ends the name of a copy that is not whole yet."""

NO_ROOM = "There is not enough room for a backup in the data directory."
BROKEN = "The copy could not be made: the writer had to open the database again."
NOT_SYNCED = "The copy could not be made: syncing it failed"

DOING = {
    apsw.SQLITE_IOERR_READ: "reading the database failed",
    apsw.SQLITE_IOERR_SHORT_READ: "reading the database failed",
    apsw.SQLITE_IOERR_WRITE: "writing it failed",
    apsw.SQLITE_IOERR_FSYNC: "syncing it failed",
}
"""What SQLite was doing, by its extended code."""

Progress = Callable[[int, int], None]
"""Is told how many pages are copied, and how many there are."""

Between = Callable[[Callable[["Upkeep"], Any]], Awaitable[Any]]
"""Runs a function on the writer's thread between two transactions: `WriterThread.between`."""


class Copying:
    """One copy in the making. Its methods run on the writer's thread, except `sync`, `finish` and `delete`.

    Never two at once, but for `sync`, beside which commits may go on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pages = 0
        self.copied = 0
        self.unsynced_bytes = 0
        self._slice = SLICE_FIRST_PAGES
        self._page_bytes = 0
        self._source: apsw.Connection | None = None
        self._copy: apsw.Connection | None = None
        self._backup: apsw.Backup | None = None

    def step(self, upkeep: "Upkeep") -> bool:
        """Copy the next slice; True when it was the last one.

        Raises `StorageFull` when the copy would take room that ingest needs, `StorageError` for a disk that fails,
        also when the writer had to replace its connection meanwhile.
        """
        try:
            return self._step(upkeep)
        except apsw.FullError as exc:
            raise StorageFull(NO_ROOM) from exc
        except apsw.BusyError:
            return False
        except (apsw.Error, OSError) as exc:
            raise _failed(exc) from exc

    def _step(self, upkeep: "Upkeep") -> bool:
        if self._backup is None:
            self._begin(upkeep)
        if self._backup is None or upkeep.db is not self._source:
            raise StorageError(BROKEN)
        if upkeep.spare_bytes() < self._slice * self._page_bytes:
            raise StorageFull(NO_ROOM)
        began = time.monotonic()
        self._backup.step(self._slice)
        seconds = time.monotonic() - began
        self.pages = self._backup.page_count
        copied = self.pages - self._backup.remaining
        self.unsynced_bytes += max(0, copied - self.copied) * self._page_bytes
        self.copied = copied
        if seconds > SLICE_LONG_SECONDS:
            self._slice = max(1, self._slice // 2)
        elif seconds < SLICE_SHORT_SECONDS:
            self._slice = min(SLICE_MOST_PAGES, self._slice * 2)
        if not self._backup.done:
            return False
        self._backup.finish()
        return True

    def _begin(self, upkeep: "Upkeep") -> None:
        self._page_bytes = upkeep.db.execute("PRAGMA page_size").get
        size = upkeep.db.execute("PRAGMA page_count").get * self._page_bytes
        if upkeep.spare_bytes() < size:
            raise StorageFull(NO_ROOM)
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
        self._source = upkeep.db
        self._copy = apsw.Connection(str(self.path))
        # Nothing to roll back to: a copy that is not finished is deleted.
        self._copy.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").fetchall()
        self._backup = self._copy.backup("main", upkeep.db, "main")

    def sync(self) -> None:
        """Have the disk write what was copied so far. On any thread; the writer may go on meanwhile.

        Raises `StorageFull`, `StorageError`.
        """
        self.unsynced_bytes = 0
        try:
            fd = os.open(self.path, os.O_RDWR)
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)
        except OSError as exc:
            if exc.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(NO_ROOM) from exc
            raise StorageError(f"{NOT_SYNCED}: {reason(exc)}.") from exc

    def finish(self, target: Path) -> None:
        """Make the whole copy one plain file with a lineage of its own, durably, called `target`. On any thread."""
        try:
            if self._copy is not None:
                self._copy.close(True)
            with contextlib.closing(apsw.Connection(str(self.path))) as copy:
                copy.execute("PRAGMA synchronous = OFF").fetchall()
                if copy.execute("PRAGMA journal_mode = DELETE").get != "delete":
                    raise StorageError("The copy could not be made: it cannot be made one plain file.")
                copy.execute("UPDATE server SET lineage = randomblob(16)").fetchall()
            self.sync()
            self.path.replace(target)
            sync_directory(target.parent)
        except (apsw.Error, OSError) as exc:
            raise _failed(exc) from exc

    def abandon(self, _: "Upkeep | None" = None) -> None:
        """Let go of both databases."""
        for one in (self._backup, self._copy):
            with contextlib.suppress(apsw.Error):
                if one is not None:
                    one.close(True)

    def delete(self) -> None:
        """Delete what was written. On any thread; not the writer's, for a large file takes a while."""
        for end in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{self.path}{end}").unlink(missing_ok=True)


def _failed(error: apsw.Error | OSError) -> StorageError:
    """Return the sentence for a disk that failed: what it was asked for, where that is known, and what it said."""
    if isinstance(error, OSError):
        return StorageError(f"The copy could not be made: writing it failed: {reason(error)}.")
    doing = DOING.get(getattr(error, "extendedresult", 0), "the disk failed")
    return StorageError(f"The copy could not be made: {doing}: {error}.")


async def back_up(between: Between, target: Path, progress: Progress) -> None:
    """Copy the database to `target`, replacing what is there; `progress` hears of every slice.

    Cancelled or failed, it leaves nothing behind. Raises `StorageFull`, `StorageClosed`, `StorageDegraded`,
    `StorageError`.
    """
    copying = Copying(target.with_name(target.name + PARTIAL))
    try:
        done = False
        while not done:
            done = await between(copying.step)
            progress(copying.copied, copying.pages)
            if copying.unsynced_bytes >= SYNC_BYTES:
                await trio.to_thread.run_sync(copying.sync)
        await trio.to_thread.run_sync(copying.finish, target)
    except BaseException:
        with trio.move_on_after(ABANDON_SECONDS, shield=True):
            try:
                await between(copying.abandon)
            except StorageError:
                copying.abandon()  # the writer has no connection any more that it could disturb
            await trio.to_thread.run_sync(copying.delete)
        raise
