"""What clients see of inboxes and tokens: the JSON shapes of lists and of administration (surface, section 5).

Secrets appear by name only, tokens never with their hash.
"""

from typing import Any, Literal

import msgspec

from storage.records import InboxKind, InboxListing, Response, Retention, TokenKind, TokenRecord
from web.grammar import format_time


class InboxLine(msgspec.Struct, frozen=True):
    """One inbox of a list."""

    slug: str
    name: str
    kind: InboxKind
    verifier: str | None
    latest_seq: int
    first_seq: int
    epoch: str


class InboxPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """`GET /v1/inboxes`. `truncated` and `next_after_slug` are there when the token reads more than is listed."""

    inboxes: list[InboxLine]
    truncated: bool = False
    next_after_slug: str | None = None


class SecretView(msgspec.Struct, frozen=True):
    """A secret without its value."""

    name: str
    added_at: str


class Kept(msgspec.Struct, frozen=True):
    """What an inbox keeps and what it has let go, in messages and in bytes of bodies."""

    messages: int
    bytes: int
    dropped_messages: int
    dropped_bytes: int


class InboxView(msgspec.Struct, frozen=True):
    """One inbox as its administrator sees it."""

    slug: str
    name: str
    kind: InboxKind
    verifier: str | None
    latest_seq: int
    first_seq: int
    epoch: str
    created_at: str
    ingest_url: str | None
    verifier_options: dict[str, Any]
    secrets: list[SecretView]
    on_unverified: Literal["store", "reject"]
    dedupe_window_seconds: int
    retention: Retention
    response: Response | None
    rate_per_minute: int | None
    max_body_bytes: int | None
    signed_url: str | None
    search: bool
    kept: Kept


class TokenView(msgspec.Struct, frozen=True):
    """A token without its text. `inboxes` is a list of slugs, or `all`; `agent` the one that it is bound to; `machine`
    the one for whose agents it acts, `machines` others that it reaches.
    """

    token_id: str
    kind: TokenKind
    inboxes: list[str] | Literal["all"]
    agent: str | None
    machine: str | None
    machines: list[str]
    name: str | None
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class TokenPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """`GET /v1/tokens`, by `token_id`, the oldest first."""

    tokens: list[TokenView]
    truncated: bool = False
    next_after: str | None = None


def inbox_line(listing: InboxListing) -> InboxLine:
    """Return an inbox as a list shows it; the verifier `none` is null."""
    record, head = listing.record, listing.head
    return InboxLine(
        slug=record.slug,
        name=record.name,
        kind=record.kind,
        verifier=_verifier(record.settings.verifier),
        latest_seq=head.latest_seq,
        first_seq=head.first_seq,
        epoch=head.epoch,
    )


def inbox_view(listing: InboxListing, base_url: str) -> InboxView:
    """Return an inbox with all its settings. `base_url` is where senders reach the server."""
    record, head, settings = listing.record, listing.head, listing.record.settings
    return InboxView(
        slug=record.slug,
        name=record.name,
        kind=record.kind,
        verifier=_verifier(settings.verifier),
        latest_seq=head.latest_seq,
        first_seq=head.first_seq,
        epoch=head.epoch,
        created_at=format_time(record.created_at),
        ingest_url=f"{base_url}/in/{record.slug}" if record.kind == "webhook" else None,
        verifier_options=settings.verifier_options,
        secrets=[SecretView(secret.name, format_time(secret.added_at)) for secret in record.secrets],
        on_unverified=settings.on_unverified,
        dedupe_window_seconds=settings.dedupe_window_seconds,
        retention=settings.retention,
        response=settings.response,
        rate_per_minute=settings.rate_per_minute,
        max_body_bytes=settings.max_body_bytes,
        signed_url=settings.signed_url,
        search=settings.search,
        kept=Kept(head.live_rows, head.live_bytes, head.dropped_rows, head.dropped_bytes),
    )


def token_view(token: TokenRecord) -> TokenView:
    """Return a token as `GET /v1/tokens` and `GET /v1/me` show it."""
    everything = token.kind == "admin" or token.inboxes is None
    return TokenView(
        token_id=token.token_id,
        kind=token.kind,
        inboxes="all" if everything else list(token.inboxes or ()),
        agent=token.agent,
        machine=token.machine,
        machines=list(token.machines),
        name=token.name,
        created_at=format_time(token.created_at),
        expires_at=_time(token.expires_at),
        last_used_at=_time(token.last_used_at),
    )


def _verifier(name: str) -> str | None:
    return None if name == "none" else name


def _time(time_us: int | None) -> str | None:
    return None if time_us is None else format_time(time_us)
