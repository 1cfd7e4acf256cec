"""The id of a request: it is in its answer, in every line that is logged while it is answered, and in its span.

So a sender who says "`Postroom-Request-Id` was 3f9a2c7e91b204d1" can be helped. Ids are random and tell nothing. A
proxy in front that is trusted gives its own, by which the proxy's log and ours are one story; from anybody else such a
header is not read, because whoever chooses an id could make two requests look like one.
"""

import re
from collections.abc import Sequence
from contextvars import ContextVar
from random import getrandbits

ANSWER_HEADER = b"postroom-request-id"
PROXY_HEADER = b"x-request-id"

ID_BITS = 64
"""As many as make two equal ids in a day's log unlikely. They are no secrets, so the generator may be a quick one."""

_ACCEPTABLE = re.compile(rb"[A-Za-z0-9._-]{1,128}")
"""What proxies write: hexadecimal digits, UUIDs. Nothing that needs escaping in a log or a header."""

REQUEST_ID: ContextVar[str | None] = ContextVar("postroom.request_id", default=None)
"""The id of the request that the present task answers. Tasks that live longer than a request are not started in its
context (`actors/registry.py`)."""


def begin(headers: Sequence[tuple[bytes, bytes]], *, trusted: bool) -> str:
    """Give the request of these headers an id, and make it the present task's. `trusted`: a proxy sends it that is
    believed about its clients. Returns the id.
    """
    given = _given(headers) if trusted else None
    drawn = getrandbits(ID_BITS)  # an id is no secret, see above # nosec B311
    request_id = drawn.to_bytes(ID_BITS // 8).hex() if given is None else given
    REQUEST_ID.set(request_id)
    return request_id


def _given(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """Return the id that a proxy gave; None when there is none, or more than one, or none that can be taken."""
    values = [value for name, value in headers if name == PROXY_HEADER]
    if len(values) != 1 or _ACCEPTABLE.fullmatch(values[0]) is None:
        return None
    return values[0].decode("ascii")
