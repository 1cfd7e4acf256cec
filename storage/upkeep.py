"""The writing connection's upkeep: the states of the store, the ways out of a fault, the write-ahead log.

`Upkeep` owns the connection and the `SqliteTx` on it, and alone replaces them. States, as in `health`:

- `open`: everything is accepted.
- `full`: nothing that grows the database is accepted (engineering study, S3); everything else is.
- `degraded`: nothing is written; once a second the connection is opened anew and a test transaction is committed.
- `closed`.

It is called by whoever runs the writer, on the writer's thread, between transactions. None of its methods raises.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from storage.engine import WRITER_BUSY_MS
from storage.errors import StorageError
from storage.health import StoreHealth
from storage.life import LifeKeeper
from storage.sealing import Seal
from storage.space import Space
from storage.tx import SqliteTx

PROBE_SECONDS = 1.0
"""Between two looks at a store that is degraded or full."""

IDLE_CHECKPOINT_SECONDS = 1.0
"""Quiet time after which the write-ahead log is folded into the database and truncated."""

CHECKPOINT_RETRY_SECONDS = 0.25
"""Between two tries to truncate a log that is over its limit: a reader may be in the way."""

FULL_WAL_BYTES = 1024 * 1024
"""The log's limit while the disk is full: what frees space must not run into its own log."""

DEGRADED = "The disk reported an error; the store takes no writes until a test write succeeds."
FULL = "The disk is full; nothing new is stored until there is room again."


class Upkeep:
    """The connection that writes, and how it is. Not thread-safe: one caller at a time.

    Opening raises `apsw.Error` and `DataDirectoryError`; `connect` must return a migrated database. `monotonic` is the
    clock of the intervals above, in seconds.
    """

    def __init__(
        self,
        database: Path,
        connect: Callable[[], apsw.Connection],
        space: Space,
        life: LifeKeeper,
        seal: Seal,
        health: StoreHealth,
        clock: Callable[[], int],
        *,
        wal_limit_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.health = health
        self._database = database
        self._wal = Path(f"{database}-wal")
        self._connect = connect
        self._space = space
        self.life = life
        self.seal = seal
        self._clock = clock
        self._wal_limit_bytes = wal_limit_bytes
        self._monotonic = monotonic
        self._probe_at = 0.0
        self._written_at = monotonic()
        self._checkpointed_at = float("-inf")
        self._used_bytes = 0
        self._abandoned = False
        self.db = connect()
        # AUTOINCREMENT remembers the highest id ever given out: what is staged up to it is from before this start.
        stale = self.db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'body_staged'").get
        self._stale_body_id = int(stale or 0)
        self.tx = SqliteTx(self.db, clock, self._stale_body_id, seal)
        self._note_sizes()
        self._space.restore()
        self._look_at_space()

    # -- between transactions --------------------------------------------------------------------------------
    def look(self) -> None:
        """Bring the state up to date before a transaction: probe if it is time, look at the room there is."""
        if self.health.state == "degraded":
            if self._monotonic() >= self._probe_at:
                self.reopen()
        else:
            self._look_at_space()

    def after_commit(self) -> None:
        """Note when the last transaction was committed and how large it left the log."""
        self._written_at = self._monotonic()
        self.life.committed()
        self._note_sizes()

    def trim_log(self) -> None:
        """Write the life file, truncate a log that is over its limit. Called when the batch has been answered."""
        self.note_life()
        if self.health.state == "full":
            if self.health.wal_bytes > FULL_WAL_BYTES:
                self._checkpoint()
        elif (
            self.health.wal_bytes > self._wal_limit_bytes
            and self._monotonic() - self._checkpointed_at >= CHECKPOINT_RETRY_SECONDS
        ):
            self._checkpoint()

    def seconds_until_due(self) -> float | None:
        """Return how long `tick` has nothing to do; None: until something is written."""
        if self.health.state in ("degraded", "full"):
            due = self._probe_at
        elif self.health.wal_bytes:
            due = max(self._written_at, self._checkpointed_at) + IDLE_CHECKPOINT_SECONDS
        else:
            return None
        return max(0.0, due - self._monotonic())

    def tick(self) -> None:
        """Do what is due while nothing waits: the probe of a bad state, the checkpoint of an idle store."""
        if self.seconds_until_due() != 0:
            return
        if self.health.state == "degraded":
            self.reopen()
        else:
            self._checkpoint()
            self.note_life()
            self._look_at_space()

    def close(self) -> None:
        """Fold the log into the database and close."""
        if self.health.state != "degraded":
            self._checkpoint()
            self.note_life(last=True)
        self.abandon()
        self.health.become("closed", "The store is closed.")

    def note_life(self, *, last: bool = False) -> None:
        """Write down how far the database has come, unless it cannot be asked at present."""
        if not self._abandoned:
            self.life.note(self.db, last=last)

    # -- ways out of a fault ----------------------------------------------------------------------------------
    def repair(self, cause: BaseException) -> bool:
        """Get out of a fault, into `open`, `full` or `degraded`.

        True when a full disk was the fault and something could be given up: what does not grow is worth another try.
        """
        if isinstance(cause, apsw.BusyError) and not self._abandoned:
            return False  # somebody else holds the write lock; nothing of ours is broken
        if isinstance(cause, apsw.FullError) and not self._abandoned:
            return self._make_room()
        return self.reopen()

    def reopen(self) -> bool:
        """Replace the connection and commit a probe: `open` (or `full`) when both work, else `degraded`.

        True when that took giving up the reserve, as `repair` says.
        """
        gave = False
        try:
            try:
                self._connect_and_probe()
            except (apsw.Error, StorageError):
                gave = self._space.give_up_if_short()
                if not gave:
                    raise
                self._connect_and_probe()
        except (apsw.Error, StorageError) as exc:
            if isinstance(exc, apsw.FullError):
                self._end_transaction()
            else:
                self.abandon()
            if self._abandoned:
                self._probe_at = self._monotonic() + PROBE_SECONDS
                self.health.become("degraded", DEGRADED)
            else:
                gave = self._make_room() or gave
        else:
            self.health.reopened += 1
            self._note_sizes()
            if gave:
                self._space.restore()
            self._look_at_space()
        return gave

    def _connect_and_probe(self) -> None:
        """Open the connection anew and commit through it. Raises `apsw.Error`, `StorageError`."""
        self.abandon()
        self.db = self._connect()
        self.tx = SqliteTx(self.db, self._clock, self._stale_body_id, self.seal)
        self._abandoned = False
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("UPDATE server SET commits = commits + 1")
        self.db.execute("COMMIT")

    def abandon(self) -> None:
        """Close the connection, which rolls back what is open; `repair` opens another."""
        self._abandoned = True
        try:
            self.db.close(True)
        except apsw.Error:
            return  # nobody uses it again in any case

    def _end_transaction(self) -> None:
        try:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        except apsw.Error:
            self.abandon()

    # -- room on the disk ---------------------------------------------------------------------------------------
    def _make_room(self) -> bool:
        """Give up the reserve so that a checkpoint and deletions can run; `full` unless that was enough.

        True when that gave anything: the reserve, or the room that the log took.
        """
        log_bytes = self.health.wal_bytes
        gave = self._space.give_up()
        self._checkpoint()
        self._space.restore()
        if self._space.whole:
            self._look_at_space()
        else:
            self._become_full(FULL)
        return gave or self.health.wal_bytes < log_bytes

    def _look_at_space(self) -> None:
        """Move between `open` and `full` by the room there is: one statvfs.

        Nobody is refused for the room that the log takes: it is folded in first.
        """
        reason = self._space.shortage(self._used())
        if reason and self.health.state == "open" and self.health.wal_bytes:
            self._checkpoint()
            reason = self._space.shortage(self._used())
        if not reason and not self._space.whole:
            self._space.restore()
            reason = "" if self._space.whole else FULL
        if reason:
            self._become_full(reason)
        elif self.health.state != "open":
            self.health.become("open")
        self.tx.shrink = bool(reason)

    def _become_full(self, reason: str) -> None:
        self._probe_at = self._monotonic() + PROBE_SECONDS
        self.tx.shrink = True
        if (self.health.state, self.health.reason) != ("full", reason):
            self.health.become("full", reason)

    def spare_bytes(self) -> int:
        """Return the room that neither the reserve nor the next transaction needs: what a backup may take."""
        return self._space.spare_bytes()

    def _used(self) -> int:
        """Return the bytes of the database that are in use; looked up only where they are limited."""
        if self._space.max_data_bytes is not None:
            try:
                pages = (
                    self.db.execute("PRAGMA page_count").get - self.db.execute("PRAGMA freelist_count").get
                )
                self._used_bytes = pages * self.db.execute("PRAGMA page_size").get
            except apsw.Error:
                return self._used_bytes  # the next transaction meets the same fault, and has a rule for it
        return self._used_bytes

    # -- the write-ahead log --------------------------------------------------------------------------------------
    def _note_sizes(self) -> None:
        self.health.wal_bytes = _size(self._wal)
        self.health.database_bytes = _size(self._database)

    def _checkpoint(self) -> None:
        """Fold the log into the database and truncate it, without waiting for readers.

        A failure loses nothing: what is committed stays in the log, and the next write meets the same disk.
        """
        self._checkpointed_at = self._monotonic()
        try:
            self.db.set_busy_timeout(0)
            self.db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self.health.checkpoints += 1
        except apsw.BusyError:
            pass  # a reader is in the way; what could be folded in has been
        except apsw.Error:
            self.health.checkpoint_errors += 1
        try:
            self.db.set_busy_timeout(WRITER_BUSY_MS)
        except apsw.Error:
            self.health.checkpoint_errors += 1
        self._note_sizes()


def _size(path: Path) -> int:
    """Return the size of a file in bytes, 0 for one that is not there. By path: opening it drops SQLite's locks."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
