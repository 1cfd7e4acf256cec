"""Which key the secrets of a database are sealed with, and putting all of them under another one, or under none.

A database is sealed as a whole or not at all: its row in `sealing` says with what, and every secret has that `key_id`.
All secrets are rewritten in one transaction, so an interruption leaves the old state or the new one.

What was there before leaves the files. The tables with secrets are emptied with `secure_delete`, which fills their
pages with zeros, also where cells were only moved to another page, before the rows are written anew; then the log,
which has old pages, is folded in and truncated. What `SqliteTx` removed earlier it has overwritten at once, so that no
page has left such a table with a secret on it. Nothing of this reaches blocks that the disk itself has put aside.

Another process that reads the database keeps the log from being folded in, and with it the old pages in both files.
Then the rewriting holds all the same, and the rest is owed: noted in the database (`user_version`, which nothing else
uses) by the transaction itself, so that also a start after a crash between the two knows, and made up for by the first
start that can.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import apsw
import msgspec

from storage import secret_rows
from storage.errors import DataDirectoryError
from storage.sealing import CHANGED, KeySeal, NoSeal, Seal, seal_of
from storage.secret import SecretBytes
from storage.secret_rows import SecretRow

log = logging.getLogger("postroom.storage")

PLAIN = NoSeal()

SETTLE_SECONDS = 5.0
"""So long a start, or `rekey`, waits for others that read the database. Backups and shells are done in that time, or
stay for long."""

SETTLE_PAUSE_SECONDS = 0.05
"""Between two tries, where SQLite itself did not wait (`WRITER_BUSY_MS`)."""

OWED = 1
"""The `user_version` of a database whose files may still hold what its secrets were before they were rewritten."""

Forget = Literal["nothing", "damaged", "all"]
"""Which secrets may be removed because they do not open: none, those that the right key does not open, or also all of
them when their key is lost."""

Names = tuple[tuple[str, str], ...]
"""Secrets as pairs of the inbox's slug and the secret's name."""


class Resealed(msgspec.Struct, frozen=True):
    """What came of it: how many secrets there are now, whether they are sealed, whether anything was changed.

    `forgotten`: the secrets that were removed. `owed`: what they were before is still in the files (`settle`).
    """

    secrets: int
    sealed: bool
    changed: bool = True
    forgotten: Names = ()
    owed: bool = False


# -- at a start -------------------------------------------------------------------------------------------
def sealed_with(db: apsw.Connection) -> tuple[bytes, bytes] | None:
    """Return salt and key id of a sealed database, None for a plain one, also of before the schema knew of sealing."""
    if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'sealing'").get:
        return None
    found: list[Any] = db.execute("SELECT salt, key_id FROM sealing").fetchall()
    return found[0] if found else None


def unlock(db: apsw.Connection, key: SecretBytes | None, shown: object) -> KeySeal | None:
    """Return the seal of a sealed database, None for a plain one. Changes nothing.

    Raises `DataDirectoryError` when it is sealed and the key is missing or another one.
    """
    sealed = sealed_with(db)
    if sealed is None:
        return None
    if key is None:
        raise DataDirectoryError(
            f"The secrets in {shown} are sealed and POSTROOM_SECRET_KEY is not set; set it to the key that they are"
            " sealed with, or see `postroom rekey --help` for a lost key and the way back."
        )
    seal = _if_right(key, sealed)
    if seal is None:
        raise DataDirectoryError(
            f"The secrets in {shown} are sealed with another key than POSTROOM_SECRET_KEY; set it to that key, or"
            " change the key with `postroom rekey`."
        )
    return seal


def begin(db: apsw.Connection, key: SecretBytes | None, found: KeySeal | None) -> Seal:
    """Return the seal that a server works with; `found` is what `unlock` returned. Seals what is still plain, and
    makes up for what an earlier rewriting left in the files, or says that it is still there.

    Raises `apsw.Error`.
    """
    seal = _begin(db, key, found)
    if not settle(db):
        log.warning(
            "another process is reading the database, so what the secrets were before they were sealed is still in"
            " postroom.db and its log, and is overwritten when that process has ended, at the next start at the latest"
        )
    return seal


def _begin(db: apsw.Connection, key: SecretBytes | None, found: KeySeal | None) -> Seal:
    if key is None:
        return PLAIN
    plain = secret_rows.count_plain(db)
    if found is not None and not plain:
        return found
    seal = found or seal_of(key)
    rows = [
        _under(seal, row, SecretBytes(row.kept.value)) if row.kept.key_id is None else row
        for row in secret_rows.read_all(db)
    ]
    _rewrite(db, rows, seal)
    log.info("secrets that are sealed with POSTROOM_SECRET_KEY from now on: %d", plain)
    return seal


def settle(db: apsw.Connection) -> bool:
    """Get what the secrets were out of the files, if that is owed. Waits for others for at most `SETTLE_SECONDS`.

    Returns whether nothing is owed any more. Raises `apsw.Error` for a fault of the disk; it stays owed then.
    """
    if db.pragma("user_version") != OWED:
        return True
    until = time.monotonic() + SETTLE_SECONDS
    while True:
        try:
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            break
        except apsw.BusyError:
            if time.monotonic() >= until:
                return False
            time.sleep(SETTLE_PAUSE_SECONDS)
    db.pragma("user_version", 0)
    return True


def left_closed(db: apsw.Connection) -> Seal:
    """Return the seal for a command that needs no secret: it opens and writes none of a sealed database."""
    return NoSeal(closed=sealed_with(db) is not None)


# -- another key --------------------------------------------------------------------------------------------
def reseal(
    db: apsw.Connection,
    old: SecretBytes | None,
    new: SecretBytes | None,
    shown: object,
    *,
    forget: Forget = "nothing",
    agree: Callable[[Names], None] = lambda names: None,
) -> Resealed:
    """Put every secret under the key `new`, None for none; `old` is the one that they are sealed with.

    As `forget` allows, those are removed that neither key opens; `agree` is called with them before, and prevents it by
    raising. A key that was mistyped opens none, so it takes more than "damaged" to remove all for it. What was done
    already changes nothing. Raises `apsw.Error`, and `DataDirectoryError` when it cannot be done; nothing is changed
    then.
    """
    sealed = sealed_with(db)
    if sealed is None and new is None:
        count = secret_rows.count(db)
        return Resealed(count, sealed=False, changed=False, owed=not settle(db))
    if sealed is None:
        raise DataDirectoryError(
            f"The secrets in {shown} are not sealed; a start with POSTROOM_SECRET_KEY seals them."
        )
    done = None if new is None else _if_right(new, sealed)
    seal = done or (None if old is None else _if_right(old, sealed))
    if seal is None and old is not None:
        raise DataDirectoryError(
            f"The secrets in {shown} are sealed with another key than the old one given."
        )
    if seal is None and forget == "nothing":
        raise DataDirectoryError(f"The secrets in {shown} are sealed with another key, which was not given.")
    rows = secret_rows.read_all(db)
    opened = [(row, _opened(row, seal)) for row in rows]
    gone = [row for row, secret in opened if secret is None]
    if gone and seal is None and forget != "all":
        raise DataDirectoryError(
            f"No key given here opens any of the {len(gone)} sealed secrets in {shown}, so --forget would remove them"
            " all: is POSTROOM_SECRET_KEY the right one? If their key is lost, say --forget-all."
        )
    if gone and forget == "nothing":
        raise DataDirectoryError(
            f"The secret {gone[0].name} of inbox {gone[0].inbox_id} cannot be read, because {CHANGED}; with --forget"
            " as well, `postroom rekey` removes it."
        )
    if done is not None and not gone:
        return Resealed(len(rows), sealed=True, changed=False, owed=not settle(db))
    forgotten = tuple((_slug(db, row.inbox_id), row.name) for row in gone)
    if forgotten:
        agree(forgotten)
    to = None if new is None else seal_of(new)
    kept = [_under(to or PLAIN, row, secret) for row, secret in opened if secret is not None]
    _rewrite(db, kept, to)
    return Resealed(len(kept), sealed=to is not None, forgotten=forgotten, owed=not settle(db))


def _if_right(key: SecretBytes, sealed: tuple[bytes, bytes]) -> KeySeal | None:
    """Return the seal of a key when it is the one that the database is sealed with."""
    salt, key_id = sealed
    seal = seal_of(key, salt)
    return seal if seal.key_id == key_id else None


# -- rows -----------------------------------------------------------------------------------------------------
def _slug(db: apsw.Connection, inbox_id: int) -> str:
    return str(db.execute("SELECT slug FROM inbox WHERE inbox_id = ?", (inbox_id,)).get or inbox_id)


def _opened(row: SecretRow, seal: KeySeal | None) -> SecretBytes | None:
    """Return a row's secret, None when it does not open. A plain one beside sealed ones was put there by a person."""
    if row.kept.key_id is None:
        return SecretBytes(row.kept.value)
    return None if seal is None else seal.opened(row.inbox_id, row.name, row.kept)


def _under(seal: Seal, row: SecretRow, secret: SecretBytes) -> SecretRow:
    return msgspec.structs.replace(row, kept=seal.keep(row.inbox_id, row.name, secret))


def _rewrite(db: apsw.Connection, rows: Sequence[SecretRow], seal: KeySeal | None) -> None:
    """Replace all secrets, in one transaction. `settle` then gets the old rows out of the database and its log."""
    db.pragma("secure_delete", True)
    try:
        db.execute("BEGIN IMMEDIATE")
        try:
            _write(db, rows, seal)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    finally:
        db.pragma("secure_delete", False)


def _write(db: apsw.Connection, rows: Sequence[SecretRow], seal: KeySeal | None) -> None:
    secret_rows.write_all(db, rows)
    db.execute("DELETE FROM sealing").fetchall()
    if seal is not None:
        db.execute("INSERT INTO sealing VALUES (1, ?, ?)", (seal.salt, seal.key_id)).fetchall()
    db.execute("UPDATE server SET commits = commits + 1").fetchall()
    db.pragma("user_version", OWED)
