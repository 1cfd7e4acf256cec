"""What a parameter accepts, in words: from the same annotations that decide about it, for whoever sent something else.

msgspec's own complaints speak Python ("Expected `int` >= 1", "Invalid enum value 'x'") and never say what would be
right. These sentences do, and they name neither a type of Python nor a pattern.
"""

import re
from functools import lru_cache

import msgspec
from msgspec import inspect

from web.grammar import INBOX_PATTERN, NAME_PATTERN, SLUG_PATTERN, ULID_PATTERN

_STEP = re.compile(r"\.?([^.\[\]]+)|\[[^\]]*\]")
_SPELLINGS = {
    SLUG_PATTERN: "1 to 64 characters of a-z 0-9 . _ -, the first and the last a letter or digit",
    INBOX_PATTERN: "1 to 64 characters of a-z 0-9 . _ -, the first and the last a letter or digit",
    NAME_PATTERN: "1 to 64 characters of a-z 0-9 . _ -, the first a letter or digit",
    ULID_PATTERN: "the id of a message, 26 characters of 0-9 and A-Z",
}
"""What a person is told instead of a pattern."""


@lru_cache(maxsize=64)  # the forms of all surfaces are fewer
def _described(form: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(form)


def expected(form: type[msgspec.Struct], path: str, *, key: bool = False) -> str:
    """Return what the place `path` of a form accepts, as a sentence: `Expected a whole number from 1 to 100.`

    `path` is a field's name, or as msgspec writes it: `retention.max_age_seconds`, `secrets[0].value`, `headers[...]`.
    `key`: the sentence is about the names in that place, which is an object.
    """
    found = _described(form)
    for step in _STEP.finditer(path):
        found = _inside(found, step[1])
    for bare in _members(found):
        if key and isinstance(bare, inspect.DictType):
            found = bare.key_type
    return f"Expected {accepts(found)}."


def _members(kind: inspect.Type) -> list[inspect.Type]:
    """Return the types that a value may have: what is left of annotations, unions and null."""
    if isinstance(kind, inspect.Metadata):
        return _members(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [bare for one in kind.types for bare in _members(one)]
    return [kind]


def _inside(kind: inspect.Type, name: str | None) -> inspect.Type:
    """Return the type of a field of this name, or (None) of an item."""
    for bare in _members(kind):
        match bare:
            case inspect.StructType(fields=fields) if name is not None:
                for field in fields:
                    if field.encode_name == name:
                        return field.type
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) if name is None:
                return item
            case inspect.DictType(value_type=value):
                return value
    return inspect.AnyType()


def accepts(kind: inspect.Type) -> str:
    """Return in words what a type accepts; null, which stands for the default everywhere, is left out."""
    match kind:
        case inspect.Metadata(extra_json_schema={"format": "date-time"}):
            return "an RFC 3339 time, such as 2026-01-31T09:30:00Z"
        case inspect.Metadata(type=inner):
            return accepts(inner)
        case inspect.UnionType(types=types):
            words_first = sorted(types, key=lambda one: not isinstance(one, inspect.LiteralType))
            return " or ".join(accepts(one) for one in words_first if not isinstance(one, inspect.NoneType))
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=low, le=high):
            return "a whole number" + _range(low, high, "")
        case inspect.FloatType(ge=low, le=high):
            return "a number" + _range(low, high, "")
        case inspect.StrType(pattern=pattern) if pattern in _SPELLINGS:
            return _SPELLINGS[pattern]
        case inspect.StrType(min_length=low, max_length=high):
            return "text" + _range(low, high, " characters")
        case inspect.LiteralType(values=values):
            return _alternatives([str(value) for value in values])
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return f"a list{_range(kind.min_length, kind.max_length, ' items')}, each {accepts(item)}"
        case inspect.DictType(max_length=high):
            return "an object" + ("" if high is None else f" of at most {high:,} members")
        case inspect.StructType():
            return "an object"
    return "another kind of value"


def _alternatives(words: list[str]) -> str:
    if len(words) < 2:
        return f'"{words[0]}"'
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _range(low: float | None, high: float | None, unit: str) -> str:
    if low is not None and high is not None:
        between = f"{low:,} to {high:,}{unit}"
        return f" of {between}" if unit else f" from {between}"
    if high is not None:
        return f" of at most {high:,}{unit}"
    return "" if low is None else f" of at least {low:,}{unit}"
