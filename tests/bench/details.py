"""What belongs to a run's figures and is none of them: the machine, what the run said, units, the lines of the plots.

Written beside `bench-results.json`, whose seven members stay as they are, and read again for the page.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.bench.figures import Better, Figure


class Record(msgspec.Struct, frozen=True):
    """A figure as it is in `bench-results.json`."""

    name: str
    ratio: float
    baseline: str
    median: float
    spread: float
    goal: float | None
    met: bool | None


class Shown(msgspec.Struct, frozen=True):
    """How a figure is written: the unit of its median, and which direction is better."""

    name: str
    unit: str
    better: Better


class Series(msgspec.Struct, frozen=True):
    """One line of one plot, its points in the order of x."""

    plot: str
    line: str
    points: list[tuple[float, float]]


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """What a run says besides its figures. `machine`: lines that describe it; `notes`: what each case said."""

    machine: list[str] = []
    notes: dict[str, list[str]] = {}
    shown: list[Shown] = []
    series: list[Series] = []


Results = tuple[Sequence[Record], Details]


def results_of(
    figures: Sequence[Figure],
    machine: Sequence[str],
    notes: Mapping[str, list[str]],
    series: Sequence[Series],
) -> Results:
    """Return what a run has to say, the points of its plots with four significant digits: more are noise."""
    shown = {figure.name: Shown(figure.name, figure.unit, figure.better) for figure in figures}
    records = [msgspec.convert(figure.as_record(), Record) for figure in figures]
    details = Details(
        machine=list(machine),
        notes=dict(notes),
        shown=list(shown.values()),
        series=[_rounded(one) for one in series],
    )
    return records, details


def details_path(results: Path) -> Path:
    """Return where the details of these results are: `bench-details.json` for `bench-results.json`."""
    return results.with_name(results.stem.removesuffix("-results") + "-details.json")


def read(path: Path) -> Results:
    """Read results with their details. Raises `OSError`, `msgspec.DecodeError`."""
    records = msgspec.json.decode(path.read_bytes(), type=list[Record])
    return records, msgspec.json.decode(details_path(path).read_bytes(), type=Details)


def write(results: Results, path: Path) -> None:
    """Write both files, each figure and each line of a plot as one line."""
    records, details = results
    path.write_text(json_lines(records), encoding="utf-8")
    members = [
        f'"machine": {json_lines(details.machine).rstrip()}',
        f'"notes": {json.dumps(details.notes, ensure_ascii=False, indent=1)}',
        f'"shown": {json_lines(details.shown).rstrip()}',
        f'"series": {json_lines(details.series).rstrip()}',
    ]
    details_path(path).write_text("{" + ",\n".join(members) + "}\n", encoding="utf-8")


def merged(old: Results, new: Results) -> Results:
    """Return earlier results with those of a later run in the place of figures, notes and plots of the same names.

    The machine is that of the later run; figures that are new come last.
    """
    (old_records, before), (new_records, after) = old, new
    names = {record.name for record in new_records}
    placed: set[str] = set()
    records: list[Record] = []
    for record in old_records:
        if record.name not in names:
            records.append(record)
        elif record.name not in placed:
            placed.add(record.name)
            records += [one for one in new_records if one.name == record.name]
    records += [record for record in new_records if record.name not in placed]
    shown = {one.name: one for one in (*before.shown, *after.shown)}
    plots = {one.plot for one in after.series}
    details = Details(
        machine=after.machine,
        notes={**before.notes, **after.notes},
        shown=list(shown.values()),
        series=[one for one in before.series if one.plot not in plots] + after.series,
    )
    return records, details


def json_lines(items: Iterable[object]) -> str:
    """Return a JSON list, an item a line."""
    lines = ",\n".join("  " + json.dumps(msgspec.to_builtins(item), ensure_ascii=False) for item in items)
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def _rounded(series: Series) -> Series:
    points = [(float(f"{x:.4g}"), float(f"{y:.4g}")) for x, y in series.points]
    return msgspec.structs.replace(series, points=points)
