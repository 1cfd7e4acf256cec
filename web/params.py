"""The parameters of the routes and tools, one msgspec struct each, shared by REST and MCP (surface, section
5).

A struct's annotations are its ranges and its JSON Schema; `check` says what annotations cannot. The bodies of
the administration of inboxes are in `web/inbox_params.py` and are named here too.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from storage.records import PageQuery, TokenKind, TokenRecord, Verdict
from web.decoding import MAX_SEQ, from_json, from_object, from_query, json_object, time_argument
from web.errors import invalid
from web.grammar import INBOX_PATTERN, MAX_INBOX_CHARS, NAME_PATTERN, SLUG_PATTERN, is_reserved_slug
from web.inbox_params import (
    CreateInbox,
    PutSecret,
    apply_patch,
    check_new_secret,
    check_signed_url,
    decode_create,
    decode_patch,
    new_inbox,
    secret_record,
)

MAX_LIMIT = 100
DEFAULT_LIMIT = 20
MAX_TYPES = 20
MAX_WAIT_SECONDS = 60
DEFAULT_WAIT_SECONDS = 30
MAX_STREAM_INBOXES = 32
"""In one stream. Its cursor names each of them and comes back in a request header: under 5 KiB of the 8 that proxies
take."""
UNBOUND = "Only a token of an agent or a machine reaches machines."
MAX_TOKEN_INBOXES = 1_000
"""Slugs, or machines, that one token may name; a token for more is a token for all."""

Slug = Annotated[str, Meta(pattern=SLUG_PATTERN)]
Inbox = Annotated[str, Meta(pattern=INBOX_PATTERN, description="Slug of the inbox.", examples=["demo"])]
Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
Cursor = Annotated[int, Meta(ge=0, le=MAX_SEQ)]
Seq = Annotated[int, Meta(ge=1, le=MAX_SEQ)]
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT)]
Epoch = Annotated[
    str,
    Meta(
        max_length=100,
        description="Of your cursor: refused if the inbox has another one now.",
    ),
]
EventType = Annotated[str, Meta(max_length=200)]
Types = Annotated[
    tuple[EventType, ...],
    Meta(max_length=MAX_TYPES, description="Only these event types."),
]
Time = Annotated[str, Meta(max_length=64, extra_json_schema={"format": "date-time"})]
Bodies = Annotated[bool, Meta(description="Include bodies, but for large ones (body_truncated).")]
After = Annotated[Cursor, Meta(description="Read forward: seq greater than this; 0 is the beginning.")]
Before = Annotated[Seq, Meta(description="Read backward: seq less than this.")]
Since = Annotated[Time, Meta(description="Received at this RFC 3339 time or later.")]
Until = Annotated[Time, Meta(description="Received before this RFC 3339 time.")]
Verified = Annotated[bool, Meta(description="Only those whose signature was right, or (false) was not.")]


class ListInboxes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/inboxes`: those after `after_slug` are listed, by their slugs. Without `limit`, a token for named
    inboxes gets them all, any other one 100.
    """

    limit: Limit | None = None
    after_slug: Annotated[str, Meta(max_length=MAX_INBOX_CHARS)] = ""


class QueryMessages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/inboxes/{slug}/messages`, `query_messages`: it goes forward from `after`, or backward from `before` or
    from the newest, and has what was received from `since` on and before `until`.
    """

    inbox: Inbox
    after: After | None = None
    before: Before | None = None
    limit: Limit = DEFAULT_LIMIT
    types: Types = ()
    since: Since | None = None
    until: Until | None = None
    verified: Verified | None = None
    bodies: Bodies = False
    epoch: Epoch | None = None

    def check(self) -> None:
        """Refuse both cursors, and times that are none."""
        if self.after is not None and self.before is not None:
            raise invalid("before", "Give after to read forward, or before to read backward, not both.")
        for field, text in (("since", self.since), ("until", self.until)):
            if text is not None:
                time_argument(field, text)

    def page_query(self, inbox_id: int, *, inline_limit: int, page_bytes: int) -> PageQuery:
        """Return what to ask of the store. `verified: false` means a failed verification, not a missing one."""
        verdict = None if self.verified is None else Verdict.VERIFIED if self.verified else Verdict.FAILED
        return PageQuery(
            inbox_id=inbox_id,
            limit=self.limit,
            after=self.after,
            before=self.before,
            types=tuple(dict.fromkeys(self.types)),
            verified=verdict,
            since_us=None if self.since is None else time_argument("since", self.since),
            until_us=None if self.until is None else time_argument("until", self.until),
            body_limit=inline_limit if self.bodies else 0,
            byte_budget=page_bytes,
        )


class WaitForMessages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/inboxes/{slug}/wait`, `wait_for_messages`: it goes forward from `after`, and comes empty after
    `timeout_seconds`; 0 looks once.
    """

    inbox: Inbox
    after: After
    types: Types = ()
    timeout_seconds: Annotated[int, Meta(ge=0, le=MAX_WAIT_SECONDS, description="0 looks once.")] = (
        DEFAULT_WAIT_SECONDS
    )
    limit: Limit = DEFAULT_LIMIT
    bodies: Bodies = False
    epoch: Epoch | None = None

    def page_query(self, inbox_id: int, *, inline_limit: int, page_bytes: int) -> PageQuery:
        """Return what to ask of the store."""
        return PageQuery(
            inbox_id=inbox_id,
            limit=self.limit,
            after=self.after,
            types=tuple(dict.fromkeys(self.types)),
            body_limit=inline_limit if self.bodies else 0,
            byte_budget=page_bytes,
        )


class StreamMessages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/inboxes/{slug}/stream`: it begins after `after`, else now. The header `Last-Event-ID` wins over
    `after` and `epoch`.
    """

    inbox: Inbox
    after: Cursor | None = None
    types: Types = ()
    bodies: bool = False
    epoch: Epoch | None = None


class StreamInboxes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/stream`: `after` is the cursor in each of them."""

    inboxes: Annotated[tuple[Inbox, ...], Meta(min_length=1, max_length=MAX_STREAM_INBOXES)]
    after: Cursor | None = None
    types: Types = ()
    bodies: bool = False
    epoch: Epoch | None = None

    def check(self) -> None:
        """Refuse an epoch that cannot be every inbox's."""
        if self.epoch is not None and len(set(self.inboxes)) > 1:
            raise invalid("epoch", "Each inbox has an epoch of its own; resume with Last-Event-ID.")


class GetMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/inboxes/{slug}/messages/{seq}`, `get_message`, and `…/raw`."""

    inbox: Inbox
    seq: Seq
    epoch: Epoch | None = None


class EraseMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`DELETE /v1/inboxes/{slug}/messages/{seq}`."""

    seq: Seq


class ListTokens(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/tokens`: those whose ids come after `after` are listed, in the order of these."""

    limit: Limit = MAX_LIMIT
    after: Annotated[str, Meta(max_length=64)] = ""


Inboxes = Annotated[tuple[Slug, ...], Meta(max_length=MAX_TOKEN_INBOXES)] | Literal["all"]
Machines = Annotated[tuple[Name, ...], Meta(max_length=MAX_TOKEN_INBOXES)]


class CreateToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/tokens`. `inboxes` are slugs, which need not exist yet, or `"all"`; `agent` is the agent that the token
    is bound to; `machines` are those beside its own that the token may reach.
    """

    kind: TokenKind
    inboxes: Inboxes = ()
    agent: Name | None = None
    machine: Name | None = None
    machines: Machines = ()
    name: Name | None = None
    expires_at: Time | None = None

    def check(self) -> None:
        """Refuse scopes that the kind cannot have."""
        if self.kind == "admin":
            for field in ("inboxes", "agent", "machine", "machines"):
                if getattr(self, field):
                    raise invalid(field, "An admin token may do everything; it takes no scope.")
        if self.kind == "machine" and self.machine is None:
            raise invalid("machine", "A machine token needs the machine it acts for.")
        if self.kind == "agent" and self.machine is not None:
            raise invalid("machine", "An agent's token belongs to the machine of its agent.")
        if self.kind == "machine" and self.agent is not None:
            raise invalid("agent", "A machine token acts for every agent of its machine.")
        if self.kind == "agent" and self.agent is None:
            if not self.inboxes:
                raise invalid("inboxes", 'Name the inboxes that the token may read, or "all".')
            if self.machines:
                raise invalid("machines", UNBOUND)
        _check_inboxes(self.inboxes)
        self.expires_us()

    def scope(self) -> tuple[str, ...] | None:
        """Return the slugs that the token reads, each once; None for all webhook and topic inboxes."""
        return _scope(self.inboxes, self.kind)

    def expires_us(self) -> int | None:
        """Return when the token expires, in µs since the epoch."""
        return None if self.expires_at is None else time_argument("expires_at", self.expires_at)


class ChangeToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`PATCH /v1/tokens/{token_id}`: what of a token can be changed."""

    inboxes: Inboxes = ()
    machines: Machines = ()
    name: Name | None = None
    expires_at: Time | None = None


def patch_token(token: TokenRecord, patch: dict[str, Any]) -> TokenRecord:
    """Apply a merge patch (RFC 7396) of `{inboxes, machines, name, expires_at}`: null means back to the
    default.

    Raises `ApiError` `invalid_argument` naming the field.
    """
    form = from_object(ChangeToken, {name: value for name, value in patch.items() if value is not None})
    for name in patch:
        if name not in ChangeToken.__struct_fields__:
            raise invalid(name, "This member of a token cannot be changed.")
    changes: dict[str, Any] = {}
    if token.kind == "admin" and (form.inboxes or form.machines):
        raise invalid("inboxes" if form.inboxes else "machines", "An admin token takes no scope.")
    if form.machines and token.agent is None and token.machine is None:
        raise invalid("machines", UNBOUND)
    if "inboxes" in patch:
        _check_inboxes(form.inboxes)
        changes["inboxes"] = _scope(form.inboxes, token.kind)
    if "machines" in patch:
        changes["machines"] = tuple(dict.fromkeys(form.machines))
    if "name" in patch:
        changes["name"] = form.name
    if "expires_at" in patch:
        changes["expires_at"] = (
            None if form.expires_at is None else time_argument("expires_at", form.expires_at)
        )
    return msgspec.structs.replace(token, **changes)


def _check_inboxes(inboxes: tuple[str, ...] | str) -> None:
    if isinstance(inboxes, tuple) and any(is_reserved_slug(slug) for slug in inboxes):
        raise invalid("inboxes", "A private inbox is read by its own agent or machine only.")


def _scope(inboxes: tuple[str, ...] | str, kind: TokenKind) -> tuple[str, ...] | None:
    if kind == "admin" or isinstance(inboxes, str):
        return None
    return tuple(dict.fromkeys(inboxes))


__all__ = [
    "ChangeToken",
    "CreateInbox",
    "CreateToken",
    "GetMessage",
    "ListInboxes",
    "ListTokens",
    "PutSecret",
    "QueryMessages",
    "StreamInboxes",
    "StreamMessages",
    "WaitForMessages",
    "apply_patch",
    "check_new_secret",
    "check_signed_url",
    "decode_create",
    "decode_patch",
    "from_json",
    "from_object",
    "from_query",
    "json_object",
    "new_inbox",
    "patch_token",
    "secret_record",
]
