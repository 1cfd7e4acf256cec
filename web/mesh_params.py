"""The parameters of agents on machines, one struct each, shared by REST and MCP (surface, section 8).

A struct's annotations are its ranges and its JSON Schema, as in `web/params.py`.
"""

from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from actors.rules.presence import DEFAULT_TTL_SECONDS
from web.grammar import ULID_PATTERN
from web.params import DEFAULT_LIMIT, Limit, Name
from web.publish_params import MAX_KEY

MAX_ROLE = 100
MAX_REPO = 200
MAX_STATUS = 200
MAX_CAPS = 20
MAX_CAP = 64
MIN_TTL_SECONDS = 30
MAX_TTL_SECONDS = 86_400
MAX_WAKE_URL = 2_000
MAX_WAKE_SECRET = 200
DEFAULT_MAIL_LIMIT = 50
MAX_ACKS = 100
MAX_ID_TEXT = 64
"""More than an id has: what is none is answered as unknown, among up to a hundred that are."""
MAX_PAYLOAD_BYTES = 16 * 1024

MsgType = Literal["ping", "pr-ready", "freeze", "freeze-clear", "release-out", "handoff", "note"]


class Wake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an agent is woken: a URL in a network that the administrator allows, and the secret that signs."""

    url: Annotated[str, Meta(max_length=MAX_WAKE_URL)]
    secret: Annotated[str, Meta(min_length=1, max_length=MAX_WAKE_SECRET)] | None = None


class CheckIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /agent/checkin`, `agent_checkin`: what an agent says of itself, in place of all that it said before."""

    agent_id: Name
    role: Annotated[str, Meta(max_length=MAX_ROLE)] | None = None
    repo: Annotated[str, Meta(max_length=MAX_REPO)] | None = None
    caps: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=MAX_CAP)], ...],
        Meta(max_length=MAX_CAPS, description="What you can do."),
    ] = ()
    status: (
        Annotated[str, Meta(max_length=MAX_STATUS, description="What you are at, in a sentence.")] | None
    ) = None
    ttl_seconds: Annotated[
        int,
        Meta(
            ge=MIN_TTL_SECONDS,
            le=MAX_TTL_SECONDS,
            description="You count as alive for so long after each call.",
        ),
    ] = DEFAULT_TTL_SECONDS
    wake: Annotated[Wake, Meta(description="Have this URL called when mail comes.")] | None = None


class CheckOut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /agent/checkout`, `agent_checkout`: a farewell."""

    agent_id: Name


class ListRoster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /agents`, `agents_list`: tell who is there. With `agent_id` the call is a sign of life of that agent."""

    agent_id: Annotated[Name, Meta(description="Yours: the call is then a sign of life.")] | None = None
    include_stale: Annotated[bool, Meta(description="Also those that are stale or gone.")] = False


class SendMail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /agent/send`, `agent_send`: to one agent, or to all of a machine.

    `payload`: the bytes of the JSON as it was received, None when there was none.
    """

    to: Annotated[Name, Meta(description="A machine; without it your own.")] | None = None
    to_agent: Annotated[Name, Meta(description="One agent; without it all of the machine.")] | None = None
    from_agent: Annotated[Name, Meta(description="You; a machine's token must say so.")] | None = None
    msg_type: MsgType
    payload: Annotated[Any, Meta(description="Any JSON, at most 16 KiB.")] = None
    idempotency_key: (
        Annotated[
            str, Meta(min_length=1, max_length=MAX_KEY, description="The same again sends nothing twice.")
        ]
        | None
    ) = None
    require_alive: Annotated[bool, Meta(description="Refuse if to_agent is stale and cannot be woken.")] = (
        True
    )

    def payload_json(self) -> bytes:
        """Return the payload as it was received, empty when there was none (a null that was given is one)."""
        return b"" if self.payload is None else bytes(self.payload)

    def fingerprint(self) -> bytes:
        """Return a hash of what is asked for, by which a repeated request is known as the same.

        The payload counts by its bytes, as it is stored: values that a decoder takes for equal may differ to whoever
        reads them, and then the second would be lost without a word.
        """
        asked = [self.to, self.to_agent, self.msg_type, self.require_alive]
        return sha256(msgspec.json.encode(asked) + self.payload_json()).digest()


class ReadMail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /agent/inbox`, `agent_inbox`: the oldest comes first.

    Plain, it shows what was neither served nor acknowledged, and marks it as served. With `peek` it shows all that was
    not acknowledged, and marks nothing.
    """

    agent_id: Name
    limit: Limit = DEFAULT_MAIL_LIMIT
    background: Annotated[bool, Meta(description="A program asks, not you: no sign of life.")] = False
    peek: Annotated[bool, Meta(description="Mark nothing; show served messages too.")] = False
    wake_token: Annotated[str, Meta(max_length=200, description="Of the prompt that woke you.")] | None = None


class AckMail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /agent/ack`, `agent_ack`: messages that an agent has handled."""

    agent_id: Name
    message_ids: Annotated[
        tuple[Annotated[str, Meta(max_length=MAX_ID_TEXT)], ...],
        Meta(max_length=MAX_ACKS, description="The id of each message."),
    ]


class ListSent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /agent/sent`, `agent_sent`: list what an agent has sent, the newest first, and what became of it."""

    agent_id: Annotated[Name, Meta(description="You; a machine's token must say so.")] | None = None
    limit: Limit = DEFAULT_LIMIT
    before: (
        Annotated[str, Meta(pattern=ULID_PATTERN, description="Sent before the message with this id.")] | None
    ) = None
