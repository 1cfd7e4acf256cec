"""Every case runs to its end against the real server: in small, for its course and its checks, not for its figures."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.cases import CASES
from tests.bench.cases.pages import WAYS
from tests.bench.harness import Bench, Effort

SMALL = Effort(
    rounds=1,
    requests=200,
    long_rounds=1,
    waits=200,
    streams=100,
    idle_seconds=0.1,
    crowd=100,
    large_inbox=20_000,
    huge_inbox=20_000,
    logged=500,
    inboxes=50,
    passive_inboxes=200,
)

PERHAPS_NOTHING = {"waits.idle_cpu", "streams.idle_cpu", "inboxes.memory", "inboxes.passive"}
"""In small, these may be zero, and differences between two processes below it."""

LONG = {"pages", "inboxes", "waits", "mcp", "fanout", "wakeup", "mesh", "sse"}
"""From 5 to 15 s each."""

FIGURES = {
    "ingest": {"ingest.rate", "ingest.p50", "ingest.p99", "ingest.cpu"},
    "log": {"log.after", "log.peak"},
    "inboxes": {"inboxes.rate", "inboxes.cpu", "inboxes.memory", "inboxes.passive"},
    "signing": {"signing.hmac", "signing.ed25519", "signing.ecdsa"},
    "waits": {
        "waits.memory",
        "streams.memory",
        "waits.idle_cpu",
        "streams.idle_cpu",
        "waits.longest_stop",
        "waits.back",
        "waits.descriptors_back",
    },
    "wakeup": {"wakeup.p50", "wakeup.p99"},
    "fanout": {"fanout.sender", "fanout.others", "fanout.each_wait"},
    "sse": {"sse.deliveries", "sse.sender"},
    "pages": {"pages.start", *(f"pages.{way}" for way in WAYS)},
    "mcp": {"mcp.calls", "mcp.calls_further_back"},
    "matching": {"matching.p50", "matching.growth", "matching.precision", "matching.recall"},
    "drain": {"drain.p50", "drain.p99"},
    "router": {"router.few", "router.crowd", "router.cold"},
    "mesh": {"mesh.sends", "mesh.sends_p99", "mesh.sends_cpu", "mesh.broadcast"},
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_runs_to_its_end_and_gives_its_figures(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if name in LONG and not request.config.getoption("--every-case"):
        pytest.skip("takes long also in small; make soak and make bench-quick run it")
    screen = io.StringIO()
    figures = CASES[name](Bench(SMALL, tmp_path, Console(file=screen, width=200)))
    assert {figure.name for figure in figures} == FIGURES[name], screen.getvalue()
    assert all(figure.median > 0 for figure in figures if figure.name not in PERHAPS_NOTHING)
