"""The manual page `postroom(1)`, made from the commands' own help and the table of settings.

`python -m postroom.cli.manual > docs/postroom.1` renews the page in the source tree (`make man`), from which packages
take it; a test compares the two. It tells no version and no date, so that it changes only when the program does.
"""

import re
import sys
from collections.abc import Iterator

import click

from postroom.cli.commands import program
from postroom.parsing import readable
from postroom.settings import CLIENT_VARIABLES, ENVIRONMENT_PREFIX, SETTINGS

_SETTING_KEYS = frozenset(setting.key for setting in SETTINGS)
_MANY = 5
"""A command with so many flags of settings has all of them, and the page tells them once."""

_CLIENT = {
    "URL": "The server that the client commands call, http://127.0.0.1:8025 when it is not set.",
    "TOKEN": "The token to call it with.",  # what an argument is, no token # nosec B105
    "AGENT": "Whose mail is meant, for a token that is not one agent's own.",
    "SESSION": "Which session of an agent a command belongs to.",
}

_SPECIAL = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}


def page() -> str:
    """Return the page in the language of man(7)."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    context = click.Context(program, info_name="postroom")
    summary, about, exits = _paragraphs(program)
    yield '.TH POSTROOM 1 "" "Postroom" "User Commands"'
    yield from (".SH NAME", f"postroom \\- {_text(summary.removeprefix('Postroom: ').rstrip('.'))}")
    yield from (".SH SYNOPSIS", ".B postroom", ".RI [ OPTIONS ]", ".I COMMAND", ".RI [ ARGUMENTS ]")
    yield from (".SH DESCRIPTION", _text(about))
    yield from (".SH OPTIONS", *_options(program, context))
    yield ".SH COMMANDS"
    yield from _commands(program, context)
    yield from (".SH SETTINGS", _text(_SETTINGS_TOLD))
    for setting in SETTINGS:
        yield from (
            ".TP",
            f"\\fB{_text(setting.name)}\\fR ({_text(readable(setting.default, setting.kind.unit))})",
        )
        yield _text(f"{setting.reason} Takes {setting.kind.accepts}.")
    yield ".SH ENVIRONMENT"
    for name in sorted(CLIENT_VARIABLES):
        yield from (".TP", f"\\fB{ENVIRONMENT_PREFIX}{name}\\fR", _text(_CLIENT[name]))
    yield from (
        ".TP",
        f"\\fB{ENVIRONMENT_PREFIX}\\fR\\fISETTING\\fR",
        "The settings of the server, as above.",
    )
    yield from (".SH EXIT STATUS", _text(exits.removeprefix("Exit codes: ")[:1].upper() + exits[13:]))
    yield from (".SH FILES", ".TP", ".I postroom\\-data")
    yield "The data directory, where none is configured: database, lock, life and reserve file."


_SETTINGS_TOLD = (
    "Each with its default. In the TOML file of --config the name is in lower case, as a flag of `serve` with dashes, "
    "in the environment with `POSTROOM_` before it; the later of the three wins. Secrets have no flag."
)


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name, command in group.commands.items():
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        elif not command.hidden:
            yield f'.SS "{_text(" ".join(inner.command_path.split()))} {_text(_usage(command, inner))}"'
            first, *others = _paragraphs(command)
            yield _text(first)
            for paragraph in others:
                yield from (".PP", _text(paragraph))
            yield from _options(command, inner)


def _usage(command: click.Command, context: click.Context) -> str:
    return " ".join(command.collect_usage_pieces(context))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    has_all = sum(option.name in _SETTING_KEYS for option in options) >= _MANY
    for option in options:
        record = option.get_help_record(context)
        if record is not None and not (has_all and option.name in _SETTING_KEYS):
            yield from (".TP", f"\\fB{_text(record[0])}\\fR", _text(" ".join(record[1].split())))
    if has_all:
        yield from (
            ".TP",
            "\\fB\\-\\-\\fR\\fISETTING\\fR \\fIVALUE\\fR",
            "One flag for each setting, as told below.",
        )


def _paragraphs(command: click.Command) -> list[str]:
    return [" ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n")]


def _text(text: str) -> str:
    """Return text with everything escaped that is more than itself there; what stands in backticks is bold."""
    shown = re.sub(r"`([^`]+)`", "\x00\\1\x01", text)
    escaped = "".join(_SPECIAL.get(c, c if c.isascii() else f"\\[u{ord(c):04X}]") for c in shown)
    line = escaped.replace("\x00", "\\fB").replace("\x01", "\\fR").replace('"', "\\(dq")
    return f"\\&{line}" if line.startswith(".") else line  # a dot in front would make it a command


if __name__ == "__main__":
    sys.stdout.write(page())
