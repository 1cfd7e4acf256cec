"""Databases as earlier versions have left them: made by the migrations of then, with rows in every table of then.

`ROWS` is one small house: a webhook inbox with messages of all kinds, one that is searched, one that is deleted and not
swept yet, from step 4 on an agent with mail, from step 5 on its machine. Each row has the columns of the newest step;
what a table did not have yet is left out, and so is what is at its home in a table of later. A new migration that makes
a table must add rows of it, or `test_upgrade.py` fails.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from storage.engine import connect_writer
from storage.lifefile import LIFE_NAME, Life, LifeFile, place_of
from storage.lock import DATABASE_NAME, prepare_directory
from storage.mesh_roster import WAKE_SECRET
from storage.migrate import migrate, steps
from storage.sealing import KeySeal
from storage.search_index import row_id, token_prefix
from storage.secret import SecretBytes

NEWEST = len(steps())
AT = 1_760_000_000_000_000
COMMITS = 40
LINEAGE = bytes(range(16))
SECRET = b"whsec-of-then"
WAKE = b"wake-of-then"
LARGE = bytes(range(256)) * 40
EVERYTHING = 9_223_372_036_854_775_807

HOOKS, SEARCHED, GONE, AGENT, MACHINE = 1, 2, 3, 4, 5
"""Ids of the inboxes."""

SEALING, AGENTS, MESH, SEARCH = 3, 4, 5, 6
"""The steps that made these."""

Row = tuple[int, str, dict[str, Any]]
"""Since which step, in which table, what."""


def _inbox(
    since: int, inbox_id: int, slug: str | None, kind: str, settings: bytes, **head: Any
) -> Iterator[Row]:
    yield (
        since,
        "inbox",
        {
            "inbox_id": inbox_id,
            "slug": slug,
            "kind": kind,
            "state": "live" if slug else "deleting",
            "name": f"Inbox {inbox_id}",
            "created_at": AT,
            "settings": settings,
        },
    )
    if slug:
        epoch = f"{inbox_id:016x}"
        yield since, "inbox_head", {"inbox_id": inbox_id, "epoch": epoch, "last_at": AT + 100, **head}


def _message(
    since: int, mid: int, inbox_id: int, seq: int, body: bytes | None, *, large: int = 0, **entry: Any
) -> Iterator[Row]:
    kind = 4 if large else 2 if body else 0
    size = len(LARGE) if large else len(body or b"")
    yield (
        since,
        "message",
        {
            "mid": mid,
            "id": _id(mid),
            "home_inbox": inbox_id,
            "home_seq": seq,
            "home_epoch": f"{inbox_id:016x}",
            "received_at": AT + mid,
            "size": size,
            "body_kind": kind,
            "body_id": large or None,
            "facts": b'{"method":"POST","size":%d}' % size,
            "said": b'{"path":"/%d"}' % mid,
            "body": body,
        },
    )
    yield since, "entry", _entry(inbox_id, seq, mid, size, home=1, origin=inbox_id, **entry)


def _entry(inbox_id: int, seq: int, mid: int, size: int, **fields: Any) -> dict[str, Any]:
    values = {"event_type": "push", "verified": 1, "expires_at": None, "delivery": None}
    return {
        "inbox_id": inbox_id,
        "seq": seq,
        "mid": mid,
        "received_at": AT + mid,
        "size": size,
        **values,
        **fields,
    }


def _id(mid: int) -> bytes:
    return mid.to_bytes(16, "big")


def rows(seal: KeySeal | None = None) -> Iterator[Row]:
    """Yield all rows; with a seal the secrets are sealed, which they can be since step 3."""
    yield from _inbox(
        1, HOOKS, "hooks", "webhook", b'{"verifier":"github","retention":{"max_messages":4}}',
        latest_seq=6, first_seq=3, live_rows=3, live_bytes=4 + len(LARGE), dropped_rows=3, dropped_bytes=99,
        due_at=None,
    )  # fmt: skip
    yield from _message(1, 3, HOOKS, 3, "größe".encode()[:4], event_type="", verified=2)
    yield from _message(1, 4, HOOKS, 4, None, large=1)
    yield from _message(1, 6, HOOKS, 6, None)
    for n, start in enumerate(range(0, len(LARGE), 4_096)):
        piece = {"chunk_id": n + 1, "body_id": 1, "n": n, "bytes": LARGE[start : start + 4_096]}
        yield 1, "body_chunk", piece
    yield 1, "body_staged", {"body_id": 2, "started_at": AT}
    yield 1, "body_chunk", {"chunk_id": 50, "body_id": 2, "n": 0, "bytes": b"never adopted"}
    yield 1, "erased", {"inbox_id": HOOKS, "seq": 5, "erased_at": AT + 50}
    seen = {"inbox_id": HOOKS, "key": b"delivery-6", "seen_at": AT + 6, "seq": 6, "id": _id(6)}
    yield 1, "seen_delivery", seen
    yield from _inbox(
        1, SEARCHED, "searched", "topic", b'{"search":true}', latest_seq=1, live_rows=1, live_bytes=6, due_at=AT + 9
    )  # fmt: skip
    yield from _message(1, 7, SEARCHED, 1, b"refund")
    yield from _inbox(1, GONE, None, "webhook", b"{}")
    yield from _message(1, 8, GONE, 1, b"to be swept")
    yield 1, "sweep_todo", {"inbox_id": GONE, "below_seq": EVERYTHING}
    yield 1, "token", {
        "token_id": "tok1", "hash": b"h" * 32, "kind": "agent", "scope": b'["hooks"]', "agent_id": "a", "machine": None,
        "machines": b"[]", "name": "of then", "created_at": AT, "expires_at": AT * 2, "revoked_at": None,
        "last_used_at": AT + 3,
    }  # fmt: skip
    kept = seal.keep(HOOKS, "current", SecretBytes(SECRET)) if seal else None
    yield 1, "secret", {
        "inbox_id": HOOKS, "name": "current", "value": kept.value if kept else SECRET, "added_at": AT,
        "key_id": kept.key_id if kept else None,
    }  # fmt: skip
    if seal:
        yield SEALING, "sealing", {"one": 1, "salt": seal.salt, "key_id": seal.key_id}
    yield from _agent(seal)
    yield SEARCH, "search_index", {"index_id": 1, "inbox_id": SEARCHED, "indexed_seq": 1}
    yield SEARCH, "search_words", {"rowid": row_id(1, 1), "words": token_prefix(1, 1) + "refund"}


def _agent(seal: KeySeal | None) -> Iterator[Row]:
    """An agent with mail of its own, which it has sent to itself, and one delivery that it has not read."""
    record = b'{"score":1.0,"via":"direct","also_via":[],"matched_terms":[]}'
    yield from _inbox(
        AGENTS, AGENT, "agent.a", "agent", b"{}", latest_seq=3, live_rows=3, live_bytes=16, due_at=None
    )
    yield from _message(AGENTS, 9, AGENT, 1, b"mail one", delivery=record)
    yield from _message(AGENTS, 10, AGENT, 2, b"more", delivery=record, expires_at=AT * 2)
    yield AGENTS, "entry", {
        **_entry(AGENT, 3, 3, 4, home=0, origin=HOOKS, delivery=record, event_type="", verified=2),
        "received_at": AT + 20,
    }  # fmt: skip
    yield AGENTS, "agent", {"agent_id": "a", "inbox_id": AGENT, "machine": None, "created_at": AT}
    yield AGENTS, "reader", {
        "inbox_id": AGENT, "name": "self", "start_seq": 0, "ack_cursor": 1, "served_high": 2, "acked": b"[[3,3]]",
        "served": b"[[2,2]]",
    }  # fmt: skip
    yield AGENTS, "beacon", {
        "agent_id": "a", "name": "deploys", "spec": b'{"name":"deploys","about":"deploys"}', "placed_mid": 2,
        "placed_at": AT, "expires_at": None, "day": 20_000, "delivered": 1, "overflow": 0,
    }  # fmt: skip
    yield AGENTS, "sent_once", {
        "sender": AGENT, "key": b"key", "request": b"r" * 32, "answer": b'{"id":"x"}', "seen_at": AT
    }  # fmt: skip
    for mid, seq, acked_at in ((9, 1, AT + 30), (10, 2, None)):
        yield AGENTS, "receipt", {
            "mid": mid, "inbox_id": AGENT, "seq": seq, "stored_at": AT + mid, "served_at": AT + 25,
            "acked_at": acked_at, "expired_at": None,
        }  # fmt: skip
    yield from _inbox(MESH, MACHINE, "machine.m", "machine", b"{}", due_at=None)
    yield MESH, "machine", {"name": "m", "inbox_id": MACHINE, "created_at": AT}
    yield MESH, "presence", {
        "inbox_id": AGENT, "card": b'{"about":"here"}', "last_activity_at": AT, "ttl_seconds": 600, "gone_at": None
    }  # fmt: skip
    kept = seal.keep(AGENT, WAKE_SECRET, SecretBytes(WAKE)) if seal else None
    yield MESH, "wake_target", {
        "inbox_id": AGENT, "url": "http://127.0.0.1/wake", "secret": kept.value if kept else WAKE,
        "key_id": kept.key_id if kept else None, "failures": 1, "off_at": None,
    }  # fmt: skip
    yield MESH, "sent_log", {
        "sender": AGENT, "id": _id(9), "mid": 9, "sent_at": AT + 9, "event_type": "push", "expires_at": None,
        "gone_at": None,
    }  # fmt: skip


def tables(db: apsw.Connection) -> dict[str, tuple[str, ...]]:
    """Return the columns of every table of ours; not those that FTS5 has made for itself."""
    names = db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name != 'schema_step'"
        " AND name NOT LIKE 'search_words_%'"
    ).fetchall()
    return {name: tuple(row[1] for row in db.execute(f"PRAGMA table_info({name})")) for (name,) in names}


def furnish(directory: Path, step: int, seal: KeySeal | None = None) -> None:
    """Make a database as it was at a step, closed in order, with the life file beside it."""
    prepare_directory(directory, create=True)
    database = directory / DATABASE_NAME
    with closing(connect_writer(database, 1 << 20)) as db:
        migrate(db, steps()[:step], lambda: AT, "here")
        columns = tables(db)
        with db:
            for since, table, row in rows(seal):
                if since <= step:
                    there = {key: value for key, value in row.items() if key in (*columns[table], "rowid")}
                    marks = ", ".join("?" * len(there))
                    statement = f"INSERT INTO {table} ({', '.join(there)}) VALUES ({marks})"  # noqa: S608 — names of ours
                    db.execute(statement, tuple(there.values()))
            server = (LINEAGE, COMMITS, 10, 10 if step < MESH else 9)
            db.execute("UPDATE server SET lineage = ?, commits = ?, last_mid = ?, routed_mid = ?", server)
    LifeFile(directory / LIFE_NAME).create(Life(LINEAGE.hex(), COMMITS, place_of(database)))


def content(db: apsw.Connection, columns: dict[str, tuple[str, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    """Return what is in these columns of these tables."""
    return {
        table: sorted(db.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall(), key=repr)  # noqa: S608 — names of ours
        for table, names in columns.items()
    }
