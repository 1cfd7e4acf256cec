"""What a wake says, and how it is signed: a body that names the agent and nothing of its mail, with the headers of
Standard Webhooks. Pure.
"""

import hashlib

import msgspec

from actors.commands import Refusal
from actors.waking import WakeCall
from web.errors import ApiError
from web.verify.signing import JSON, sign
from web.version import VERSION

SCHEME = "standard-webhooks"
EVENT = "inbox.unread"
USER_AGENT = f"postroom/{VERSION}"

MESSAGE_ID = "webhook-id"
_ID_CHARS = 32

_encoder = msgspec.json.Encoder()


class Body(msgspec.Struct, frozen=True):
    """The members of the body, in their order."""

    event: str
    agent_id: str
    unread: int
    wake_token: str


def message_of(call: WakeCall, now_us: int) -> tuple[bytes, tuple[tuple[str, str], ...]]:
    """Return body and headers of a wake; without a secret there is no signature, and all else is the same.

    The id follows from the wake token, which is each call's own, without showing it: headers are logged in more places
    than bodies. Raises `ApiError` for a secret that is none.
    """
    body = _encoder.encode(Body(EVENT, call.agent_id, call.unread, call.wake_token))
    message_id = f"wake_{hashlib.sha256(call.wake_token.encode()).hexdigest()[:_ID_CHARS]}"
    if call.secret is None:
        signed: tuple[tuple[str, str], ...] = ((MESSAGE_ID, message_id),)
    else:
        secret = call.secret.reveal()
        signed = sign(SCHEME, {}, secret, body=body, now_us=now_us, delivery_id=message_id).headers
    return body, (("Content-Type", JSON), ("User-Agent", USER_AGENT), *signed)


def check_secret(secret: str) -> None:
    """Accept or refuse the secret of a wake target. Raises `Refusal` (field `wake.secret`), which never repeats it."""
    try:
        sign(SCHEME, {}, secret.encode(), body=b"", now_us=0, delivery_id="check")
    except (ApiError, UnicodeError):
        raise Refusal(
            "invalid_argument",
            "Expected a secret of Standard Webhooks: 24 to 64 bytes as base64 text, perhaps after whsec_.",
            "wake.secret",
        ) from None
