"""The harness with real processes: servers start, are loaded, and are gone afterwards, also when things fail."""

import io
import json
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped]  # it ships no type information
import pytest
from rich.console import Console

from tests.bench.harness import QUICK, Bench, LoadFailed, load
from tests.bench.processes import ServerFailed, running
from tests.bench.signed import Deliveries

BARE_ASGI = ("-m", "tests.bench.servers.bare_asgi")


def deliveries(port: int, count: int) -> Deliveries:
    return Deliveries(port, "bench", "secret", "test", count)


def test_every_request_of_a_load_is_answered_once(tmp_path: Path) -> None:
    with running("bare-asgi", BARE_ASGI, tmp_path) as server:
        exchange = load(deliveries(server.port, 100), connections=8)
        assert server.cpu_seconds() > 0
    seqs = [json.loads(answer)["seq"] for answer in exchange.answers]
    assert sorted(seqs) == list(range(1, 101))
    assert exchange.clocked == 92
    assert 0 < exchange.p50_ms <= exchange.p99_ms


def test_a_server_is_gone_when_its_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), running("bare-asgi", BARE_ASGI, tmp_path) as server:
        raise KeyboardInterrupt
    assert not psutil.pid_exists(server.pid)


def test_a_server_that_does_not_start_is_reported_with_its_own_words(tmp_path: Path) -> None:
    program = ("-c", "raise SystemExit('no such luck')")
    with pytest.raises(ServerFailed, match="no such luck"), running("broken", program, tmp_path):
        pass


def test_a_server_that_refuses_ends_the_load_with_its_answer(tmp_path: Path) -> None:
    program = (
        "-c",
        "import http.server as h; s = h.ThreadingHTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler);"
        "print(f'http://127.0.0.1:{s.server_port}', flush=True); s.serve_forever()",
    )
    with running("refusing", program, tmp_path) as server, pytest.raises(LoadFailed, match=r"not a 200.*501"):
        load(deliveries(server.port, 10), connections=1)


def test_settings_of_the_surroundings_do_not_reach_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTROOM_BIND", "0.0.0.0:1")
    program = ("-c", "import os; raise SystemExit(str('POSTROOM_BIND' in os.environ))")
    with pytest.raises(ServerFailed, match="False"), running("curious", program, tmp_path):
        pass


def test_contenders_take_turns_and_the_first_round_is_not_counted(tmp_path: Path) -> None:
    called: list[str] = []

    def measure(name: str, number: int) -> str:
        called.append(f"{name}{number}")
        return called[-1]

    bench = Bench(msgspec.structs.replace(QUICK, rounds=2), tmp_path, Console(file=io.StringIO()))
    measured = bench.rounds("turns", {"a": lambda n: measure("a", n), "b": lambda n: measure("b", n)})
    assert called == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert measured == {"a": ["a1", "a2"], "b": ["b1", "b2"]}
