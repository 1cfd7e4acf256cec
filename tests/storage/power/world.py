"""One data directory through many power cuts: open, compare, work, cut, and look at what the disk has left.

After each cut a copy of what is left is opened beside the store and held against three things: the commits that were
answered are there; the rows of every table are those that the database had after that very commit (the page cache,
which lost nothing, tells); and `storage.verify` finds nothing. The next opening is the real one, and holds what clients
were told against what they can read. It may be cut short as well.
"""

import random
from collections import Counter
from pathlib import Path

import apsw
import pytest
import trio

from actors.units import Reading
from storage.errors import DataDirectoryError
from storage.health import StoreHealth
from storage.lock import prepare_directory
from storage.migrate import steps
from storage.options import StorageOptions
from storage.protocols import Snapshot
from storage.sqlite import open_store
from storage.verify import verify
from tests.contract.builders import START_US
from tests.storage.faulty_vfs import full, io_error, short_and_full, short_write
from tests.storage.power import copies
from tests.storage.power.disk import PowerDisk, lead_through
from tests.storage.power.ledger import Broken, Ledger
from tests.storage.power.work import Work

BOUND_SECONDS = 60.0
"""For one life; it takes a tenth of a second."""

CUTS = (
    *(("", 400),) * 4,
    *(("sync", 60),) * 3,
    ("truncate", 8),
    ("create", 5),
    ("delete", 3),
    ("rename", 2),
    ("", 0),
)
"""When the power is cut: in which kind of change (any), after fewer than so many of them; 0: at the end, at rest."""

THINGS = 80
"""What is done in a life that is not cut before."""

FAULTS = (
    ("write", "-wal", short_write),
    ("write", "-wal", io_error),
    ("write", "-wal", full),
    ("write", "-wal", short_and_full),
    ("sync", "-wal", io_error),
    ("truncate", "-wal", io_error),
)
"""What the disk does at times, without a power cut: operation, file, error."""

FAULTS_OF_CHECKPOINTS = (
    ("write", ".db", short_write),
    ("write", ".db", full),
    ("sync", ".db", io_error),
)
"""As well, where no checkpoint is made within a COMMIT. SQLite keeps a fault of that to itself, as it should, but of a
VFS in Python the exception reaches whoever called COMMIT: as if what is stored were not.
"""

OFTEN_PAGES = 12
"""Pages in the log after which a COMMIT makes a checkpoint, in every second world; in the others it never does."""


class World:
    """A directory, its disk and its clients. `seed` decides everything that happens."""

    def __init__(self, root: Path, seed: int, patch: pytest.MonkeyPatch) -> None:
        self._rng = random.Random(seed)
        self._data = root / "data"
        self._scratch = root / "scratch"
        self._scratch.mkdir(parents=True)
        self.disk = PowerDisk(self._data, seed)
        self.ledger = Ledger()
        self.tally: Counter[str] = Counter()
        self._now = START_US
        self._faulty = False
        self._health: StoreHealth | None = None
        self._often = self._rng.random() < 0.5
        _shrink(patch, self._rng, checkpoint_pages=OFTEN_PAGES if self._often else 0)
        lead_through(self.disk, patch)
        self._options = StorageOptions(
            data_dir=self._data, wal_limit_bytes=self._rng.choice((60_000, 400_000)), reserve_bytes=64 * 1024
        )

    def close(self) -> None:
        """Unregister the disk."""
        self.disk.unregister()

    def cut(self) -> None:
        """Live once until the power fails. Raises `Broken`."""
        prepare_directory(self._data, create=True)
        kind, most = self._rng.choice(CUTS)
        self.disk.cut_after(self._rng.randrange(most) if most else None, kind)
        self._faulty, self._health = False, None
        self._live(THINGS)
        self.tally[self.disk.cut_in or "at rest"] += 1
        before = self.disk.cached()
        left = self.disk.left()
        self._look_at(left, before)
        self.disk.power_on(left)

    def end(self) -> None:
        """Open a last time, compare, and end in order."""
        prepare_directory(self._data, create=True)
        self._live(0)
        assert not self.disk.dead

    def figures(self) -> dict[str, int]:
        """Return how much was sent, answered, and found or not where nobody knew."""
        book = self.ledger
        return {
            "messages": len(book.sent),
            "commits": book.commits,
            "refused": len(book.refused),
            "unknown, there": book.kept_unknown,
            "unknown, not there": book.lost_unknown,
        }

    def _live(self, things: int) -> None:
        try:
            trio.run(self._life, things)
        except DataDirectoryError as error:
            if not self.disk.dead:
                raise Broken(f"the database does not open: {error}") from error

    async def _life(self, things: int) -> None:
        with trio.fail_after(BOUND_SECONDS):
            async with open_store(
                self._options, clock=lambda: self._now, vfs=self.disk.name, free_bytes=self.disk.free
            ) as store:
                self._health = store.health
                if store.new_life:
                    raise Broken(f"a new life was begun, because {store.new_life}")
                await store.read(Reading(self._compare))
                if not self.disk.dead:
                    self.tally["opened"] += 1
                work = Work(store, self.ledger, self._rng, self._tick, self.disk, self._fail, self._scratch)
                if things:
                    await work.begin()
                    await work.some(things)

    def _compare(self, snapshot: Snapshot) -> None:
        if not self.disk.dead:
            self.ledger.compare(snapshot)

    def _tick(self) -> int:
        self._now += 1_000
        return self._now

    def _fail(self) -> None:
        self._faulty = True
        operation, file, error = self._rng.choice(FAULTS + FAULTS_OF_CHECKPOINTS * (not self._often))
        self.disk.fail(
            operation, file, error, after=self._rng.randrange(4), times=self._rng.choice((1, 1, 1, 3))
        )

    # -- what is left ---------------------------------------------------------------------------------------------
    def _look_at(self, left: copies.Files, before: copies.Files) -> None:
        folder = self._scratch / "left"
        folder.mkdir(exist_ok=True)
        try:
            with copies.opened(left, folder) as db:
                found = copies.commits(db)
                if found < self.ledger.commits:
                    raise Broken(f"{self.ledger.commits} commits were answered, and {found} are there")
                content = copies.content(db)
                if content.get("schema_step") and len(content["schema_step"]) == len(steps()):
                    findings = verify(db, lambda step: None).findings
                    if findings:
                        raise Broken(f"verify says: {'; '.join(findings)}")
        except apsw.Error as error:
            raise Broken(f"what is left does not open: {error}") from error
        ids = {row[1] for row in content.get("message", [])}
        if ids & self.ledger.refused:
            raise Broken("a message is there that was not stored")
        self._hold_against(before, found, content)

    def _hold_against(self, before: copies.Files, found: int, content: copies.Content) -> None:
        """Compare with what the database was after that commit, which the page cache knows.

        Where a commit has failed meanwhile, two may have had the same number, and only an answered one is certain.
        """
        health = self._health
        failed = health is not None and (
            health.unknown_commits or health.lost_transactions or health.reopened
        )
        if not found or (self._faulty and failed and found > self.ledger.commits):
            self.tally["nothing to compare with"] += 1
            return
        folder = self._scratch / "before"
        folder.mkdir(exist_ok=True)
        expected = copies.as_of(found, before, folder, copies.content)
        if expected is None:
            self.tally["not compared"] += 1
            return
        self.tally["compared"] += 1
        different = [name for name in expected if expected[name] != content.get(name)]
        if different or expected.keys() != content.keys():
            raise Broken(f"after {found} commits these tables are not what they were: {different}")


def _shrink(patch: pytest.MonkeyPatch, rng: random.Random, *, checkpoint_pages: int) -> None:
    """Make what is large small, so that a short life has all of it; nothing depends on how fast this machine is."""
    patch.setattr("storage.life.NOTE_SECONDS", 0.0)
    patch.setattr("storage.upkeep.CHECKPOINT_RETRY_SECONDS", 0.0)
    patch.setattr("storage.upkeep.IDLE_CHECKPOINT_SECONDS", 3_600.0)
    patch.setattr("storage.upkeep.PROBE_SECONDS", 3_600.0)
    patch.setattr("storage.writer.BATCH_SECONDS", 60.0)
    patch.setattr("storage.engine.AUTOCHECKPOINT_PAGES", checkpoint_pages)
    patch.setattr("storage.engine.CACHE_KIB", rng.choice((64, 16_384)))
