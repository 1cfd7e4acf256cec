"""Room on the disk: a full one must leave a way back (engineering study, S3).

With nothing left, not even a DELETE or a checkpoint can run, because both write first; nor can the database be opened,
because the index of its log is a file. So a file of `reserve_bytes` is kept aside and given up at the moment when
something reports a full disk, and growth is refused earlier, while there is still room for one more transaction.
Deleting, acknowledging and administration go on.

What is given up is taken back at once as far as it fits, leaving room for one transaction: what else is on this disk
cannot eat all of the reserve in one go. The file outlives the process; a start takes over what it finds.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from storage.lock import FILE_MODE

RESERVE_NAME = "postroom.reserve"

BATCH_ROOM_BYTES = 4 * 1024 * 1024
"""What one transaction may need: 1 MiB of units, and three times that for indexes and half-filled pages."""

STAT_BLOCK_BYTES = 512
"""The unit of `st_blocks`, whatever the file system's own blocks are."""


def free_bytes(directory: Path) -> int:
    """Return how many bytes an ordinary user can still write on the directory's file system."""
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


class Space:
    """The reserve file, and the judgement whether there is room to grow. Used by the writer's thread alone.

    `held_bytes` of the reserve are there. Construction takes over what an earlier process left and makes nothing:
    `restore` does, once the database is known to be one.
    """

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
        self.held_bytes = 0
        self._take_over()

    @property
    def whole(self) -> bool:
        """Whether all of the reserve is there."""
        return self.held_bytes >= self._reserve_bytes

    def shortage(self, data_bytes: int) -> str:
        """Return why nothing new may be stored at present, in one sentence; `""` when there is room.

        `data_bytes`: bytes of the database in use, looked at only where `max_data_bytes` is set.
        """
        if self.max_data_bytes is not None and data_bytes >= self.max_data_bytes:
            return "The database has reached its configured size; delete messages or raise max_data_bytes."
        if self.spare_bytes() < 0:
            return "The disk is nearly full; nothing new is stored until there is room again."
        return ""

    def spare_bytes(self) -> int:
        """Return the bytes that are free beyond the reserve and one more transaction; negative: so many are missing.

        What the reserve holds counts as free.
        """
        return self._free_bytes() + self.held_bytes - self._reserve_bytes - BATCH_ROOM_BYTES

    def give_up(self) -> bool:
        """Delete the reserve so that what frees space can run; True when there was anything to give."""
        gave, self.held_bytes = self.held_bytes > 0, 0
        with contextlib.suppress(OSError):  # a file system that is read-only by now has nothing to give
            self._reserve.unlink(missing_ok=True)
        return gave

    def give_up_if_short(self) -> bool:
        """Delete the reserve if not even one transaction has room without it; True when that gave anything.

        For faults that do not say what they are: the index of a log that cannot grow is an I/O error to SQLite.
        """
        return self.is_short() and self.give_up()

    def is_short(self) -> bool:
        """Whether one transaction has no room beside the reserve."""
        return self._free_bytes() < BATCH_ROOM_BYTES

    def restore(self) -> None:
        """Make the reserve as large as it should be, or as fits beside one more transaction."""
        size = min(self._reserve_bytes, self.held_bytes + self._free_bytes() - BATCH_ROOM_BYTES)
        if size > self.held_bytes:
            self._allocate(size)

    def _free_bytes(self) -> int:
        try:
            return self._free(self._directory)
        except OSError:
            return 0  # the directory is gone or unreadable: certainly no place to grow

    def _take_over(self) -> None:
        """Count what is there of the reserve; cut it to size if it was configured larger."""
        try:
            stat = self._reserve.stat()
        except OSError:
            return
        size = min(stat.st_size, self._reserve_bytes)
        if stat.st_size == size and stat.st_blocks * STAT_BLOCK_BYTES >= size:
            # Not allocated once more for safety's sake: XFS wants the room a second time for that.
            self.held_bytes = size
        else:
            self._allocate(size)  # a copy may have holes, which hold nothing

    def _allocate(self, size: int) -> None:
        """Give the reserve this size, every block of it allocated; without room for that it is given up."""
        try:
            fd = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE)
            try:
                if size:
                    os.posix_fallocate(fd, 0, size)
                os.ftruncate(fd, size)
            finally:
                os.close(fd)
        except OSError:
            self.give_up()
        else:
            self.held_bytes = size
