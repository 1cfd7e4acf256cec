"""The values around a verification: the request's head, the check in progress, the judgement."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

MISSING = "missing signature"
MALFORMED = "malformed signature"
OUTSIDE_TOLERANCE = "timestamp outside tolerance"
UNKNOWN_KEY = "unknown key"
MISMATCH = "signature mismatch"
"""The fixed wordings of signatures, in the order in which they are tried; the first that applies is told."""

MISSING_CREDENTIALS = "missing credentials"
BAD_CREDENTIALS = "bad credentials"
"""The fixed wordings of presets whose sender shows a credential instead of a signature."""

Values = Mapping[bytes, Sequence[bytes]]
"""The values of the headers that matter, by name in lower case; a header that is not there has no key."""


class SignedHead(msgspec.Struct, frozen=True):
    """What of a request may be signed besides its body. `headers` as in `web.http.Request`: raw, in order,
    names in lower case. `url` is the public URL, for schemes that sign it; `received_at_us` the time of receipt.
    `path` (raw, what follows `/in/{slug}`) and `query` (raw, without `?`) are of the request as it came.
    """

    method: str
    url: str
    headers: Sequence[tuple[bytes, bytes]]
    received_at_us: int
    path: bytes = b""
    query: bytes = b""


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
    """The verifier's name as it was typed, as the message's `verifier`; `none` is reported as null."""
    secret_headers: frozenset[bytes]
    """Headers (lower case) whose values are credentials themselves and are redacted before storing."""
    secret_path: bool
    """Whether the first segment of `SignedHead.path` is the credential, and is redacted before storing."""
    always_reject: bool
    """Whether the provider demands 401 for what does not verify, whatever `on_unverified` says."""

    def begin(self, head: SignedHead) -> Check:
        """Start checking one request."""


class Trial(Protocol):
    """Whether one request is genuine, found out while its body arrives.

    `which` is the alternative of its method (counted from 0, in the order of `Method`'s scheme) that `fault` has
    judged by: what the request claims is read where that alternative signs it.
    """

    @property
    def which(self) -> int:
        """The alternative; final once `fault` was asked."""

    def update(self, data: bytes) -> None:
        """Take the next piece of the body."""

    def fault(self, body: BodySource) -> str | None:
        """Return what is wrong, in one of the fixed wordings; None for a genuine request."""


class Method(Protocol):
    """How the requests of one inbox are tried, its secrets included."""

    headers: frozenset[bytes]
    """The headers (lower case) that it looks at."""

    def begin(self, head: SignedHead, values: Values) -> Trial:
        """Start a trial; `values` has at least `headers`."""


class Failed:
    """A trial whose outcome did not need the body."""

    def __init__(self, fault: str | None, which: int = 0) -> None:
        self._fault = fault
        self.which = which

    def update(self, data: bytes) -> None:
        """Nothing depends on the body."""

    def fault(self, body: BodySource) -> str | None:
        """Return the outcome."""
        return self._fault
