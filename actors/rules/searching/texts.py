"""Which text of a message can be found, and how it is taken out of a body. Pure; bounded in time and memory.

The event type; of what an agent wrote its subject and its tags; and the body, as far as its first `TEXT_LIMIT` bytes
are text or JSON, in UTF-8 or in the character set that its content type names (`charsets`). Headers are not: they are
the same in every message of a sender. JSON counts as it stands, with the
names of its members and its numbers, for a person looks for `refund`, for `order_id` and for `1042`; only its escapes
are resolved. It is never parsed: the beginning of a large body is no valid JSON.
"""

import re
from collections.abc import Iterator

import msgspec

from actors.rules.matching.texts import FORM, fields, looks_like
from actors.rules.searching.charsets import LIKE_UTF_8, codec_of, decoded, media_type
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
    codec = codec_of(content_type)
    cut = kind == BodyKind.LARGE
    if cut:
        kind = looks_like(body)
    if kind not in (BodyKind.JSON, BodyKind.TEXT) and codec is None:
        return ""
    body = body[:TEXT_LIMIT]
    if kind != BodyKind.JSON and codec not in LIKE_UTF_8 and media_type(content_type) == FORM:
        return "\n".join(_form(body, codec))
    text = decoded(body, codec, cut=cut)
    looks_json = kind == BodyKind.JSON or (kind == BodyKind.BYTES and _begins_json(text))
    return _unescaped(text) if looks_json else text


def _form(body: bytes, codec: str | None) -> Iterator[str]:
    """Yield names and values of a form. Each is decoded by itself: many forms are UTF-8 behind percent signs, whatever
    is said of them. Latin-1 stands for bytes until then.
    """
    for field in fields(body.decode("latin-1"), encoding="latin-1"):
        name, value = (decoded(part.encode("latin-1"), codec) for part in field)
        yield name
        yield _unescaped(value) if _begins_json(value) else value


def _begins_json(text: str) -> bool:
    """Whether a text looks like an object or an array; chat services send such in a field of a form."""
    return text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_resolved, text) if "\\" in text else text


def _resolved(escape: re.Match[str]) -> str:
    """Return what an escape stands for; half of a surrogate pair, and what is none, for a space."""
    try:
        return msgspec.json.decode(f'"{escape[0]}"', type=str)
    except msgspec.DecodeError:
        return " "
