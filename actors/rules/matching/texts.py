"""Which text of a message is matched, and how it is taken out of a webhook's body. Pure; bounded in time and memory.

Of a JSON body: the strings, and the names of members that say something. Providers list every member of an object,
also those that are null, false, zero or empty: a charge that went well names `failure_message`, `dispute` and
`refunds`, so a name counts only with a value that is none of these. A member called `…_url` that holds a link counts
neither with its name nor with its value: a GitHub repository brings forty of them (`releases_url`,
`deployments_url`) with every event. A plain `url` is read, it may be what the message is about.

The body is scanned for its strings, not parsed: the first `TEXT_LIMIT` bytes of a larger one are no valid JSON.
"""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl

import msgspec

from actors.rules.matching.words import terms
from storage.records import BodyKind

TEXT_LIMIT = 65_536
"""Of a message, in bytes of a body or characters of a text; enough for any note, and about 3 ms of reading."""

FORM_FIELDS = 1_000
"""More fields than any form has; what follows is not read."""

FORM = "application/x-www-form-urlencoded"

# Possessive throughout, and the end of the text closes a string: linear, whatever is cut off or made up.
_STRING = re.compile(
    r'"(?P<text>[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+)(?:"|\Z)'
    r"(?P<name>\s*+:\s*+"
    r'(?:(?P<nothing>null|false|""|\[\s*+\]|\{\s*+\}|0(?![.\deE]))|(?P<link>(?="https?://[^"\s]*+")))?+)?+',
    re.DOTALL,
)


def webhook_terms(event_type: str, body: bytes, body_kind: int, content_type: str | None) -> frozenset[str]:
    """Return the terms of a webhook. `body` may be its beginning only; `body_kind` is one of `BodyKind`.

    A body of bytes has no text. A large one is read as what its beginning looks like.
    """
    return terms(event_type + "\n" + "\n".join(_body_texts(body[:TEXT_LIMIT], body_kind, content_type)))


def published_terms(subject: str, text: str, tags: Iterable[str], event_type: str) -> frozenset[str]:
    """Return the terms of a message that an agent wrote."""
    return terms("\n".join((event_type, subject, *tags, text[:TEXT_LIMIT])))


def _body_texts(body: bytes, body_kind: int, content_type: str | None) -> Iterable[str]:
    if body_kind == BodyKind.LARGE:
        body_kind = looks_like(body)
    if body_kind not in (BodyKind.JSON, BodyKind.TEXT):
        return ()
    text = body.decode("utf-8", "replace")
    if body_kind == BodyKind.JSON:
        return _json_texts(text)
    if content_type is not None and content_type.partition(";")[0].strip().lower() == FORM:
        return _form_texts(text)
    return (text,)


def looks_like(start: bytes) -> int:
    """Return the `BodyKind` that a body seems to have of which there is the beginning only."""
    if start.lstrip()[:1] in (b"{", b"["):
        return BodyKind.JSON
    # A cut may have gone through a character; a few bytes more or less say nothing of the rest.
    try:
        start[:-4].decode()
    except UnicodeDecodeError:
        return BodyKind.BYTES
    return BodyKind.TEXT


def _json_texts(text: str) -> Iterator[str]:
    """Yield the strings of a JSON text, and the names of its members that say something."""
    skip = False
    for found in _STRING.finditer(text):
        if skip:  # the link that the name before pointed to
            skip = False
            continue
        string = found["text"]
        if found["name"] is not None:
            if found["nothing"] is not None:
                continue
            if found["link"] is not None and _names_a_link(string):
                skip = True
                continue
        yield _unescaped(string) if "\\" in string else string


def _names_a_link(name: str) -> bool:
    lower = name.lower()
    return lower == "href" or (len(lower) > 3 and lower.endswith(("url", "uri")))


def _unescaped(string: str) -> str:
    try:
        return msgspec.json.decode(f'"{string}"', type=str)
    except msgspec.DecodeError:
        return string  # cut off within an escape, or half of a surrogate pair; a backslash separates words as it is


def _form_texts(text: str) -> Iterator[str]:
    """Yield names and values of a form; a value that is JSON (as chat services send) by its strings."""
    for name, value in fields(text):
        yield name
        if value.lstrip()[:1] in ("{", "["):
            yield from _json_texts(value)
        else:
            yield value


def fields(text: str, *, encoding: str = "utf-8") -> list[tuple[str, str]]:
    """Return names and values of a form, the first `FORM_FIELDS` of them. `encoding`: of what was percent-encoded."""
    parts = text.split("&", FORM_FIELDS)[:FORM_FIELDS]
    return parse_qsl("&".join(parts), encoding=encoding)
