"""The options of an inbox's settings, shared by `inbox create` and `inbox set`, and their JSON."""

import functools
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from postroom.cli.presets import Preset
from postroom.cli.program import EXIT_USAGE, Failure
from postroom.parsing import NOTHING, TIB, size

R = TypeVar("R")

_SIZE = size(1, 1024 * TIB)
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")


class Whole(click.ParamType[Any]):
    """A whole number from 0, or `none` for without limit."""

    name = "N|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return an int, or the word `none` itself (None would mean that the option was not given)."""
        if value == NOTHING or isinstance(value, int):
            return value
        if not (value.isascii() and value.isdigit()):
            self.fail(f"{value!r} is not a whole number or {NOTHING}.", param, ctx)
        return int(value)


class Size(click.ParamType[Any]):
    """A size in bytes or with KiB, MiB, GiB; or `none` for without limit."""

    name = "SIZE|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return an int, or the word `none` itself."""
        if value == NOTHING:
            return value
        try:
            return _SIZE.parse(value)
        except ValueError as error:
            self.fail(f"it {error}.", param, ctx)


# Flag, place in the JSON body, keywords of the click option.
_OPTIONS: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    ("--name", ("name",), {"help": "A name for people."}),
    (
        "--verifier",
        ("verifier",),
        {"type": Preset(), "help": "Who sends, and so how it is verified; `postroom verifiers` lists them."},
    ),
    (
        "--on-unverified",
        ("on_unverified",),
        {
            "type": click.Choice(["store", "reject"]),
            "help": "What happens to messages whose signature fails.",
        },
    ),
    (
        "--dedupe-window-seconds",
        ("dedupe_window_seconds",),
        {
            "type": click.IntRange(min=0),
            "metavar": "N",
            "help": "How long delivery ids are remembered; 0 is off.",
        },
    ),
    (
        "--max-age-seconds",
        ("retention", "max_age_seconds"),
        {"type": Whole(), "help": "Keep messages this long."},
    ),
    ("--max-messages", ("retention", "max_messages"), {"type": Whole(), "help": "Keep this many messages."}),
    ("--max-bytes", ("retention", "max_bytes"), {"type": Size(), "help": "Keep this much of bodies."}),
    (
        "--when-full",
        ("retention", "policy"),
        {"type": click.Choice(["drop_oldest", "refuse"]), "help": "What happens at those limits."},
    ),
    (
        "--rate-per-minute",
        ("rate_per_minute",),
        {"type": Whole(), "help": "Accept this many messages a minute."},
    ),
    ("--max-body-bytes", ("max_body_bytes",), {"type": Size(), "help": "Accept bodies up to this size."}),
    ("--signed-url", ("signed_url",), {"metavar": "URL|none", "help": "The URL that the provider signs."}),
    (
        "--search/--no-search",
        ("search",),
        {"default": None, "help": "Index what messages say, for `postroom search`."},
    ),
    (
        "--response-status",
        ("response", "status"),
        {
            "type": click.IntRange(200, 299),
            "metavar": "N",
            "help": "Status of this inbox's own answer to senders.",
        },
    ),
    (
        "--response-type",
        ("response", "content_type"),
        {"metavar": "TYPE", "help": "Content type of that answer."},
    ),
    ("--response-body", ("response", "body"), {"metavar": "TEXT", "help": "Body of that answer."}),
)
_PLACES = {flag[2:].partition("/")[0].replace("-", "_"): place for flag, place, _ in _OPTIONS}


def settings_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options and pass `changes`, the part of a create or merge-patch body that they make."""

    @functools.wraps(command)
    def wrapped(
        *args: Any, verifier_options: tuple[str, ...], response_headers: tuple[str, ...], **kwargs: Any
    ) -> R:
        changes: dict[str, Any] = {}
        for name, place in _PLACES.items():
            value = kwargs.pop(name)
            if value is not None:
                _put(changes, place, None if value == NOTHING and name != "verifier" else value)
        if verifier_options:
            changes["verifier_options"] = named_values("--verifier-option", verifier_options)
        if response_headers:
            fields = [header_field("--response-header", line) for line in response_headers]
            _put(changes, ("response", "headers"), unique_fields("--response-header", fields))
        return command(*args, changes=changes, **kwargs)

    decorated: Callable[..., R] = wrapped
    help_text = "An option of the verifier; VALUE is JSON, or text. May be repeated."
    decorated = click.option(
        "--verifier-option", "verifier_options", multiple=True, metavar="NAME=VALUE", help=help_text
    )(decorated)
    decorated = click.option(
        "--response-header",
        "response_headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="A header of that answer; may be repeated.",
    )(decorated)
    for flag, _, keywords in reversed(_OPTIONS):
        decorated = click.option(flag, **keywords)(decorated)
    return decorated


def named_values(option: str, pairs: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of an option that takes NAME=VALUE. Raises `Failure`."""
    values = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise Failure(f"{option} takes NAME=VALUE, not {pair!r}.", EXIT_USAGE)
        values[name] = _json_or_text(text)
    return values


def header_field(option: str, text: str) -> tuple[str, str]:
    """Return name and value of an option that takes a header's line. Raises `Failure`."""
    match = _HEADER.fullmatch(text)
    if match is None:
        raise Failure(f"{option} takes 'NAME: VALUE', not {text!r}.", EXIT_USAGE)
    return match[1], match[2]


def unique_fields(option: str, fields: list[tuple[str, str]]) -> dict[str, str]:
    """Return header fields by name. Raises `Failure` for a name that the option gives twice."""
    names = [name.lower() for name, _ in fields]
    for name, _ in fields:
        if names.count(name.lower()) > 1:
            raise Failure(f"{option} gives {name} twice.", EXIT_USAGE)
    return dict(fields)


def _put(target: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for name in place[:-1]:
        target = target.setdefault(name, {})
    target[place[-1]] = value


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
