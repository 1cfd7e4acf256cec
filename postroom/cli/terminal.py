"""What a command prints: tables and facts for people, one JSON document for scripts, and nothing that acts.

Whatever came from a message or a server is text that strangers wrote. On its way to a terminal, control
characters (ANSI sequences included) and characters that reorder text or are not seen in it are shown as escapes, so
that a message cannot move the cursor, rename the window, look like something it is not, or hide what it says.
"""

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 240
"""Columns of a table that goes into a file or a pipe, where folding lines would break `grep`."""

_ACTING = frozenset({"Cc", "Cs", "Zl", "Zp", "Cf"})
"""Controls, lone surrogates, line and paragraph separators, and what reorders text or is not seen in it."""
_JOINING = frozenset("\u200c\u200d")
_SEEN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
"""Of the last kind, but left alone: letters are written with these."""
_UNSEEN = range(0xE0000, 0xE1000)
"""Tags and further variants, in rows of which a text can be hidden."""


def _acts(character: str) -> bool:
    if character in _JOINING or character in _SEEN:
        return False
    return unicodedata.category(character) in _ACTING or ord(character) in _UNSEEN


def escape(character: str) -> str:
    """Return a character as an escape that no other one has."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def safe(value: object, *, lines: bool = False) -> str:
    """Return text that is safe to print; `lines` keeps newlines and tabs (for a body), else they are escaped too."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(escape(c) if c not in kept and _acts(c) else c for c in text)


def safe_json(document: bytes) -> str:
    """Return a JSON document that is safe to print and means exactly the same.

    In valid JSON such characters stand only inside strings, where an escape is the same character, except
    for white space between tokens: newlines and tabs are kept, a carriage return becomes a space.
    """
    text = document.decode()
    if text.isascii() and "\r" not in text and "\x7f" not in text:
        return text
    return "".join(
        c if c in "\n\t" else " " if c == "\r" else _json_escape(c) if _acts(c) else c for c in text
    )


def print_json(document: object) -> None:
    """Print one JSON document: bytes of the server as they are (made safe), anything else encoded."""
    if isinstance(document, bytes):
        click.echo(safe_json(document))
    else:
        click.echo(json.dumps(document, indent=2))


def console() -> Console:
    """Return a console on today's stdout; markup, emoji codes and guessing at highlights are off."""
    out = sys.stdout
    width = None if out.isatty() else PLAIN_WIDTH
    return Console(file=out, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print a table; every cell is made safe. Columns named in `right` are numbers."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(safe(cell)) for cell in row))
    console().print(drawn)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one a line."""
    drawn = Table(box=None, pad_edge=False, show_header=False)
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in pairs:
        drawn.add_row(Text(name), Text(safe(readable(value))))
    console().print(drawn)


def readable(value: object) -> str:
    """Return a JSON value as a person reads it in a list of facts."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def print_json_line(document: object) -> None:
    """Print one object of JSON Lines: the server's text as it is (made safe), anything else encoded."""
    text = document if isinstance(document, str) else json.dumps(document)
    click.echo(safe_json(text.replace("\n", " ").encode()))


def when(timestamp: Any) -> str:
    """Return an RFC 3339 time of the server to the second: `2026-03-01 12:00:00Z`."""
    if not isinstance(timestamp, str):
        return readable(timestamp)
    return timestamp[:19].replace("T", " ") + "Z"
