"""What the tools that read return, as definitions: their output schemas are made of these (surface, section 3).

The answers themselves are spliced from stored bytes (`web/render.py`); tests hold them to these shapes.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

Messages = Annotated[list[dict[str, Any]], Meta(description="Each as of get_message.")]
"""The members of a message are said once, where one is read whole: a client keeps every schema in its context."""


class Message(msgspec.Struct, frozen=True):
    """A message: what the server established, and under `untrusted` everything that the sender chose."""

    id: str
    inbox: str
    seq: int
    epoch: str
    received_at: str
    method: str | None
    source_ip: str | None
    size: int
    verified: bool | None
    verifier: str | None
    verify_error: str | None
    sender: str | None
    untrusted: dict[str, Any]
    body_truncated: bool | UnsetType = UNSET


class Inboxes(msgspec.Struct, frozen=True):
    """`list_inboxes`."""

    inboxes: list[dict[str, Any]]
    truncated: bool | UnsetType = UNSET


class ForwardPage(msgspec.Struct, frozen=True):
    """`wait_for_messages`."""

    messages: Messages
    latest_seq: int
    epoch: str
    gap: Annotated[bool, Meta(description="Messages after your cursor are no longer kept.")]
    next_after: int


class Page(msgspec.Struct, frozen=True):
    """`query_messages`: `gap` and `next_after` forward, `next_before` backward."""

    messages: Messages
    latest_seq: int
    epoch: str
    gap: bool | UnsetType = UNSET
    next_after: int | UnsetType = UNSET
    next_before: Annotated[int | UnsetType | None, Meta(description="Null: the oldest was reached.")] = UNSET


class Item(msgspec.Struct, frozen=True):
    """One delivery: the message as a diff, and how and when it came."""

    delivery_seq: int
    diff: dict[str, Any]
    delivery: dict[str, Any]


class PullPage(msgspec.Struct, frozen=True):
    """`pull_inbox`."""

    items: list[Item]
    cursor: Annotated[int, Meta(description="All up to here is acknowledged.")]
    window_high: int
    has_more: bool


class ReplayPage(msgspec.Struct, frozen=True):
    """`inbox`: items as those of `pull_inbox`, said once for both."""

    items: list[dict[str, Any]]
    last_seen: str | None
    truncated: Annotated[bool, Meta(description="There is more after last_seen.")]


class Published(msgspec.Struct, frozen=True):
    """`publish`: where the message is, or to whom it goes."""

    diff_id: str
    inbox: str | None
    seq: int | None
    recipients: list[str] | UnsetType = UNSET


class BeaconPlaced(msgspec.Struct, frozen=True):
    """`place_beacon`."""

    name: str
    terms: list[dict[str, Any]]
    would_have_matched_7d: int
    backfilled: int


class Beacons(msgspec.Struct, frozen=True):
    """`list_beacons`."""

    beacons: list[dict[str, Any]]


class BeaconMatches(msgspec.Struct, frozen=True):
    """`test_beacon`."""

    matches: list[dict[str, Any]]


class BeaconRemoved(msgspec.Struct, frozen=True):
    """`remove_beacon`: `removed` is false when there was none of that name."""

    name: str
    removed: bool


class CheckedIn(msgspec.Struct, frozen=True):
    """`agent_checkin`."""

    agent_id: str
    machine: str | None
    expires_at: str
    unread: int
    shared_reader: Annotated[
        bool, Meta(description="Another session speaks for you, too: you take its mail.")
    ]


class CheckedOut(msgspec.Struct, frozen=True):
    """`agent_checkout`."""

    agent_id: str
    state: str


class Roster(msgspec.Struct, frozen=True):
    """`agents_list`."""

    agents: list[dict[str, Any]]


class SentTo(msgspec.Struct, frozen=True):
    """`agent_send`."""

    id: str
    delivered_to: list[str]
    skipped: list[dict[str, Any]]


class Mail(msgspec.Struct, frozen=True):
    """`agent_inbox`."""

    messages: list[dict[str, Any]]
    unread: Annotated[int, Meta(description="Not acknowledged, these included.")]


class Acked(msgspec.Struct, frozen=True):
    """`agent_ack`."""

    acked: list[str]
    already_acked: list[str]
    unknown: list[str]


class SentMail(msgspec.Struct, frozen=True):
    """`agent_sent`."""

    messages: list[dict[str, Any]]
