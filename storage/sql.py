"""Statements on one connection: run inside a transaction or not at all, few in number, few in shape.

`Sql` is what every module below shares to talk to SQLite. Its guard is the nastiest bug of this house, prevented:
after some errors (a full disk, I/O) SQLite rolls the whole transaction back by itself, and the statements that
follow would run in autocommit, half-stored and one sync each (engineering study, S2). Here the next statement raises.

Shapes: apsw gives up the GIL at every step, and a busy loop makes each step wait (S6). So rows go in by multi-row
`VALUES` and keys are looked up by one `IN`, in a small set of sizes that the statement cache holds.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, TypeVar

import apsw

from storage.errors import NotStored

T = TypeVar("T")
Row = tuple[Any, ...]

INSERT_SHAPES = (32, 16, 8, 4, 2, 1)
"""Rows per INSERT, largest first; any number is a sum of these. More than 32 gains nothing measurable."""

MAX_IN = 128
"""Most keys in one IN list: a page of 100 and the look-ahead row, rounded up to the next shape."""


class TransactionLost(NotStored):
    """SQLite has rolled the transaction back by itself; no statement may follow."""


class Sql:
    """One connection's statements. `fault` is the last error that SQLite reported; its reader sets it to None."""

    __slots__ = ("db", "fault")

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.fault: apsw.Error | None = None

    def rows(self, statement: str, bindings: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and fetch every row: no cursor stays open (field notes, trap 8)."""
        if not self.db.in_transaction:
            raise TransactionLost("The transaction had ended before this statement.")
        try:
            return self.db.execute(statement, bindings).fetchall()
        except apsw.Error as exc:
            self.fault = exc
            raise

    def each(self, statement: str, bindings: Sequence[Any]) -> Generator[Row]:
        """Run a statement and yield its rows one by one, so that none is read that is not wanted. Exhaust or close
        it within the look: its cursor holds the snapshot.
        """
        if not self.db.in_transaction:
            raise TransactionLost("The transaction had ended before this statement.")
        try:
            with closing(self.db.execute(statement, bindings)) as cursor:
                yield from cursor
        except apsw.Error as exc:
            self.fault = exc
            raise

    def row(self, statement: str, bindings: Sequence[Any] = ()) -> Row | None:
        """Return the first row, or None."""
        rows = self.rows(statement, bindings)
        return rows[0] if rows else None

    def value(self, statement: str, bindings: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row, or None."""
        rows = self.rows(statement, bindings)
        return rows[0][0] if rows else None

    def change(self, statement: str, bindings: Sequence[Any] = ()) -> int:
        """Run a statement that writes and return how many rows it changed."""
        self.rows(statement, bindings)
        return self.db.changes()

    @contextmanager
    def overwriting(self) -> Iterator[None]:
        """Have SQLite write zeros over what a statement removes or moves, also in pages that it frees.

        For secrets, sealed or not: one that was removed while there was no key must be gone when there is one. And for
        messages that are erased, not for those that retention takes: it costs a write for each page that is freed.
        """
        self.db.pragma("secure_delete", True)
        try:
            yield
        finally:
            self.db.pragma("secure_delete", False)

    def insert(self, into: str, rows: Sequence[Row], after: str = "") -> None:
        """Insert rows by as few statements as their number has shapes.

        `into` is everything before `VALUES`, `after` what follows it (an upsert clause).
        """
        width = len(rows[0]) if rows else 0
        for part in in_shapes(rows):
            self.rows(insert_text(into, width, len(part), after), [value for row in part for value in row])


def in_shapes(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the rows in parts of the shapes above."""
    start = 0
    for shape in INSERT_SHAPES:
        while len(rows) - start >= shape:
            yield rows[start : start + shape]
            start += shape


@cache
def insert_text(into: str, width: int, shape: int, after: str) -> str:
    """Return `{into} VALUES (?, …), … {after}` for `shape` rows of `width` columns."""
    row = f"({', '.join('?' * width)})"
    return f"{into} VALUES {', '.join([row] * shape)} {after}"


def in_shape(count: int) -> int:
    """Return the size of the IN list that holds `count` keys: the next power of two."""
    return 1 if count <= 1 else 1 << (count - 1).bit_length()


def padded(keys: Sequence[T]) -> list[T]:
    """Return the keys, the last one repeated up to the size of their IN list. At least one is needed."""
    return [*keys, *[keys[-1]] * (in_shape(len(keys)) - len(keys))]


def in_groups(keys: Sequence[T]) -> Iterator[list[T]]:
    """Yield the keys in padded groups of at most `MAX_IN`."""
    for start in range(0, len(keys), MAX_IN):
        yield padded(keys[start : start + MAX_IN])


def shaped(text: Callable[[str], str]) -> Callable[[int], str]:
    """Make a statement that depends on the size of an IN list only; `text` gets the marks between the brackets."""

    @cache
    def statement(shape: int) -> str:
        return text(", ".join("?" * shape))

    return statement
