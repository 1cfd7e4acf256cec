"""The SQLite store put together: `open_store` for the server, `open_offline` for commands that need the database.

Order of opening: directory, lock, writer's connection, migrations, readers; of closing: readers, writer (what is queued
is committed, the log is folded in), lock. Closing is synchronous, so it happens in a cancelled scope as well.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import apsw

from storage import resealing, space
from storage.backup import Progress, back_up
from storage.clock import wall_clock_us
from storage.engine import JobQueue, connect_reader
from storage.errors import DataDirectoryError, StorageError
from storage.health import StoreHealth
from storage.life import Finding
from storage.lock import DATABASE_NAME, DirectoryLock, prepare_directory
from storage.opening import cannot_be_opened, open_upkeep
from storage.options import StorageOptions
from storage.protocols import Look, T, Unit
from storage.readers import Readers
from storage.secret import SecretBytes
from storage.snapshot import SqliteSnapshot
from storage.upkeep import Upkeep
from storage.writer import Writer
from storage.writer_thread import WriterThread


class SqliteStore:
    """`storage.protocols.Log` on SQLite. Made by `open_store`."""

    def __init__(self, lock: DirectoryLock, upkeep: Upkeep, readers: Readers) -> None:
        self._lock = lock
        self._readers = readers
        self._life = upkeep.life
        self._queue = JobQueue()
        self._health = upkeep.health
        self._writer = WriterThread(Writer(upkeep), upkeep, self._queue)

    @property
    def health(self) -> StoreHealth:
        """How the store is."""
        return self._health

    @property
    def new_life(self) -> tuple[Finding, ...]:
        """Why every inbox got a new epoch at this start; empty when nothing was wrong."""
        return self._life.findings

    async def commit(self, unit: Unit[T]) -> T:
        """Run a unit and return its result once it is durable; outcomes as `Log.commit` says."""
        return await self._writer.commit(unit)

    async def read(self, look: Look[T]) -> T:
        """Run a look on a reader, behind the limit of concurrent reads."""
        return await self._readers.read(look)

    async def back_up(self, target: Path, progress: Progress) -> None:
        """Write a copy of the database to `target`, as `storage.backup.back_up` says."""
        await back_up(self._writer.between, target, progress)

    def note_address(self, address: str) -> None:
        """Write the address that this server listens on into the lock, for whoever finds it held."""
        self._lock.note(address)

    def close(self) -> None:
        """Commit what is queued, close everything, let go of the directory. Blocks until that is done."""
        self._readers.close()
        self._queue.close()
        self._writer.join()


class OfflineStore:
    """The store without a server: one unit or look at a time, on the caller's thread. Made by `open_offline`."""

    def __init__(self, upkeep: Upkeep, data_dir: Path) -> None:
        self._upkeep = upkeep
        self._data_dir = data_dir
        self._writer = Writer(upkeep)

    def commit(self, unit: Unit[T]) -> T:
        """Run a unit; the same outcomes as `Log.commit`."""
        result: T = self._writer.run_one(unit)
        return result

    @property
    def new_life(self) -> tuple[Finding, ...]:
        """Why every inbox got a new epoch when this was opened; empty when nothing was wrong."""
        return self._upkeep.life.findings

    def renew_epochs(self) -> int:
        """Begin a new life on purpose; return how many inboxes have a new epoch. Raises `DataDirectoryError`."""
        try:
            try:
                return self._renew()
            except (apsw.Error, OSError) as exc:
                if not self._upkeep.repair(exc):
                    raise
                return self._renew()
        except (apsw.Error, OSError) as exc:
            raise DataDirectoryError(f"The new epochs could not be stored: {exc}.") from exc

    def _renew(self) -> int:
        return self._upkeep.life.renew(self._upkeep.db)

    def reseal(
        self,
        old: SecretBytes | None,
        new: SecretBytes | None,
        *,
        forget: resealing.Forget = "nothing",
        agree: Callable[[resealing.Names], None] = lambda names: None,
    ) -> resealing.Resealed:
        """Put the secrets under another key, as `storage.resealing.reseal` says; this store itself uses none of them.

        Raises `DataDirectoryError`.
        """
        shown = self._data_dir
        try:
            try:
                return resealing.reseal(self._upkeep.db, old, new, shown, forget=forget, agree=agree)
            except apsw.Error as exc:
                if not self._upkeep.repair(exc):
                    raise
                return resealing.reseal(self._upkeep.db, old, new, shown, forget=forget, agree=agree)
        except apsw.Error as exc:
            raise DataDirectoryError(f"The secrets in {shown} could not be sealed anew: {exc}.") from exc

    def read(self, look: Look[T]) -> T:
        """Run a look. Raises what it raises, and `StorageError` for a fault of the disk."""
        db = self._upkeep.db
        try:
            db.execute("BEGIN")
            try:
                return look.run(SqliteSnapshot(db, self._upkeep.seal))
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
        except apsw.Error as exc:
            raise StorageError("The store could not be read.") from exc


@asynccontextmanager
async def open_store(
    options: StorageOptions,
    *,
    clock: Callable[[], int] = wall_clock_us,
    vfs: str | None = None,
    free_bytes: Callable[[Path], int] = space.free_bytes,
    same_life: bool = False,
) -> AsyncIterator[SqliteStore]:
    """Open the store for a server, making the data directory if there is none.

    `clock` returns µs since the epoch; `vfs` names a SQLite VFS and `free_bytes` answers for the file system, both for
    tests of faults. `same_life` accepts, this once, a database that is only `moved` (`storage.life`). Raises
    `DataDirectoryError`. Nothing awaits here: opening and closing block for milliseconds.
    """
    prepare_directory(options.data_dir, create=True)
    lock = DirectoryLock(options.data_dir)
    try:
        upkeep = open_upkeep(options, clock, vfs, free_bytes, moved="accept" if same_life else "renew")
        try:
            readers = Readers(
                partial(connect_reader, options.data_dir / DATABASE_NAME, vfs),
                upkeep.health,
                upkeep.seal,
                max_concurrent=options.max_concurrent_reads,
                slot_timeout_seconds=options.read_slot_timeout_seconds,
            )
        except BaseException as exc:
            upkeep.close()
            if isinstance(exc, apsw.Error):
                raise cannot_be_opened(options.data_dir, exc, is_short=False) from exc
            raise
        store = SqliteStore(lock, upkeep, readers)
        try:
            yield store
        finally:
            store.close()
    finally:
        lock.release()


@contextmanager
def open_offline(
    options: StorageOptions, *, create: bool = False, clock: Callable[[], int] = wall_clock_us
) -> Iterator[OfflineStore]:
    """Open the store on the caller's thread, for a command that works while no server runs.

    Raises `DataDirectoryError`: in use by a server, no database there (unless `create`), not ours, too new.
    """
    prepare_directory(options.data_dir, create=create)
    lock = DirectoryLock(options.data_dir)
    try:
        # Whether a moved directory is the same life is for the next start of a server to say.
        upkeep = open_upkeep(options, clock, moved="leave", secrets="closed")
        try:
            yield OfflineStore(upkeep, options.data_dir)
        finally:
            upkeep.close()
    finally:
        lock.release()
