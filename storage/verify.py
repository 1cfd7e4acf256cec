"""`verify`: is this database whole, and does it keep its own promises? Reads only; repairs nothing.

SQLite's own check comes first; then what no foreign key says, because the hot tables have none (each would cost a
probe per row): entries and their messages, messages and their bodies, numbers without holes, heads and what they
count. Every check is a statement that yields what is wrong, so memory stays small whatever the size; its temporary
tables go to a file.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from storage.errors import DataDirectoryError
from storage.mail_checks import MAIL_CHECKS, Check
from storage.mesh_checks import MESH, MESH_CHECKS
from storage.records import BodyKind
from storage.restore import open_copy
from storage.sealing import NONCE_BYTES, TAG_BYTES
from storage.search_checks import SEARCH_CHECKS

SHOWN = 5
"""Findings of one kind that are shown one by one; the rest are counted."""

INTEGRITY_FINDINGS = 100
"""At which SQLite's own check gives up."""

STEP_INSTRUCTIONS = 1_000_000
"""Instructions of SQLite between two signs of life: a few tens of milliseconds."""

SEALING = 3
"""The schema step that made sealing possible."""

Pulse = Callable[[], None]
"""Is called now and then while a check runs."""


class Verified(msgspec.Struct, frozen=True):
    """What was looked at (`inboxes`, `messages`, `entries`, `secrets`: how many) and what was found, a sentence each.

    `sealed`: how many of the secrets are sealed. Whether they open, nobody can tell without their key.
    """

    inboxes: int = 0
    messages: int = 0
    entries: int = 0
    secrets: int = 0
    sealed: int = 0
    findings: tuple[str, ...] = ()


_NUMBERS = """
SELECT h.inbox_id, i.slug, h.first_seq, h.latest_seq, h.live_rows, h.live_bytes, h.dropped_rows, h.last_at, (SELECT
count(*) FROM entry e WHERE e.inbox_id = h.inbox_id AND e.seq BETWEEN h.first_seq AND h.latest_seq) AS kept, (SELECT
total(size) FROM entry e WHERE e.inbox_id = h.inbox_id AND e.seq BETWEEN h.first_seq AND h.latest_seq) AS bytes,
(SELECT count(*) FROM erased x WHERE x.inbox_id = h.inbox_id AND x.seq BETWEEN h.first_seq AND h.latest_seq) AS
erased, (SELECT max(received_at) FROM entry e WHERE e.inbox_id = h.inbox_id AND e.seq = (SELECT max(seq) FROM entry l
WHERE l.inbox_id = h.inbox_id)) AS newest FROM inbox_head h JOIN inbox i USING (inbox_id)
"""

CHECKS: tuple[Check, ...] = (
    Check(
        "inboxes",
        "SELECT inbox_id FROM inbox LEFT JOIN inbox_head USING (inbox_id)"
        " WHERE (state = 'live') != (epoch IS NOT NULL) OR (state = 'live') != (slug IS NOT NULL)",
        "inbox {0}: it is neither alive with slug and head nor deleted without",
    ),
    Check(
        "inboxes",
        "SELECT inbox_id FROM inbox LEFT JOIN sweep_todo USING (inbox_id)"
        " WHERE state = 'deleting' AND below_seq IS NULL",
        "inbox {0}: it is deleted, and nobody is to sweep its rows",
    ),
    Check(
        "inboxes",
        "SELECT inbox_id FROM inbox_head LEFT JOIN inbox USING (inbox_id) WHERE inbox.inbox_id IS NULL",
        "inbox {0}: it has a head and does not exist",
    ),
    Check(
        "numbers",
        f"SELECT inbox_id, slug, latest_seq - first_seq + 1, kept, erased FROM ({_NUMBERS})"  # noqa: S608 — constants # nosec B608
        " WHERE kept + erased != latest_seq - first_seq + 1",
        "inbox {1}: {2} numbers are in use, {3} messages are kept and {4} were erased",
    ),
    Check(
        "numbers",
        f"SELECT inbox_id, slug, live_rows, kept, live_bytes, bytes FROM ({_NUMBERS})"  # noqa: S608 — constants # nosec B608
        " WHERE live_rows != kept OR live_bytes != bytes",
        "inbox {1}: its head counts {2} messages of {4} bytes, and {3} of {5:.0f} are there",
    ),
    Check(
        "numbers",
        f"SELECT inbox_id, slug, latest_seq, live_rows, dropped_rows FROM ({_NUMBERS})"  # noqa: S608 — constants # nosec B608
        " WHERE live_rows + dropped_rows != latest_seq",
        "inbox {1}: it has numbered {2} messages, keeps {3} and has dropped {4}",
    ),
    Check(
        "numbers",
        f"SELECT inbox_id, slug FROM ({_NUMBERS}) WHERE newest > last_at OR first_seq NOT BETWEEN 1 AND latest_seq + 1",  # noqa: S608 — constants # nosec B608
        "inbox {1}: its head is behind its newest message, or begins in the wrong place",
    ),
    Check(
        "numbers",
        "SELECT inbox_id, max(seq), latest_seq FROM entry JOIN inbox_head USING (inbox_id)"
        " GROUP BY inbox_id HAVING max(seq) > latest_seq",
        "inbox {0}: message {1} is beyond its last number, {2}",
    ),
    Check(
        "numbers",
        "SELECT inbox_id, min(seq) FROM entry LEFT JOIN inbox_head h USING (inbox_id)"
        " LEFT JOIN sweep_todo t USING (inbox_id) GROUP BY inbox_id"
        " HAVING min(seq) < coalesce(first_seq, 9223372036854775807) AND coalesce(below_seq, 0) <= min(seq)",
        "inbox {0}: from message {1} on there are rows that nobody reads and nobody is to sweep",
    ),
    Check(
        "numbers",
        "SELECT x.inbox_id, x.seq FROM erased x JOIN entry e USING (inbox_id, seq)",
        "inbox {0}: message {1} was erased and is there",
    ),
    Check(
        "times",
        "SELECT inbox_id, seq FROM (SELECT inbox_id, seq, received_at, lag(received_at)"
        " OVER (PARTITION BY inbox_id ORDER BY seq) AS before FROM entry) WHERE received_at <= before",
        "inbox {0}: message {1} was received before the one in front of it",
    ),
    Check(
        "entries",
        "SELECT e.inbox_id, e.seq, e.mid FROM entry e LEFT JOIN message m USING (mid) WHERE m.mid IS NULL",
        "inbox {0}: the content of message {1} is missing (mid {2})",
    ),
    Check(
        "entries",
        "SELECT e.inbox_id, e.seq, e.mid FROM entry e JOIN message m USING (mid)"
        " WHERE e.size != m.size OR e.home = 1 AND (m.home_inbox, m.home_seq, m.received_at)"
        " != (e.inbox_id, e.seq, e.received_at)",
        "inbox {0}: message {1} does not fit its content (mid {2})",
    ),
    Check(
        "messages",
        "SELECT m.mid FROM message m"
        " WHERE NOT EXISTS (SELECT 1 FROM entry WHERE inbox_id = m.home_inbox AND seq = m.home_seq)"
        " AND NOT EXISTS (SELECT 1 FROM entry INDEXED BY entry_once WHERE mid = m.mid AND home = 0)",
        "message {0}: it is in no inbox",
    ),
    Check(
        "messages",
        f"SELECT mid FROM message WHERE (body_id IS NOT NULL) != (body_kind = {BodyKind.LARGE})"  # noqa: S608 — constants # nosec B608
        f" OR body_kind != {BodyKind.LARGE} AND coalesce(length(body), 0) != size",
        "message {0}: its body is not as long as it says",
    ),
    Check(
        "messages",
        "SELECT m.mid, last_mid FROM message m, server WHERE m.mid > last_mid",
        "message {0}: it is beyond the last one of the log, {1}",
    ),
    Check(
        "bodies",
        "SELECT body_id, count(*) FROM temp.large GROUP BY body_id HAVING count(*) > 1",
        "body {0}: {1} messages have it",
    ),
    Check(
        "bodies",
        "SELECT l.mid, l.size, coalesce(p.bytes, 0), coalesce(p.pieces, 0) FROM temp.large l"
        " LEFT JOIN temp.pieces p USING (body_id)"
        " WHERE p.body_id IS NULL OR p.bytes != l.size OR p.first != 0 OR p.last != p.pieces - 1",
        "message {0}: its body has {1} bytes, and {2} are there in {3} pieces",
    ),
    Check(
        "bodies",
        "SELECT p.body_id FROM temp.pieces p WHERE NOT EXISTS (SELECT 1 FROM temp.large WHERE body_id = p.body_id)"
        " AND NOT EXISTS (SELECT 1 FROM body_staged WHERE body_id = p.body_id)",
        "body {0}: it belongs to no message",
    ),
    Check(
        "bodies",
        "SELECT s.body_id FROM body_staged s JOIN temp.large l USING (body_id)",
        "body {0}: it is waiting for a message, and has one",
    ),
    Check(
        "delivery ids",
        "SELECT s.inbox_id, s.seq FROM seen_delivery s LEFT JOIN inbox USING (inbox_id)"
        " LEFT JOIN inbox_head h USING (inbox_id)"
        " WHERE inbox.inbox_id IS NULL OR s.seq > coalesce(h.latest_seq, s.seq)",
        "inbox {0}: a delivery id is remembered for message {1}, which was never there",
    ),
    Check(
        "delivery ids",
        "SELECT s.inbox_id, s.seq FROM seen_delivery s JOIN entry e USING (inbox_id, seq)"
        " JOIN message m USING (mid) WHERE m.id != s.id",
        "inbox {0}: a delivery id is remembered for another message than {1}",
    ),
    Check(
        "secrets",
        "SELECT s.inbox_id, s.name FROM secret s LEFT JOIN inbox_head h USING (inbox_id) WHERE h.inbox_id IS NULL",
        "inbox {0}: the secret {1} belongs to no inbox",
    ),
    Check(
        "secrets",
        "SELECT inbox_id, name, iif(key_id IS NULL, 'plain', 'sealed with a key of its own') FROM secret"
        " WHERE key_id IS NOT (SELECT key_id FROM sealing)",
        "inbox {0}: the secret {1} is {2}, unlike what the database says of all",
        since=SEALING,
    ),
    Check(
        "secrets",
        f"SELECT inbox_id, name FROM secret WHERE key_id IS NOT NULL AND length(value) <= {NONCE_BYTES + TAG_BYTES}",  # noqa: S608 — constants # nosec B608
        "inbox {0}: the secret {1} is too short for a sealed one",
        since=SEALING,
    ),
    Check(
        "cursors",
        "SELECT routed_mid, last_mid FROM server WHERE routed_mid NOT BETWEEN 0 AND last_mid",
        "the router has come to {0}, beyond the last message of the log, {1}",
    ),
    Check(
        "cursors",
        "SELECT count(*) FROM server HAVING count(*) != 1 OR min(length(lineage)) != 16",
        "the database does not say which one it is",
    ),
    *MAIL_CHECKS,
    *MESH_CHECKS,
    *SEARCH_CHECKS,
)

_PREPARE = (
    "CREATE TABLE temp.large (body_id INTEGER NOT NULL, mid INTEGER NOT NULL, size INTEGER NOT NULL)",
    "INSERT INTO temp.large SELECT body_id, mid, size FROM message WHERE body_id IS NOT NULL",
    "CREATE INDEX temp.large_body ON large (body_id)",
    "CREATE TABLE temp.pieces (body_id INTEGER PRIMARY KEY, pieces INTEGER, first INTEGER, last INTEGER,"
    " bytes INTEGER)",
    "INSERT INTO temp.pieces SELECT body_id, count(*), min(n), max(n), sum(length(bytes)) FROM body_chunk"
    " GROUP BY body_id",
)

STEPS = len(CHECKS) + 2
"""How many steps `verify` reports: SQLite's own check, the preparation, and each check."""


def verify_file(file: Path, step: Callable[[str], None], pulse: Pulse = lambda: None) -> Verified:
    """Check a database that no server uses, as `verify` does. Raises `DataDirectoryError`."""
    try:
        with contextlib.closing(open_copy(file)) as db:
            return verify(db, step, pulse)
    except apsw.Error as exc:
        raise DataDirectoryError(f"The file {file} cannot be read: {exc}.") from exc


def verify(db: apsw.Connection, step: Callable[[str], None], pulse: Pulse = lambda: None) -> Verified:
    """Check a database and return what was found. `step` hears the name of each of the `STEPS` before it begins.

    The connection is used for nothing else meanwhile. Raises `apsw.Error` when the database cannot be read at all.
    """

    def on_progress() -> bool:
        pulse()
        return False

    db.set_progress_handler(on_progress, STEP_INSTRUCTIONS)
    try:
        return _verify(db, step)
    finally:
        db.set_progress_handler(None)


def _verify(db: apsw.Connection, step: Callable[[str], None]) -> Verified:
    step("structure")
    try:
        told = [text for (text,) in db.execute(f"PRAGMA integrity_check({INTEGRITY_FINDINGS})")]
    except apsw.CorruptError as exc:  # so damaged that the check itself stumbles
        told = [str(exc)]
    structure = [f"SQLite: {text}" for text in told if text != "ok"]
    if structure:  # what follows would only stumble over the same damage
        return Verified(findings=tuple(structure))
    db.execute("PRAGMA query_only = OFF; PRAGMA temp_store = FILE").fetchall()
    # One moment for all of it; only temporary tables are written.
    db.execute("BEGIN")
    try:
        step("preparation")
        for statement in _PREPARE:
            db.execute(statement).fetchall()
        findings: list[str] = []
        schema = db.execute("SELECT max(n) FROM schema_step").get
        for check in CHECKS:
            step(check.name)
            if check.concerns(schema):
                findings += _findings(check, db.execute(check.statement))
        return Verified(
            inboxes=db.execute("SELECT count(*) FROM inbox_head").get,
            messages=db.execute("SELECT count(*) FROM message").get,
            entries=db.execute("SELECT count(*) FROM entry").get,
            secrets=_count(db, "count(*)", "count(secret)", schema),
            sealed=_count(db, "count(key_id)", "count(key_id)", schema) if schema >= SEALING else 0,
            findings=tuple(findings),
        )
    finally:
        db.execute("ROLLBACK")


def _count(db: apsw.Connection, of_inboxes: str, of_targets: str, schema: int) -> int:
    """Return how many secrets there are, of inboxes and of wake targets, counted in each table as is said."""
    found = int(db.execute(f"SELECT {of_inboxes} FROM secret").get)  # noqa: S608 — constants # nosec B608
    if schema >= MESH:
        found += int(db.execute(f"SELECT {of_targets} FROM wake_target").get)  # noqa: S608 — constants # nosec B608
    return found


def _findings(check: Check, rows: Iterator[Sequence[Any]]) -> list[str]:
    found: list[str] = []
    more = 0
    for row in rows:
        if len(found) < SHOWN:
            found.append(check.finding.format(*row))
        else:
            more += 1
    return [*found, f"… and {more} more of this kind"] if more else found
