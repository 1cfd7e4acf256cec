"""A real scrape of a real server, as Prometheus makes it: complete, well-formed, for admins or on its own port."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from tests.live.api import CALL_SECONDS, Api, error_of
from tests.live.harness import Server
from tests.postroom.test_metrics_docs import OF_THE_PROCESS
from web.metrics.families import FAMILIES

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
"""About what Prometheus sends."""

_ADDRESS = re.compile(r"metrics ready\s.*address=(\S+)")


@pytest.fixture(scope="module")
def watched_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of one's own with a port for metrics: figures of a shared one move when they like."""
    with Server(tmp_path_factory.mktemp("metrics") / "data", metrics_bind="127.0.0.1:0") as server:
        yield server


@pytest.fixture(scope="module")
def watched(watched_server: Server) -> Iterator[Api]:
    with Api(watched_server.url, watched_server.token) as api:
        yield api


def own_port(server: Server) -> str:
    """Return the URL of the metrics on their own port."""
    found = _ADDRESS.search(server.output)
    assert found is not None, server.output
    return f"http://{found[1]}/metrics"


def scrape(api: Api, accept: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {api.token}", "Accept": accept}
    return httpx.get(f"{api.url}/metrics", headers=headers, timeout=CALL_SECONDS, trust_env=False)


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(api: Api, name: str, **labels: str) -> float:
    """Return one value, 0 when it is not there."""
    for family in families(scrape(api).text).values():
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return 0.0


def test_every_documented_metric_is_there_with_its_type_and_its_meaning(watched: Api) -> None:
    answer = scrape(watched)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = families(answer.text)
    for family in FAMILIES:
        name = f"postroom_{family.name}"
        assert (found[name].type, found[name].documentation) == (family.kind, family.help)
        for sample in found[name].samples:
            assert set(sample.labels) - {"le"} == set(family.labels)
    samples = {sample.name for one in found.values() for sample in one.samples}
    assert samples >= OF_THE_PROCESS
    assert {name for name in found if name.startswith("postroom_")} == {
        f"postroom_{f.name}" for f in FAMILIES
    }


def test_prometheus_gets_openmetrics_which_its_own_parser_takes(watched: Api) -> None:
    answer = scrape(watched, ACCEPT)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in open_metrics(answer.text)}
    assert names >= {f"postroom_{family.name}" for family in FAMILIES}


def test_a_histogram_s_buckets_rise_to_its_count(watched: Api) -> None:
    watched.send("demo")
    for family in families(scrape(watched).text).values():
        if family.type == "histogram":
            buckets = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
            [count] = [sample.value for sample in family.samples if sample.name.endswith("_count")]
            assert buckets == sorted(buckets)
            assert buckets[-1] == count, family.name


def test_figures_move_with_what_happens(watched: Api) -> None:
    slug = watched.github_inbox()
    moves = {
        ("postroom_ingest_requests_total", "stored"): 2,
        ("postroom_ingest_requests_total", "duplicate"): 1,
        ("postroom_ingest_requests_total", "not_found"): 1,
    }
    before = {key: value(watched, key[0], outcome=key[1]) for key in moves}
    commits = value(watched, "postroom_commit_seconds_count")
    watched.github(slug, delivery="one")
    watched.github(slug, delivery="one")
    watched.github(slug, secret="wrong")
    watched.post("no-such-inbox")
    watched.messages(slug)
    after = {key: value(watched, key[0], outcome=key[1]) for key in moves}
    assert {key: after[key] - before[key] for key in moves} == moves
    assert value(watched, "postroom_commit_seconds_count") >= commits + 2
    assert value(watched, "postroom_verifications_total", verifier="github", verdict="verified") == 2
    assert (
        value(watched, "postroom_verifications_total", verifier="github", verdict="signature mismatch") == 1
    )
    assert value(watched, "postroom_page_seconds_count") >= 1
    assert value(watched, "postroom_database_bytes") > 0


def test_only_an_administrator_reads_them_at_the_server_s_address(watched: Api) -> None:
    agent = watched.as_(watched.agent("all"))
    assert error_of(scrape(agent))[:2] == (403, "permission_denied")
    stranger = httpx.get(f"{watched.url}/metrics", timeout=CALL_SECONDS, trust_env=False)
    assert error_of(stranger)[:2] == (401, "unauthenticated")
    wrong = httpx.post(
        f"{watched.url}/metrics",
        headers={"Authorization": f"Bearer {watched.token}"},
        timeout=CALL_SECONDS,
        trust_env=False,
    )
    assert error_of(wrong)[:2] == (405, "method_not_allowed")


def test_a_port_of_their_own_has_them_without_a_token_and_has_nothing_else(
    watched_server: Server, watched: Api
) -> None:
    url = own_port(watched_server)
    with httpx.Client(timeout=CALL_SECONDS, trust_env=False) as client:
        answer = client.get(url)
        assert answer.status_code == 200
        assert set(families(answer.text)) == set(families(scrape(watched).text))
        assert (
            client.get(url, headers={"Accept": ACCEPT})
            .headers["content-type"]
            .startswith("application/openm")
        )
        head = client.head(url)
        assert (head.status_code, head.content) == (200, b"")
        for path in ("/", "/metrics/", "/healthz", "/v1/stats", "/in/demo", "/mcp", "/ui"):
            token = {"Authorization": f"Bearer {watched.token}"}
            refused = client.get(url.removesuffix("/metrics") + path, headers=token)
            assert error_of(refused)[:2] == (404, "not_found")
        refused = client.post(url, content=b"{}")
        assert error_of(refused)[:2] == (405, "method_not_allowed")
        assert refused.headers["allow"] == "GET, HEAD"
        ids = {one.headers["postroom-request-id"] for one in (answer, head, refused)}
        assert len(ids) == 3


def test_a_server_whose_metrics_are_scraped_ends_in_order(tmp_path: Path) -> None:
    with Server(tmp_path / "data", metrics_bind="127.0.0.1:0") as server:
        with httpx.Client(timeout=CALL_SECONDS, trust_env=False) as client:
            assert client.get(own_port(server)).status_code == 200
            assert server.stop() == 0
        assert "handlers were cancelled" not in server.output


def test_a_port_that_others_can_reach_is_warned_of(tmp_path: Path) -> None:
    with Server(tmp_path / "data", metrics_bind="0.0.0.0:0") as server:
        server.wait_for_output("metrics can be read from other machines, without a token")


def test_a_port_that_is_taken_stops_the_start_with_a_sentence(tmp_path: Path, server: Server) -> None:
    other = Server(tmp_path / "data", metrics_bind=f"127.0.0.1:{server.port}")
    with pytest.raises(AssertionError, match=r"in use by another program; choose --metrics-bind"):
        other.start()
