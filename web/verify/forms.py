"""Bodies of HTML forms (`application/x-www-form-urlencoded`), as bytes.

Nothing is decoded to text before it is verified: what a sender wrote as `%ff` is the byte 0xFF here.
"""

import re
from urllib.parse import unquote_to_bytes

MEDIA_TYPE = b"application/x-www-form-urlencoded"

MAX_FIELDS = 1_000
"""A form with more fields is no provider's; they are split, decoded and sorted in the event loop."""

MAX_VALUE_BYTES = 4_096
"""A longer value is no delivery id and no event type."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def is_form(content_type: bytes) -> bool:
    """Whether a `Content-Type` says that the body is a form."""
    return content_type.partition(b";")[0].strip().lower() == MEDIA_TYPE


def parse_form(body: bytes) -> list[tuple[bytes, bytes]] | None:
    """Return names and values in their order, None when there are more than `MAX_FIELDS`."""
    if body.count(b"&") >= MAX_FIELDS:
        return None
    fields = []
    for piece in body.split(b"&"):
        if piece:
            name, _, value = piece.partition(b"=")
            fields.append((unquote(name), unquote(value)))
    return fields


def parse_name(text: str) -> str:
    """Return the name of a field whose value is looked for. Raises `ValueError` with a sentence."""
    if _NAME.fullmatch(text) is None:
        raise ValueError("expected the name of a form's field, such as form:event")
    return text


class FieldReader:
    """Finds the first value of some fields without taking the rest of the form apart."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._patterns = {
            name: re.compile(rb"(?:\A|&)%b=([^&]*)" % re.escape(name.encode())) for name in names
        }

    def read(self, body: bytes) -> dict[str, str]:
        """Return what was found and is UTF-8. A body that is no form has no fields."""
        found: dict[str, str] = {}
        for name, pattern in self._patterns.items():
            field = pattern.search(body)
            if field is not None and len(field[1]) <= MAX_VALUE_BYTES:
                try:
                    found[name] = unquote(field[1]).decode()
                except UnicodeDecodeError:
                    continue
        return found


def unquote(text: bytes) -> bytes:
    """Return the bytes of a percent-encoded text, with `+` for a space."""
    return unquote_to_bytes(text.replace(b"+", b" "))
