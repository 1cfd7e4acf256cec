"""Databases laid out of bytes, to be looked at beside the store: what they contain, and what they did before."""

import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from storage.lock import DATABASE_NAME

Files = dict[str, bytes]
Content = dict[str, list[tuple[Any, ...]]]
"""Rows by table, in the order of their keys."""

WAL = f"{DATABASE_NAME}-wal"
LOG_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24


@contextmanager
def opened(files: Files, folder: Path) -> Iterator[apsw.Connection]:
    """Lay files into a folder and open the database there, which recovers it as a start would."""
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with closing(apsw.Connection(str(folder / DATABASE_NAME))) as db:
        yield db


def content(db: apsw.Connection) -> Content:
    """Return every row of every table; of the words of the search, which keep no text, what they are made of."""
    tables = db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    ).fetchall()
    return {name: db.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables}  # noqa: S608 — its own names


def commits(db: apsw.Connection) -> int:
    """Return how many commits a database says that it has seen, 0 for one that is not founded."""
    if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'server'").get:
        return 0
    return int(db.execute("SELECT commits FROM server").get)


def as_of(wanted: int, files: Files, folder: Path, look: Callable[[apsw.Connection], Any]) -> Any:
    """Return what a look at a database returns as it was after so many commits; None when its log does not tell."""
    while True:
        with opened(files, folder) as db:
            found = commits(db)
            if found == wanted:
                return look(db)
        ends = list(_transactions(files.get(WAL, b"")))
        if found < wanted or not ends:
            return None
        files = {**files, WAL: files[WAL][: ends[-2] if len(ends) > 1 else 0]}


def _transactions(log: bytes) -> Iterator[int]:
    """Yield where each transaction of a write-ahead log ends."""
    if len(log) < LOG_HEADER_BYTES:
        return
    (page_bytes,) = struct.unpack_from(">I", log, 8)
    salts = log[16:24]
    frame = FRAME_HEADER_BYTES + page_bytes
    for start in range(LOG_HEADER_BYTES, len(log) - frame + 1, frame):
        if log[start + 8 : start + 16] != salts:
            return
        if struct.unpack_from(">I", log, start + 4) != (0,):
            yield start + frame
