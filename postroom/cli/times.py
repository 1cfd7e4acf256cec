"""The kinds of time limits that commands take. Click's own ranges let NaN through, and name themselves badly."""

import math
from typing import Any

import click

LONGEST_WAIT_SECONDS = 1_000_000_000
"""Some 30 years, for whoever means "for ever"; more would not fit into a clock's arithmetic."""
LONGEST_ANSWER_SECONDS = 86_400
"""A day for one answer: sockets and timers take it on every system."""


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
