"""Bringing a database to this version's schema: numbered steps, one transaction each, forward only.

A step and the row that records it commit together, so an interruption leaves a whole number of steps and the next
start goes on from there. A database of a newer Postroom, or of another program, is refused untouched.
"""

import importlib.resources
from collections.abc import Callable, Sequence

import apsw
import msgspec

from storage.errors import DataDirectoryError, damaged

APPLICATION_ID = 0x706D_3031
"""`pm01` in the header of the file, so that `file(1)` and we can tell whose database it is."""

SCHEMA_STEP = """
CREATE TABLE schema_step (n INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT
"""


class Step(msgspec.Struct, frozen=True):
    """One migration: its number (from 1, without holes), its name, its statements (no BEGIN, no COMMIT)."""

    n: int
    name: str
    sql: str


def steps() -> list[Step]:
    """Return the steps that this version knows, in order, from `storage/migrations/NNNN_name.sql`."""
    folder = importlib.resources.files(__package__) / "migrations"
    found = []
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        number, _, name = file.name.removesuffix(".sql").partition("_")
        if file.name.endswith(".sql"):
            found.append(Step(int(number), name, file.read_text(encoding="utf-8")))
    return found


def migrate(db: apsw.Connection, known: Sequence[Step], clock: Callable[[], int], shown: str) -> None:
    """Apply the steps that the database lacks. `shown` is the directory as the person named it.

    Raises `DataDirectoryError` for a database that is not ours, is damaged, or is newer than `known`.
    """
    for step in known[require_not_newer(applied_steps(db, shown), known, shown) :]:
        _apply(db, step, clock())


def require_known(db: apsw.Connection, known: Sequence[Step], shown: str) -> int:
    """Return how many steps a database of ours has, changing nothing. Raises as `migrate`, also when it is empty."""
    applied = require_not_newer(applied_steps(db, shown), known, shown)
    if not applied:
        raise DataDirectoryError(f"The database in {shown} is empty.")
    return applied


def require_not_newer(applied: int, known: Sequence[Step], shown: str) -> int:
    """Return the number of applied steps. Raises `DataDirectoryError` when it is more than are known."""
    if applied > len(known):
        raise DataDirectoryError(
            f"The database in {shown} was written by a newer Postroom (schema step {applied}, "
            f"this one knows {len(known)}); install that version again."
        )
    return applied


def applied_steps(db: apsw.Connection, shown: str) -> int:
    """Return the number of the last applied step, 0 for a database without tables.

    Raises `DataDirectoryError` for one that is not ours, or whose record of steps cannot be true: a file that was cut
    off reads as zeros where its log does not cover it.
    """
    try:
        application_id = db.execute("PRAGMA application_id").get
        tables = db.execute("SELECT count(*) FROM sqlite_schema").get
        if application_id == 0 and tables == 0:
            return 0
        if application_id != APPLICATION_ID:
            raise DataDirectoryError(f"{shown} holds something that is not a Postroom database.")
        numbers = [n for (n,) in db.execute("SELECT n FROM schema_step ORDER BY n").fetchall()]
    except apsw.NotADBError as exc:
        raise DataDirectoryError(f"{shown} holds something that is not a SQLite database.") from exc
    except (apsw.CorruptError, apsw.SQLError) as exc:
        raise damaged(shown, f"SQLite says: {exc}") from exc
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise damaged(shown, "Its record of schema steps cannot be true.")
    return len(numbers)


def _apply(db: apsw.Connection, step: Step, now: int) -> None:
    """Run one step and the row that records it as one transaction."""
    # The root of a new table takes the place of a page that is moved away: it must not keep what was there, a secret.
    db.execute("PRAGMA secure_delete = FAST").fetchall()
    db.execute("BEGIN IMMEDIATE")
    try:
        if step.n == 1:
            db.pragma("application_id", APPLICATION_ID)
            db.execute(SCHEMA_STEP)
        db.execute(step.sql).fetchall()
        db.execute("INSERT INTO schema_step VALUES (?, ?, ?)", (step.n, step.name, now))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
