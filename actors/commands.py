"""What can be asked of an inbox's actor. Frozen values: each is one change, made in the order of the mailbox.

A command's outcome is the value named here, or an exception: `InboxGone`, a `Refusal` (the rules said no), or one
of `actors.ask` (stopped, unknown, not stored).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from actors.fanout import Ticket
from storage.records import InboxRecord, InboxSettings, Secret


class Refusal(Exception):
    """The rules refuse this command; nothing was changed. `code` is one of the wire's error codes."""

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A message before its inbox has numbered it. Field meanings as in `storage.records.NewEntry`.

    `dedupe_key` is set only for verified messages with a delivery id, so that nobody unverified can burn one.
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


class Append(msgspec.Struct, frozen=True, gc=False):
    """Append a message, or recognise it as one seen within the window. Outcome: `Appended`, or
    `Refusal("insufficient_storage")` when the inbox is at a limit and its policy is to refuse.

    `ticket` is open until the sender has been answered; crowds are woken after that.
    """

    draft: Draft
    dedupe_window_us: int = 0
    ticket: Ticket | None = None


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where the message is: its own place, or the first one's when it was a duplicate."""

    id: bytes
    seq: int
    duplicate: bool


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
    """Delete the content of one message; its seq stays used. Outcome: None; `Refusal("not_found")`."""

    seq: int


class Retain(msgspec.Struct, frozen=True):
    """Let go of what is over the inbox's limits, which every turn does anyway: for inboxes that nobody writes to.

    Outcome: None.
    """


class DeleteInbox(msgspec.Struct, frozen=True):
    """Delete the inbox. Outcome: None. Every later command of the mailbox meets `InboxGone`."""


Command = Append | ChangeInbox | PutSecret | DropSecret | Purge | Erase | Retain | DeleteInbox
Outcome = Any
__all__ = [
    "Append",
    "Appended",
    "ChangeInbox",
    "Command",
    "DeleteInbox",
    "Draft",
    "DropSecret",
    "Erase",
    "InboxRecord",
    "Outcome",
    "Purge",
    "PutSecret",
    "Refusal",
    "Retain",
]
