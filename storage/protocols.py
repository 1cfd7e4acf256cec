"""What the actors may ask of a store, as narrow protocols, and nothing about how it is done.

Two implementations keep them, held to one contract-test suite (`tests/contract/`): SQLite (`storage/sqlite.py`
and below) and a thread-free twin in memory (`storage/memory.py`). A third one, on somebody's distributed
log, would start here.

A *unit* changes the store and is a value with `run(tx)`: it is called by the writer, on the writer's thread,
inside a transaction that it shares with units of other inboxes; a savepoint of its own makes it all or
nothing. A *look* reads, and is a value with `run(snapshot)`: everything it reads belongs to one moment.
Neither may keep its argument, and neither may block on anything else than the store.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar

from storage.histogram import Histogram
from storage.mail_protocols import LogReads, MailChanges, MailReads
from storage.records import (
    Head,
    InboxListing,
    InboxRecord,
    InboxSettings,
    NewEntry,
    NewInbox,
    OldEntry,
    Page,
    PageQuery,
    Secret,
    Seen,
    StoredMessage,
    Swept,
    TokenRecord,
)
from storage.search_protocols import SearchChanges, SearchReads

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Lane(IntEnum):
    """In which order waiting units are taken: somebody's answer first, our own tidying last.

    Housekeeping still gets a guaranteed slice (one unit of at most 5 ms every 50 ms), else it would starve
    under steady load.
    """

    ANSWERS = 0
    BODIES = 1
    DELIVERIES = 2
    HOUSEKEEPING = 3


class Tx(MailChanges, SearchChanges, Protocol):
    """The store inside a unit. Every method sees what the units before it in the transaction did."""

    def now(self) -> int:
        """Return the server clock in µs; the same value throughout one unit."""

    # -- reading what a decision needs -----------------------------------------------------------------
    def head(self, inbox_id: int) -> Head:
        """Return the inbox's head. Raises `InboxGone` when it is deleted, being deleted, or never was."""

    def inbox(self, inbox_id: int) -> InboxRecord:
        """Return the inbox's record with its secrets. Raises `InboxGone`."""

    def seen(self, inbox_id: int, keys: Sequence[bytes]) -> dict[bytes, Seen]:
        """Return, of these dedupe keys, those that the inbox remembers, whatever their age."""

    def oldest(self, inbox_id: int, from_seq: int, limit: int) -> list[OldEntry]:
        """Return the first entries from a seq on, in their order."""

    # -- one inbox's turn ---------------------------------------------------------------------------------
    def append(self, inbox_id: int, epoch: str, entries: Sequence[NewEntry]) -> range:
        """Insert messages and their home entries, adopt staged bodies that they refer to; return their mids, in order.

        Raises `NotStored` when a `body_id` is not staged (swept, or adopted already).
        """

    def remember(self, inbox_id: int, keys: Sequence[tuple[bytes, Seen]]) -> None:
        """Remember dedupe keys, replacing older ones of the same key."""

    def advance(self, inbox_id: int, believed: Head, to: Head) -> None:
        """Replace the head by compare-and-set on epoch and `latest_seq` of `believed`. Raises `Fenced`."""

    def erase(self, inbox_id: int, seq: int) -> int | None:
        """Delete one entry, and its message when this was its last entry; return its size, None if absent.

        The caller advances the head's counters. An erased seq is remembered, so that `verify` knows the hole.
        """

    def drop_before(self, inbox_id: int, seq: int) -> None:
        """Note that entries below `seq` are no longer part of the inbox (the head's `first_seq` says so to
        readers at once); `sweep` deletes their rows in slices.
        """

    # -- administration ------------------------------------------------------------------------------------
    def create_inbox(self, new: NewInbox) -> InboxRecord:
        """Create an inbox with a new id and a new random epoch. Raises `SlugTaken`."""

    def change_inbox(self, inbox_id: int, name: str, settings: InboxSettings) -> None:
        """Replace name and settings. Raises `InboxGone`."""

    def delete_inbox(self, inbox_id: int) -> None:
        """Free the slug, hide the inbox from everything, leave its rows to `sweep`. Its readers go at once, with an
        agent's own inbox the agent, its beacons, its presence and its wake target, and with a machine's the machine.
        Raises `InboxGone`.
        """

    def put_secret(self, inbox_id: int, secret: Secret) -> None:
        """Add a secret or replace the one of the same name. Raises `InboxGone`."""

    def drop_secret(self, inbox_id: int, name: str) -> bool:
        """Remove a secret; False when there is none of that name. Raises `InboxGone`."""

    def put_token(self, token: TokenRecord) -> None:
        """Insert a token or replace the one with the same `token_id`."""

    def touch_tokens(self, used: Iterable[tuple[str, int]]) -> None:
        """Move `last_used_at` of tokens forward (pairs of `token_id` and µs)."""

    # -- large bodies ----------------------------------------------------------------------------------------
    def stage_body(self) -> int:
        """Return a new `body_id`, never used before; until a message adopts it, it is rubbish to be swept."""

    def put_chunk(self, body_id: int, n: int, data: bytes) -> None:
        """Add piece `n` (from 0, without holes) of a staged body."""

    def discard_body(self, body_id: int) -> None:
        """Drop a staged body and its pieces; nothing happens when it was adopted or swept."""

    # -- housekeeping ------------------------------------------------------------------------------------------
    def sweep(self, max_rows: int, max_bytes: int, *, routed_only: bool = False) -> Swept:
        """Delete one slice of what nobody can read any more: rows below a dropped seq, rows of deleted
        inboxes, messages without an entry, staged bodies from before this start. At most `max_rows` rows and
        about `max_bytes` bytes of bodies (one row at least).

        `routed_only`: entries of messages beyond the router's stored cursor stay, so that it finds them, and after a
        crash finds what it has delivered. What is held back for it does not count as `more`. A full store waits for
        nobody.
        """

    def forget_seen(self, before_us: int, max_rows: int) -> int:
        """Forget at most `max_rows` rows of before a moment: keys of deliveries and of what agents have sent, and what
        these have sent that has been gone since then, with its receipts. Return how many.
        """


class Unit(Protocol[T_co]):
    """A change: all of it becomes durable together with its transaction, or none of it."""

    @property
    def lane(self) -> Lane:
        """The lane it waits in."""

    @property
    def cost(self) -> int:
        """About how many bytes it writes; bounds the size of a transaction."""

    @property
    def grows(self) -> bool:
        """Whether it stores something new: such units are refused (507) when space is low, others are not."""

    def run(self, tx: Tx) -> T_co:
        """Do it. Any exception undoes this unit alone and reaches the caller of `Log.commit`."""


class Snapshot(MailReads, LogReads, SearchReads, Protocol):
    """The store at one moment, for reading."""

    def head(self, inbox_id: int) -> Head:
        """Return the inbox's head. Raises `InboxGone`."""

    def inbox(self, inbox_id: int) -> InboxListing:
        """Return record (with secrets) and head. Raises `InboxGone`."""

    def inbox_by_slug(self, slug: str) -> InboxListing | None:
        """Return record (with secrets) and head of a live inbox."""

    def inboxes(self, slugs: Sequence[str] | None, after_slug: str, limit: int) -> list[InboxListing]:
        """Return live inboxes by slug, ascending, strictly after `after_slug`, without their secrets.

        `slugs` restricts to those named; None means every inbox that is not private (webhook and topic).
        """

    def inboxes_verified_by(self, verifiers: Collection[str], after_id: int, limit: int) -> list[InboxRecord]:
        """Return live inboxes with one of these verifiers, by id, strictly after `after_id`, without their secrets.

        Looks at every inbox, and keeps none of that in memory.
        """

    def due(self, now_us: int, limit: int) -> list[int]:
        """Return the ids of inboxes whose oldest entry has come of age (`Head.due_at` <= now), longest due first."""

    def page(self, query: PageQuery) -> Page:
        """Return one page of entries with the head of the same moment. Raises `InboxGone`."""

    def message(self, inbox_id: int, seq: int, body_limit: int) -> tuple[Head, StoredMessage | None]:
        """Return one entry; its body when it is inline and at most `body_limit` bytes. Raises `InboxGone`."""

    def chunk(self, body_id: int, n: int) -> bytes:
        """Return piece `n` of a large body. Raises `BodyGone`."""

    def body(self, body_id: int, size: int) -> bytes:
        """Return a whole large body of `size` bytes. Raises `BodyGone` unless every byte is there."""

    def is_json(self, body: bytes) -> bool:
        """Whether the bytes are JSON that every decoder reads. Runs where it does not stop the event loop.

        RFC 8259 in UTF-8, and neither nested over 100 deep nor a number beyond a double nor half a surrogate
        pair: readers refuse these, and with them the whole page that contains them.
        """

    def tokens(self) -> list[TokenRecord]:
        """Return every token, revoked ones included, in the order of their ids."""


class Look(Protocol[T_co]):
    """A read of one moment."""

    @property
    def slow(self) -> bool:
        """True for reads that may take long or move much (pieces of bodies, exports): they have a thread of
        their own, so that pages never stand behind them.
        """

    def run(self, snapshot: Snapshot) -> T_co:
        """Read."""


class Health(Protocol):
    """How the store is, for `/readyz` and for metrics. Read without a lock; counters are from the start."""

    state: str
    """`open`, `full`, `degraded` or `closed`."""
    reason: str
    """One sentence without paths when the state is not `open`; else empty."""
    transaction_units: Histogram
    """Units in the committed transactions."""
    transaction_seconds: Histogram
    """What a committed transaction took, from its beginning to its end."""
    commit_seconds: Histogram
    """What its COMMIT took, which is mostly the sync to the disk."""
    read_seconds: Histogram
    """What a read took, waiting for its turn included."""
    batch_units_max: int
    """Units in the largest transaction."""
    database_bytes: int
    """Size of the database itself after the last commit, free pages included."""
    wal_bytes: int
    """Size of the write-ahead log after the last commit."""
    checkpoints: int
    """How often the write-ahead log was folded into the database and truncated."""
    lost_transactions: int
    """Transactions that the disk did not take."""
    unknown_commits: int
    """Those of which nobody knows whether it did."""
    refused_full: int
    """Units that were refused because there is no room."""
    reads_refused: int
    """Reads for which no slot became free in time."""

    @property
    def commits(self) -> int:
        """Transactions committed."""

    @property
    def batch_units(self) -> int:
        """Units in them."""


class Log(Protocol):
    """A store as the actors see it. Method calls are made from the event loop, in any task."""

    @property
    def health(self) -> Health:
        """How the store is."""

    async def commit(self, unit: Unit[T]) -> T:
        """Run a unit and return its result once it is durable.

        Raises the unit's own exception if it is `Fenced`, `InboxGone`, `SlugTaken` or a `StorageError`; `UnitFailed`
        around any other; `StorageFull`, `StorageDegraded`, `StorageClosed`: not stored; `OutcomeUnknown`. Cancelled
        while the unit is still queued: it will not run. Cancelled later: unknown.
        """

    async def read(self, look: Look[T]) -> T:
        """Run a look on a reader, behind the limit of concurrent reads. Raises `ReadersBusy` and whatever the
        look raises. Safe to cancel.
        """
