"""Strict decoding at the edge: query strings, JSON bodies and plain objects into msgspec structs.

Whatever is wrong (an unknown name, a repeated scalar, a wrong type, a value out of range) becomes one
`invalid_argument` that names the field and says what would be right (`web.wording`). The struct is the one
definition of the parameters: its annotations hold the ranges, and the same struct gives JSON Schemas elsewhere.
"""

import json
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec

from web.claims import nests_too_deep
from web.errors import ApiError, invalid
from web.grammar import parse_time
from web.wording import expected

T = TypeVar("T", bound=msgspec.Struct)

SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""

MAX_SEQ = 2**63 - 1
"""The largest cursor: what the store and gRPC's int64 can hold."""

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_AT = re.compile(r" - at (?P<key>`key` in )?`\$\.?(?P<path>.*?)`$")
_NAMED = re.compile(r"(unknown|required) field `(.*?)`", re.DOTALL)
_LAST_INDEX = re.compile(r"(?:\[[^\]]*\])+$")
_SENTENCES = {"unknown": "There is no member of this name here.", "required": "This is required."}

# Made once: a decoder for a type costs more than what it decodes here.
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_pairs = json.JSONDecoder(object_pairs_hook=list, parse_int=str, parse_float=str)


def from_query(into: type[T], raw_query: bytes, path: Mapping[str, str] | None = None) -> T:
    """Decode a query string, together with parameters that stand in the path (they may not be repeated
    there).

    `+` and `%20` are spaces; names and values are UTF-8. Integers are ASCII decimal, booleans `true` or
    `false`, lists repeat their name. Raises `ApiError` `invalid_argument`.
    """
    shapes = _shapes(into)
    given: dict[str, list[str]] = {}
    for piece in raw_query.split(b"&"):
        if piece:
            raw_name, _, raw_value = piece.partition(b"=")
            name = _unquote(raw_name, raw_name.decode("latin-1"))
            given.setdefault(name, []).append(_unquote(raw_value, name))
    fixed = path or {}
    for name in given:
        if name not in shapes or name in fixed:
            raise invalid(name, "There is no query parameter of this name here.")
    values: dict[str, Any] = {}
    for name, texts in (*given.items(), *((name, [text]) for name, text in fixed.items())):
        shape = shapes[name]
        if shape is list:
            values[name] = texts
        elif len(texts) > 1:
            raise invalid(name, "This parameter may be given once only.")
        else:
            values[name] = _scalar(into, shape, texts[0], name)
    return from_object(into, values)


def from_json(into: type[T], body: bytes) -> T:
    """Decode a JSON body; an empty one counts as `{}`. Raises `ApiError` `invalid_argument`."""
    return from_object(into, json_object(body))


def json_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON body that must be an object; an empty one counts as `{}`. Raises `ApiError`, also for a member that
    is there twice: readers differ in which of the two they take.
    """
    if not body.strip():
        return {}
    value = _decoded(body)
    if nests_too_deep(body):
        raise ApiError("invalid_argument", "The body is nested too deeply.")
    if not isinstance(value, dict):
        raise ApiError("invalid_argument", "The body must be a JSON object.")
    json.loads(body, object_pairs_hook=_refuse_repeats, parse_int=str, parse_float=str)
    return value


def raw_members(body: bytes) -> dict[str, bytes]:
    """Decode a JSON body that must be an object into the bytes of its members, for one that is kept as it came; an
    empty body counts as `{}`. Raises `ApiError`, also for a member that is there twice: what is in them is not judged.

    The limit of nesting is that of each member: the object around them is ours, not a part of what is kept.
    """
    if not body.strip():
        return {}
    if not isinstance(_decoded(body), dict):
        raise ApiError("invalid_argument", "The body must be a JSON object.")
    try:
        members = {name: bytes(value) for name, value in _members.decode(body).items()}
        _refuse_repeats(_pairs.decode(body.decode()))
    except RecursionError:
        raise ApiError("invalid_argument", "The body is nested too deeply.") from None
    for name, value in members.items():
        if nests_too_deep(value):
            raise invalid(name, "This is nested too deeply.")
    return members


def unreadable(error: msgspec.DecodeError | RecursionError) -> str:
    """Return what is wrong with JSON that our decoder refuses whatever it is for: a predicate for a sentence."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, msgspec.ValidationError):  # where any type will do, only a number can be wrong
        return "has a number that is beyond the range of a double"
    return "is not valid JSON"


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refusal(body, error) from None


def _refusal(body: bytes, error: msgspec.DecodeError | RecursionError) -> ApiError:
    """Return why a body cannot be read, with the member that is to blame where that can be told."""
    try:
        members = _members.decode(body)  # passes over what is in them
    except (msgspec.DecodeError, RecursionError):
        members = {}
    for name, value in members.items():
        try:
            msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError) as fault:
            return invalid(name, f"This {unreadable(fault)}.")
    return ApiError("invalid_argument", f"The body {unreadable(error)}.")


def _refuse_repeats(members: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            raise invalid(name, "This member is there twice.")
        seen.add(name)


def from_object(into: type[T], values: Mapping[str, Any]) -> T:
    """Convert decoded values strictly, then let the struct check what its annotations cannot say.

    The struct may have a method `check()` that raises `ApiError`. Raises `ApiError` `invalid_argument`.
    """
    try:
        converted = msgspec.convert(values, into)
    except msgspec.ValidationError as error:
        raise argument_error(error, into) from None
    check = getattr(converted, "check", None)
    if check is not None:
        check()
    return converted


def argument_error(error: msgspec.ValidationError, into: type[msgspec.Struct], within: str = "") -> ApiError:
    """Turn msgspec's complaint about a value for `into` into `invalid_argument` that names the field, below the field
    `within`, and says what the field accepts.
    """
    text = str(error)
    at = _AT.search(text)
    named = _NAMED.search(text)
    parts = [within] if within else []
    path = "" if at is None else at["path"]
    if named is not None:
        parts += [path, named[2]]
        message = _SENTENCES[named[1]]
    else:
        parts.append(_LAST_INDEX.sub("", path))
        message = expected(into, path, key=at is not None and at["key"] is not None)
    return ApiError("invalid_argument", message, field=".".join(part for part in parts if part) or None)


def time_argument(field: str, text: str) -> int:
    """Return the µs of an RFC 3339 time. Raises `ApiError` `invalid_argument` naming the field."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise invalid(field, f"{str(error)[0].upper()}{str(error)[1:]}.") from None


def _unquote(raw: bytes, field: str) -> str:
    try:
        if _BAD_ESCAPE.search(raw) is not None:
            raise ValueError("a lone percent sign")
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except ValueError:
        raise invalid(field, "The query string is not percent-encoded UTF-8.") from None


def _scalar(into: type[msgspec.Struct], shape: type, text: str, field: str) -> Any:
    if shape is int:
        if _INTEGER.fullmatch(text) is None:
            raise invalid(field, expected(into, field))
        return int(text)
    if shape is bool:
        if text not in ("true", "false"):
            raise invalid(field, expected(into, field))
        return text == "true"
    return text


_known_shapes: dict[type, dict[str, type]] = {}


def _shapes(struct: type[msgspec.Struct]) -> dict[str, type]:
    """Return, for each field, how its text is read: as `int`, `bool`, `str`, or a repeated `list` of
    texts.
    """
    if struct not in _known_shapes:
        hints = get_type_hints(struct)
        _known_shapes[struct] = {name: _shape(hints[name]) for name in struct.__struct_fields__}
    return _known_shapes[struct]


def _shape(hint: Any) -> type:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _shape(next(arg for arg in get_args(hint) if arg is not type(None)))
    if origin in (list, tuple):
        return list
    return hint if hint in (int, bool) else str
