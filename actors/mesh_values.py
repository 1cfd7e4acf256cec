"""What is asked of `actors.mesh`, and what it answers: frozen values. Times are µs since the Unix epoch."""

from collections.abc import Callable

import msgspec

from actors.rules.presence import DEFAULT_TTL_SECONDS, Presence, State
from storage.mail_records import AgentRecord, Delivered, Receipt
from storage.secret import SecretBytes


class WakeWish(msgspec.Struct, frozen=True):
    """Where an agent wants to be called when mail waits for it, and what the call is signed with."""

    url: str
    secret: SecretBytes | None = None


class CheckIn(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent says of itself, in place of all that it said before.

    `session` tells one program that speaks for the agent from another. `visible`: as in `actors.commands.Pull`, for
    counting what is unread.
    """

    role: str | None = None
    repo: str | None = None
    caps: tuple[str, ...] = ()
    status: str | None = None
    ttl_seconds: int = DEFAULT_TTL_SECONDS
    wake: WakeWish | None = None
    session: str = ""
    visible: frozenset[str] | None = frozenset()


class CheckedIn(msgspec.Struct, frozen=True):
    """`expires_at` in µs: stale from then on, unless it is heard of. `shared_reader`: another session speaks for it."""

    expires_at: int
    unread: int
    shared_reader: bool


class RosterLine(msgspec.Struct, frozen=True):
    """One agent on a machine. `presence.card` is what it says of itself."""

    agent: AgentRecord
    state: State
    presence: Presence
    unread: int


class MailCall(msgspec.Struct, frozen=True):
    """A read of an agent's mail. `peek`: whether nothing is to be marked. The rest is as in `actors.commands.Pull`."""

    peek: bool
    limit: int
    visible: frozenset[str] | None
    body_limit: int
    byte_budget: int
    measure: Callable[[Delivered], int] | None = None


class MailRead(msgspec.Struct, frozen=True):
    """What was read, oldest first. `unread`: how much is not acknowledged, these included. `epoch`: the inbox's."""

    rows: list[Delivered]
    unread: int
    epoch: str


class SentLine(msgspec.Struct, frozen=True):
    """A message that an agent has sent, with what became of it at each agent, by their ids."""

    id: bytes
    sent_at: int
    msg_type: str
    recipients: tuple[tuple[str, Receipt], ...]
