"""What a data directory holds after a kill: read from a copy, so that the next start finds everything as it was left.

Whoever opens a database with its log mends both, and the last one who closes it takes the log away. That is for the
server's next start to do, not for a test.
"""

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec
from ulid import ULID

from storage.lock import DATABASE_NAME
from storage.mail_records import SELF
from storage.verify import verify_file

_MESSAGES = "SELECT mid, id, said FROM message"
_DELIVERIES = """
SELECT e.mid, substr(i.slug, 7), e.seq FROM entry e JOIN inbox i USING (inbox_id) WHERE i.kind = 'agent'
"""
_CURSORS = """
SELECT agent_id, coalesce(ack_cursor, 0) FROM agent a LEFT JOIN reader r ON r.inbox_id = a.inbox_id AND r.name = ?
"""


class _Said(msgspec.Struct):
    """Where a message has its key: a webhook in its query, a published one in its subject."""

    query: str = ""
    subject: str = ""


_said = msgspec.json.Decoder(_Said)


@dataclass(frozen=True)
class Found:
    """A store. `messages`: the id of each, by key; `numbers`: its place in the log. `deliveries`: the number of each,
    by key and agent. `cursors`: up to where each agent has acknowledged. `routed`: up to where the log was routed.
    """

    messages: dict[str, str]
    numbers: dict[str, int]
    deliveries: dict[tuple[str, str], int]
    cursors: dict[str, int]
    routed: int


def autopsy(data_dir: Path, copy_dir: Path) -> Found:
    """Copy the database of a server that does not run, check the copy in every way, and return what is in it."""
    with opened(data_dir, copy_dir) as db:
        return _found(db)


@contextlib.contextmanager
def opened(data_dir: Path, copy_dir: Path) -> Iterator[apsw.Connection]:
    """Copy the database of a server that does not run, check the copy in every way, and open it."""
    shutil.rmtree(copy_dir, ignore_errors=True)
    copy_dir.mkdir()
    for file in data_dir.glob(f"{DATABASE_NAME}*"):
        if not file.name.endswith("-shm"):
            shutil.copyfile(file, copy_dir / file.name)
    database = copy_dir / DATABASE_NAME
    assert verify_file(database, lambda step: None).findings == ()
    with contextlib.closing(apsw.Connection(str(database))) as db:
        yield db


def _found(db: apsw.Connection) -> Found:
    keys: dict[int, str] = {}
    messages: dict[str, str] = {}
    for mid, id, said in db.execute(_MESSAGES):
        claims = _said.decode(said)
        key = claims.subject or claims.query.removeprefix("key=")
        assert key not in messages, f"{key} is there twice"
        keys[mid] = key
        messages[key] = str(ULID.from_bytes(id))
    rows = Counter((mid, agent) for mid, agent, _ in db.execute(_DELIVERIES))
    assert set(rows.values()) <= {1}, "an agent has a message twice"
    return Found(
        messages,
        {key: mid for mid, key in keys.items()},
        {(keys[mid], agent): seq for mid, agent, seq in db.execute(_DELIVERIES)},
        dict(db.execute(_CURSORS, (SELF,))),
        db.execute("SELECT routed_mid FROM server").get,
    )
