"""The life file: notes of which database this is and how far it has come, beside it (`storage.life` says what for).

Two slots in different pages and sectors, each a checksum and a JSON document padded with spaces. A write goes to the
older one, in place: the file is never truncated and never replaced while it is in use, for without a sync a rename
may leave an empty file behind. A torn write leaves the note before it.
"""

import os
import zlib
from pathlib import Path

import msgspec

from storage.lock import FILE_MODE

LIFE_NAME = "postroom.life"

SLOT_BYTES = 4_096
"""One page of memory and at least one sector of any disk: no interrupted write can reach both slots."""


class Place(msgspec.Struct, frozen=True):
    """Which file a database is. `fsid` is the file system's own id, 0 where it has none."""

    dev: int
    inode: int
    fsid: int

    def is_same(self, other: "Place") -> bool:
        """Whether both are the same file, as far as one can tell after a reboot."""
        same_system = self.dev == other.dev or (self.fsid != 0 and self.fsid == other.fsid)
        return self.inode == other.inode and same_system


class Life(msgspec.Struct, frozen=True):
    """One note: lineage (32 hexadecimal digits), number of commits, and which file the database was."""

    lineage: str
    commits: int
    place: Place


def place_of(database: Path) -> Place:
    """Return which file a database is. By path: opening it here would drop SQLite's locks (see `storage.lock`)."""
    stat = database.stat()
    return Place(stat.st_dev, stat.st_ino, os.statvfs(database).f_fsid)


class LifeFile:
    """The file with its two slots. `OSError` leaves every method but `note`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._older = 0

    def read(self) -> Life | None:
        """Return the newer note that is whole, None when there is none."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        slots = [_parse(data[start : start + SLOT_BYTES]) for start in (0, SLOT_BYTES)]
        newer = max(range(len(slots)), key=lambda n: -1 if (life := slots[n]) is None else life.commits)
        self._older = 1 - newer
        return slots[newer]

    def create(self, life: Life) -> None:
        """Make the file anew, or replace it, durably: a crash leaves the old one or this one."""
        temporary = self.path.with_name(self.path.name + ".new")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, FILE_MODE)
        try:
            os.write(fd, _slot(life) * 2)
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(self.path)
        sync_directory(self.path.parent)

    def note(self, life: Life, *, sync: bool = False) -> bool:
        """Overwrite the older slot in place; False when that failed, which only makes the file lag more.

        A file that somebody deleted under the running server is made again: this process knows its life.
        """
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW)
        except OSError:
            try:
                self.create(life)
            except OSError:
                return False
            return True
        try:
            os.pwrite(fd, _slot(life), self._older * SLOT_BYTES)
            if sync:
                os.fsync(fd)
        except OSError:
            return False
        finally:
            os.close(fd)
        self._older = 1 - self._older
        return True


def sync_directory(directory: Path) -> None:
    """Make the names of files in a directory durable. Raises `OSError`."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _slot(life: Life) -> bytes:
    text = msgspec.json.encode(life)
    line = b"%08x %s" % (zlib.crc32(text), text)
    return line.ljust(SLOT_BYTES - 1) + b"\n"


def _parse(slot: bytes) -> Life | None:
    checksum, _, text = slot.strip().partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        return msgspec.json.decode(text, type=Life)
    except ValueError:  # no number, or (msgspec's errors are ValueErrors) no such note
        return None
