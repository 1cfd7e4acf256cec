"""The one error shape of every HTTP surface, and the table of codes (surface, section 9)."""

import msgspec

from web.http import Answer

STATUS: dict[str, int] = {
    "invalid_argument": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "timeout": 408,
    "conflict": 409,
    "epoch_changed": 409,
    "cursor_ahead": 409,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "no_recipient": 422,
    "too_many_waits": 429,
    "rate_limited": 429,
    "headers_too_large": 431,
    "internal": 500,
    "busy": 503,
    "shutting_down": 503,
    "insufficient_storage": 507,
}

RETRY_AFTER_SECONDS = 1
"""What `Retry-After` says when nothing better is known; 429 and 503 always carry the header."""

MAX_FIELD_CHARS = 200
"""More than any field of ours has. A member that is not known has whatever name its sender gave it, at any length: so
much of it tells which one is meant."""


class ApiError(Exception):
    """Something that the client is told: a code of the table, a sentence, and the field it is about.

    The message is written for the person at the other end; it never contains a path of the server, a trace or
    a secret. A long `field` is cut off.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        details: dict[str, object] | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.field = None if field is None else field[:MAX_FIELD_CHARS]
        self.details = details
        self.headers = headers
        self.status = STATUS[code]
        self.retry_after = retry_after

    def answer(self) -> Answer:
        """Return `{"error": {"code", "message", "field"?, "details"?}}` with the code's status."""
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.field is not None:
            error["field"] = self.field
        if self.details is not None:
            error["details"] = self.details
        headers = self.headers
        if self.status in (429, 503):
            seconds = RETRY_AFTER_SECONDS if self.retry_after is None else self.retry_after
            headers = (*headers, (b"retry-after", str(seconds).encode()))
        return Answer(self.status, msgspec.json.encode({"error": error}), headers=headers)


def invalid(field: str, message: str) -> ApiError:
    """Return `invalid_argument` naming the field."""
    return ApiError("invalid_argument", message, field=field)


NO_SUCH_INBOX = "There is no such inbox, or this token may not read it."


def no_such_inbox() -> ApiError:
    """Return the one 404 of every inbox that is absent or not the caller's: the same bytes for both."""
    return ApiError("not_found", NO_SUCH_INBOX)


def unauthenticated(*, sent: bool) -> ApiError:
    """Return 401 with the challenge of RFC 6750; `error="invalid_token"` only when a token was sent."""
    challenge = b'Bearer realm="postroom"' + (b', error="invalid_token"' if sent else b"")
    message = "The token is unknown, expired or revoked." if sent else "Send a token: Authorization: Bearer …"
    return ApiError("unauthenticated", message, headers=((b"www-authenticate", challenge),))
