"""Commands that the text only mentions exist as well: each `postroom …` of the pages, with every option it shows."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from postroom.cli.commands import program
from tests.docs.pages import PAGES, fences, prose

_MENTIONED = re.compile(r"`(postroom (?!→)[^`\n]+)`")
_TYPED = re.compile(r"^(?:[$>] )?(?:[A-Z_]+=(?:\$\([^)]*\)|\S+) )*(postroom .*)$", re.M)
USAGE = "usage"
"""The mark of a block of nothing but commands, as they may be written."""

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_ENDS = re.compile(r" (?:--|\|(?! --)|\|\||>|<|&|&&|#) .*|;.*")
"""Where another program's words begin."""


def mentioned(page: Path) -> Iterator[str]:
    yield from _MENTIONED.findall(prose(page))
    for fence in fences(page):
        if fence.mark == USAGE:
            assert all(line.startswith("postroom ") for line in fence.text.splitlines()), fence.place
        yield from _TYPED.findall(fence.text)


def meant(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words name, and what follows its name."""
    command: click.Command = program
    while words and isinstance(command, click.Group) and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_that_is_mentioned_exists_with_its_options(page: Path) -> None:
    for line in mentioned(page):
        command, rest = meant(line.split()[1:])
        known = {option for one in (program, command) for param in one.params for option in param.opts}
        known |= {option for param in command.params for option in param.secondary_opts}
        known |= {"--help"}
        if isinstance(command, click.Group):
            assert not rest or not re.match(r"[a-z]", rest[0]), line
        shown = set(_OPTION.findall(_ENDS.sub("", " ".join(rest))))
        assert shown <= known, (line, shown - known)
