"""The two halves of a stored message: what the server established (`facts`) and what the sender chose
(`said`).

Both are JSON objects as bytes, built once at ingest and spliced unchanged into every answer
(`web/render.py`), so the order of their fields is the order of the table in section 3 of the surface.

Raw bytes become text by latin-1, one character for each byte: path, query, header names and values
survive whatever they are, and `text.encode("latin-1")` gives the very bytes back. A sender's UTF-8
therefore reads as two or more characters; nothing is guessed and nothing is lost.
"""

import re
from collections.abc import Iterable
from math import isinf
from urllib.parse import unquote_to_bytes

import msgspec

from storage.records import INLINE_BODY_BYTES, BodyKind
from storage.secret import SecretBytes
from web.verify.model import Judgement

REDACTED = "[redacted]"

REDACTED_HEADERS = frozenset(
    {
        b"authorization",
        b"proxy-authorization",
        b"cookie",
        b"set-cookie",
        b"x-api-key",
        b"x-gitlab-token",
        b"x-telegram-bot-api-secret-token",
    }
)
"""Headers that are credentials whatever the inbox: their values are never stored (surface, section 3)."""

MAX_NESTING = 100
"""Deeper JSON is shown as text: readers' parsers give up at different depths, some by crashing."""

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SQUARE = bytes.maketrans(b"{}", b"[]")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * 309  # the largest double has so many digits; this finds them 20 times as fast as a pattern
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")


class Held:
    """An inbox's secrets, to be known wherever a sender shows one: also beside the place where the verifier looks, as
    after a change of the verifier. A few are held, and a value of another length costs one look into `lengths`.
    """

    __slots__ = ("_secrets", "lengths")

    def __init__(self, secrets: Iterable[SecretBytes]) -> None:
        self._secrets = tuple(secret for secret in secrets if len(secret))
        self.lengths = tuple({len(secret) for secret in self._secrets})

    def shows(self, value: bytes) -> bool:
        """Whether a value is one of the secrets."""
        return len(value) in self.lengths and any(secret.matches(value) for secret in self._secrets)

    def in_path(self, path: bytes) -> bool:
        """Whether the first segment of a path is one of them, as it is or percent-encoded."""
        if not path:
            return False
        segment = path.lstrip(b"/").partition(b"/")[0]
        return self.shows(segment) or (b"%" in segment and self.shows(unquote_to_bytes(segment)))


NOTHING_HELD = Held(())


class Said(msgspec.Struct, frozen=True, gc=False):
    """What the sender of a webhook chose, without the body. Texts are latin-1 images of the raw bytes, except
    that `delivery_id` and `event_type` may come from the JSON body.
    """

    path: str
    query: str
    headers: list[tuple[str, str]]
    content_type: str | None
    delivery_id: str | None
    event_type: str | None


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What the server established. `size` is the body's, in bytes; `sender` is an agent's id, never a
    webhook's.
    """

    method: str | None
    source_ip: str | None
    size: int
    verified: bool | None
    verifier: str | None
    verify_error: str | None
    sender: str | None


_encode = msgspec.json.Encoder().encode


def said(
    path: bytes,
    query: bytes,
    headers: Iterable[tuple[bytes, bytes]],
    judgement: Judgement,
    secret_headers: frozenset[bytes] = frozenset(),
    held: Held = NOTHING_HELD,
) -> bytes:
    """Return the sender's half of a webhook as a JSON object.

    `path` is what follows `/in/{slug}` of the raw request target (empty if nothing), `query` what
    follows the first `?`. `headers` keep their order and their duplicates; names become lower case.
    `secret_headers` are the inbox's own credentials, redacted in addition to `REDACTED_HEADERS`, as is a value that is
    one of the secrets `held`.
    """
    lengths = held.lengths
    shown: list[tuple[str, str]] = []
    content_type: str | None = None
    for raw_name, value in headers:
        name = raw_name.lower()
        if (
            name in REDACTED_HEADERS
            or name in secret_headers
            or (len(value) in lengths and held.shows(value))
        ):
            shown.append((name.decode("latin-1"), REDACTED))
            continue
        text = value.decode("latin-1")
        if content_type is None and name == b"content-type":
            content_type = text
        shown.append((name.decode("latin-1"), text))
    return _encode(
        Said(
            path=path.decode("latin-1"),
            query=query.decode("latin-1"),
            headers=shown,
            content_type=content_type,
            delivery_id=judgement.delivery_id,
            event_type=judgement.event_type or None,
        )
    )


def redacted_path(path: bytes) -> bytes:
    """Return a path (what follows `/in/{slug}`) whose first segment is a credential, without it.

    The first that is not empty: after a stray slash the credential is wrong, but it is still one.
    """
    segments = path.lstrip(b"/")
    if not segments:
        return path
    slashes = path[: len(path) - len(segments)]
    _, slash, rest = segments.partition(b"/")
    return slashes + REDACTED.encode() + slash + rest


def facts(method: str, source_ip: str | None, size: int, judgement: Judgement, verifier: str) -> bytes:
    """Return the server's half of a webhook as a JSON object. `verifier` is the preset's name; an inbox
    without one (`none`) says null.
    """
    return _encode(
        Facts(
            method=method,
            source_ip=source_ip,
            size=size,
            verified=judgement.verified,
            verifier=None if verifier == "none" else verifier,
            verify_error=judgement.error,
            sender=None,
        )
    )


def body_kind(body: bytes) -> int:
    """Decide once, at ingest, how a body will be shown: one of `BodyKind`.

    Up to 64 KiB it is decoded in full (about 4 µs a KiB), because a lazy check accepts invalid UTF-8
    and `1e999`, which would make every page that contains the body unreadable. A larger body is `LARGE`
    unseen; `large_kind` decides when somebody reads it whole.
    """
    if not body:
        return BodyKind.EMPTY
    if len(body) > INLINE_BODY_BYTES:
        return BodyKind.LARGE
    if _decodes(body) and not nests_too_deep(body) and not _exceeds_double(body):
        return BodyKind.JSON
    return _text_or_bytes(body)


def large_kind(body: bytes, is_json: bool) -> int:
    """Return `JSON`, `TEXT` or `BYTES` for a large body, given the store's verdict (`Snapshot.is_json`), which has
    applied the rules of `body_kind` without stopping the loop for as long as a full decode takes.
    """
    return BodyKind.JSON if is_json else _text_or_bytes(body)


def _decodes(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def nests_too_deep(json: bytes) -> bool:
    """Whether valid JSON is nested deeper than `MAX_NESTING` (a bare number is depth 0, `[]` is 1)."""
    if json.count(b"[") + json.count(b"{") <= MAX_NESTING:
        return False
    brackets = _outside_strings(json).translate(_SQUARE, _NOT_BRACKETS)
    for _ in range(MAX_NESTING):  # each pass takes away the innermost level of everything
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _exceeds_double(json: bytes) -> bool:
    """Whether valid JSON has an integer beyond any double; our decoder reads it, many others refuse the page.
    (Fractions and exponents beyond a double our decoder refuses itself.)
    """
    if _LONG not in json.translate(_ZEROS):
        return False
    return any(isinf(float(number)) for number in _NUMBER.findall(_outside_strings(json)))


def _outside_strings(json: bytes) -> bytes:
    """Return valid JSON without the content of its strings. Escaped quotes go first: pairs of
    backslashes are removed from the left, so a quote that still has one before it is escaped.
    """
    if b"\\" in json:
        json = json.replace(b"\\\\", b"__").replace(b'\\"', b"")
    return b'"'.join(json.split(b'"')[::2])


def _text_or_bytes(body: bytes) -> int:
    try:
        body.decode()
    except UnicodeDecodeError:
        return BodyKind.BYTES
    return BodyKind.TEXT
