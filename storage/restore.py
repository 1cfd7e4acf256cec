"""Restoring: a backup, or any copy of a database, becomes the database of a data directory. Offline, under its lock.

The backup is read, never changed: it is copied next to the place where it shall be, checked there, given a new
lineage and new epochs, synced, and only then put in the place of what was there. Interrupted anywhere, the directory
holds the old database or the new one; at worst without its life file, and then the next start gives it new epochs
once more.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import apsw
import msgspec

from storage import life, lifefile
from storage.errors import DataDirectoryError
from storage.lock import DATABASE_NAME, DIRECTORY_MODE, FILE_MODE, LOCK_NAME, DirectoryLock
from storage.migrate import require_known, steps

RESTORING = DATABASE_NAME + ".restoring"
"""The copy until it is put in its place; one that an interrupted restore left is overwritten by the next."""

SLICE_PAGES = 1_024
"""Copied between two reports of progress: 8 MiB."""

Progress = Callable[[int, int], None]


class Restored(msgspec.Struct, frozen=True):
    """What was restored: how many inboxes (each with a new epoch), messages and bytes."""

    inboxes: int
    messages: int
    bytes: int


def open_copy(file: Path) -> apsw.Connection:
    """Open a database that no server uses, without changing it or leaving files beside it.

    Raises `DataDirectoryError` when it is not there, not Postroom's, or newer than this program.
    """
    if not file.is_file():
        raise DataDirectoryError(f"There is no file {file}.")
    wal = Path(f"{file}-wal")
    # With a log beside it, the log is part of it; without one it is read as it is, wherever it lies.
    mode = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        db = apsw.Connection(f"file:{quote(str(file.absolute()))}?{mode}", flags=flags)
        try:
            db.execute("PRAGMA trusted_schema = OFF; PRAGMA query_only = ON").fetchall()
            require_known(db, steps(), str(file))
        except BaseException:
            db.close(True)
            raise
    except apsw.Error as exc:
        raise DataDirectoryError(f"The file {file} cannot be read as a Postroom database: {exc}.") from exc
    return db


def restore(file: Path, directory: Path, *, force: bool, progress: Progress) -> Restored:
    """Make a copy of `file` the database of `directory`. `progress` is told pages copied and pages in all.

    Raises `DataDirectoryError`: in use by a server, not empty (unless `force`, which replaces its database), a file
    that is no Postroom database, newer, or damaged, a disk without room.
    """
    with contextlib.closing(open_copy(file)) as source:
        try:
            directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            lock = DirectoryLock(directory)
            try:
                _require_empty(directory, force)
                copy = directory / RESTORING
                try:
                    restored = _copy(source, copy, file, progress)
                    _replace(copy, directory)
                finally:
                    copy.unlink(missing_ok=True)
                return restored
            finally:
                lock.release()
        except (apsw.Error, OSError) as exc:
            raise DataDirectoryError(f"{file} could not be restored into {directory}: {exc}.") from exc


def _require_empty(directory: Path, force: bool) -> None:
    others = [path for path in directory.iterdir() if path.name not in (LOCK_NAME, RESTORING)]
    if others and not force:
        raise DataDirectoryError(
            f"{directory} is not empty; choose another --data-dir, or say --force to replace its database."
        )
    if not others:
        directory.chmod(DIRECTORY_MODE)


def _copy(source: apsw.Connection, copy: Path, shown: Path, progress: Progress) -> Restored:
    """Write the new database under its temporary name, whole, checked, with new epochs and synced."""
    copy.unlink(missing_ok=True)
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    with contextlib.closing(apsw.Connection(str(copy))) as db:
        db.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").fetchall()
        with db.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(SLICE_PAGES)
                progress(backup.page_count - backup.remaining, backup.page_count)
    with contextlib.closing(apsw.Connection(str(copy))) as db:
        db.execute("PRAGMA synchronous = OFF; PRAGMA journal_mode = DELETE").fetchall()
        life.check(db, shown)
        inboxes = life.renew(db)
        messages = db.execute("SELECT count(*) FROM message").get
    fd = os.open(copy, os.O_RDWR)
    try:
        os.fsync(fd)
        size = os.fstat(fd).st_size
    finally:
        os.close(fd)
    return Restored(inboxes, messages, size)


def _replace(copy: Path, directory: Path) -> None:
    """Put the copy in its place. The order makes an interruption harmless.

    Without the life file whatever is found is a new life; and the log of the old database must be gone before the new
    one is there, for it would be applied to that.
    """
    database = directory / DATABASE_NAME
    (directory / lifefile.LIFE_NAME).unlink(missing_ok=True)
    lifefile.sync_directory(directory)
    for end in ("-wal", "-shm"):
        Path(f"{database}{end}").unlink(missing_ok=True)
    lifefile.sync_directory(directory)
    copy.replace(database)
    lifefile.sync_directory(directory)
    with contextlib.closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        lineage, commits = life.identity(db, directory)
    lifefile.LifeFile(directory / lifefile.LIFE_NAME).create(
        lifefile.Life(lineage, commits, lifefile.place_of(database))
    )
