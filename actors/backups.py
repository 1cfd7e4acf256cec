"""Backups on request: one task that makes one copy at a time, and the copies' end.

A copy is a file in the data directory until it has been fetched, deleted, replaced by the next one, or until nobody
came for it in an hour; what an earlier process left is removed at the start. It owns these files and the record of each
backup; how a copy is made is the store's (`storage.backup`).
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

import structlog
import trio
from ulid import ULID

from storage.errors import StorageClosed, StorageError

PREFIX = "postroom.backup-"
"""Begins the names of copies in the data directory."""

KEEP_SECONDS = 3_600.0
"""A copy that nobody fetches takes up as much disk as the database: an hour is ample for a client that comes back."""

State = Literal["copying", "ready", "failed"]

log = structlog.get_logger("postroom.backups")


class Backup:
    """One backup. `pages` of `total` are copied; `size` is that of the file, in bytes, once it is `ready`."""

    __slots__ = (
        "created_at",
        "ended",
        "error",
        "file",
        "id",
        "pages",
        "readers",
        "scope",
        "size",
        "state",
        "total",
    )

    def __init__(self, file: Path, backup_id: str, created_at: int) -> None:
        self.id = backup_id
        self.file = file
        self.created_at = created_at
        self.state: State = "copying"
        self.pages = 0
        self.total = 0
        self.size: int | None = None
        self.error: StorageError | None = None
        self.readers = 0
        self.scope = trio.CancelScope()
        self.ended = trio.Event()

    def progress(self, pages: int, total: int) -> None:
        """Note how far the copy is."""
        self.pages, self.total = pages, total


class BackupUnderWay(Exception):
    """Another backup is being made or fetched."""


class CopyingStore(Protocol):
    """What is needed of the store."""

    async def back_up(self, target: Path, progress: Callable[[int, int], None]) -> None:
        """Write a copy of the database to `target`; nothing is left of one that fails."""


class Backups:
    """The backups of this server, at most one of them at a time. `clock` gives µs since the epoch."""

    def __init__(self, store: CopyingStore, directory: Path, clock: Callable[[], int]) -> None:
        self._store = store
        self._directory = directory
        self._clock = clock
        self._current: Backup | None = None
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Remove what an earlier process left, then hold the task of the copy until cancelled, then remove it."""
        for left in self._directory.glob(f"{PREFIX}*"):
            left.unlink(missing_ok=True)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            if self._current is not None:
                self.remove(self._current)

    def start(self) -> Backup:
        """Begin a backup and return it. Raises `BackupUnderWay`, `StorageClosed`.

        One that is ready, or failed, and is not being fetched makes room for the new one.
        """
        if self._nursery is None:
            raise StorageClosed("The server is shutting down.")
        current = self._current
        if current is not None:
            if current.state == "copying" or current.readers:
                raise BackupUnderWay
            self.remove(current)
        backup_id = str(ULID()).lower()
        self._current = Backup(self._directory / f"{PREFIX}{backup_id}", backup_id, self._clock())
        self._nursery.start_soon(self._make, self._current)
        return self._current

    def get(self, backup_id: str) -> Backup | None:
        """Return a backup that is still known."""
        current = self._current
        return current if current is not None and current.id == backup_id else None

    async def drop(self, backup: Backup) -> None:
        """Cancel or delete a backup; returns when nothing of it is left. Whoever is reading the file reads on."""
        self.remove(backup)
        await backup.ended.wait()

    def remove(self, backup: Backup) -> None:
        """Forget a backup; its own task deletes the file, and stops making it."""
        if self._current is backup:
            self._current = None
        backup.scope.cancel()

    async def _make(self, backup: Backup) -> None:
        """Make one copy and keep it for its time. A failure is the backup's, never the server's."""
        try:
            with backup.scope:
                await self._copy(backup)
                await trio.sleep(KEEP_SECONDS)
            self.remove(backup)
        finally:
            with trio.CancelScope(shield=True):
                # A file of gigabytes takes the disk a while to delete; the loop must not wait for it.
                await trio.to_thread.run_sync(_delete, backup.file)
            backup.ended.set()

    async def _copy(self, backup: Backup) -> None:
        try:
            await self._store.back_up(backup.file, backup.progress)
            backup.size = backup.file.stat().st_size
        except OSError as error:
            # Of `stat`, on a whole copy: what the store does with the disk, it tells in its own words.
            why = error.strerror or "an error of the operating system"
            backup.state, backup.error = "failed", StorageError(f"The finished copy cannot be read: {why}.")
        except StorageError as error:
            backup.state, backup.error = "failed", error
        else:
            backup.state = "ready"
            log.info("a backup is ready", bytes=backup.size)
            return
        log.warning("a backup failed", error=str(backup.error))


def _delete(file: Path) -> None:
    with contextlib.suppress(OSError):  # the next start tries again
        file.unlink(missing_ok=True)
