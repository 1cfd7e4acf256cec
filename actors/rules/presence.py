"""Who is there, as far as a server can tell: what an agent has said of itself, and when it was last heard of. Pure.

`apply` makes the next presence of the last one and an event; `state_of` says what that means at a moment. Alive means:
heard of within the time that the agent itself has named, and nothing more. A farewell is final: of an agent that has
left only a check-in counts, so no straggling call of it makes it appear again.

Times are µs since the Unix epoch.
"""

from enum import StrEnum

import msgspec

DEFAULT_TTL_SECONDS = 300
"""For how long an agent counts as alive after it was heard of, unless its check-in says otherwise."""

ACTIVE_US = 60 * 1_000_000
"""Whoever was heard of within the last minute is at work."""

SECOND_US = 1_000_000


class State(StrEnum):
    """What is known of an agent; the first that applies."""

    GONE = "gone"
    STALE = "stale"
    WAITING = "waiting"
    ACTIVE = "active"
    IDLE = "idle"


ALIVE = frozenset({State.WAITING, State.ACTIVE, State.IDLE})


class Card(msgspec.Struct, frozen=True):
    """What an agent says of itself at a check-in. `status_at`: when it said its status, None without one."""

    role: str | None = None
    repo: str | None = None
    caps: tuple[str, ...] = ()
    status: str | None = None
    status_at: int | None = None


class Presence(msgspec.Struct, frozen=True):
    """What is known of an agent. `last_activity_at` None: it was never heard of. `gone_at` is set while it is gone.

    `waits`: how many waits in the foreground it holds open.
    """

    card: Card = Card()
    last_activity_at: int | None = None
    ttl_seconds: int = DEFAULT_TTL_SECONDS
    gone_at: int | None = None
    waits: int = 0

    @property
    def expires_at(self) -> int | None:
        """When it becomes stale unless it is heard of again; None when it was never heard of."""
        if self.last_activity_at is None:
            return None
        return self.last_activity_at + self.ttl_seconds * SECOND_US


class Arrived(msgspec.Struct, frozen=True):
    """It has introduced itself, in place of what it said before."""

    at: int
    card: Card
    ttl_seconds: int = DEFAULT_TTL_SECONDS


class Heard(msgspec.Struct, frozen=True):
    """It was heard of."""

    at: int


class Left(msgspec.Struct, frozen=True):
    """It has said farewell."""

    at: int


class WaitBegan(msgspec.Struct, frozen=True):
    """It holds one more wait open."""


class WaitEnded(msgspec.Struct, frozen=True):
    """One of its waits is over."""


Event = Arrived | Heard | Left | WaitBegan | WaitEnded

NEVER_SEEN = Presence()


def apply(presence: Presence, event: Event) -> Presence:
    """Return the presence after an event."""
    replace = msgspec.structs.replace
    match event:
        case Arrived(at, card, ttl_seconds):
            return replace(
                presence,
                card=card,
                ttl_seconds=ttl_seconds,
                last_activity_at=_later(presence, at),
                gone_at=None,
            )
        case Heard(at):
            if presence.gone_at is not None:
                return presence
            return replace(presence, last_activity_at=_later(presence, at))
        case Left(at):
            if presence.gone_at is not None:
                return presence
            return replace(presence, last_activity_at=_later(presence, at), gone_at=at)
        case WaitBegan():
            return replace(presence, waits=presence.waits + 1)
        case WaitEnded():
            return replace(presence, waits=max(0, presence.waits - 1))


def state_of(presence: Presence, now_us: int) -> State:
    """Return what an agent's presence means at a moment."""
    if presence.gone_at is not None:
        return State.GONE
    heard, expires_at = presence.last_activity_at, presence.expires_at
    if heard is None or expires_at is None or now_us > expires_at:
        return State.STALE
    if presence.waits:
        return State.WAITING
    return State.ACTIVE if now_us - heard <= ACTIVE_US else State.IDLE


def is_alive(presence: Presence, now_us: int) -> bool:
    """Whether an agent was heard of within its time, and has not left."""
    return state_of(presence, now_us) in ALIVE


def _later(presence: Presence, at: int) -> int:
    return at if presence.last_activity_at is None else max(presence.last_activity_at, at)
