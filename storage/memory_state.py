"""What the in-memory store keeps, and nothing about how it is changed or read.

Plain dictionaries. `MemoryTx` alone changes them, from inside a unit; `MemorySnapshot` only reads them.
Neither awaits, so everything that one of them sees belongs to one moment.
"""

from storage.errors import InboxGone
from storage.records import Head, InboxRecord, Seen, StoredMessage, TokenRecord


class MemoryInbox:
    """One life of an inbox, live or (until it is swept) deleted.

    `rows` has every entry that was not yet erased or swept, by seq. Rows below `dropped_below` are rubbish;
    rows below `swept_below` are gone.
    """

    __slots__ = ("alive", "dropped_below", "head", "record", "rows", "seen", "swept_below")

    def __init__(self, record: InboxRecord, head: Head) -> None:
        self.record = record
        self.head = head
        self.rows: dict[int, StoredMessage] = {}
        self.seen: dict[bytes, Seen] = {}
        self.alive = True
        self.dropped_below = 1
        self.swept_below = 1

    def visible(self, seq: int) -> StoredMessage | None:
        """Return the entry when it still belongs to the inbox."""
        if not self.head.first_seq <= seq <= self.head.latest_seq:
            return None
        return self.rows.get(seq)


class MemoryBody:
    """A large body in its pieces. `staged_in` is the start that staged it, None once a message adopted it."""

    __slots__ = ("pieces", "staged_in")

    def __init__(self, staged_in: int) -> None:
        self.pieces: list[bytes] = []
        self.staged_in: int | None = staged_in


class MemoryState:
    """Everything durable. Ids are drawn from counters that only ever grow, also when a unit is undone."""

    def __init__(self) -> None:
        self.inboxes: dict[int, MemoryInbox] = {}
        self.slugs: dict[str, int] = {}
        self.to_sweep: dict[int, None] = {}
        """Inboxes that may have rows to sweep, as an ordered set: the first one noted is swept first."""
        self.message_ids: dict[bytes, None] = {}
        self.bodies: dict[int, MemoryBody] = {}
        self.tokens: dict[str, TokenRecord] = {}
        self.last_inbox_id = 0
        self.last_body_id = 0
        self.start = 1
        """Which start of the store this is; staged bodies of an earlier one are rubbish."""

    def live(self, inbox_id: int) -> MemoryInbox:
        """Return a live inbox. Raises `InboxGone`."""
        inbox = self.inboxes.get(inbox_id)
        if inbox is None or not inbox.alive:
            raise InboxGone(f"inbox {inbox_id} does not exist")
        return inbox
