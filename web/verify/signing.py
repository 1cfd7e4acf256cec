"""The other side of verification: the headers with which a provider would send a body.

For samples that a user sends to an own inbox, and for our own outgoing calls.
"""

import hmac
from collections.abc import Mapping
from typing import Any

from web.errors import invalid
from web.verify.registry import TemplateScheme, scheme
from web.verify.template import Template


def sign(
    verifier: str,
    options: Mapping[str, Any],
    secret: bytes,
    *,
    body: bytes,
    now_us: int,
    method: str = "POST",
    url: str = "",
    delivery_id: str | None = None,
    event_type: str | None = None,
) -> list[tuple[str, str]]:
    """Return the headers (name, value) that make `body` a valid request for this verifier.

    `delivery_id` and `event_type` become headers where the provider sends them so; where it puts them
    in the body they are the body's own affair. Raises `ApiError` `invalid_argument` for a verifier that
    signs nothing, bad options, a secret that it cannot use, or a scheme that signs an id when none is
    given.
    """
    found = scheme(verifier)
    if not isinstance(found, TemplateScheme):
        raise invalid("verifier", f"The verifier {verifier} has no signature to make.")
    found.check_secret(options, secret)
    return sign_template(
        found.template(options),
        secret,
        body=body,
        now_us=now_us,
        method=method,
        url=url,
        delivery_id=delivery_id,
        event_type=event_type,
    )


def sign_template(
    template: Template,
    secret: bytes,
    *,
    body: bytes,
    now_us: int,
    method: str,
    url: str,
    delivery_id: str | None,
    event_type: str | None,
) -> list[tuple[str, str]]:
    """Return the signed headers of one template. Raises as `sign`."""
    stamp = str(now_us // (1_000_000 if template.timestamp_unit == "seconds" else 1_000))
    parts = template.signed_parts
    if "id" in parts[1::2] and delivery_id is None:
        raise invalid("delivery_id", "This scheme signs the delivery id: give one.")
    known = {
        "body": body,
        "ts": stamp.encode(),
        "id": (delivery_id or "").encode("latin-1", "replace"),
        "url": url.encode("latin-1", "replace"),
        "method": method.encode("latin-1", "replace"),
    }
    text = b"".join(known[part] if n % 2 else part.encode() for n, part in enumerate(parts))
    digest = hmac.digest(template.decode_key(secret), text, template.algorithm)
    value = template.prefix + template.encode(digest).decode()
    headers: list[tuple[str, str]] = []
    source = template.timestamp_source
    if template.pair is not None:
        separator = (template.list_separator or b",").decode()
        stamped = f"{source.name.decode()}={stamp}{separator}" if source and source.kind == "pair" else ""
        value = f"{stamped}{template.pair}={value}"
    if source is not None and source.kind == "header":
        headers.append((source.name.decode(), stamp))
    for sources, claim in (
        (template.find("delivery_id"), delivery_id),
        (template.find("event_type"), event_type),
    ):
        if claim is not None and sources and sources[0].kind == "header":
            headers.append((sources[0].name.decode(), claim))
    headers.append((template.header.lower(), value))
    return headers
