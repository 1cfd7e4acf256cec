"""What can be asked of an inbox's actor. Frozen values: each is one change, made in the order of the mailbox.

A command's outcome is the value named here, or an exception: `InboxGone`, a `Refusal` (the rules said no), or one
of `actors.ask` (stopped, unknown, not stored).
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from actors.fanout import Ticket
from storage.mail_records import SELF, Delivered
from storage.records import InboxRecord, InboxSettings, Secret, TokenRecord


class Refusal(Exception):
    """The rules refuse this command; nothing was changed. `code` is one of the wire's error codes; `details` are told
    beside the message, as JSON.
    """

    def __init__(
        self, code: str, message: str, field: str | None = None, details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.details = details


class Broadcast(msgspec.Struct, frozen=True, gc=False):
    """To whom a broadcast goes: all agents of a machine that have not said farewell at the moment of the commit,
    without the one that sends it. Beyond the first `most` of them, by their ids, agents are left out.
    """

    machine: str
    sender: str | None = None
    most: int = 1_000


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A message before its inbox has numbered it. Field meanings as in `storage.records.NewEntry`.

    `dedupe_key` is set only for verified messages with a delivery id, so that nobody unverified can burn one.

    For mail: `delivery` is the delivery record of what is sent to the agent whose private inbox this is; after
    `expires_at` draining passes the message over; `recipients` are other inboxes that it is still to be delivered to,
    which the router does. Whoever it is sent to gets a receipt. Of a `broadcast` they are found in the turn itself.
    `log_of`: the inbox of the agent that sends it, whose list of what it sent the message is to stand in.
    """

    id: bytes
    size: int
    facts: bytes
    said: bytes
    body_kind: int
    body: bytes | None
    body_id: int | None
    event_type: str
    verified: int
    dedupe_key: bytes | None = None
    delivery: bytes | None = None
    expires_at: int | None = None
    recipients: tuple[int, ...] = ()
    broadcast: Broadcast | None = None
    log_of: int | None = None


class Once(msgspec.Struct, frozen=True, gc=False):
    """A request that its sender may repeat: `key` is the sender's, `request` a hash of what it asks for.

    `sender` is the id of the sender's own inbox.
    """

    sender: int
    key: bytes
    request: bytes


class Append(msgspec.Struct, frozen=True, gc=False):
    """Append a message, or recognise it as one seen within the window. Outcome: `Appended`, or
    `Refusal("insufficient_storage")` when the inbox is at a limit and its policy is to refuse; a broadcast to nobody is
    `Refusal("no_recipient")`.

    `ticket` is open until the sender has been answered; crowds are woken after that. `once`: the same request of the
    same sender is answered with the first one's place, in whatever inbox that is; another request with its key is
    `Refusal("conflict")`.
    """

    draft: Draft
    dedupe_window_us: int = 0
    ticket: Ticket | None = None
    once: Once | None = None


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """An agent that a broadcast does not go to, and why: `gone` (it said farewell) or `limit` (too many others)."""

    agent_id: str
    reason: str


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where the message is: its own place, or the first one's when it was a duplicate.

    `recipients`, `skipped`: whom a broadcast goes to, by their ids, and whom not.
    """

    id: bytes
    seq: int
    duplicate: bool
    recipients: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()


class DeliveryDraft(msgspec.Struct, frozen=True, gc=False):
    """A delivery before the recipient's inbox has numbered it; its fields are those of
    `storage.mail_records.NewDelivery`.
    """

    mid: int
    event_type: str
    verified: int
    size: int
    origin: int
    expires_at: int | None
    delivery: bytes


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Deliver messages that are at home elsewhere to a private inbox, which never refuses one.

    Outcome: a tuple with the seq of each, None for those that were skipped: delivered before, at home there, or gone.
    """

    drafts: tuple[DeliveryDraft, ...]


class Pull(msgspec.Struct, frozen=True):
    """Acknowledge, and look at a window of a private inbox, in one transaction (surface, section 7). Outcome: `Pulled`.

    `since`, `ack` and `limit` are the caller's, `max_batch` is the server's cap. `visible`: the slugs that the caller
    may read; None means every webhook and topic inbox. Bodies up to `body_limit` bytes come along. The window ends
    before the row with which the page would pass `byte_budget`; one that is served fits always. `measure` says what a
    row takes in the page, in bytes: it is pure and runs on a thread of the store. Without it rows are taken by weight.
    """

    ack: int | None
    since: int | None
    limit: int | None
    max_batch: int
    visible: frozenset[str] | None
    body_limit: int
    byte_budget: int
    measure: Callable[[Delivered], int] | None = None
    reader: str = SELF


class Pulled(msgspec.Struct, frozen=True):
    """What a pull answers. `rows`: what is served, best first. `cursor`: everything up to it is acknowledged.

    `window_high`: how far may be acknowledged next. `has_more`: there is a row above that. `epoch`: the inbox's.
    """

    rows: list[Delivered]
    cursor: int
    window_high: int
    has_more: bool
    epoch: str


class Served(msgspec.Struct, frozen=True, gc=False):
    """Note how far a reader has looked without a break. Outcome: None. It never moves back."""

    high: int
    reader: str = SELF


class AckEach(msgspec.Struct, frozen=True, gc=False):
    """Acknowledge messages one by one. Outcome: `AckedEach`, or `Refusal("conflict")` if that leaves too many holes."""

    seqs: tuple[int, ...]
    reader: str = SELF


class AckedEach(msgspec.Struct, frozen=True):
    """What became of acknowledgements, by seq: done now, done before, not in the inbox. `cursor` as in `Pulled`."""

    acked: tuple[int, ...]
    already: tuple[int, ...]
    unknown: tuple[int, ...]
    cursor: int


class MarkServed(msgspec.Struct, frozen=True, gc=False):
    """Mark messages as served to a reader. Outcome: a tuple of those seqs that nobody else has served or acknowledged
    meanwhile, and that are still there: these alone may be shown. `Refusal("conflict")` if that leaves too many holes.

    It is no acknowledgement: no cursor moves.
    """

    seqs: tuple[int, ...]
    reader: str = SELF


class AckIds(msgspec.Struct, frozen=True):
    """Acknowledge messages by their ids. Outcome: `AckedIds`, or `Refusal("conflict")` if that leaves too many holes.

    `visible` as in `Pull`: what its caller does not see is as unknown as what is not there.
    """

    ids: tuple[bytes, ...]
    visible: frozenset[str] | None
    reader: str = SELF


class AckedIds(msgspec.Struct, frozen=True):
    """What became of acknowledgements, by id, in the order asked: done now, done before, not in the inbox.

    `cursor` as in `Pulled`.
    """

    acked: tuple[bytes, ...]
    already: tuple[bytes, ...]
    unknown: tuple[bytes, ...]
    cursor: int


class ChangeInbox(msgspec.Struct, frozen=True):
    """Apply a change to the settings in force at that moment. Outcome: the new `InboxRecord`.

    `change` is pure: it gets the record in force and returns the new name and settings, or raises `Refusal`.
    """

    change: Callable[[InboxRecord], tuple[str, InboxSettings]]


class PutSecret(msgspec.Struct, frozen=True):
    """Add a named secret, or replace it. Outcome: the new `InboxRecord`.

    `check` is pure: it gets the record in force and raises `Refusal` when the secret has no place there.
    """

    secret: Secret
    check: Callable[[InboxRecord], None]


class DropSecret(msgspec.Struct, frozen=True):
    """Remove a named secret. Outcome: the new `InboxRecord`; `Refusal("not_found")` when there is none."""

    name: str


class Purge(msgspec.Struct, frozen=True):
    """Drop every message; the counter stays. Outcome: how many entries were dropped (int)."""


class Erase(msgspec.Struct, frozen=True):
    """Delete the content of one message; its seq stays used. Outcome: an empty tuple; `Refusal("not_found")`.

    Nothing was changed when the outcome is not empty: it says in which inboxes, by their ids, the message stands, too,
    and where there (its seq): each is for its own actor to erase, and this one comes last.
    """

    seq: int


class Retain(msgspec.Struct, frozen=True):
    """Let go of what is over the inbox's limits, which every turn does anyway: for inboxes that nobody writes to.

    Outcome: None.
    """


class DeleteInbox(msgspec.Struct, frozen=True):
    """Delete the inbox, and an agent or a machine with its own one. Outcome: None. Every later command of the mailbox
    meets `InboxGone`. `revoked`: tokens that go with it, as they are to be stored.
    """

    revoked: tuple[TokenRecord, ...] = ()


Command = (
    Append
    | Deliver
    | Pull
    | Served
    | AckEach
    | MarkServed
    | AckIds
    | ChangeInbox
    | PutSecret
    | DropSecret
    | Purge
    | Erase
    | Retain
    | DeleteInbox
)
Outcome = Any
__all__ = [
    "AckEach",
    "AckIds",
    "AckedEach",
    "AckedIds",
    "Append",
    "Appended",
    "Broadcast",
    "ChangeInbox",
    "Command",
    "DeleteInbox",
    "Deliver",
    "DeliveryDraft",
    "Draft",
    "DropSecret",
    "Erase",
    "InboxRecord",
    "MarkServed",
    "Once",
    "Outcome",
    "Pull",
    "Pulled",
    "Purge",
    "PutSecret",
    "Refusal",
    "Retain",
    "Served",
    "Skipped",
]
