"""The data directory: made with the right permissions, and held by one process at a time.

The lock is `flock` on a file of its own. Never on the database: opening and closing that file a second time in a
process drops the POSIX locks that SQLite holds on it, so nothing here opens it. The kernel lets go of the lock when
the process ends, however it ends; the file itself stays, because deleting it would let two processes hold "the" lock.

No file of ours is opened through a symbolic link: what somebody else put into the directory must not make us write to
a file elsewhere.
"""

import contextlib
import fcntl
import logging
import os
from pathlib import Path

from storage.errors import DataDirectoryError

DATABASE_NAME = "postroom.db"
LOCK_NAME = "postroom.lock"
OURS = "postroom."
"""How the names of all our files in the directory begin."""

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
WRITABLE_BY_OTHERS = 0o022
NOTE_BYTES = 512
"""The size of the note, more than a process id and an address need."""

log = logging.getLogger("postroom")


def prepare_directory(directory: Path, *, create: bool) -> None:
    """Make the data directory and an empty database file, readable by their owner alone.

    The permissions of an existing directory are tightened only when there is nothing but what is ours in it: somebody
    who points Postroom at their home directory keeps it as it is. Raises `DataDirectoryError`.
    """
    database = directory / DATABASE_NAME
    try:
        if not create and not database.exists():
            raise DataDirectoryError(f"There is no Postroom database in {directory}.")
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        if all(path.name.startswith(OURS) for path in directory.iterdir()):
            directory.chmod(DIRECTORY_MODE)
        # An empty file is a valid empty database; SQLite gives its -wal and -shm files the same permissions.
        # Made here, before SQLite holds any lock on it.
        database.touch(mode=FILE_MODE, exist_ok=True)
        database.chmod(FILE_MODE)
        if directory.stat().st_mode & WRITABLE_BY_OTHERS:
            log.warning(
                "others can write to the data directory, and whoever can may put another database there; "
                "forbid it (chmod go-w), or give Postroom a directory of its own"
            )
    except OSError as exc:
        raise DataDirectoryError(f"The data directory {directory} cannot be used: {reason(exc)}.") from exc


def reason(error: OSError) -> str:
    """Return what went wrong in the words of the operating system, without numbers and paths."""
    return (error.strerror or "an error of the operating system").lower()


class DirectoryLock:
    """The exclusive right to a data directory, from construction until `release`.

    Raises `DataDirectoryError`, naming the holder, when another process (or this one) has it.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self._fd = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE)
        except OSError as exc:
            raise DataDirectoryError(
                f"The data directory {directory} cannot be locked: {reason(exc)}."
            ) from exc
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = self._holder() if isinstance(exc, BlockingIOError) else None
            os.close(self._fd)
            if holder is None:
                raise DataDirectoryError(
                    f"The data directory {directory} cannot be locked: {reason(exc)}."
                ) from exc
            by = f" ({holder})" if holder else ""
            raise DataDirectoryError(
                f"The data directory {directory} is in use by another Postroom{by}; stop that one first."
            ) from exc
        self._held = True
        self.note()

    def note(self, address: str | None = None) -> None:
        """Write who holds the lock, for the sentence that a second server prints: a courtesy, so it never raises."""
        self._write(f"process {os.getpid()}" + (f" at {address}" if address else ""))

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._held:
            self._held = False
            self._write("")
            os.close(self._fd)

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            return os.pread(self._fd, NOTE_BYTES, 0).decode("utf-8", "replace").strip("\0 \n")
        return ""

    def _write(self, text: str) -> None:
        """Overwrite the note in place, always as long as the last one: a full disk has no room for more."""
        note = text.encode()[: NOTE_BYTES - 1].ljust(NOTE_BYTES - 1) + b"\n"
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, note, 0)
