"""JSON laid out for reading: an answer is one line of the wire and several of a page.

Only white space between tokens changes: numbers keep their spelling, members their order and their duplicates.
"""

import json
from typing import Any

WIDTH = 100
"""Columns that a page shows without scrolling."""

STEP = 2


class _Members(list[tuple[str, Any]]):
    """An object's members, as written."""


class _Number(str):
    """A number, as written."""


def laid_out(output: str) -> str:
    """Return a command's output with every line that is a JSON object broken to at most `WIDTH` columns."""
    return "".join(_line(line) for line in output.splitlines(keepends=True))


def _line(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        value = json.loads(line, object_pairs_hook=_Members, parse_int=_Number, parse_float=_Number)
    except ValueError:
        return line
    return _broken(value, 0, 0) + "\n"


def _broken(value: Any, indent: int, used: int) -> str:
    """Return a value on one line if it fits behind `used` columns, else one item a line below `indent`."""
    flat = _flat(value)
    if used + len(flat) < WIDTH or not isinstance(value, list) or not value:
        return flat
    inner = indent + STEP
    items = []
    for item in value:
        key = f"{_flat(item[0])}: " if isinstance(value, _Members) else ""
        member = item[1] if isinstance(value, _Members) else item
        items.append(" " * inner + key + _broken(member, inner, inner + len(key)))
    opening, closing = "{}" if isinstance(value, _Members) else "[]"
    return f"{opening}\n" + ",\n".join(items) + f"\n{' ' * indent}{closing}"


def _flat(value: Any) -> str:
    if isinstance(value, _Members):
        return "{" + ", ".join(f"{_flat(name)}: {_flat(member)}" for name, member in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return value if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
