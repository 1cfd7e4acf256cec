"""`python -m tests.bench.page`: write the figures of `docs/performance.md`, with their plots, from a run's results.

The page is text by people down to its heading "Figures"; what is below is made from `docs/bench-results.json` and
`docs/bench-details.json`, which a run leaves (`make bench ARGS="--output docs/bench-results.json"`). So are the plots.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import click
import msgspec

from tests.bench.details import Details, Record, Results, Shown, read
from tests.bench.report import short
from tests.bench.svg import Axis, Line, chart

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "performance.md"
RESULTS = DOCS / "bench-results.json"
HEADING = "\n## Figures\n"
IMAGES = "img"


class Plot(msgspec.Struct, frozen=True):
    """One chart of the page."""

    title: str
    x: Axis
    y: Axis


PLOTS = {
    "ingest-latency": Plot("Latency of ingest at 32 connections", Axis("percentile"), Axis("ms", log=True)),
    "wakeup-latency": Plot("From POST to message", Axis("percentile"), Axis("ms", log=True)),
    "pages-size": Plot(
        "A page of 20 messages, by the size of its inbox", Axis("messages", log=True), Axis("ms, p50")
    ),
    "waits-memory": Plot("Memory of open waits", Axis("waits"), Axis("MiB")),
}


def page(text: str, results: Results) -> str:
    """Return the page with the figures of these results in the place of the old ones. Raises `ValueError`."""
    above, heading, _ = text.partition(HEADING)
    if not heading:
        raise ValueError('there is no heading "Figures"')
    return above + heading + "\n" + figures(results)


def figures(results: Results) -> str:
    """Return everything below the heading."""
    records, details = results
    parts = [
        "<!-- made by `make bench-page` from bench-results.json and bench-details.json: not to be edited -->",
        "\n".join(f"- {line}" for line in details.machine),
        table(records, {one.name: one for one in details.shown}),
        *(f"![{PLOTS[name].title}]({IMAGES}/{file_name(name)})" for name in drawn(details)),
    ]
    said = "\n".join(line for notes in details.notes.values() for line in notes)
    if said:
        parts += ["### What the run said", f"```text\n{said}\n```"]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(records: Sequence[Record], shown: Mapping[str, Shown]) -> str:
    """Return the figures as a table."""
    lines = [
        "| figure | median | against | ratio | spread | goal | met |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        how = shown[record.name]
        sign = "≥" if how.better == "higher" else "≤"
        goal = "–" if record.goal is None else f"{sign} {record.goal:g}"
        met = {None: "–", True: "yes", False: "**no**"}[record.met]
        lines.append(
            f"| {record.name} | {short(record.median)} {how.unit} | {record.baseline} | {record.ratio:.2f}"
            f" | {record.spread:.2f} | {goal} | {met} |"
        )
    return "\n".join(lines)


def drawn(details: Details) -> list[str]:
    """Return the names of the plots for which there are lines, in the order of the page."""
    there = {series.plot for series in details.series}
    return [name for name in PLOTS if name in there]


def file_name(plot: str) -> str:
    """Return the name of a plot's file."""
    return f"bench-{plot}.svg"


def charts(details: Details) -> dict[str, str]:
    """Return the text of each plot's file by its name."""
    found = {}
    for name, series in groupby(sorted(details.series, key=lambda one: one.plot), lambda one: one.plot):
        plot = PLOTS[name]
        lines = [Line(one.line, one.points) for one in series]
        found[file_name(name)] = chart(plot.title, plot.x, plot.y, lines)
    return found


@click.command()
def main() -> None:
    """Write the figures of docs/performance.md, and their plots, from docs/bench-results.json."""
    results = read(RESULTS)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    for name, text in charts(results[1]).items():
        (DOCS / IMAGES / name).write_text(text, encoding="utf-8")
    click.echo(f"{PAGE} has the figures of {RESULTS}.")


if __name__ == "__main__":
    main()
