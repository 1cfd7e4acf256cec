"""Answers that no struct encodes: spliced from stored bytes, or made member by member. And what `web/mcp/shapes.py`
leaves open, because a model would pay for every word of it, said here (`OPEN`).

Tests hold real answers to all of it, so that a member which is not named here is found.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from actors.beacons import PastMatch, Term
from actors.commands import Skipped
from web import claims, mesh_messages
from web.interests import BeaconView
from web.mcp import shapes
from web.mcp.shapes import Message
from web.publish_params import Kind, PublishedKind, Type
from web.views import InboxView, TokenView


# -- what a sender chose ---------------------------------------------------------------------------------------
class WebhookWords(claims.Said, frozen=True):
    """What the sender of a webhook chose, with one of `body`, `body_text` and `body_base64` where bodies are shown."""

    body: Annotated[Any, Meta(description="The body, if it is JSON: the very bytes.")] | UnsetType = UNSET
    body_text: Annotated[str, Meta(description="Else, if it is UTF-8.")] | UnsetType = UNSET
    body_base64: Annotated[str, Meta(description="Else.")] | UnsetType = UNSET


class PublishedWords(msgspec.Struct, frozen=True):
    """What an agent chose that published a message, as a diff shows it; the text where bodies are shown."""

    subject: str
    tags: list[str]
    event_type: str
    text: str | UnsetType = UNSET


class PublishedClaims(PublishedWords, frozen=True, kw_only=True):
    """What an agent chose that published a message."""

    type: Type
    kind: PublishedKind


class SentWords(mesh_messages.Said, frozen=True):
    """What an agent chose that sent a message to others, with the payload where bodies are shown."""

    payload: Annotated[Any, Meta(description="As it was received; null when there was none.")] = None


# -- messages as agents get them -------------------------------------------------------------------------------
class Origin(msgspec.Struct, frozen=True):
    """Where a message is at home, and who sent it. Of what was sent by name that is the recipient's own inbox."""

    inbox: str
    seq: int
    epoch: str
    sender: str | None
    verified: bool | None
    received_at: str


class Diff(msgspec.Struct, frozen=True):
    """A message as a change: the server's facts first, `untrusted` what its sender chose."""

    diff_id: str
    type: Type
    kind: Kind
    origin: Origin
    salience: float
    supersedes: str | None
    expires_at: str | None
    untrusted: dict[str, Any]
    body_truncated: bool | UnsetType = UNSET


class Delivery(msgspec.Struct, frozen=True):
    """How and when a message came into an agent's inbox. `via`: `direct`, `broadcast`, or `beacon:NAME`."""

    delivery_seq: int
    score: float
    via: str
    also_via: list[str]
    matched_terms: list[str]
    delivered_at: str


# -- agents on machines ----------------------------------------------------------------------------------------
class Introduced(msgspec.Struct, frozen=True):
    """What an agent says of itself."""

    role: str | None
    repo: str | None
    caps: list[str]
    status: str | None


class RosterLine(msgspec.Struct, frozen=True):
    """One agent of the roster. `status_age_s`: how many seconds ago it said its status."""

    agent_id: str
    machine: str | None
    state: Literal["active", "idle", "waiting", "stale", "gone"]
    last_activity_at: str | None
    expires_at: str | None
    status_age_s: int | None
    unread: int
    untrusted: Introduced


class ReceiptLine(msgspec.Struct, frozen=True):
    """What became of a message at one recipient; null: that has not happened."""

    agent_id: str
    stored_at: str | None
    served_at: str | None
    acked_at: str | None
    expired_at: str | None


class SentLine(msgspec.Struct, frozen=True):
    """One message that an agent sent."""

    id: str
    sent_at: str
    msg_type: str
    recipients: list[ReceiptLine]


# -- single answers --------------------------------------------------------------------------------------------
class Stored(msgspec.Struct, frozen=True):
    """Where a message is. Of a duplicate, where the first one is."""

    id: str
    seq: int


class FoundPage(msgspec.Struct, frozen=True):
    """What a search has found, newest first. Messages above `indexed_seq` are not in the index yet."""

    messages: list[Message]
    latest_seq: int
    epoch: str
    next_before: Annotated[int | None, Meta(description="Null: the oldest was reached.")]
    indexed_seq: int


class InboxCreated(InboxView, frozen=True, kw_only=True):
    """An inbox, and the text of its token if one was asked for, shown this once."""

    token: str | UnsetType = UNSET


class TokenIssued(TokenView, frozen=True, kw_only=True):
    """A token with its text, which is shown this once."""

    token: str


class Purged(msgspec.Struct, frozen=True):
    """How many messages were dropped."""

    purged: int


class Alive(msgspec.Struct, frozen=True):
    """That the process serves."""

    status: Literal["ok"]


SAID = (WebhookWords, PublishedClaims, SentWords)
SAID_IN_A_DIFF = (WebhookWords, PublishedWords, SentWords)

OPEN: dict[tuple[type[msgspec.Struct], str], tuple[type[msgspec.Struct], ...]] = {
    (Message, "untrusted"): SAID,
    (Diff, "untrusted"): SAID_IN_A_DIFF,
    (shapes.Page, "messages"): (Message,),
    (shapes.ForwardPage, "messages"): (Message,),
    (shapes.Mail, "messages"): (Message,),
    (shapes.Item, "diff"): (Diff,),
    (shapes.Item, "delivery"): (Delivery,),
    (shapes.ReplayPage, "items"): (shapes.Item,),
    (shapes.Beacons, "beacons"): (BeaconView,),
    (shapes.BeaconPlaced, "terms"): (Term,),
    (shapes.BeaconMatches, "matches"): (PastMatch,),
    (shapes.Roster, "agents"): (RosterLine,),
    (shapes.SentTo, "skipped"): (Skipped,),
    (shapes.SentMail, "messages"): (SentLine,),
}
"""By definition and member: what the objects in it are, one of these."""
