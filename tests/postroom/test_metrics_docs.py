"""`docs/operations.md` has the table of metrics that the server has; the dashboard and the alerts ask for no other."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from postroom.config import load
from web.metrics.families import FAMILIES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operations.md").read_text()
DASHBOARD = json.loads((DOCS / "grafana.json").read_text())
BLOCK = re.compile(r"<!-- metrics -->\n(.*)<!-- /metrics -->", re.S)

OF_THE_PROCESS = {
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
    "python_gc_collections_total",
}
"""What prometheus-client itself gives, as far as it is asked for; tests/live/test_metrics.py sees that it is there."""

NAME = re.compile(r"\b(?:postroom|process|python)_[a-z_]+")
LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"")
BY = re.compile(r"\bby\s*\(([^)]*)\)")
OF_EVERY_SCRAPE = {"job", "instance", "le"}


def metrics_table() -> str:
    """Return the table as the page must have it; to renew the page, paste what this returns."""
    lines = ["| metric | type | labels | what it is |", "|---|---|---|---|"]
    lines += [
        f"| `{family.published_name}` | {family.kind} | "
        f"{', '.join(f'`{label}`' for label in family.labels) or '–'} | {family.help} |"
        for family in FAMILIES
    ]
    return "\n".join(lines) + "\n"


def samples() -> dict[str, set[str]]:
    """Return every name that a query may have, with the labels of its values."""
    known: dict[str, set[str]] = {name: {"generation"} for name in OF_THE_PROCESS}
    for family in FAMILIES:
        parts = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
        known |= {family.published_name + part: set(family.labels) for part in parts}
    return known


def panels(of: Any = DASHBOARD) -> Iterator[Any]:
    for panel in of["panels"]:
        yield panel
        if "panels" in panel:
            yield from panels(panel)


def queries() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def alerts() -> list[str]:
    table = PAGE[PAGE.index("| expression | what is the matter |") :].split("\n\n")[0]
    return [cell.replace("\\|", "|") for cell in re.findall(r"^\| `(.+?)` \|", table, re.M)]


def test_the_page_has_the_table_of_metrics() -> None:
    block = BLOCK.search(PAGE)
    assert block is not None
    assert block[1] == metrics_table()


@pytest.mark.parametrize("query", [*queries(), *alerts()])
def test_a_query_asks_only_for_metrics_and_labels_that_there_are(query: str) -> None:
    known = samples()
    named = set(NAME.findall(query))
    assert named
    assert named <= set(known)
    labels = OF_EVERY_SCRAPE.union(*(known[name] for name in named))
    assert set(LABEL.findall(query)) <= labels
    grouped = {label.strip() for group in BY.findall(query) for label in group.split(",")}
    assert grouped <= labels


def test_prometheus_is_shown_where_a_server_has_its_metrics() -> None:
    [text] = re.findall(r"<!-- prometheus -->\n```yaml\n(.*?)```", PAGE, re.S)
    [job] = yaml.safe_load(text)["scrape_configs"]
    assert job["static_configs"] == [{"targets": [str(load().bind)]}]
    assert job["authorization"].keys() == {"credentials_file"}  # a bearer token is its default


def test_the_page_has_alerts() -> None:
    assert len(alerts()) > 5


def test_the_dashboard_shows_every_metric() -> None:
    asked = {name for query in queries() for name in NAME.findall(query)}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    assert {family.published_name for family in FAMILIES} - shown == set()


def test_the_panels_do_not_overlap_and_say_what_they_are() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["title"]
            assert panel["description"]
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert panel["datasource"]["uid"] == "${datasource}"


def test_the_dashboard_needs_nothing_but_a_data_source_for_prometheus() -> None:
    text = json.dumps(DASHBOARD)
    assert {panel["type"] for panel in panels()} <= {"row", "timeseries", "stat", "table"}
    assert "http" not in text
    assert DASHBOARD["uid"] == "postroom"
