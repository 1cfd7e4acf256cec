"""`postroom health`: the exit code is the answer, the sentence says why."""

import json

import pytest

from postroom.cli.program import EXIT_LATER, EXIT_UNREACHABLE
from tests.postroom.conftest import run
from tests.postroom.scriptedserver import ScriptedServer, answer

UNREADY = "503 Service Unavailable"


def test_a_server_that_is_ready() -> None:
    with ScriptedServer(answer(b'{"ready":true,"store":"open"}')) as server:
        result = run("health", "--url", server.url)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "ready\n", "")
    [asked] = server.asked
    assert asked.target == "/readyz"
    assert "authorization" not in {name.lower() for name, _ in asked.headers}


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"ready": False, "store": "full", "reason": "no room"}, "not ready: the store is full (no room)."),
        ({"ready": False, "store": "open", "stopping": True}, "not ready: it is stopping."),
    ],
)
def test_a_server_that_is_not_ready_says_why(said: dict[str, object], sentence: str) -> None:
    with ScriptedServer(answer(json.dumps(said).encode(), status=UNREADY)) as server:
        result = run("health", "--url", server.url)
    assert (result.exit_code, result.stdout) == (EXIT_LATER, "")
    assert result.stderr == f"postroom: {sentence}\n"


def test_json_is_what_the_server_says_ready_or_not() -> None:
    said = {"ready": False, "store": "degraded", "reason": "\x1b[31m"}
    with ScriptedServer(answer(json.dumps(said).encode(), status=UNREADY)) as server:
        result = run("health", "--url", server.url, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (EXIT_LATER, said)
    assert "\x1b" not in result.output


@pytest.mark.parametrize(
    "answered", [answer(b"<html>", "text/html"), answer(b"{}"), answer(b'{"ready":true}', status="404 No")]
)
def test_another_server_is_none_of_ours(answered: bytes) -> None:
    with ScriptedServer(answered) as server:
        result = run("health", "--url", server.url)
    assert result.exit_code == EXIT_UNREACHABLE
    assert "not as a Postroom server does" in result.stderr


def test_nobody_answers() -> None:
    assert run("health", "--url", "http://127.0.0.1:1").exit_code == EXIT_UNREACHABLE
