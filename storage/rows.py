"""Rows of inboxes, heads and tokens as records and back: the one place that knows these columns' order."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from storage.errors import InboxGone
from storage.records import Head, InboxListing, InboxRecord, InboxSettings, Secret, TokenRecord
from storage.sealing import Kept, Seal
from storage.sql import Row, Sql, in_groups, shaped

HEAD = (
    "h.epoch, h.latest_seq, h.first_seq, h.last_at, h.live_rows, h.live_bytes, h.dropped_rows, h.dropped_bytes,"
    " h.due_at"
)
INBOX = "i.inbox_id, i.slug, i.kind, i.name, i.created_at, i.settings"
LISTING = f"SELECT {INBOX}, {HEAD} FROM inbox i JOIN inbox_head h ON h.inbox_id = i.inbox_id"  # noqa: S608 — constants # nosec B608
INBOX_COLUMNS = 6

_settings = msgspec.json.Decoder(InboxSettings)
_names = msgspec.json.Decoder(tuple[str, ...] | None)


def head_of(sql: Sql, inbox_id: int) -> Head:
    """Return an inbox's head. Raises `InboxGone`: deleting an inbox takes its head away at once."""
    row = sql.row(f"SELECT {HEAD} FROM inbox_head h WHERE h.inbox_id = ?", (inbox_id,))  # noqa: S608 — constants # nosec B608
    if row is None:
        raise InboxGone(f"inbox {inbox_id}")
    return Head(*row)


def record_of(row: Row, secrets: tuple[Secret, ...] = ()) -> InboxRecord:
    """Return the record in the columns `INBOX`."""
    inbox_id, slug, kind, name, created_at, settings = row
    return InboxRecord(inbox_id, slug, kind, name, created_at, _settings.decode(settings), secrets)


def listing_of(row: Row, secrets: tuple[Secret, ...] = ()) -> InboxListing:
    """Return record and head in the columns of `LISTING`."""
    return InboxListing(record_of(row[:INBOX_COLUMNS], secrets), Head(*row[INBOX_COLUMNS:]))


def secrets_of(sql: Sql, seal: Seal, inbox_id: int) -> tuple[Secret, ...]:
    """Return an inbox's secrets, oldest first. Raises `SecretUnreadable` when one of them does not open."""
    rows = sql.rows(
        "SELECT name, value, key_id, added_at FROM secret WHERE inbox_id = ? ORDER BY added_at, name",
        (inbox_id,),
    )
    return tuple(
        Secret(name, seal.open(inbox_id, name, Kept(value, key_id)), added_at)
        for name, value, key_id, added_at in rows
    )


def inbox_of(sql: Sql, seal: Seal, inbox_id: int) -> InboxListing:
    """Return record (with secrets) and head. Raises `InboxGone`, `SecretUnreadable`."""
    row = sql.row(f"{LISTING} WHERE i.inbox_id = ?", (inbox_id,))
    if row is None:
        raise InboxGone(f"inbox {inbox_id}")
    return listing_of(row, secrets_of(sql, seal, inbox_id))


def inbox_by_slug(sql: Sql, seal: Seal, slug: str) -> InboxListing | None:
    """Return record (with secrets) and head of the live inbox of that slug. Raises `SecretUnreadable`."""
    row = sql.row(f"{LISTING} WHERE i.slug = ?", (slug,))
    return None if row is None else listing_of(row, secrets_of(sql, seal, row[0]))


_named = shaped(lambda marks: f"{LISTING} WHERE i.slug IN ({marks}) AND i.slug > ? ORDER BY i.slug LIMIT ?")


def inboxes(sql: Sql, slugs: Sequence[str] | None, after_slug: str, limit: int) -> list[InboxListing]:
    """Return live inboxes as `Snapshot.inboxes` says."""
    if slugs is None:
        rows = sql.rows(
            f"{LISTING} WHERE i.slug > ? AND i.kind IN ('webhook', 'topic') ORDER BY i.slug LIMIT ?",
            (after_slug, limit),
        )
        return [listing_of(row) for row in rows]
    found: list[InboxListing] = []
    for group in in_groups(sorted({slug for slug in slugs if slug > after_slug})):
        found += map(listing_of, sql.rows(_named(len(group)), (*group, after_slug, limit - len(found))))
        if len(found) >= limit:
            break
    return found


_verified_by = shaped(
    lambda marks: (
        f"SELECT {INBOX} FROM inbox i WHERE CAST(i.settings AS TEXT) ->> 'verifier' IN ({marks})"  # noqa: S608 — constants # nosec B608
        " AND i.inbox_id > ? AND i.state = 'live' ORDER BY i.inbox_id LIMIT ?"
    )
)


def inboxes_verified_by(sql: Sql, verifiers: Collection[str], after_id: int, limit: int) -> list[InboxRecord]:
    """Return live inboxes as `Snapshot.inboxes_verified_by` says: few verifiers, fewer than `sql.MAX_IN`."""
    [names] = in_groups(sorted(verifiers))
    found = sql.rows(_verified_by(len(names)), (*names, after_id, limit))
    return [record_of(row) for row in found]


COLUMNS_OF_TOKEN = (
    "token_id, hash, kind, scope, agent_id, machine, machines,"  # noqa: S105 — names of columns, no token # nosec B105
    " name, created_at, expires_at, revoked_at, last_used_at"
)


def token_row(token: TokenRecord) -> tuple[Any, ...]:
    """Return a token in the columns `COLUMNS_OF_TOKEN`."""
    return (
        token.token_id,
        token.hash,
        token.kind,
        msgspec.json.encode(token.inboxes),
        token.agent,
        token.machine,
        msgspec.json.encode(token.machines),
        token.name,
        token.created_at,
        token.expires_at,
        token.revoked_at,
        token.last_used_at,
    )


def token_of(row: Row) -> TokenRecord:
    """Return the token in the columns `COLUMNS_OF_TOKEN`."""
    token_id, digest, kind, scope, agent, machine, machines, *rest = row
    return TokenRecord(
        token_id, digest, kind, _names.decode(scope), agent, machine, _names.decode(machines) or (), *rest
    )
