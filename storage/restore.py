"""Restoring: a backup, or any copy of a database, becomes the database of a data directory. Offline, under its lock.

The backup is read, never changed: it is copied next to the place where it shall be, checked there, given a new
lineage and new epochs, synced, and only then put in the place of what was there. Interrupted anywhere, the directory
holds the old database or the new one, whole; the new one at worst beside the old one's life file, whose lineage is not
its own, and then the next start gives it new epochs once more.

The log of a killed server is a part of the old database, and must not be there when the new one is, to which SQLite
would apply it. So it is folded into the old database first. An old database that SQLite cannot open any more is moved
aside together with its log instead, and put back when the new one does not come: at once, or by the next restore if
this one was killed. Until then a server refuses to start, because the life file shows that there was a database.
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
from storage.resealing import sealed_with

RESTORING = DATABASE_NAME + ".restoring"
"""The copy until it is put in its place; one that an interrupted restore left is overwritten by the next."""

REPLACED = DATABASE_NAME + ".replaced"
"""An old database that cannot be opened, while the new one is put in its place; its log keeps its ending, so that
both can be moved back by hand.
"""

LOGS = ("-wal", "-journal")
"""What a killed process leaves beside a database, and SQLite applies to whatever database is there."""

INDEX = "-shm"
"""The index of a log: made again from it."""

SMALLEST_DATABASE_BYTES = 512
"""SQLite takes a smaller file for an empty database."""

SLICE_PAGES = 1_024
"""Copied between two reports of progress: 8 MiB."""

Progress = Callable[[int, int], None]


class Restored(msgspec.Struct, frozen=True):
    """What was restored: how many inboxes (each with a new epoch), messages and bytes.

    `sealed`: its secrets are sealed, and a server needs the key that they were sealed with.
    """

    inboxes: int
    messages: int
    bytes: int
    sealed: bool = False


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
        sealed = sealed_with(db) is not None
    fd = os.open(copy, os.O_RDWR)
    try:
        os.fsync(fd)
        size = os.fstat(fd).st_size
    finally:
        os.close(fd)
    return Restored(inboxes, messages, size, sealed)


def _replace(copy: Path, directory: Path) -> None:
    """Put the copy in its place. After every step the old database is there with all of its log, or the new one.

    Raises `OSError`, `apsw.Error`.
    """
    database, aside = directory / DATABASE_NAME, directory / REPLACED
    _recover(database, aside)
    try:
        if _fold(database):
            for end in (*LOGS, INDEX):
                _beside(database, end).unlink(missing_ok=True)
            # Before the new database is there: a power loss must not bring a log back beside it.
            lifefile.sync_directory(directory)
        else:
            _set_aside(database, aside)
        copy.replace(database)
    except BaseException:
        with contextlib.suppress(OSError):  # the next restore tries again
            _recover(database, aside)
        raise
    lifefile.sync_directory(directory)
    with contextlib.closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        lineage, commits = life.identity(db, directory)
    lifefile.LifeFile(directory / lifefile.LIFE_NAME).create(
        lifefile.Life(lineage, commits, lifefile.place_of(database))
    )
    with contextlib.suppress(OSError):  # what was restored is restored; the next restore deletes it
        _recover(database, aside)


def _fold(database: Path) -> bool:
    """Write the logs into their database, durably; False when they still hold something."""
    if _is_database(database):
        try:
            with contextlib.closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
                # Closing one that cannot be read must not delete a log in which SQLite finds nothing.
                db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                db.execute("PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL").fetchall()
                db.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # finds the logs
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except apsw.Error:
            return False
    # Without a database nothing is opened: SQLite deletes the log that it finds beside an empty file.
    logs = [_beside(database, end) for end in LOGS]
    return not any(log.exists() and log.stat().st_size for log in logs)


def _set_aside(database: Path, aside: Path) -> None:
    """Move database and logs away. The database goes first: without its log it must not look like one to serve."""
    for end in ("", *LOGS):
        if _beside(database, end).exists():
            _beside(database, end).replace(_beside(aside, end))
            lifefile.sync_directory(database.parent)
    _beside(database, INDEX).unlink(missing_ok=True)


def _recover(database: Path, aside: Path) -> None:
    """Deal with what was moved aside: put it back where no database is, the logs first; else delete it."""
    replaced = _is_database(database)
    for end in (*LOGS, ""):
        if not _beside(aside, end).exists():
            continue
        if replaced:
            lifefile.sync_directory(database.parent)  # or the old one might go before the new one has come
            _beside(aside, end).unlink()
        else:
            _beside(aside, end).replace(_beside(database, end))
            lifefile.sync_directory(database.parent)


def _beside(file: Path, end: str) -> Path:
    return Path(f"{file}{end}")


def _is_database(file: Path) -> bool:
    return file.exists() and file.stat().st_size >= SMALLEST_DATABASE_BYTES
