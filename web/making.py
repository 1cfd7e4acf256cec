"""One message as its provider would send it: body or sample, signature, event type, delivery id, and where each goes.

Pure. Whoever has a secret uses it: the command line with one that the user gave it, the server with one that an inbox
holds (`web/samples.py`).
"""

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from web.errors import invalid
from web.verify.signing import sample, sign

JSON_TYPE = "application/json"

DELIVERY_IDS = 10**15
"""Drawn ids are numbers below this: every scheme takes one, also where the provider's own are numbers (Telegram), and
15 digits are exact in every reader."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to send. `body` is None for a sample of the provider's kind, whose type it then has.

    `target` is what follows the inbox's slug, with its query; `url` the whole address as the provider knows it.
    """

    body: bytes | None
    content_type: str | None
    method: str = "POST"
    target: str = ""
    url: str = ""
    event_type: str | None = None
    delivery_id: str | None = None


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """The request to send. `path` and `query` follow the slug; `headers` (name, value) include the content type. All of
    them may hold the secret itself, where the provider shows it instead of signing.
    """

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def make(verifier: str, options: Mapping[str, Any], secret: bytes, message: Message, *, now_us: int) -> Made:
    """Return the request that makes this message a genuine one for the verifier.

    Without a delivery id one is drawn, as the provider would. An event type or delivery id that is asked for and that
    the provider would put into a given body is refused: it is the body's own affair. Raises `ApiError`
    `invalid_argument`: as `web.verify.signing.sign`, and for these two.
    """
    drawn = str(secrets.randbelow(DELIVERY_IDS)) if message.delivery_id is None else message.delivery_id
    body, content_type = message.body, message.content_type or JSON_TYPE
    if body is None:
        made = sample(verifier, options, now_us=now_us, event_type=message.event_type, delivery_id=drawn)
        body, content_type = made.body, message.content_type or made.content_type
    signed = sign(
        verifier,
        options,
        secret,
        body=body,
        now_us=now_us,
        content_type=content_type,
        method=message.method,
        url=message.url,
        delivery_id=drawn,
        event_type=message.event_type,
    )
    if message.body is not None:
        _refuse_lost_claims(verifier, message, signed.headers)
    path, _, query = message.target.partition("?")
    return Made(
        method=message.method,
        path=signed.path + path,
        query="&".join(part for part in (query, signed.query) if part),
        headers=(("content-type", content_type), *signed.headers),
        body=signed.body,
    )


def _refuse_lost_claims(verifier: str, message: Message, headers: tuple[tuple[str, str], ...]) -> None:
    """Refuse what was asked for and is in no header: the message would be another one than its sender thinks."""
    said = {value for _, value in headers}
    for field, claim in (("event_type", message.event_type), ("delivery_id", message.delivery_id)):
        if claim is not None and claim not in said:
            raise invalid(
                field, f"The verifier {verifier} takes this from the body, if at all: write it there."
            )
