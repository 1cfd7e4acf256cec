"""All secrets of a database as one list, wherever they are kept: those of inboxes, and those of wake targets.

For `storage.resealing`, which reads all of them and writes all of them anew, both tables emptied in between: what was
on their pages is then gone (`secure_delete`). Serving reads and writes single ones, in `storage.rows`, `storage.tx` and
`storage.mesh_roster`.
"""

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from storage.mesh_roster import WAKE_SECRET
from storage.sealing import Kept

_COUNT = "SELECT (SELECT count(*) FROM secret{0}) + (SELECT count(secret) FROM wake_target{0})"


class SecretRow(msgspec.Struct, frozen=True):
    """A secret in its row. `rest`: what else the row has, as `write_all` wants it."""

    inbox_id: int
    name: str
    kept: Kept
    rest: tuple[Any, ...]


def count(db: apsw.Connection) -> int:
    """Return how many secrets there are."""
    return int(db.execute(_COUNT.format("")).get)


def count_plain(db: apsw.Connection) -> int:
    """Return how many of them are plain."""
    return int(db.execute(_COUNT.format(" WHERE key_id IS NULL")).get)


def read_all(db: apsw.Connection) -> list[SecretRow]:
    """Return every secret."""
    inboxes = "SELECT inbox_id, name, value, key_id, added_at FROM secret"
    targets = (
        "SELECT inbox_id, ?, secret, key_id, url, failures, off_at FROM wake_target WHERE secret IS NOT NULL"
    )
    found: list[Any] = db.execute(inboxes).fetchall() + db.execute(targets, (WAKE_SECRET,)).fetchall()
    return [
        SecretRow(inbox_id, name, Kept(value, key_id), tuple(rest))
        for inbox_id, name, value, key_id, *rest in found
    ]


def write_all(db: apsw.Connection, rows: Sequence[SecretRow]) -> None:
    """Put these in place of every secret, inside a transaction. A wake target whose secret is not among them goes as a
    whole: called unsigned, it would be another one.
    """
    unsigned = db.execute("SELECT inbox_id, url, failures, off_at FROM wake_target WHERE secret IS NULL")
    targets: list[tuple[Any, ...]] = [
        (inbox_id, None, None, *rest) for inbox_id, *rest in unsigned.fetchall()
    ]
    targets += [(*_row(row), *row.rest) for row in rows if row.name == WAKE_SECRET]
    secrets = [(*_row(row), row.name, *row.rest) for row in rows if row.name != WAKE_SECRET]
    db.execute("DELETE FROM secret; DELETE FROM wake_target").fetchall()
    db.executemany(
        "INSERT INTO secret (inbox_id, value, key_id, name, added_at) VALUES (?, ?, ?, ?, ?)", secrets
    )
    db.executemany(
        "INSERT INTO wake_target (inbox_id, secret, key_id, url, failures, off_at) VALUES (?, ?, ?, ?, ?, ?)",
        targets,
    )


def _row(row: SecretRow) -> tuple[int, bytes, bytes | None]:
    return row.inbox_id, row.kept.value, row.kept.key_id
