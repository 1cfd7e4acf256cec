"""The kinds of time limits that commands take. Click's own ranges let NaN through, and name themselves badly."""

import math
import re
from typing import Any

import click

LONGEST_WAIT_SECONDS = 1_000_000_000
"""Some 30 years, for whoever means "for ever"; more would not fit into a clock's arithmetic."""
LONGEST_ANSWER_SECONDS = 86_400
"""A day for one answer: sockets and timers take it on every system."""

_SPAN = re.compile(r"([0-9]{1,18})([smhdw])")
_SPAN_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def span_seconds(text: str) -> int | None:
    """Return the seconds of `90s`, `30m`, `12h`, `30d` or `8w`, None for any other text."""
    span = _SPAN.fullmatch(text)
    return None if span is None else int(span[1]) * _SPAN_SECONDS[span[2]]


class Span(click.ParamType[Any]):
    """How long something lives: a span, or a plain number of seconds. At least one second."""

    name = "span such as 30m, 12h or 30d"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return whole seconds."""
        text = str(value)
        seconds = span_seconds(f"{text}s" if text.isdecimal() else text)
        if not seconds or seconds > LONGEST_WAIT_SECONDS:
            self.fail(f"{text!r} is not a {self.name}.", param, ctx)
        return seconds


class WholeSeconds(click.IntRange):
    """A number of whole seconds, 0 too: what the server's own parameter takes."""

    name = "number of whole seconds"

    def __init__(self) -> None:
        super().__init__(min=0, max=LONGEST_WAIT_SECONDS)


class AnswerSeconds(click.FloatRange):
    """How long an answer may take, in seconds with fractions."""

    name = "number of seconds"

    def __init__(self) -> None:
        super().__init__(min=0.1, max=LONGEST_ANSWER_SECONDS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; NaN, which is in no range and outside none, is refused."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return number
