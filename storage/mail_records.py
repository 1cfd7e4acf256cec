"""The values of agents' mail that cross the border between storage and the actors, as those of `storage.records`.

A *delivery* is an entry of an agent's private inbox for a message that is at home in another one; a message that was
sent to the agent itself is at home there. Both carry a delivery record: JSON as bytes, an object with `score`, `via`,
`also_via` and `matched_terms`. Times are µs since the Unix epoch. `mid` numbers messages in the order of commits.
"""

import msgspec

from storage.records import Head, InboxKind

ROUTABLE_KINDS = ("webhook", "topic", "machine")
"""Kinds of inbox whose messages are matched against beacons; what is at home in a private one never is."""

SELF = "self"
"""The reader that an agent is of its own inbox."""


class AgentRecord(msgspec.Struct, frozen=True):
    """An agent. It lives as long as its private inbox does."""

    agent_id: str
    inbox_id: int
    machine: str | None
    created_at: int


class ReaderRecord(msgspec.Struct, frozen=True):
    """How far one reader of an inbox has come. `acked`: runs (low, high) of seqs above `ack_cursor`, ascending.

    `served_high`: how far pulls have looked without a break. `served`: runs as `acked`, of what was served one by one,
    acknowledged or not. `start_seq`: the inbox's `latest_seq` when this reader came into being.
    """

    ack_cursor: int = 0
    served_high: int = 0
    start_seq: int = 0
    acked: tuple[tuple[int, int], ...] = ()
    served: tuple[tuple[int, int], ...] = ()


class NewDelivery(msgspec.Struct, frozen=True, gc=False):
    """An entry for a message that is at home elsewhere, numbered and ready to insert.

    `event_type`, `verified` and `size` are those of the home entry. `origin` is the inbox whose read scope governs
    the entry: the message's home, or the recipient's own for what was sent to it.
    """

    seq: int
    mid: int
    delivered_at: int
    event_type: str
    verified: int
    size: int
    origin: int
    expires_at: int | None
    delivery: bytes


class DrainRow(msgspec.Struct, frozen=True, gc=False):
    """What draining looks at of an entry: all but its content.

    `origin`, `origin_kind`: slug and kind of the inbox that governs it, None when that was deleted; `own`: it is the
    inbox that is drained. `score` is 0 for an entry without a delivery record. `weight`: bytes of what would be shown
    of it (facts, said, delivery record, and the body within the limit that was asked for), before any encoding.
    """

    seq: int
    score: float
    expires_at: int | None
    origin: str | None
    origin_kind: InboxKind | None
    own: bool
    weight: int


class Drain(msgspec.Struct, frozen=True):
    """The first rows above a floor, in order, with the head of the same moment. `has_more`: a row follows them."""

    head: Head
    rows: list[DrainRow]
    has_more: bool


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """One entry of a private inbox with its message: `seq`, `delivered_at`, `delivery`, `expires_at`, `event_type` and
    `verified` are the entry's, the rest is the message's.

    `home`: the slug of the inbox where the message is at home, None when that was deleted; its number there is
    `home_seq`, in the life `home_epoch`. Of a message to several agents that is the first one's private inbox: `own`
    says whether the message was sent to the reader itself, who then must not be told of `home`. `delivery` is None
    for an entry without a delivery record. `body` as in `StoredMessage`.
    """

    seq: int
    delivered_at: int
    delivery: bytes | None
    expires_at: int | None
    own: bool
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
    home: str | None
    home_seq: int
    home_epoch: str


class BeaconRecord(msgspec.Struct, frozen=True):
    """A beacon as stored. `spec` is JSON. It hears of messages whose `mid` is greater than `placed_mid`.

    `delivered` and `overflow` (matches that the daily limit kept back) count for `day`, in days since the Unix epoch.
    """

    agent_id: str
    name: str
    spec: bytes
    placed_mid: int
    placed_at: int
    expires_at: int | None = None
    day: int = 0
    delivered: int = 0
    overflow: int = 0


class Routable(msgspec.Struct, frozen=True, gc=False):
    """A message in an inbox that may be routed: all but its content, which `Content` has."""

    mid: int
    id: bytes
    inbox_id: int
    slug: str
    kind: InboxKind
    seq: int
    received_at: int
    event_type: str
    verified: int
    size: int
    expires_at: int | None


class LogSlice(msgspec.Struct, frozen=True):
    """A slice of the log: the routable messages among those that were looked at, in the order of looking.

    `through`: the mid that the next slice continues from; everything between the slice's start and it was looked at.
    `more`: there are messages beyond it.
    """

    rows: list[Routable]
    through: int
    more: bool


class Content(msgspec.Struct, frozen=True, gc=False):
    """What is matched of a message. `body`: its beginning, as many bytes as were asked for, also of a large one; None
    when it is empty or no bytes were asked for. `size` is that of the whole body.
    """

    mid: int
    facts: bytes
    said: bytes
    body_kind: int
    body: bytes | None
    size: int


class Recipient(msgspec.Struct, frozen=True):
    """An inbox that a message was sent to. `seq` and `stored_at` are set where the message is at home."""

    inbox_id: int
    seq: int | None = None
    stored_at: int | None = None


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A recipient that a message has not been delivered to yet, with what its entry there is made of.

    `home`: the inbox where the message is at home; `delivery`: the delivery record of its entry there, if it has one.
    """

    mid: int
    inbox_id: int
    home: int
    event_type: str
    verified: int
    size: int
    expires_at: int | None
    delivery: bytes | None


class Receipt(msgspec.Struct, frozen=True):
    """What became of a message at one recipient. `seq` None: still to be delivered."""

    inbox_id: int
    seq: int | None
    stored_at: int | None
    served_at: int | None
    acked_at: int | None
    expired_at: int | None


class Sent(msgspec.Struct, frozen=True, gc=False):
    """What was answered to a request with an idempotency key. `request` is a hash of that request."""

    request: bytes
    answer: bytes
    seen_at: int
