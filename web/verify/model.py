"""The values around a verification: the request's head, the check in progress, the judgement."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class SignedHead(msgspec.Struct, frozen=True):
    """What of a request may be signed besides its body. `headers` as in `web.http.Request`: raw, in order,
    names in lower case. `url` is the public URL, for schemes that sign it; `received_at_us` the time of receipt.
    """

    method: str
    url: str
    headers: Sequence[tuple[bytes, bytes]]
    received_at_us: int


class Judgement(msgspec.Struct, frozen=True):
    """`verified` is None for an inbox without a verifier. `error` is one of the fixed wordings (surface, section 4)
    or None. `event_type` is `""` and `delivery_id` None when the provider sends none.
    """

    verified: bool | None
    error: str | None
    event_type: str
    delivery_id: str | None


class Check(Protocol):
    """One request's verification, fed while the body arrives."""

    def update(self, data: bytes) -> None:
        """Take the next piece of the body."""

    def finish(self, body: "BodySource") -> Judgement:
        """Judge. `body` is read again only by schemes and paths that need it whole."""


class BodySource(Protocol):
    """The received body: in memory when small, else in an unlinked temporary file."""

    @property
    def size(self) -> int:
        """Bytes received."""

    def whole(self) -> bytes:
        """Return all of it."""


class Verifier(Protocol):
    """One inbox's scheme with its secrets, compiled once and used for every request."""

    name: str
    """The preset's name, as the message's `verifier`; `none` is reported as null."""
    secret_headers: frozenset[bytes]
    """Headers (lower case) whose values are credentials themselves and are redacted before storing."""

    def begin(self, head: SignedHead) -> Check:
        """Start checking one request."""
