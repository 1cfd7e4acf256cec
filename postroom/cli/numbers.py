"""Numbers that options take, where click's own types take too much."""

from typing import Any

import click


class Share(click.ParamType[float]):
    """A number from 0 to 1. (`click.FloatRange` lets `nan` pass, which no comparison refuses.)"""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Fails with a sentence."""
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1:
            self.fail(f"{value!r} is no number from 0 to 1.", param, ctx)
        return number
