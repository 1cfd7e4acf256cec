"""What an error of the surface is to a gRPC client: a status, a sentence, and trailing metadata (surface, section 7).

The metadata say what a status cannot: `postroom-code` (the code of section 9), `postroom-field`, and `retry-after` in
seconds where REST has the header.
"""

import re

import msgspec
from grpclib.const import Status

from web.errors import RETRY_AFTER_SECONDS, ApiError

STATUSES: dict[str, Status] = {
    "invalid_argument": Status.INVALID_ARGUMENT,
    "unauthenticated": Status.UNAUTHENTICATED,
    "permission_denied": Status.PERMISSION_DENIED,
    "not_found": Status.NOT_FOUND,
    "method_not_allowed": Status.UNIMPLEMENTED,
    "not_acceptable": Status.UNIMPLEMENTED,
    "timeout": Status.DEADLINE_EXCEEDED,
    "conflict": Status.ABORTED,
    "epoch_changed": Status.FAILED_PRECONDITION,
    "cursor_ahead": Status.OUT_OF_RANGE,
    "payload_too_large": Status.RESOURCE_EXHAUSTED,
    "unsupported_media_type": Status.UNIMPLEMENTED,
    "no_recipient": Status.FAILED_PRECONDITION,
    "too_many_waits": Status.RESOURCE_EXHAUSTED,
    "rate_limited": Status.RESOURCE_EXHAUSTED,
    "headers_too_large": Status.RESOURCE_EXHAUSTED,
    "internal": Status.INTERNAL,
    "busy": Status.UNAVAILABLE,
    "shutting_down": Status.UNAVAILABLE,
    "insufficient_storage": Status.RESOURCE_EXHAUSTED,
}
"""Of every code, so that no error of a layer below is without one. UNAVAILABLE is what clients try again by
themselves."""

_CARRIED = re.compile(r"[!-~]{1,100}")
"""What metadata can carry of a field's name."""


class Told(msgspec.Struct, frozen=True):
    """What the client is told."""

    status: Status
    message: str
    metadata: tuple[tuple[str, str], ...]


def told(error: ApiError) -> Told:
    """Return what a gRPC client is told of an error. The message names the field, as gRPC has no place of its own."""
    metadata = [("postroom-code", error.code)]
    message = error.message
    if error.field is not None:
        message = f"{error.field}: {message}"
        if _CARRIED.fullmatch(error.field):
            metadata.append(("postroom-field", error.field))
    if error.status in (429, 503):
        seconds = RETRY_AFTER_SECONDS if error.retry_after is None else error.retry_after
        metadata.append(("retry-after", str(seconds)))
    return Told(STATUSES[error.code], message, tuple(metadata))
