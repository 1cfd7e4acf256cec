"""How figures are told: a table on the screen and `bench-results.json`.

The file is a JSON list of `{name, ratio, baseline, median, spread, goal, met}`; `goal` and `met` are null for
figures that only inform.
"""

from collections.abc import Sequence

from rich.table import Table

from tests.bench.details import json_lines
from tests.bench.figures import Figure

BELIEVED_SPREAD = 0.2
"""As a share of the goal; rounds that scatter wider than this could hide or invent the distance to it."""


def as_json(figures: Sequence[Figure]) -> str:
    """Return the figures as the JSON text of `bench-results.json`, one figure a line."""
    return json_lines(figure.as_record() for figure in figures)


def all_met(figures: Sequence[Figure]) -> bool:
    """Return whether no goal was missed."""
    return all(figure.met is not False for figure in figures)


def doubtful(figures: Sequence[Figure]) -> list[str]:
    """Return the names of figures with a goal whose rounds disagree too much to be believed, each once."""
    wide = (
        figure.name
        for figure in figures
        if figure.goal is not None and figure.spread > BELIEVED_SPREAD * figure.goal
    )
    return list(dict.fromkeys(wide))


def as_table(figures: Sequence[Figure]) -> Table:
    """Return the figures as a table."""
    table = Table(title="Postroom, as ratios within this run")
    table.add_column("figure", overflow="fold")
    table.add_column("median", justify="right")
    table.add_column("against")
    table.add_column("ratio", justify="right")
    table.add_column("spread", justify="right")
    table.add_column("goal", justify="right")
    table.add_column("met")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{short(figure.median)} {figure.unit}",
            figure.baseline,
            f"{figure.ratio:.2f} ×",
            f"{figure.spread:.2f}",
            _goal(figure),
            _verdict(figure),
        )
    return table


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return "–"
    return f"{'≥' if figure.better == 'higher' else '≤'} {figure.goal:g} ×"


def _verdict(figure: Figure) -> str:
    if figure.met is None:
        return "–"
    return "[green]yes[/]" if figure.met else "[red]no[/]"


def short(value: float) -> str:
    """Return a number with three significant digits, thousands as whole numbers."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
