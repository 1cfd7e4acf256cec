"""Opening the database of a directory that is prepared and locked: migrate, judge, or refuse in one sentence.

Every fault of the disk on the way becomes a `DataDirectoryError` with the path that was configured. What is not ours,
or newer than this program, is refused before a byte of it is changed (`_look`). Two things are looked at before SQLite
is:

- **An empty database in a directory that was used** is not founded anew: it would get a new admin token and answer as
  if nothing had ever been stored. What proves the use is made only once the first migration is durable: the life file
  and the reserve. A log beside an *empty* file does, too, because SQLite writes the file's header before it begins a
  log; opening the two would delete the log. The lock file proves nothing: a first start that was cut off has made it.
- **A full disk** has no room for the index of the log, without which nothing can be opened. So the reserve is given
  up for a second try; the store then starts in the state `full`, from which deleting leads out.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import apsw

from storage import resealing, space
from storage.clock import wall_clock_us
from storage.engine import WRITER_BUSY_MS, connect_writer
from storage.errors import DataDirectoryError, damaged
from storage.health import StoreHealth
from storage.life import LifeKeeper, OnMoved
from storage.lifefile import LIFE_NAME
from storage.lock import DATABASE_NAME, reason
from storage.migrate import applied_steps, migrate, require_not_newer, steps
from storage.options import StorageOptions
from storage.upkeep import Upkeep

SMALLEST_PAGE_BYTES = 512
"""SQLite takes a file that is smaller for an empty database."""

Secrets = Literal["used", "closed"]
"""What the opener does with secrets. A server uses them, and needs their key; a command that works offline does not."""


def open_upkeep(
    options: StorageOptions,
    clock: Callable[[], int] = wall_clock_us,
    vfs: str | None = None,
    free_bytes: Callable[[Path], int] = space.free_bytes,
    monotonic: Callable[[], float] = time.monotonic,
    moved: OnMoved = "renew",
    secrets: Secrets = "used",
) -> Upkeep:
    """Open and migrate the database, look which life it is, and seal its secrets where there is a key.

    `moved` as `storage.life.LifeKeeper` has it. Raises `DataDirectoryError`; for secrets that are sealed with another
    key before anything is changed.
    """
    traces = _traces_of_use(options.data_dir)
    room = space.Space(options.data_dir, options.reserve_bytes, options.max_data_bytes, free_bytes)
    attempt = partial(_open, options, clock, vfs, monotonic, moved, secrets, room, traces)
    try:
        try:
            return attempt()
        except (apsw.Error, OSError):
            if not room.give_up_if_short():
                raise
            return attempt()
    except (apsw.Error, OSError) as exc:
        raise cannot_be_opened(options.data_dir, exc, is_short=room.is_short()) from exc


def cannot_be_opened(directory: Path, exc: apsw.Error | OSError, *, is_short: bool) -> DataDirectoryError:
    """Return the sentence for a database that an error of the disk, or of what is on it, keeps closed."""
    if isinstance(exc, apsw.NotADBError):
        return DataDirectoryError(f"The file {DATABASE_NAME} in {directory} is not a Postroom database.")
    if isinstance(exc, apsw.CorruptError):
        return damaged(directory, f"SQLite says: {exc}")
    if is_short:
        return DataDirectoryError(
            f"The database in {directory} cannot be opened, because the disk is full;"
            f" make room for {space.BATCH_ROOM_BYTES // 1024**2} MiB and start again."
        )
    return DataDirectoryError(
        f"The database in {directory} cannot be opened: {reason(exc) if isinstance(exc, OSError) else exc}."
    )


def _traces_of_use(directory: Path) -> list[str]:
    """Return the files that only a database which was used can have left.

    Raises `DataDirectoryError` when there are any and the database is an empty file.
    """
    try:
        traces = [name for name in (LIFE_NAME, space.RESERVE_NAME) if (directory / name).exists()]
        if (directory / DATABASE_NAME).stat().st_size < SMALLEST_PAGE_BYTES:
            log = directory / f"{DATABASE_NAME}-wal"
            if log.exists() and log.stat().st_size:
                traces.append(log.name)
            if traces:
                raise _emptied(directory, traces)
    except OSError as exc:
        raise DataDirectoryError(f"The data directory {directory} cannot be used: {reason(exc)}.") from exc
    return traces


def _emptied(directory: Path, traces: list[str]) -> DataDirectoryError:
    return DataDirectoryError(
        f"The database in {directory} is missing or empty, but {', '.join(traces)} beside it show that it was in use;"
        " restore a backup with `postroom restore --force`, or empty the directory to begin anew."
    )


def _open(
    options: StorageOptions,
    clock: Callable[[], int],
    vfs: str | None,
    monotonic: Callable[[], float],
    moved: OnMoved,
    secrets: Secrets,
    room: space.Space,
    traces: list[str],
) -> Upkeep:
    """Open once. Raises `DataDirectoryError`, `apsw.Error`, `OSError`; nothing stays open then."""
    database = options.data_dir / DATABASE_NAME
    shown = str(options.data_dir)
    connect = partial(connect_writer, database, options.wal_limit_bytes, vfs)
    life = LifeKeeper(database, detect=options.detect_copies, moved=moved, monotonic=monotonic)
    known = steps()
    if not require_not_newer(_look(database, vfs, shown), known, shown) and traces:
        raise _emptied(options.data_dir, traces)
    uses = secrets == "used"
    db = connect()
    try:
        found = resealing.unlock(db, options.secret_key, shown) if uses else None
        migrate(db, known, clock, shown)
        life.begin(db)
        seal = resealing.begin(db, options.secret_key, found) if uses else resealing.left_closed(db)
    finally:
        db.close(True)
    return Upkeep(
        database,
        connect,
        room,
        life,
        seal,
        StoreHealth(),
        clock,
        wal_limit_bytes=options.wal_limit_bytes,
        monotonic=monotonic,
    )


def _look(database: Path, vfs: str | None, shown: str) -> int:
    """Return how many schema steps a database has, and leave it and its log as they are. Raises as `applied_steps`."""
    db = apsw.Connection(str(database), vfs=vfs)
    try:
        db.set_busy_timeout(WRITER_BUSY_MS)
        log = Path(f"{database}-wal")
        if log.exists() and log.stat().st_size:
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return applied_steps(db, shown)
    finally:
        db.close(True)
