"""Colours for what is typed and printed: `$ ` and, right behind it, `> ` begin what is typed; all else is printed.

The lexer for consoles that comes with Pygments knows no `> `, and takes quotation marks in output for a mistake.
"""

from collections.abc import Iterator

from pygments.lexer import Lexer, do_insertions
from pygments.lexers import BashLexer
from pygments.token import Error, Generic, Text, _TokenType

Piece = tuple[int, _TokenType, str]

PROMPT = 2
"""Characters."""


class ConsoleLexer(Lexer):
    """A console of these pages."""

    name = "Console"
    aliases = ("console",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[Piece]:
        """Give the pieces of a block: place, kind, text."""
        typed: list[str] = []
        start = place = 0
        for line in text.splitlines(keepends=True):
            begins = line.startswith("$ ")
            goes_on = bool(typed) and line.startswith("> ")
            if not goes_on:
                yield from _command(typed, start)
                typed, start = [], place
            if begins or goes_on:
                typed.append(line)
            else:
                yield place, Generic.Output, line
            place += len(line)
        yield from _command(typed, start)


def _command(lines: list[str], start: int) -> Iterator[Piece]:
    """Give the pieces of a command that may have several lines, each behind its prompt."""
    command, prompts = "", []
    for line in lines:
        prompts.append((len(command), [(0, Generic.Prompt, line[:PROMPT])]))
        command += line[PROMPT:]
    for place, kind, piece in do_insertions(prompts, BashLexer().get_tokens_unprocessed(command)):
        yield start + place, Text if kind is Error else kind, piece
