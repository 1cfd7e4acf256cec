"""One message as one line, for `tail` and `wait`. A body is shown as it was received, never decoded and re-encoded."""

from typing import Any

import msgspec

from postroom.cli.terminal import safe, when
from postroom.following import Gap, NewLife

NOTHING = msgspec.Raw()
"""No body, as opposed to the body `null`."""


class Untrusted(msgspec.Struct, frozen=True):
    """What a line shows of the sender's half."""

    event_type: str | None = None
    body: msgspec.Raw = NOTHING
    body_text: str | None = None
    body_base64: str | None = None


class Shown(msgspec.Struct, frozen=True):
    """What a line shows of a message."""

    id: str
    seq: int
    received_at: str
    size: int
    untrusted: Untrusted
    verified: bool | None = None
    verify_error: str | None = None
    body_truncated: bool = False


def verdict(verified: bool | None, error: Any) -> str:
    """Return the verdict on a signature in a word: `–` where nothing was checked."""
    if verified is None:
        return "–"
    return "yes" if verified else f"no: {error}"


def message_line(document: str | bytes, *, body: bool = False) -> str:
    """Return a message of the server as one line that is safe to print."""
    message = msgspec.json.decode(document, type=Shown)
    claims = message.untrusted
    parts = [
        f"{message.seq:>6}",
        when(message.received_at),
        claims.event_type or "–",
        verdict(message.verified, message.verify_error),
        f"{message.size:,} B",
        message.id,
    ]
    if body:
        parts.append(_body(message))
    return safe("  ".join(parts))


def _body(message: Shown) -> str:
    claims = message.untrusted
    if claims.body != NOTHING:
        return bytes(claims.body).decode()
    if claims.body_text is not None:
        return claims.body_text
    if claims.body_base64 is not None:
        return f"base64:{claims.body_base64}"
    return "(a large body: see `postroom raw`)" if message.body_truncated else ""


def gap_line(gap: Gap) -> str:
    """Return the line that stands where messages are missing."""
    if gap.first_seq is None:
        return f"-- messages after {gap.after} are no longer kept --"
    return f"-- messages {gap.after + 1} to {gap.first_seq - 1} are no longer kept --"


def life_line(life: NewLife) -> str:
    """Return the line that stands where a new life begins; seq counts from 1 again."""
    return safe(f"-- the inbox has begun a new life (epoch {life.epoch}); its messages count from 1 --")
