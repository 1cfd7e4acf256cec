"""Reading what a sender challenges us with, strictly: what is odd in any way is not there.

A challenge comes from anybody and goes back into an answer. So it is short, printable text, given exactly once; nothing
of it can end a line of a head or a member of a JSON object.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from web.claims import nests_too_deep

MAX_CHALLENGE_BYTES = 4_096
"""Microsoft Graph's, the longest, has some 150."""

MAX_QUERY_BYTES = 16_384
"""A challenge of full length with every byte percent-encoded, and room for what stands beside it."""

_VISIBLE = re.compile(rb"[\x21-\x7e]{1,4096}")

T = TypeVar("T")


def parameter(query: bytes, name: bytes) -> str | None:
    """Return the one value of a query parameter, percent-decoded and `+` as a space; None unless it is `challenge`."""
    if not query or len(query) > MAX_QUERY_BYTES:
        return None
    start = name + b"="  # no provider encodes its parameter's name
    values = [part for part in query.split(b"&") if part.startswith(start)]
    if len(values) != 1:
        return None
    return challenge(unquote_to_bytes(values[0][len(start) :].replace(b"+", b" ")))


def header(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the one value of a header (name in lower case) if it is visible ASCII without spaces, else None."""
    values = [value for key, value in headers if key == name]
    return values[0] if len(values) == 1 and _VISIBLE.fullmatch(values[0]) else None


def challenge(value: bytes | str) -> str | None:
    """Return a text that may be sent back: 1 to 4,096 bytes of UTF-8, all printable; else None."""
    try:
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return None
    return text if text and text.isprintable() and len(text.encode()) <= MAX_CHALLENGE_BYTES else None


def document(body: bytes, shape: type[T]) -> T | None:
    """Return a JSON body as a struct (or a list of them) if it has that shape and `is_clear`, else None.

    The narrow decode comes first: it costs a message that is none of this a microsecond per KiB.
    """
    found = shaped(body, shape)
    return found if found is not None and is_clear(body) else None


def shaped(body: bytes, shape: type[T]) -> T | None:
    """Return a JSON body as a struct, None if it has another shape. What is beside the struct's members is not read."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def is_clear(body: bytes) -> bool:
    """Whether every parser reads the same in a body of JSON: UTF-8 throughout, no member twice, no deep nesting."""
    try:
        json.loads(body.decode(), object_pairs_hook=_members)
    except (ValueError, RecursionError):
        return False
    return not nests_too_deep(body)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError
    return members
