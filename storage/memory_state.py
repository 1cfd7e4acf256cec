"""What the in-memory store keeps, and nothing about how it is changed or read.

Plain dictionaries. `MemoryTx` alone changes them, from inside a unit; `MemorySnapshot` only reads them.
Neither awaits, so everything that one of them sees belongs to one moment.
"""

import msgspec

from storage.errors import InboxGone
from storage.mail_records import AgentRecord, BeaconRecord, ReaderRecord, Receipt, Sent
from storage.mesh_records import MachineRecord, PresenceRecord, WakeTarget
from storage.records import Head, InboxRecord, Seen, StoredMessage, TokenRecord


class MemoryMessage(msgspec.Struct, frozen=True):
    """A message, kept as long as an entry refers to it; fields as the columns of the table."""

    mid: int
    id: bytes
    home_inbox: int
    home_seq: int
    home_epoch: str
    received_at: int
    size: int
    facts: bytes
    said: bytes
    body_kind: int
    body: bytes | None
    body_id: int | None


class MemoryEntry(msgspec.Struct, frozen=True):
    """An entry of an inbox; fields as the columns of the table."""

    seq: int
    message: MemoryMessage
    received_at: int
    event_type: str
    verified: int
    home: bool
    origin: int
    expires_at: int | None
    delivery: bytes | None

    def body(self, limit: int) -> bytes | None:
        """Return the body when it is kept in the message and within a limit."""
        return self.message.body if self.message.size <= limit else None

    def shown(self, body_limit: int) -> StoredMessage:
        """Return what a page shows."""
        message = self.message
        return StoredMessage(
            self.seq,
            message.id,
            self.received_at,
            message.size,
            message.facts,
            message.said,
            message.body_kind,
            self.body(body_limit),
            message.body_id,
            self.event_type,
            self.verified,
        )


class MemorySent(msgspec.Struct, frozen=True):
    """A message that an agent has sent; fields as the columns of `sent_log`."""

    sender: int
    id: bytes
    mid: int
    sent_at: int
    event_type: str
    expires_at: int | None
    gone_at: int | None


class MemoryIndex:
    """The search index of an inbox: the words of each entry up to `indexed_seq`, by seq."""

    __slots__ = ("indexed_seq", "words")

    def __init__(self) -> None:
        self.indexed_seq = 0
        self.words: dict[int, list[str]] = {}


class MemoryInbox:
    """One life of an inbox, live or (until it is swept) deleted.

    `rows` has every entry that was not yet erased or swept, by seq. Rows below `dropped_below` are rubbish;
    rows below `swept_below` are gone.
    """

    __slots__ = (
        "alive",
        "dropped_below",
        "head",
        "index",
        "readers",
        "record",
        "rows",
        "seen",
        "swept_below",
    )

    def __init__(self, record: InboxRecord, head: Head) -> None:
        self.record = record
        self.head = head
        self.rows: dict[int, MemoryEntry] = {}
        self.seen: dict[bytes, Seen] = {}
        self.readers: dict[str, ReaderRecord] = {}
        self.index: MemoryIndex | None = None
        self.alive = True
        self.dropped_below = 1
        self.swept_below = 1

    def visible(self, seq: int) -> MemoryEntry | None:
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
    """Everything durable. Ids of inboxes and bodies are drawn from counters that only ever grow, also when a unit is
    undone; mids are numbered without holes.
    """

    def __init__(self) -> None:
        self.inboxes: dict[int, MemoryInbox] = {}
        self.slugs: dict[str, int] = {}
        self.to_sweep: dict[int, None] = {}
        """Inboxes that may have rows to sweep, as a set."""
        self.messages: dict[int, MemoryMessage] = {}
        self.message_ids: dict[bytes, int] = {}
        """The mids of messages by their ids."""
        self.delivered: dict[int, dict[int, int]] = {}
        """By mid: the inboxes that a message was delivered to, and its seq in each. Not where it is at home."""
        self.receipts: dict[int, dict[int, Receipt]] = {}
        """By mid and inbox id."""
        self.bodies: dict[int, MemoryBody] = {}
        self.tokens: dict[str, TokenRecord] = {}
        self.agents: dict[str, AgentRecord] = {}
        self.beacons: dict[tuple[str, str], BeaconRecord] = {}
        self.sent: dict[tuple[int, bytes], Sent] = {}
        self.machines: dict[str, MachineRecord] = {}
        self.presences: dict[str, PresenceRecord] = {}
        self.wake_targets: dict[str, WakeTarget] = {}
        self.sent_log: dict[int, MemorySent] = {}
        """By mid: what agents have sent."""
        self.last_inbox_id = 0
        self.last_body_id = 0
        self.last_mid = 0
        self.routed_mid = 0
        self.start = 1
        """Which start of the store this is; staged bodies of an earlier one are rubbish."""

    def live(self, inbox_id: int) -> MemoryInbox:
        """Return a live inbox. Raises `InboxGone`."""
        inbox = self.inboxes.get(inbox_id)
        if inbox is None or not inbox.alive:
            raise InboxGone(f"inbox {inbox_id} does not exist")
        return inbox

    def alive(self, inbox_id: int) -> MemoryInbox | None:
        """Return a live inbox, None when there is none of that id."""
        inbox = self.inboxes.get(inbox_id)
        return inbox if inbox is not None and inbox.alive else None

    def home_entry(self, message: MemoryMessage) -> MemoryEntry | None:
        """Return the entry of a message where it is at home, None when it was erased or swept."""
        inbox = self.inboxes.get(message.home_inbox)
        return None if inbox is None else inbox.rows.get(message.home_seq)
