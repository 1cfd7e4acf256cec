"""A real server wakes an agent: one signed call on a real socket, and only to where that is allowed."""

import json
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
import standardwebhooks

from tests.live.api import CALL_SECONDS, error_of
from tests.live.harness import Server

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
PATH = "/wake/a-credential-in-a-path"

WAKE_SECONDS = 20.0
"""For a call, which comes 5 s after the first message; the rest is for a busy machine."""


class Called:
    """A program that is called: `calls` are (path, headers, body)."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.calls: queue.SimpleQueue[tuple[str, dict[str, str], bytes]] = queue.SimpleQueue()


@contextmanager
def called() -> Iterator[Called]:
    """Listen on loopback and answer every POST with 204."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.calls.put((self.path, dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Called(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


class Mesh:
    """A machine with the agents `sender` and `sleeper`, as an administrator uses them."""

    def __init__(self, server: Server) -> None:
        headers = {"Authorization": f"Bearer {server.token}"}
        self.http = httpx.Client(base_url=server.url, headers=headers, timeout=CALL_SECONDS, trust_env=False)
        assert self.http.post("/v1/machines", json={"name": "m"}).status_code == 201
        for agent_id in ("sender", "sleeper"):
            made = self.http.post("/v1/agents", json={"agent_id": agent_id, "machine": "m"})
            assert made.status_code == 201

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def check_in(self, url: str) -> httpx.Response:
        """Have the sleeper ask to be called."""
        wake = {"url": url, "secret": SECRET}
        return self.http.post("/agent/checkin", json={"agent_id": "sleeper", "wake": wake})

    def send(self, number: int) -> None:
        """Send messages to the sleeper."""
        letter = {"to": "m", "to_agent": "sleeper", "from_agent": "sender", "msg_type": "note"}
        for _ in range(number):
            answer = self.http.post("/agent/send", json=letter)
            assert answer.status_code == 200, answer.text

    def read(self, wake_token: str) -> Any:
        """Read the sleeper's mail, because it was called."""
        answer = self.http.get("/agent/inbox", params={"agent_id": "sleeper", "wake_token": wake_token})
        return answer.raise_for_status().json()


def test_a_sleeping_agent_is_called_once_and_no_more_where_that_is_forbidden_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "postroom.toml"
    settings.write_text('wake_allowed_cidrs = "127.0.0.1, ::1"\n')
    server = Server(tmp_path / "data", log_level="debug")
    with called() as program, called() as proxy, ExitStack() as stack:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        stack.push(server)
        server.start("--config", str(settings))
        with Mesh(server) as mesh:
            url = f"http://localhost:{program.port}{PATH}"
            assert error_of(mesh.check_in("http://10.0.0.1/")) == (422, "invalid_argument", "wake.url")
            assert mesh.check_in(url).status_code == 200

            mesh.send(3)
            path, headers, body = program.calls.get(timeout=WAKE_SECONDS)
            call = standardwebhooks.Webhook(SECRET).verify(body, headers)
            assert path == PATH
            assert headers["Host"] == f"localhost:{program.port}"
            assert (call["event"], call["agent_id"], call["unread"]) == ("inbox.unread", "sleeper", 3)
            assert len(mesh.read(call["wake_token"])["messages"]) == 3

            settings.write_text('wake_allowed_cidrs = "192.0.2.0/24"\n')
            server.signal(signal.SIGHUP)
            server.wait_for_output("settings reloaded")
            mesh.send(1)
            server.wait_for_output("a wake-up failed")
            assert error_of(mesh.check_in(f"http://127.0.0.1:{program.port}/"))[0] == 422
        server.stop()
        log = server.output
        assert program.calls.empty()
        assert proxy.calls.empty()
    for secret in (SECRET, SECRET.removeprefix("whsec_"), PATH, call["wake_token"], json.dumps(call)):
        assert secret not in log


def test_without_the_setting_a_check_in_with_a_wake_is_refused(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Mesh(server) as mesh:
        refusal = mesh.check_in("http://127.0.0.1:9000/")
        assert error_of(refusal) == (422, "invalid_argument", "wake.url")
        assert "WAKE_ALLOWED_CIDRS" in refusal.json()["error"]["message"]
        assert mesh.http.post("/agent/checkin", json={"agent_id": "sleeper"}).status_code == 200
