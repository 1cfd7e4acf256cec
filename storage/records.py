"""The values that cross the border between storage and the actors. All are frozen; none knows SQL or trio.

Times are integers, microseconds since the Unix epoch, UTC. Ids of messages are the 16 bytes of a ULID.
"""

from typing import Any, Literal

import msgspec

from storage.secret import SecretBytes

InboxKind = Literal["webhook", "topic", "agent", "machine"]
TokenKind = Literal["admin", "agent", "machine"]

INLINE_BODY_BYTES = 65_536
"""Bodies up to this size live in the message row; larger ones in pieces (engineering study, S19)."""

CHUNK_BYTES = 262_144
"""One piece of a large body: 256 KiB keeps the longest stall of a small commit under 10 ms (S19)."""


class BodyKind:
    """How a body is shown to a reader, decided once when it arrives (`body_kind` of a message)."""

    EMPTY = 0
    JSON = 1
    TEXT = 2
    BYTES = 3
    LARGE = 4  # kept in pieces; what it is gets decided when somebody reads it whole


class Verdict:
    """The verdict on a message's signature, as kept in `entry.verified`."""

    FAILED = 0
    VERIFIED = 1
    NONE = 2  # the inbox has no verifier


class Retention(msgspec.Struct, frozen=True):
    """How much an inbox keeps. `None` means without limit; ages in seconds, sizes in bytes of bodies."""

    max_age_seconds: int | None = None
    max_messages: int | None = None
    max_bytes: int | None = None
    policy: Literal["drop_oldest", "refuse"] = "drop_oldest"


class Response(msgspec.Struct, frozen=True):
    """The answer that a sender gets instead of `{"id", "seq"}`."""

    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    body: str = ""
    headers: dict[str, str] = {}


class InboxSettings(msgspec.Struct, frozen=True):
    """Everything about an inbox that an administrator may change, as stored in `inbox.settings`."""

    verifier: str = "none"
    verifier_options: dict[str, Any] = {}
    on_unverified: Literal["store", "reject"] = "store"
    dedupe_window_seconds: int = 86_400
    retention: Retention = Retention()
    response: Response | None = None
    rate_per_minute: int | None = None
    max_body_bytes: int | None = None
    signed_url: str | None = None
    search: bool = False


class Secret(msgspec.Struct, frozen=True):
    """One named secret of an inbox. Several may be active at once, so that rotation loses nothing."""

    name: str
    value: SecretBytes
    added_at: int


class InboxRecord(msgspec.Struct, frozen=True):
    """Identity and settings of one life of an inbox. `inbox_id` is never used again for another."""

    inbox_id: int
    slug: str
    kind: InboxKind
    name: str
    created_at: int
    settings: InboxSettings
    secrets: tuple[Secret, ...] = ()


class NewInbox(msgspec.Struct, frozen=True):
    """What `Tx.create_inbox` needs; the store draws the id and the epoch."""

    slug: str
    kind: InboxKind
    name: str
    settings: InboxSettings
    secrets: tuple[Secret, ...] = ()


class Head(msgspec.Struct, frozen=True, gc=False):
    """The hot row of an inbox: what every turn reads and advances.

    `first_seq` = `latest_seq` + 1 when nothing is kept. `live_*` count what is kept, `dropped_*` what
    retention, purges and erasures have taken since the inbox was made. `last_at` is the `received_at` of the
    newest message that ever was, so that times never go backwards. `due_at`: when the oldest entry comes of age, None
    when it never does.
    """

    epoch: str
    latest_seq: int = 0
    first_seq: int = 1
    last_at: int = 0
    live_rows: int = 0
    live_bytes: int = 0
    dropped_rows: int = 0
    dropped_bytes: int = 0
    due_at: int | None = None


class OldEntry(msgspec.Struct, frozen=True, gc=False):
    """What retention looks at in an entry."""

    seq: int
    received_at: int
    size: int


class NewEntry(msgspec.Struct, frozen=True, gc=False):
    """One message with its entry in the inbox where it is at home, numbered and ready to insert.

    `facts` and `said` are JSON objects as bytes (what the server established, what the sender chose). Exactly
    one of `body` and `body_id` is set, or neither for an empty body. `delivery` is the delivery record of a message
    that is sent to the agent whose inbox this is (`storage.mail_records`); after `expires_at` draining passes it over.
    `origin`: the inbox whose read scope governs the entry, None for its own.
    """

    seq: int
    id: bytes
    received_at: int
    size: int
    facts: bytes
    said: bytes
    body_kind: int
    body: bytes | None
    body_id: int | None
    event_type: str
    verified: int
    origin: int | None = None
    expires_at: int | None = None
    delivery: bytes | None = None


class Seen(msgspec.Struct, frozen=True, gc=False):
    """The first verified message that carried a delivery id."""

    seq: int
    id: bytes
    seen_at: int


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """One entry as a reader gets it: entry and message joined. `body` is `None` when it was not asked for,
    when it is over the limit that was asked for, when it is empty, or when it is kept in pieces.
    """

    seq: int
    id: bytes
    received_at: int
    size: int
    facts: bytes
    said: bytes
    body_kind: int
    body: bytes | None
    body_id: int | None
    event_type: str
    verified: int


class Page(msgspec.Struct, frozen=True):
    """Rows and the head from one snapshot (S9).

    `exhausted`: no further match lies beyond the last row in the direction of reading, within this snapshot.
    """

    head: Head
    rows: list[StoredMessage]
    exhausted: bool


class PageQuery(msgspec.Struct, frozen=True):
    """Which entries of one inbox to read.

    Forward: `seq > after`, oldest first. Backward (`after` is None): `seq < before` (or from the newest when
    that is None too), newest first. `since_us` <= received_at < `until_us`. `body_limit`: bodies up to this
    many bytes come along, 0 for none. `byte_budget`: the row with
    which the rows' own bytes (facts, said, body that comes along) pass it is the last one.
    """

    inbox_id: int
    limit: int
    after: int | None = None
    before: int | None = None
    types: tuple[str, ...] = ()
    verified: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    body_limit: int = 0
    byte_budget: int = 1_048_576


class InboxListing(msgspec.Struct, frozen=True):
    """An inbox with its head from one snapshot, for lists and for the administrator's view."""

    record: InboxRecord
    head: Head


class TokenRecord(msgspec.Struct, frozen=True):
    """A token as stored: never its text, only the SHA-256 of it.

    `inboxes`: the slugs it was issued for, or None for all webhook and topic inboxes. Scopes name slugs, not
    ids, so that a token outlives an inbox that is deleted and made again; its cursors do not (epochs).
    """

    token_id: str
    hash: bytes
    kind: TokenKind
    inboxes: tuple[str, ...] | None = ()
    agent: str | None = None
    machine: str | None = None
    machines: tuple[str, ...] = ()
    name: str | None = None
    created_at: int = 0
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None


class Swept(msgspec.Struct, frozen=True):
    """What one slice of sweeping removed, and whether anything is left to do."""

    rows: int
    bytes: int
    more: bool
