"""The other side of verification: the headers and the bodies with which a provider would send.

For samples that a user sends to an own inbox, and for our own outgoing calls.
"""

from collections.abc import Mapping
from typing import Any

from web.verify.registry import scheme
from web.verify.schemes import Sample, Signed, ToSign, Wanted

JSON = "application/json"


def sign(
    verifier: str,
    options: Mapping[str, Any],
    secret: bytes,
    *,
    body: bytes,
    now_us: int,
    content_type: str = JSON,
    method: str = "POST",
    url: str = "",
    delivery_id: str | None = None,
    event_type: str | None = None,
) -> Signed:
    """Return what makes `body` a valid request for this verifier.

    `url` is the URL that the inbox verifies with: its `signed_url`, else the public one, with path and query.
    `delivery_id` and `event_type` become headers where the provider sends them so; where it puts them in the body they
    are the body's own affair (`sample`). Raises `ApiError` `invalid_argument` for a verifier that signs nothing or
    holds a public key only, bad options, a secret that it cannot use (field `value`), a body that it cannot sign, or
    a scheme that signs an id when none is given.
    """
    request = ToSign(
        body=body,
        content_type=content_type,
        now_us=now_us,
        method=method,
        url=url,
        delivery_id=delivery_id,
        event_type=event_type,
    )
    return scheme(verifier).sign(options, secret, request)


def sample(
    verifier: str,
    options: Mapping[str, Any],
    *,
    now_us: int,
    event_type: str | None = None,
    delivery_id: str | None = None,
) -> Sample:
    """Return a small body such as the provider sends, with event type and delivery id where the verifier looks for them
    in a body; where they are headers, `sign` makes these.

    `now_us` is for bodies that hold the time of sending. Raises `ApiError` `invalid_argument`, naming `event_type`
    when messages of this verifier have none.
    """
    wanted = Wanted(event_type=event_type, delivery_id=delivery_id, now_us=now_us)
    return scheme(verifier).sample(options, wanted)
