"""The values of agents on machines that cross the border between storage and the actors, as those of
`storage.mail_records`. Times are µs since the Unix epoch.
"""

import msgspec

from storage.mail_records import Receipt
from storage.records import InboxKind
from storage.secret import SecretBytes


class MachineRecord(msgspec.Struct, frozen=True):
    """A machine. It lives as long as the inbox of its broadcasts does."""

    name: str
    inbox_id: int
    created_at: int


class PresenceRecord(msgspec.Struct, frozen=True):
    """What is known of an agent's being there. `card`: JSON, what it says of itself. `gone_at`: when it said farewell,
    None when it has not, or is back.
    """

    agent_id: str
    card: bytes
    last_activity_at: int
    ttl_seconds: int
    gone_at: int | None = None


class WakeTarget(msgspec.Struct, frozen=True):
    """Where an agent wants to be called when mail waits for it. `secret`: what the call is signed with, None: nothing.

    `failures`: in a row. `off_at`: since when it is not called any more. Two targets cannot be compared with `==`: of
    secrets that raises.
    """

    agent_id: str
    url: str
    secret: SecretBytes | None = None
    failures: int = 0
    off_at: int | None = None


class Unread(msgspec.Struct, frozen=True, gc=False):
    """How many unread entries of an inbox come from one place; `origin`, `origin_kind` and `own` as in `DrainRow`."""

    origin: str | None
    origin_kind: InboxKind | None
    own: bool
    count: int


class SentMessage(msgspec.Struct, frozen=True):
    """A message that an agent has sent, and what became of it at those whom it was sent to, in the order of their
    inboxes; those that exist no longer are left out. The message itself may be gone already.
    """

    id: bytes
    mid: int
    sent_at: int
    event_type: str
    receipts: tuple[Receipt, ...]
