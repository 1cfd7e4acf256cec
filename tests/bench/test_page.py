"""What a run leaves on the disk, and the page and plots made of it: pure functions, and the committed files."""

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench.details import Details, Results, Series, details_path, merged, read, results_of, write
from tests.bench.figures import Figure, compare
from tests.bench.page import DOCS, IMAGES, PAGE, PLOTS, RESULTS, charts, figures, page
from tests.bench.svg import Axis, Line, chart, linear_ticks, log_ticks

SVG = "{http://www.w3.org/2000/svg}"
CURVE = Series("pages-size", "forward", [(10_000.0, 1.0), (1_000_000.0, 1.1)])
MEMORY = Series("waits-memory", "Postroom, waits", [(0.0, 0.0), (100.0, 2.5)])


def figure(name: str, ratio: float, baseline: str = "bare", goal: float | None = None) -> Figure:
    return compare(name, [ratio], baseline, [1.0], unit="ms", better="lower", goal=goal)


def run(
    *figures: Figure, machine: str = "a machine", case: str = "case", series: Sequence[Series] = ()
) -> Results:
    return results_of(figures, [machine], {case: [f"{case}: said"]}, series)


# -- results and details --------------------------------------------------------------------------------------
def test_results_and_details_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "bench-results.json"
    results = run(figure("a.p50", 2.0), figure("b.p50", 0.5, goal=1.0), series=[CURVE])
    write(results, path)
    assert read(path) == results
    assert details_path(path) == tmp_path / "bench-details.json"
    assert len(path.read_text().splitlines()) == 4


def test_points_are_kept_with_four_digits() -> None:
    _, details = run(figure("a", 1.0), series=[Series("pages-size", "x", [(1.23456, 98_765.4)])])
    assert details.series[0].points == [(1.235, 98_770.0)]


def test_a_later_run_takes_the_place_of_the_same_figures_and_leaves_the_others() -> None:
    old = run(
        figure("a", 1.0, "x"), figure("b", 2.0), figure("a", 1.5, "y"), series=[CURVE, MEMORY], case="old"
    )
    again = Series("pages-size", "backward", [(1.0, 1.0)])
    new = run(figure("a", 9.0, "x"), figure("c", 3.0), machine="another", series=[again], case="new")
    records, details = merged(old, new)
    assert [(record.name, record.ratio) for record in records] == [("a", 9.0), ("b", 2.0), ("c", 3.0)]
    assert details.machine == ["another"]
    assert set(details.notes) == {"old", "new"}
    assert {one.name for one in details.shown} == {"a", "b", "c"}
    assert details.series == [MEMORY, again]


# -- charts -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0, 0.35, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35]),
        (0, 101, [0, 20, 40, 60, 80, 100, 120]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1.0][:2]),
    ],
)
def test_linear_ticks_are_round_and_enclose_the_range(low: float, high: float, ticks: list[float]) -> None:
    assert linear_ticks(low, high) == ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.7, 9, [0.5, 1, 2, 5, 10]),
        (10_000, 10_000_000, [10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1e6, 2e6, 5e6, 1e7]),
        (1, 1, [1, 2]),
        (0.01, 2_000, [0.01, 0.1, 1, 10, 100, 1000, 10_000]),
    ],
)
def test_log_ticks_enclose_the_range(low: float, high: float, ticks: list[float]) -> None:
    found = log_ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    if low != high:
        assert found == ticks


def test_a_chart_has_a_line_for_each_series_inside_its_field() -> None:
    text = chart(
        "A <title> & more",
        Axis("x", log=True),
        Axis("y"),
        [Line("one", CURVE.points), Line("<two>", [(1, 1)])],
    )
    root = ElementTree.fromstring(text)  # noqa: S314 — our own text
    assert root.find(f"{SVG}title").text == "A <title> & more"  # type: ignore[union-attr]  # it is there or this fails
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == 2
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for line in lines:
        for point in line.get("points", "").split():
            across, down = map(float, point.split(","))
            assert 0 < across <= width
            assert 0 < down < height
    assert "&lt;two&gt;" in text


def test_a_higher_value_is_further_up_and_a_later_one_further_right() -> None:
    root = ElementTree.fromstring(chart("t", Axis("x"), Axis("y"), [Line("one", [(0, 1), (5, 9)])]))  # noqa: S314 — our own text
    line = root.find(f"{SVG}polyline")
    assert line is not None
    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in line.get("points", "").split())
    assert x1 > x0
    assert y1 < y0


def test_names_that_find_no_room_begin_a_row_of_their_own() -> None:
    lines = [Line(f"a line with quite a long name, {n}", [(0, 1), (1, 2)]) for n in range(9)]
    root = ElementTree.fromstring(chart("t", Axis("x"), Axis("y"), lines))  # noqa: S314 — our own text
    names = [text for text in root.findall(f"{SVG}text") if (text.text or "").startswith("a line")]
    assert len({(text.get("x"), text.get("y")) for text in names}) == 9
    assert all(float(text.get("x", 0)) + 200 < float(root.get("width", 0)) for text in names)
    dashed = [line for line in root.findall(f"{SVG}polyline") if line.get("stroke-dasharray")]
    assert len(dashed) == 2


@pytest.mark.parametrize("lines", [[], [Line("none", [])]])
def test_a_chart_of_nothing_is_refused(lines: list[Line]) -> None:
    with pytest.raises(ValueError, match="no points"):
        chart("t", Axis("x"), Axis("y"), lines)


def test_zero_has_no_place_on_a_log_axis() -> None:
    with pytest.raises(ValueError, match="no place on a log axis"):
        chart("t", Axis("x", log=True), Axis("y"), [Line("one", [(0, 1)])])


# -- the page ---------------------------------------------------------------------------------------------------
def test_the_page_keeps_what_is_above_the_figures_and_nothing_below() -> None:
    results = run(figure("a.p50", 2.0, goal=1.0), figure("b.p50", 0.5), series=[CURVE])
    made = page("# Performance\n\nText.\n\n## Figures\n\nold\n", results)
    assert made.startswith("# Performance\n\nText.\n\n## Figures\n\n<!-- made by")
    assert "old" not in made
    assert "- a machine\n" in made
    assert "| a.p50 | 2 ms | bare | 2.00 | 0.00 | ≤ 1 | **no** |" in made
    assert "| b.p50 | 0.5 ms | bare | 0.50 | 0.00 | – | – |" in made
    assert "(img/bench-pages-size.svg)" in made
    assert "waits-memory" not in made
    assert "```text\ncase: said\n```" in made
    assert page(made, results) == made


def test_a_page_without_its_heading_is_refused() -> None:
    with pytest.raises(ValueError, match="heading"):
        page("# Performance\n", ([], Details()))


def test_the_figures_of_the_documentation_are_those_of_its_results() -> None:
    results = read(RESULTS)
    assert PAGE.read_text(encoding="utf-8") == page(PAGE.read_text(encoding="utf-8"), results)
    for record in json.loads(RESULTS.read_text(encoding="utf-8")):
        assert f"| {record['name']} |" in figures(results)


def test_the_plots_of_the_documentation_are_those_of_its_results() -> None:
    made = charts(read(RESULTS)[1])
    kept = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / IMAGES).glob("bench-*.svg")}
    assert kept == made
    assert set(made) <= {f"bench-{name}.svg" for name in PLOTS}
