"""The gRPC port of a real server: the same answers as over REST, to a client that has only what reflection says."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.api import Api
from tests.live.harness import Server

CLIENT = Path(__file__).with_name("grpc_client.py")
CLIENT_SECONDS = 30.0
_READY = re.compile(r"gRPC ready.*address=(\S+)")


@pytest.fixture(scope="module")
def grpc_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with gRPC switched on."""
    data = tmp_path_factory.mktemp("grpc") / "data"
    with Server(data, grpc_bind="127.0.0.1:0", log_level="debug", auth_failures_per_minute=0) as running:
        yield running


@pytest.fixture(scope="module")
def admin(grpc_server: Server) -> Iterator[Api]:
    with Api(grpc_server.url, grpc_server.token) as client:
        yield client


def address(server: Server) -> str:
    """Return where the server serves gRPC."""
    found = _READY.search(server.output)
    assert found is not None, server.output
    return found[1]


def ask(server: Server, token: str | None, *pulls: dict[str, Any]) -> Any:
    """Pull with one token; return what the client printed."""
    return ask_as(server, *((token, arguments) for arguments in pulls))


def ask_as(server: Server, *pulls: tuple[str | None, dict[str, Any]]) -> Any:
    """Run the client, each pull with its own token; return what it printed."""
    run = subprocess.run(
        [sys.executable, CLIENT, address(server)],
        input=json.dumps(pulls),
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def new_agent(admin: Api, agent_id: str) -> str:
    """Make an agent and return a token of it."""
    admin.ok("POST", "/agents", {"agent_id": agent_id}, status=201)
    token: str = admin.ok("POST", "/tokens", {"kind": "agent", "agent": agent_id}, status=201)["token"]
    return token


def test_a_client_that_knows_only_reflection_drains_an_inbox(grpc_server: Server, admin: Api) -> None:
    sender, reader = new_agent(admin, "grpc-sender"), new_agent(admin, "grpc-reader")
    for n in range(3):
        letter = {
            "type": "created",
            "kind": "note",
            "subject": f"Letter {n}",
            "text": "Grüße ✓",
            "to": {"agents": ["grpc-reader"]},
        }
        admin.as_(sender).ok("POST", "/publish", letter)
    rest = admin.as_(reader).ok("POST", "/inbox:pull", {"limit": 2})
    raw = admin.as_(reader).call("POST", "/inbox:pull", {"limit": 2}).content
    said = ask(grpc_server, reader, {"limit": 2}, {"ack": rest["window_high"]}, {}, {"since": 0, "limit": 1})

    assert said["health"] == "SERVING"
    assert {"postroom.v1.Inbox", "grpc.health.v1.Health"} <= set(said["services"])
    first, rest_of_it, again, reread = said["answers"]
    assert shape(first) == [(item["delivery_seq"], item["diff"], item["delivery"]) for item in rest["items"]]
    assert all(item["diff_json"].encode() in raw for item in first["items"])
    assert len(first["items"]) == 2
    for field in ("cursor", "window_high"):
        assert int(first[field]) == rest[field]
    assert first["has_more"] is rest["has_more"] is True
    assert (int(rest_of_it["cursor"]), len(rest_of_it["items"])) == (rest["window_high"], 1)
    assert again["items"] == rest_of_it["items"]
    assert [item["delivery_seq"] for item in reread["items"]] == ["1"]


def shape(page: dict[str, Any]) -> list[Any]:
    """Return the items of a page as REST has them. Protobuf's JSON writes 64-bit numbers as text."""
    items = []
    for item in page["items"]:
        delivery = item["delivery"] | {"delivery_seq": int(item["delivery"]["delivery_seq"])}
        items.append((int(item["delivery_seq"]), json.loads(item["diff_json"]), delivery))
    return items


def test_who_may_not_pull_is_told_so(grpc_server: Server, admin: Api) -> None:
    unbound = admin.agent("all")
    callers = {
        None: "UNAUTHENTICATED",
        "wrong": "UNAUTHENTICATED",
        grpc_server.token: "PERMISSION_DENIED",
        unbound: "PERMISSION_DENIED",
    }
    said = ask_as(grpc_server, *((token, {}) for token in callers))
    assert [answer["status"] for answer in said["answers"]] == list(callers.values())
    agent = new_agent(admin, "grpc-bad-arguments")
    answers = ask(grpc_server, agent, {"limit": 0}, {"ack": -1}, {"since": -1})["answers"]
    assert [answer["status"] for answer in answers] == ["INVALID_ARGUMENT"] * 3
    assert [answer["details"].partition(":")[0] for answer in answers] == ["limit", "ack", "since"]


def test_no_token_is_in_the_log_at_any_level(grpc_server: Server, admin: Api) -> None:
    token = new_agent(admin, "grpc-logged")
    assert ask(grpc_server, token, {})["answers"][0]["status"] == "OK"
    assert token not in grpc_server.output
    assert grpc_server.token not in grpc_server.output


def test_a_server_with_grpc_ends_in_order_and_without_a_word(tmp_path: Path) -> None:
    with Server(tmp_path / "data", grpc_bind="127.0.0.1:0") as server:
        assert ask(server, None, {})["answers"][0]["status"] == "UNAUTHENTICATED"
        assert server.stop(signal.SIGTERM) == 0
        assert "warning" not in server.output.lower(), server.output
        assert "error" not in server.output.lower(), server.output


def test_without_the_setting_nothing_of_it_is_loaded(server: Server) -> None:
    assert "gRPC" not in server.output
    maps = Path(f"/proc/{server.pid}/maps").read_text()
    assert "google/_upb" not in maps


def test_an_address_that_is_taken_stops_the_start(grpc_server: Server, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="is in use by another program; choose --grpc-bind"):
        Server(tmp_path / "data", grpc_bind=address(grpc_server)).start()
