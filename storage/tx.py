"""`storage.protocols.Tx` on SQLite: the statements of a unit, few and in few shapes (engineering study, S6).

One object serves every unit of a connection. It owns what must be undone in memory when a unit's savepoint is rolled
back: the last `mid` that was given out. It knows nothing of transactions; those are the writer's.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence

import apsw
import msgspec

from storage import agents, bodies, mesh_receipts, mesh_roster, routing, rows, search_index, sweep
from storage.entries import (
    ENTRY,
    ENTRY_OF_MAIL,
    MESSAGE,
    SEEN,
    SEEN_AGAIN,
    entry_rows,
    is_mail,
    message_rows,
    seen_rows,
)
from storage.errors import Fenced, InboxGone, SlugTaken
from storage.mail import SqliteMailChanges
from storage.records import (
    Head,
    InboxRecord,
    InboxSettings,
    NewEntry,
    NewInbox,
    OldEntry,
    Secret,
    Seen,
    Swept,
    TokenRecord,
)
from storage.sealing import Seal
from storage.search_records import IndexRow
from storage.sql import Sql, in_groups, shaped

EPOCH_BYTES = 8
"""Of randomness in an epoch: two lives of an inbox never share one."""

_HEAD_COLUMNS = [field.name for field in msgspec.structs.fields(Head)]
_ADVANCE = {
    count: f"UPDATE inbox_head SET {', '.join(f'{name} = ?' for name in _HEAD_COLUMNS[:count])}"  # noqa: S608 — constants # nosec B608
    " WHERE inbox_id = ? AND epoch = ? AND latest_seq = ?"
    for count in (len(_HEAD_COLUMNS), len(_HEAD_COLUMNS) - 1)
}

_seen = shaped(
    lambda marks: f"SELECT key, seq, id, seen_at FROM seen_delivery WHERE inbox_id = ? AND key IN ({marks})"  # noqa: S608 — question marks only # nosec B608
)


class SqliteTx(SqliteMailChanges):
    """The store inside a unit."""

    def __init__(self, db: apsw.Connection, clock: Callable[[], int], stale_body_id: int, seal: Seal) -> None:
        self.sql = Sql(db)
        self._seal = seal
        self.last_mid = int(db.execute("SELECT last_mid FROM server").get)
        self.shrink = False
        self._clock = clock
        self._now = 0
        self._stale_body_id = stale_body_id

    def start_unit(self) -> None:
        """Begin the next unit: read the clock once for all of it."""
        self._now = self._clock()

    def now(self) -> int:
        """Return the time of this unit."""
        return self._now

    # -- reading what a decision needs --------------------------------------------------------------------
    def head(self, inbox_id: int) -> Head:
        """Return the inbox's head."""
        return rows.head_of(self.sql, inbox_id)

    def inbox(self, inbox_id: int) -> InboxRecord:
        """Return the inbox's record with its secrets."""
        return rows.inbox_of(self.sql, self._seal, inbox_id).record

    def seen(self, inbox_id: int, keys: Sequence[bytes]) -> dict[bytes, Seen]:
        """Return those of the keys that are remembered."""
        found: dict[bytes, Seen] = {}
        for group in in_groups(keys):
            for key, *rest in self.sql.rows(_seen(len(group)), (inbox_id, *group)):
                found[key] = Seen(*rest)
        return found

    def oldest(self, inbox_id: int, from_seq: int, limit: int) -> list[OldEntry]:
        """Return the first entries from a seq on."""
        found = self.sql.rows(
            "SELECT seq, received_at, size FROM entry WHERE inbox_id = ? AND seq >= ? ORDER BY seq LIMIT ?",
            (inbox_id, from_seq, limit),
        )
        return [OldEntry(*row) for row in found]

    # -- one inbox's turn -----------------------------------------------------------------------------------
    def append(self, inbox_id: int, epoch: str, entries: Sequence[NewEntry]) -> range:
        """Insert messages and their home entries; return their mids."""
        bodies.adopt(self.sql, [entry.body_id for entry in entries if entry.body_id is not None])
        first = self.last_mid + 1
        self.last_mid += len(entries)
        self.sql.insert(MESSAGE, message_rows(inbox_id, epoch, first, entries))
        plain = entry_rows(inbox_id, first, entries)
        if is_mail(entries):
            mail = [(*row, e.expires_at, e.delivery) for row, e in zip(plain, entries, strict=True)]
            self.sql.insert(ENTRY_OF_MAIL, mail)
        else:  # what comes from outside has neither: two columns less to bind
            self.sql.insert(ENTRY, plain)
        return range(first, first + len(entries))

    def remember(self, inbox_id: int, keys: Sequence[tuple[bytes, Seen]]) -> None:
        """Remember dedupe keys."""
        self.sql.insert(SEEN, seen_rows(inbox_id, keys), SEEN_AGAIN)

    def advance(self, inbox_id: int, believed: Head, to: Head) -> None:
        """Replace the head if it is still the one believed in."""
        values = msgspec.structs.astuple(to)
        if (
            to.due_at == believed.due_at
        ):  # it seldom changes, and its index would be rewritten with every turn
            values = values[:-1]
        changed = self.sql.change(
            _ADVANCE[len(values)], (*values, inbox_id, believed.epoch, believed.latest_seq)
        )
        if changed != 1:
            raise Fenced(f"inbox {inbox_id} is no longer at {believed.epoch}:{believed.latest_seq}")

    def erase(self, inbox_id: int, seq: int) -> int | None:
        """Delete one entry and remember the hole. What was there is overwritten."""
        with self.sql.overwriting():
            return sweep.erase(self.sql, inbox_id, seq, self._now)

    def drop_before(self, inbox_id: int, seq: int) -> None:
        """Leave the entries below `seq` to `sweep`."""
        sweep.leave(self.sql, inbox_id, seq)

    # -- administration ---------------------------------------------------------------------------------------
    def create_inbox(self, new: NewInbox) -> InboxRecord:
        """Create an inbox."""
        inbox_id = self.sql.value(
            "INSERT INTO inbox (slug, kind, name, created_at, settings) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (slug) DO NOTHING RETURNING inbox_id",
            (new.slug, new.kind, new.name, self._now, msgspec.json.encode(new.settings)),
        )
        if inbox_id is None:
            raise SlugTaken(new.slug)
        self.sql.change(
            "INSERT INTO inbox_head (inbox_id, epoch) VALUES (?, ?)",
            (inbox_id, secrets.token_hex(EPOCH_BYTES)),
        )
        for secret in new.secrets:
            self._put_secret(inbox_id, secret)
        if new.settings.search:
            search_index.switch(self.sql, inbox_id, on=True)
        return self.inbox(inbox_id)

    def change_inbox(self, inbox_id: int, name: str, settings: InboxSettings) -> None:
        """Replace name and settings."""
        changed = self.sql.change(
            "UPDATE inbox SET name = ?, settings = ? WHERE inbox_id = ? AND state = 'live'",
            (name, msgspec.json.encode(settings), inbox_id),
        )
        if changed != 1:
            raise InboxGone(f"inbox {inbox_id}")
        search_index.switch(self.sql, inbox_id, settings.search)

    def delete_inbox(self, inbox_id: int) -> None:
        """Free the slug and hide the inbox; what is little goes at once, the rest by `sweep`."""
        changed = self.sql.change(
            "UPDATE inbox SET state = 'deleting', slug = NULL WHERE inbox_id = ? AND state = 'live'",
            (inbox_id,),
        )
        if changed != 1:
            raise InboxGone(f"inbox {inbox_id}")
        self.sql.change("DELETE FROM inbox_head WHERE inbox_id = ?", (inbox_id,))
        with self.sql.overwriting():
            self.sql.change("DELETE FROM secret WHERE inbox_id = ?", (inbox_id,))
        mesh_roster.leave(self.sql, inbox_id)
        agents.leave(self.sql, inbox_id)
        search_index.switch(self.sql, inbox_id, on=False)
        sweep.leave(self.sql, inbox_id, sweep.EVERYTHING)

    def put_secret(self, inbox_id: int, secret: Secret) -> None:
        """Add or replace a secret."""
        self.head(inbox_id)
        self._put_secret(inbox_id, secret)

    def _put_secret(self, inbox_id: int, secret: Secret) -> None:
        kept = self._seal.keep(inbox_id, secret.name, secret.value)
        with self.sql.overwriting():
            self.sql.change(
                "INSERT OR REPLACE INTO secret (inbox_id, name, value, key_id, added_at) VALUES (?, ?, ?, ?, ?)",
                (inbox_id, secret.name, kept.value, kept.key_id, secret.added_at),
            )

    def drop_secret(self, inbox_id: int, name: str) -> bool:
        """Remove a secret."""
        self.head(inbox_id)
        with self.sql.overwriting():
            changed = self.sql.change("DELETE FROM secret WHERE inbox_id = ? AND name = ?", (inbox_id, name))
        return changed == 1

    def put_token(self, token: TokenRecord) -> None:
        """Insert or replace a token."""
        marks = ", ".join("?" * len(msgspec.structs.fields(TokenRecord)))
        replaced = ", ".join(f"{name} = excluded.{name}" for name in rows.COLUMNS_OF_TOKEN.split(", ")[1:])
        self.sql.change(
            f"INSERT INTO token ({rows.COLUMNS_OF_TOKEN}) VALUES ({marks})"  # noqa: S608 — constants # nosec B608
            f" ON CONFLICT (token_id) DO UPDATE SET {replaced}",
            rows.token_row(token),
        )

    def touch_tokens(self, used: Iterable[tuple[str, int]]) -> None:
        """Move `last_used_at` forward."""
        for token_id, used_at in used:
            self.sql.change(
                "UPDATE token SET last_used_at = ?1 WHERE token_id = ?2 AND coalesce(last_used_at, -1) < ?1",
                (used_at, token_id),
            )

    # -- large bodies -------------------------------------------------------------------------------------------
    def stage_body(self) -> int:
        """Return a new body id."""
        return bodies.stage(self.sql, self._now)

    def put_chunk(self, body_id: int, n: int, data: bytes) -> None:
        """Add a piece of a staged body. Raises `NotStored` when the body is not staged any more."""
        bodies.put_chunk(self.sql, body_id, n, data)

    def discard_body(self, body_id: int) -> None:
        """Drop a staged body."""
        bodies.discard(self.sql, body_id)

    # -- search ---------------------------------------------------------------------------------------------------
    def index(self, inbox_id: int, after: int, rows: Sequence[IndexRow], through: int) -> bool:
        """Put entries into an inbox's search index."""
        return search_index.index(self.sql, inbox_id, after, rows, through)

    def merge_index(self) -> bool:
        """Tidy the search index a little."""
        return search_index.merge(self.sql)

    # -- housekeeping ---------------------------------------------------------------------------------------------
    def sweep(self, max_rows: int, max_bytes: int, *, routed_only: bool = False) -> Swept:
        """Delete one slice, also bounded by 5 ms."""
        # The router cannot deliver while the disk is full: waiting for it then, nothing would ever be freed.
        routed_mid = routing.routed_mid(self.sql) if routed_only and not self.shrink else None
        return sweep.Slice(self.sql, max_rows, max_bytes, self._now, routed_mid).run(
            self._stale_body_id, shrink=self.shrink
        )

    def forget_seen(self, before_us: int, max_rows: int) -> int:
        """Forget old keys of deliveries, then of what was sent, then the notes of sent messages that are gone."""
        forgotten = 0
        for forget in (sweep.forget_seen, agents.forget_sent, mesh_receipts.forget):
            if forgotten < max_rows:
                forgotten += forget(self.sql, before_us, max_rows - forgotten)
        return forgotten
