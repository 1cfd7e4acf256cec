"""Units and looks that belong to no inbox's turn: creating inboxes, tokens, staging bodies, tidying, reading.

Each is a frozen value with `run`, as `storage.protocols` asks for. A turn of an inbox is in `actors/turn.py`.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from storage.protocols import Lane, Snapshot, Tx
from storage.records import InboxListing, NewInbox, Swept, TokenRecord

T = TypeVar("T")

ADMIN_COST = 1_024
"""About what an administrative change writes, in bytes."""


class CreateInbox(msgspec.Struct, frozen=True):
    """Make an inbox, and a token for it: both or neither. Raises `SlugTaken`."""

    new: NewInbox
    token: TokenRecord | None = None
    lane: Lane = Lane.ANSWERS
    cost: int = ADMIN_COST
    grows: bool = True

    def run(self, tx: Tx) -> InboxListing:
        """Create them and return the inbox with its head."""
        record = tx.create_inbox(self.new)
        if self.token is not None:
            tx.put_token(self.token)
        return InboxListing(record, tx.head(record.inbox_id))


class PutToken(msgspec.Struct, frozen=True):
    """Store a new or changed token. Revoking must work on a full disk, so it never counts as growth."""

    token: TokenRecord
    lane: Lane = Lane.ANSWERS
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> None:
        """Store it."""
        tx.put_token(self.token)


class TouchTokens(msgspec.Struct, frozen=True):
    """Write down when tokens were last used: at most once a minute, for all of them together."""

    used: tuple[tuple[str, int], ...]
    lane: Lane = Lane.HOUSEKEEPING
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> None:
        """Store the times."""
        tx.touch_tokens(self.used)


class StagePiece(msgspec.Struct, frozen=True, gc=False):
    """Write one piece of a large body; the first piece (`body_id` None) also draws the id."""

    body_id: int | None
    n: int
    data: bytes
    lane: Lane = Lane.BODIES
    grows: bool = True

    @property
    def cost(self) -> int:
        """The piece's size."""
        return len(self.data)

    def run(self, tx: Tx) -> int:
        """Write it and return the body's id."""
        body_id = tx.stage_body() if self.body_id is None else self.body_id
        tx.put_chunk(body_id, self.n, self.data)
        return body_id


class DiscardBody(msgspec.Struct, frozen=True):
    """Drop a staged body whose message was refused or not stored."""

    body_id: int
    lane: Lane = Lane.HOUSEKEEPING
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> None:
        """Drop it."""
        tx.discard_body(self.body_id)


class SweepSlice(msgspec.Struct, frozen=True):
    """Delete one bounded slice of what nobody can read any more. `routed_only`: as in `Tx.sweep`."""

    max_rows: int
    max_bytes: int
    forget_seen_before: int | None = None
    routed_only: bool = False
    lane: Lane = Lane.HOUSEKEEPING
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> Swept:
        """Sweep, and forget dedupe keys that are older than every window."""
        swept = tx.sweep(self.max_rows, self.max_bytes, routed_only=self.routed_only)
        if self.forget_seen_before is not None and swept.rows < self.max_rows:
            forgotten = tx.forget_seen(self.forget_seen_before, self.max_rows - swept.rows)
            more = swept.more or forgotten == self.max_rows - swept.rows
            return Swept(swept.rows + forgotten, swept.bytes, more)
        return swept


class Reading(msgspec.Struct, Generic[T], frozen=True):
    """A look made of a plain function of the snapshot."""

    of: Callable[[Snapshot], T]
    slow: bool = False

    def run(self, snapshot: Snapshot) -> T:
        """Read."""
        return self.of(snapshot)
