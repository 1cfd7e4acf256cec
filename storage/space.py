"""Room on the disk: a full one must leave a way back (engineering study, S3).

With nothing left, not even a DELETE or a checkpoint can run, because both write first. So a file of
`reserve_bytes` is kept aside and given up at the moment when SQLite reports a full disk, and growth is refused
earlier, while there is still room for one more transaction. Deleting, acknowledging and administration go on.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from storage.lock import FILE_MODE

RESERVE_NAME = "postroom.reserve"

BATCH_ROOM_BYTES = 4 * 1024 * 1024
"""What one transaction may need: 1 MiB of units, and three times that for indexes and half-filled pages."""


def free_bytes(directory: Path) -> int:
    """Return how many bytes an ordinary user can still write on the directory's file system."""
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


class Space:
    """The reserve file, and the judgement whether there is room to grow. Used by the writer's thread alone."""

    def __init__(
        self,
        directory: Path,
        reserve_bytes: int,
        max_data_bytes: int | None,
        free: Callable[[Path], int] = free_bytes,
    ) -> None:
        self._directory = directory
        self._reserve = directory / RESERVE_NAME
        self._reserve_bytes = reserve_bytes
        self._free = free
        self.max_data_bytes = max_data_bytes
        self.held = False
        self.restore()

    def shortage(self, data_bytes: int) -> str:
        """Return why nothing new may be stored at present, in one sentence; `""` when there is room.

        `data_bytes`: bytes of the database in use, looked at only where `max_data_bytes` is set.
        """
        if self.max_data_bytes is not None and data_bytes >= self.max_data_bytes:
            return "The database has reached its configured size; delete messages or raise max_data_bytes."
        if not self._has_room():
            return "The disk is nearly full; nothing new is stored until there is room again."
        return ""

    def _has_room(self) -> bool:
        """Whether the reserve and one more transaction have room; the reserve itself, if made, counts as free."""
        return self.spare_bytes() >= 0

    def spare_bytes(self) -> int:
        """Return the bytes that are free beyond the reserve and one more transaction; negative: so many are missing."""
        try:
            free = self._free(self._directory)
        except OSError:
            free = 0  # the directory is gone or unreadable: certainly no place to grow
        return free + (self._reserve_bytes if self.held else 0) - self._reserve_bytes - BATCH_ROOM_BYTES

    def give_up(self) -> None:
        """Delete the reserve so that what frees space can run."""
        self.held = False
        with contextlib.suppress(OSError):  # a file system that is read-only by now has nothing to give
            self._reserve.unlink(missing_ok=True)

    def restore(self) -> None:
        """Make the reserve again if there is room for it and for one more transaction."""
        if self.held or not self._has_room():
            return
        try:
            fd = os.open(self._reserve, os.O_WRONLY | os.O_CREAT, FILE_MODE)
            try:
                if self._reserve_bytes:
                    os.posix_fallocate(fd, 0, self._reserve_bytes)
                os.ftruncate(fd, self._reserve_bytes)
            finally:
                os.close(fd)
        except OSError:
            self.give_up()
        else:
            self.held = True
