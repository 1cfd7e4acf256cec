"""`storage.protocols.Snapshot` on SQLite: one read transaction of one connection, seen as methods."""

from collections.abc import Sequence

import apsw

from storage import bodies, pages, rows
from storage.records import Head, InboxListing, Page, PageQuery, StoredMessage, TokenRecord
from storage.sql import Sql


class SqliteSnapshot:
    """The store at one moment. Valid while its connection's transaction is open."""

    def __init__(self, db: apsw.Connection) -> None:
        self._sql = Sql(db)

    def head(self, inbox_id: int) -> Head:
        """Return the inbox's head."""
        return rows.head_of(self._sql, inbox_id)

    def inbox(self, inbox_id: int) -> InboxListing:
        """Return record (with secrets) and head."""
        return rows.inbox_of(self._sql, inbox_id)

    def inbox_by_slug(self, slug: str) -> InboxListing | None:
        """Return record (with secrets) and head of the live inbox of that slug."""
        return rows.inbox_by_slug(self._sql, slug)

    def inboxes(self, slugs: Sequence[str] | None, after_slug: str, limit: int) -> list[InboxListing]:
        """Return live inboxes by slug."""
        return rows.inboxes(self._sql, slugs, after_slug, limit)

    def page(self, query: PageQuery) -> Page:
        """Return one page."""
        return pages.page(self._sql, query)

    def message(self, inbox_id: int, seq: int, body_limit: int) -> tuple[Head, StoredMessage | None]:
        """Return one entry."""
        return pages.message(self._sql, inbox_id, seq, body_limit)

    def chunk(self, body_id: int, n: int) -> bytes:
        """Return a piece of a large body."""
        return bodies.chunk(self._sql, body_id, n)

    def body(self, body_id: int, size: int) -> bytes:
        """Return a whole large body."""
        return bodies.whole(self._sql, body_id, size)

    def is_json(self, body: bytes) -> bool:
        """Whether the bytes are strict JSON that common decoders accept."""
        return bodies.is_json(self._sql, body)

    def tokens(self) -> list[TokenRecord]:
        """Return every token."""
        found = self._sql.rows(f"SELECT {rows.COLUMNS_OF_TOKEN} FROM token ORDER BY token_id")  # noqa: S608 — constants
        return [rows.token_of(row) for row in found]
