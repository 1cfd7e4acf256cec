"""`docs/cli.md` describes every command and exit code; the table of `docs/settings.md` is that of the program."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from postroom.cli import program as exits
from postroom.cli.commands import program
from postroom.config import load
from postroom.parsing import readable
from postroom.settings import SETTINGS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "cli.md"
BLOCK = re.compile(r"<!-- settings -->\n(.*)<!-- /settings -->", re.S)


def settings_table() -> str:
    """Return the table as the page must have it; to renew the page, paste what this returns."""
    lines = ["| setting | default | accepts | reload | why |", "|---|---|---|---|---|"]
    lines += [
        f"| `{s.name}` | {readable(s.default, s.kind.unit)} | {s.kind.accepts} | "
        f"{'yes' if s.reloads else 'restart'} | {s.reason} |"
        for s in SETTINGS
    ]
    return "\n".join(lines) + "\n"


def commands(group: click.Group, prefix: str = "postroom") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def test_the_page_has_the_table_of_settings() -> None:
    block = BLOCK.search((DOCS / "settings.md").read_text())
    assert block is not None
    assert block[1] == settings_table()


@pytest.mark.parametrize(("name", "command"), list(commands(program)), ids=lambda value: str(value))
def test_the_page_and_the_help_describe_every_command(name: str, command: click.Command) -> None:
    assert name in PAGE.read_text()
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            assert param.help, f"{name} {param.name}"


def test_the_page_lists_every_exit_code() -> None:
    codes = {
        value for name, value in vars(exits).items() if name.startswith("EXIT_") and isinstance(value, int)
    }
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.M)}
    assert listed == codes | {0}


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_the_settings_that_a_page_shows_are_taken(page: Path, tmp_path: Path) -> None:
    for block in re.findall(r"<!-- settings -->\n```toml\n(.*?)```", page.read_text(), re.S):
        file = tmp_path / "postroom.toml"
        file.write_text(block)
        load(file=file)
