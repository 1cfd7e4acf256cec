"""A writer on the test's own thread, over a disk that fails when told and a clock that the test moves."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

from storage.engine import Job, connect_reader
from storage.lock import DATABASE_NAME, prepare_directory
from storage.opening import open_upkeep
from storage.options import StorageOptions
from storage.protocols import Lane, Tx
from storage.records import InboxRecord
from storage.snapshot import SqliteSnapshot
from storage.space import RESERVE_NAME
from storage.writer import Writer
from tests.contract.builders import Do, entry, new_inbox, put
from tests.storage.faulty_vfs import FaultyDisk

RESERVE_BYTES = 1024 * 1024


class Rig:
    """The store without its threads. `seconds` is its steady clock, `disk` its disk; `arm` prepares that."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self.disk = FaultyDisk()
        self.disk.reserve = directory / RESERVE_NAME
        self.disk.capacity = options.pop("capacity", None)
        options.pop("arm", lambda _: None)(self.disk)
        self.seconds = 1_000.0
        self.options = StorageOptions(data_dir=directory, **{"reserve_bytes": RESERVE_BYTES, **options})
        prepare_directory(directory, create=True)
        self.upkeep = open_upkeep(
            self.options, vfs=self.disk.name, free_bytes=self.disk.free, monotonic=lambda: self.seconds
        )
        self.health = self.upkeep.health
        self.writer = Writer(self.upkeep, lambda: self.seconds)

    def batch(self, *units: Any) -> list[Any]:
        """Run units in one batch; return for each its result or its exception."""
        jobs = [Job(unit if hasattr(unit, "run") else Do(unit)) for unit in units]
        assert self.writer.run_batch(jobs) == []
        assert all(job.done for job in jobs)
        self.upkeep.trim_log()
        return [job.error if job.error is not None else job.value for job in jobs]

    def one(self, unit: Any, **fields: Any) -> Any:
        """Run one unit alone; return its result or raise."""
        return self.writer.run_one(unit if hasattr(unit, "run") else Do(unit, **fields))

    def inbox(self, slug: str = "demo") -> InboxRecord:
        record: InboxRecord = self.one(lambda tx: tx.create_inbox(new_inbox(slug)))
        return record

    def spill(self) -> None:
        """Make the writer's cache so small that a large unit writes to the disk before its COMMIT."""
        self.upkeep.db.execute("PRAGMA cache_size = 40").fetchall()

    def stored(self) -> list[tuple[int, int]]:
        """Return (inbox id, seq) of every entry, seen by a reader of its own."""
        return [(row[0], row[1]) for row in self.rows("SELECT inbox_id, seq FROM entry ORDER BY 1, 2")]

    def rows(self, statement: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a reader of its own sees."""
        db = connect_reader(self.directory / DATABASE_NAME)
        try:
            return db.execute(statement, bindings).fetchall()
        finally:
            db.close()

    def see(self, look: Callable[[SqliteSnapshot], Any]) -> Any:
        """Return what a look of a reader of its own returns."""
        db = connect_reader(self.directory / DATABASE_NAME)
        try:
            with db:
                return look(SqliteSnapshot(db, self.upkeep.seal))
        finally:
            db.close()

    def close(self) -> None:
        """Close the store and unregister the disk."""
        self.upkeep.close()
        self.disk.unregister()


def add(inbox: InboxRecord, seq: int, **fields: Any) -> Callable[[Tx], int]:
    """Return what appends one entry and returns its seq."""

    def run(tx: Tx) -> int:
        put(tx, inbox.inbox_id, [entry(seq, **fields)])
        return seq

    return run


def add_much(inbox: InboxRecord, seq: int, size: int = 60_000, count: int = 20) -> Callable[[Tx], int]:
    """Return what appends many entries with large inline bodies: more than a small cache holds."""

    def run(tx: Tx) -> int:
        put(tx, inbox.inbox_id, [entry(n, body=bytes(size)) for n in range(seq, seq + count)])
        return seq

    return run


def tidy(of: Callable[[Tx], Any]) -> Do[Any]:
    """Return a unit that grows nothing."""
    return Do(of, Lane.HOUSEKEEPING, grows=False)


def checked(db: apsw.Connection) -> str:
    """Return SQLite's own verdict on a database: `ok` when it is whole."""
    return str(db.execute("PRAGMA integrity_check").get)
