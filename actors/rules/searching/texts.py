"""Which text of a message can be found, and how it is taken out of a body. Pure; bounded in time and memory.

The event type; of what an agent wrote its subject and its tags; and the body, as far as its first `TEXT_LIMIT` bytes
are text or JSON. Headers are not: they are the same in every message of a sender. JSON counts as it stands, with the
names of its members and its numbers, for a person looks for `refund`, for `order_id` and for `1042`; only its escapes
are resolved. It is never parsed: the beginning of a large body is no valid JSON.
"""

import re

import msgspec

from actors.rules.matching.texts import FORM, fields, looks_like
from actors.rules.searching.words import words
from storage.records import BodyKind
from storage.search_records import Indexable

TEXT_LIMIT = 65_536
"""Of a body, in bytes. Taking them apart takes about 3 ms."""

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)


class _Said(msgspec.Struct, frozen=True, gc=False):
    subject: str = ""
    tags: tuple[str, ...] = ()
    content_type: str | None = None


_said = msgspec.json.Decoder(_Said)


def words_of(message: Indexable) -> list[str]:
    """Return the words by which a message is found, in order."""
    try:
        said = _said.decode(message.said)
    except msgspec.DecodeError:  # not as its kind is said to look: it is found by the rest
        said = _Said()
    body = _text(message.body or b"", message.body_kind, said.content_type)
    return words("\n".join((message.event_type, said.subject, *said.tags, body)))


def _text(body: bytes, kind: int, content_type: str | None) -> str:
    if kind == BodyKind.LARGE:
        kind = looks_like(body)
    if kind not in (BodyKind.JSON, BodyKind.TEXT):
        return ""
    text = body[:TEXT_LIMIT].decode("utf-8", "replace")
    if kind == BodyKind.JSON:
        return _unescaped(text)
    if content_type is not None and content_type.partition(";")[0].strip().lower() == FORM:
        return "\n".join(part for name, value in fields(text) for part in (name, _value(value)))
    return text


def _value(value: str) -> str:
    """Return the text of a field of a form; chat services send JSON in one."""
    return _unescaped(value) if value.lstrip()[:1] in ("{", "[") else value


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_resolved, text) if "\\" in text else text


def _resolved(escape: re.Match[str]) -> str:
    """Return what an escape stands for; half of a surrogate pair, and what is none, for a space."""
    try:
        return msgspec.json.decode(f'"{escape[0]}"', type=str)
    except msgspec.DecodeError:
        return " "
