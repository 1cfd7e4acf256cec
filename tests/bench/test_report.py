"""The statistics of the benchmarks, the form of what they report, and the load client's reading of answers."""

import hashlib
import hmac
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.client import WrongAnswer, whole_body
from tests.bench.details import results_of, write
from tests.bench.figures import Figure, compare, quantile
from tests.bench.machine import disk_directory, file_system
from tests.bench.report import all_met, as_json, as_table, doubtful
from tests.bench.signed import BODY_BYTES, Deliveries, body_of, request

MEMBERS = ["name", "ratio", "baseline", "median", "spread", "goal", "met"]


def rate(own: list[float], base: list[float], goal: float | None = 1.0) -> Figure:
    return compare("ingest.rate", own, "bare", base, unit="/s", better="higher", goal=goal)


@pytest.mark.parametrize(
    ("values", "fraction", "expected"),
    [
        ([3.0], 0.5, 3.0),
        ([4.0, 1.0, 3.0], 0.5, 3.0),
        ([1.0, 2.0], 0.5, 1.5),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.25, 2.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.99, 4.96),
        ([1.0, 2.0], 1.0, 2.0),
        ([1.0, 2.0], 0.0, 1.0),
    ],
)
def test_a_quantile_is_interpolated(values: list[float], fraction: float, expected: float) -> None:
    assert quantile(values, fraction) == pytest.approx(expected)


def test_a_quantile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_rounds_are_compared_with_their_own_neighbours() -> None:
    # The machine halves its speed in the third round: the ratio does not notice, a ratio of medians would.
    figure = rate([1100.0, 1300.0, 600.0], [1000.0, 1000.0, 500.0])
    assert figure.ratio == pytest.approx(1.2)
    assert figure.median == pytest.approx(1100.0)


def test_the_spread_is_the_distance_between_the_quartiles_of_the_ratios() -> None:
    figure = rate([1.0, 2.0, 3.0, 4.0, 50.0], [1.0] * 5)
    assert figure.spread == pytest.approx(2.0)


def test_a_rate_meets_its_goal_from_below_and_a_latency_from_above() -> None:
    assert rate([1.0], [1.0]).met is True
    assert rate([0.99], [1.0]).met is False
    at_most = compare("p99", [1.5], "bare", [1.0], unit="ms", better="lower", goal=1.5)
    assert at_most.met is True
    assert compare("p99", [1.6], "bare", [1.0], unit="ms", better="lower", goal=1.5).met is False


def test_a_figure_without_a_goal_is_neither_met_nor_missed() -> None:
    figure = rate([0.1], [1.0], goal=None)
    assert figure.met is None
    assert all_met([figure])
    assert not all_met([figure, rate([0.5], [1.0])])


@pytest.mark.parametrize(("own", "base"), [([], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0])])
def test_series_that_cannot_be_compared_are_refused(own: list[float], base: list[float]) -> None:
    with pytest.raises(ValueError, match=r"ingest\.rate"):
        rate(own, base)


def test_the_file_is_a_list_of_the_seven_members(tmp_path: Path) -> None:
    path = tmp_path / "bench-results.json"
    write(results_of([rate([1.25], [1.0]), rate([1.0], [3.0], goal=None)], [], {}, []), path)
    first, second = json.loads(path.read_text(encoding="utf-8"))
    assert list(first) == list(second) == MEMBERS
    assert first == {
        "name": "ingest.rate",
        "ratio": 1.25,
        "baseline": "bare",
        "median": 1.25,
        "spread": 0.0,
        "goal": 1.0,
        "met": True,
    }
    assert (second["ratio"], second["goal"], second["met"]) == (0.3333, None, None)


def test_a_goal_whose_rounds_disagree_is_doubtful() -> None:
    wide = [1.0, 1.5, 2.0]
    assert doubtful([rate(wide, [1.0] * 3), rate(wide, [1.0] * 3)]) == ["ingest.rate"]
    assert doubtful([rate([1.0, 1.1, 1.2], [1.0] * 3), rate(wide, [1.0] * 3, goal=None)]) == []


def test_no_figures_are_an_empty_list() -> None:
    assert json.loads(as_json([])) == []


def test_the_table_names_figure_baseline_goal_and_verdict() -> None:
    console = Console(width=160, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as capture:
        console.print(as_table([rate([1234.0], [1000.0]), rate([1.0], [2.0])]))
    shown = capture.get()
    assert "1,234 /s" in shown
    assert "1.23 ×" in shown
    assert "≥ 1 ×" in shown
    assert "yes" in shown
    assert "no" in shown


def test_an_answer_is_whole_when_its_length_has_come() -> None:
    answer = b'HTTP/1.1 200 \r\nContent-Length: 9\r\ndate: x\r\n\r\n{"seq":1}'
    for cut in range(len(answer)):
        assert whole_body(answer[:cut]) is None
    assert whole_body(answer) == b'{"seq":1}'


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 503 \r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 \r\ncontent-length: 1\r\n\r\nab",
    ],
)
def test_any_other_answer_ends_the_measurement(answer: bytes) -> None:
    with pytest.raises(WrongAnswer):
        whole_body(answer)


def test_deliveries_are_signed_distinct_and_of_one_size() -> None:
    wanted = Deliveries(8025, "bench", "secret", "round-1", 3)
    sent = [request(wanted, number) for number in (0, 1, 99_999)]
    assert len(set(sent)) == 3
    for number, raw in zip((0, 1, 99_999), sent, strict=True):
        head, _, body = raw.partition(b"\r\n\r\n")
        assert body == body_of(number)
        assert len(body) == BODY_BYTES
        assert json.loads(body)["number"] == number
        digest = hmac.new(b"secret", body, hashlib.sha256).hexdigest()
        assert f"X-Hub-Signature-256: sha256={digest}".encode() in head
        assert f"X-GitHub-Delivery: round-1-{number:08d}".encode() in head


def test_data_goes_where_it_was_asked_for(tmp_path: Path) -> None:
    assert disk_directory(tmp_path) == tmp_path
    assert file_system(tmp_path)
