"""Which life of the data this is: a database that was copied or rolled back must not answer the cursors of another.

The database holds a `lineage` (16 random bytes) and `commits`, which every transaction raises by one. The life file
beside it says what both were a moment ago, and which file the database was. The start compares (engineering study,
S4):

| finding       | when                                        | so                                            |
|---------------|---------------------------------------------|-----------------------------------------------|
| `missing`     | no (readable) life file                     | a database that was put here alone            |
| `lineage`     | the lineages differ                         | another database                              |
| `rolled_back` | the database has fewer commits than noted   | an older copy of this one                     |
| `moved`       | the database is another file than noted     | a copy of the directory, or the directory has |
|               |                                             | been moved: only the operator knows           |

With any finding every inbox gets a new epoch, in one transaction, before anything is served: old cursors are refused
with `epoch_changed`. A database without commits has answered nobody and is never found to be anything.

**No false alarm after a crash or a power loss.** `rolled_back` would need a life file that is ahead of the database.
It is written after the COMMIT that it names, in the process that made it, and that COMMIT had been synced with
everything before it (`synchronous=FULL`): the file can only lag. A start writes nothing when it has nothing to find,
because what it recovered from the log of a killed process may not be synced yet. `missing` would need a file that is
lost or torn. It is made once, synced together with its directory entry, before the first commit; from then on it is
overwritten in place, never truncated, never replaced (a rename without a sync may leave an empty file behind). It has
two slots in different pages and sectors; each write goes to the older one, and a slot whose checksum is wrong does
not count, so a torn write leaves the note before it. `moved` needs another inode, or another device number *and*
another file system id: device numbers are given out anew at every boot, while most file systems (ext4, btrfs, ZFS)
carry an id of their own.

What cannot be found from inside is in `docs/operations.md`.

`LifeKeeper` belongs to the writer's thread; nothing else writes the file while the directory's lock is held.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import apsw
import msgspec

from storage.errors import damaged
from storage.lifefile import LIFE_NAME, Life, LifeFile, Place, place_of

NOTE_SECONDS = 1.0
"""At most one note a second: the file may lag, and a note costs a write that no sender waits for."""

QUICK_CHECK_ROWS = 5
"""Findings of `quick_check` that are asked for; the first one is told."""

CHECK_STEPS = 10_000
"""Of SQLite between two looks at the clock while it checks: 7 MiB of a database, 5 ms of work on pages in memory."""

CHECK_TOLD_SECONDS = 10.0
"""Between two lines in the log about a check that goes on."""

log = logging.getLogger("postroom.storage")

Finding = Literal["missing", "lineage", "rolled_back", "moved"]
OnMoved = Literal["renew", "accept", "leave"]
Detect = Literal["full", "counter"]

FINDINGS: dict[Finding, str] = {
    "missing": "it has no life file beside it",
    "lineage": "its life file belongs to another database",
    "rolled_back": "it is older than its life file",
    "moved": "it is not the file that its life file describes: it was copied or moved",
}


def judge(noted: Life | None, found: Life, detect: Detect) -> tuple[Finding, ...]:
    """Compare a database with the note beside it. Pure; the table above."""
    if found.commits == 0:
        return ()
    if noted is None:
        return ("missing",)
    if noted.lineage != found.lineage:
        return ("lineage",)
    findings: list[Finding] = []
    if found.commits < noted.commits:
        findings.append("rolled_back")
    if detect == "full" and not noted.place.is_same(found.place):
        findings.append("moved")
    return tuple(findings)


def describe(findings: tuple[Finding, ...]) -> str:
    """Return the sentence about a new life that the log and the operator get."""
    why = " and ".join(FINDINGS[finding] for finding in findings)
    return f"The database begins a new life, because {why}; cursors from before are refused (epoch_changed)."


class LifeKeeper:
    """One opening of a database: what was found at the start, and the notes from then on.

    `moved` says what becomes of a database that is only `moved`: `renew` and `accept` (`serve --same-life`) decide it
    for good, `leave` leaves it to the next start of a server. `findings` are those that led to new epochs.
    """

    def __init__(
        self,
        database: Path,
        *,
        detect: Detect = "full",
        moved: OnMoved = "renew",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.findings: tuple[Finding, ...] = ()
        self._database = database
        self._file = LifeFile(database.with_name(LIFE_NAME))
        self._detect: Detect = detect
        self._moved: OnMoved = moved
        self._monotonic = monotonic
        self._noted_at = float("-inf")
        self._pending = False
        self._lineage = ""
        self._place = Place(0, 0, 0)

    def begin(self, db: apsw.Connection) -> None:
        """Compare the migrated database with its life file and begin a new life where they disagree.

        Raises `DataDirectoryError` when a database with a new life is damaged, `apsw.Error`, `OSError`.
        """
        noted = self._file.read()
        self._place = place_of(self._database)
        lineage, commits = identity(db, self._database.parent)
        found = Life(lineage, commits, self._place)
        self._lineage = found.lineage
        findings = judge(noted, found, self._detect)
        if findings == ("moved",) and noted is not None and self._moved != "renew":
            if self._moved == "leave":
                self._place = noted.place
            else:
                db.execute(
                    "UPDATE server SET commits = commits + 1"
                ).fetchall()  # what is noted must be synced
                self._file.create(msgspec.structs.replace(found, commits=commits + 1))
        elif findings:
            check(db, self._database.parent)
            self.findings = findings
            self.renew(db)
        elif commits == 0:
            self._file.create(found)

    def renew(self, db: apsw.Connection) -> int:
        """Begin a new life: every inbox another epoch, the database another lineage; return how many inboxes.

        A crash before the file is written leaves lineages that differ, and so another new life. Raises `apsw.Error`
        and `OSError`.
        """
        renewed = renew(db)
        self._lineage, commits = identity(db, self._database.parent)
        self._place = place_of(self._database)
        self._file.create(Life(self._lineage, commits, self._place))
        return renewed

    def committed(self) -> None:
        """Remember that a transaction was committed in this process."""
        self._pending = True

    def note(self, db: apsw.Connection, *, last: bool = False) -> None:
        """Note the commits so far, at most once in `NOTE_SECONDS`; the `last` note of all at once, synced.

        Called between transactions. Never raises: a note that fails is tried again with the next commit.
        """
        if not self._pending or not (last or self._monotonic() - self._noted_at >= NOTE_SECONDS):
            return
        self._noted_at = self._monotonic()
        with contextlib.suppress(apsw.Error):
            # Outside a transaction: this counter is what the last COMMIT has synced.
            commits = db.execute("SELECT commits FROM server").get
            self._pending = not self._file.note(Life(self._lineage, commits, self._place), sync=last)


def renew(db: apsw.Connection) -> int:
    """Give every inbox a new epoch and the database a new lineage, in one transaction; return how many inboxes.

    The router's cursor moves to the end of the log: mail that was delivered before is not delivered again.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute("UPDATE inbox_head SET epoch = lower(hex(randomblob(8)))").fetchall()
        renewed = db.changes()
        db.execute(
            "UPDATE server SET lineage = randomblob(16), commits = commits + 1, routed_mid = last_mid"
        ).fetchall()
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return renewed


def identity(db: apsw.Connection, shown: object) -> tuple[str, int]:
    """Return lineage (32 hexadecimal digits) and number of commits. Raises `DataDirectoryError` when there are none."""
    match db.execute("SELECT lineage, commits FROM server").fetchall():
        case [(bytes() as lineage, int() as commits)]:
            return lineage.hex(), commits
    raise damaged(shown, "It does not say which database it is.")


def check(db: apsw.Connection, shown: object, monotonic: Callable[[], float] = time.monotonic) -> None:
    """Raise `DataDirectoryError` unless SQLite finds the database whole. Reads all of it: only where it was copied.

    A check that takes long says so in the log, or whoever started it would think that it hangs.
    """
    began = told_at = monotonic()

    def tell() -> bool:
        nonlocal told_at
        now = monotonic()
        if now - told_at >= CHECK_TOLD_SECONDS:
            told_at = now
            log.warning("still checking all of the database in %s, for %.0f s so far", shown, told_at - began)
        return False  # go on

    db.set_progress_handler(tell, CHECK_STEPS)
    try:
        said = str(db.execute(f"PRAGMA quick_check({QUICK_CHECK_ROWS})").fetchall()[0][0])
    except apsw.CorruptError as exc:  # so damaged that the check itself stumbles
        said = str(exc)
    finally:
        db.set_progress_handler(None)
    if said != "ok":
        raise damaged(shown, f"SQLite says: {said}")
