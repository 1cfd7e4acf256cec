"""Server-sent events as bytes, by the WHATWG's HTML standard, section 9.2. Pure functions.

A stream's events carry its cursor as their id, so that a client that reconnects by itself resumes where it was. For one
inbox that is `{epoch}:{seq}`; for several it is the base64url of the JSON object `{slug: [epoch, seq]}`.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping

import msgspec

from web.decoding import MAX_SEQ

CONTENT_TYPE = b"text/event-stream"

RETRY_MS = 2_000
"""How long a client waits before it reconnects: an orderly restart takes about as long."""

OPENING = b"retry: %d\n" % RETRY_MS
COMMENT = b":\n"
END = b"\n"
"""What ends an event, or whatever else stands by itself."""

MAX_ID_BYTES = 16 * 1024
"""Of a `Last-Event-ID`; the longest of our own has a third of that."""

_VECTOR = re.compile(r"[A-Za-z0-9_-]+")

Place = tuple[str, int]
"""An epoch and a seq."""


def event(name: str, data: bytes) -> bytes:
    """Return an event without its id, which stands in front: `event`, one `data` line for each line, the end.

    JSON may hold line breaks between its tokens, as its sender wrote them; each begins another `data` line, and
    the reader joins them again with a line feed.
    """
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def id_line(event_id: str) -> bytes:
    """Return the line of an id. An id alone, without data, moves the reader's cursor and is no event."""
    return b"id: %b\n" % event_id.encode()


def single_id(epoch: str, seq: int) -> str:
    """Return the id of a place in a stream of one inbox."""
    return f"{epoch}:{seq}"


def vector_id(places: Mapping[str, Place]) -> str:
    """Return the id of a place in a stream of several inboxes."""
    return urlsafe_b64encode(msgspec.json.encode(places)).rstrip(b"=").decode()


def parse_single_id(text: str) -> Place:
    """Read the id of a stream of one inbox. Raises `ValueError`."""
    epoch, colon, seq = text.rpartition(":")
    if not colon or not epoch or not (seq.isascii() and seq.isdecimal()):
        raise ValueError("not an id of this stream")
    return _place(epoch, int(seq))


def parse_vector_id(text: str) -> dict[str, Place]:
    """Read the id of a stream of several inboxes. Raises `ValueError`."""
    if len(text) > MAX_ID_BYTES or _VECTOR.fullmatch(text) is None:
        raise ValueError("not an id of this stream")
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        places = msgspec.json.decode(raw, type=dict[str, Place])
    except (ValueError, msgspec.MsgspecError) as error:
        raise ValueError("not an id of this stream") from error
    return {slug: _place(epoch, seq) for slug, (epoch, seq) in places.items()}


def accepts(values: Iterable[bytes]) -> bool:
    """Whether `Accept` headers leave room for an event stream: none at all, or a range that it is in.

    The most specific range decides, and a weight of 0 excludes (RFC 9110, section 12.5.1).
    """
    ranges = [part for value in values for part in value.lower().split(b",") if part.strip()]
    if not ranges:
        return True
    weights: dict[bytes, bool] = {}
    for one in ranges:
        kind, *parameters = (part.strip() for part in one.split(b";"))
        weight = next((part[2:] for part in parameters if part.startswith(b"q=")), b"1")
        weights[kind] = weight.strip(b"0.") != b""
    for kind in (CONTENT_TYPE, b"text/*", b"*/*"):
        if kind in weights:
            return weights[kind]
    return False


def _place(epoch: str, seq: int) -> Place:
    if not 0 <= seq <= MAX_SEQ:
        raise ValueError("not a cursor")
    return epoch, seq
