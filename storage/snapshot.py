"""`storage.protocols.Snapshot` on SQLite: one read transaction of one connection, seen as methods."""

from collections.abc import Collection, Sequence

import apsw

from storage import bodies, pages, rows, search
from storage.engine import passing_pages
from storage.mail import SqliteLogReads, SqliteMailReads
from storage.records import Head, InboxListing, InboxRecord, Page, PageQuery, StoredMessage, TokenRecord
from storage.sealing import Seal
from storage.search_records import IndexState, SearchPage, SearchQuery, Unindexed
from storage.sql import Sql


class SqliteSnapshot(SqliteMailReads, SqliteLogReads):
    """The store at one moment. Valid while its connection's transaction is open."""

    def __init__(self, db: apsw.Connection, seal: Seal) -> None:
        self.sql = Sql(db)
        self._seal = seal

    def head(self, inbox_id: int) -> Head:
        """Return the inbox's head."""
        return rows.head_of(self.sql, inbox_id)

    def inbox(self, inbox_id: int) -> InboxListing:
        """Return record (with secrets) and head."""
        return rows.inbox_of(self.sql, self._seal, inbox_id)

    def inbox_by_slug(self, slug: str) -> InboxListing | None:
        """Return record (with secrets) and head of the live inbox of that slug."""
        return rows.inbox_by_slug(self.sql, self._seal, slug)

    def inboxes(self, slugs: Sequence[str] | None, after_slug: str, limit: int) -> list[InboxListing]:
        """Return live inboxes by slug."""
        return rows.inboxes(self.sql, slugs, after_slug, limit)

    def inboxes_verified_by(self, verifiers: Collection[str], after_id: int, limit: int) -> list[InboxRecord]:
        """Return live inboxes with one of these verifiers, by id."""
        with passing_pages(self.sql.db):
            return rows.inboxes_verified_by(self.sql, verifiers, after_id, limit)

    def due(self, now_us: int, limit: int) -> list[int]:
        """Return the inboxes whose oldest entry has come of age."""
        found = self.sql.rows(
            "SELECT inbox_id FROM inbox_head WHERE due_at <= ? ORDER BY due_at LIMIT ?", (now_us, limit)
        )
        return [inbox_id for (inbox_id,) in found]

    def page(self, query: PageQuery) -> Page:
        """Return one page."""
        return pages.page(self.sql, query)

    def message(self, inbox_id: int, seq: int, body_limit: int) -> tuple[Head, StoredMessage | None]:
        """Return one entry."""
        return pages.message(self.sql, inbox_id, seq, body_limit)

    def chunk(self, body_id: int, n: int) -> bytes:
        """Return a piece of a large body."""
        return bodies.chunk(self.sql, body_id, n)

    def body(self, body_id: int, size: int) -> bytes:
        """Return a whole large body."""
        return bodies.whole(self.sql, body_id, size)

    def is_json(self, body: bytes) -> bool:
        """Whether the bytes are strict JSON that common decoders accept."""
        return bodies.is_json(self.sql, body)

    # -- search -------------------------------------------------------------------------------------------
    def indexes(self) -> list[IndexState]:
        """Return how far each search index has come."""
        return search.indexes(self.sql)

    def unindexed(self, inbox_id: int, limit: int, body_limit: int, byte_budget: int) -> Unindexed | None:
        """Return what an index is to be given next."""
        return search.unindexed(self.sql, inbox_id, limit, body_limit, byte_budget)

    def search(self, query: SearchQuery) -> SearchPage:
        """Return what a query finds."""
        return search.search(self.sql, query)

    # -- tokens -------------------------------------------------------------------------------------------
    def tokens(self) -> list[TokenRecord]:
        """Return every token."""
        found = self.sql.rows(f"SELECT {rows.COLUMNS_OF_TOKEN} FROM token ORDER BY token_id")  # noqa: S608 — constants # nosec B608
        return [rows.token_of(row) for row in found]
