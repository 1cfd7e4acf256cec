"""What a command prints: tables and facts for people, one JSON document for scripts, and nothing that acts.

Whatever came from a message or a server is text that strangers wrote. On its way to a terminal, control
characters (ANSI sequences included) and characters that reorder text are shown as escapes, so that a
message cannot move the cursor, rename the window or look like something it is not.
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

# Format characters that only join or separate letters are left alone; these change the order of what is read.
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ACTING = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, lone surrogates, line and paragraph separators


def _acts(character: str) -> bool:
    return unicodedata.category(character) in _ACTING or character in _REORDERING


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe(value: object, *, lines: bool = False) -> str:
    """Return text that is safe to print; `lines` keeps newlines and tabs (for a body), else they are escaped too."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(_escape(c) if c not in kept and _acts(c) else c for c in text)


def safe_json(document: bytes) -> str:
    """Return a JSON document that is safe to print and means exactly the same.

    In valid JSON such characters stand only inside strings, where an escape is the same character, except
    for white space between tokens: newlines and tabs are kept, a carriage return becomes a space.
    """
    text = document.decode()
    if text.isascii() and "\r" not in text and "\x7f" not in text:
        return text
    return "".join(
        c if c in "\n\t" else " " if c == "\r" else f"\\u{ord(c):04x}" if _acts(c) else c for c in text
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
