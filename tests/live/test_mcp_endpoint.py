"""`/mcp` of a real server, as a process: hang-ups, restarts, settings and their reload, and results of real storage."""

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.live.api import Api, seqs
from tests.live.harness import Server, connect
from tests.live.test_waits import PATIENCE_SECONDS, until_open
from tests.wire.client import head
from tests.wire.mcp_calls import request

MIB = 1024 * 1024


def post(api: Api, token: str, method: str, params: Any = None, target: str = "/mcp") -> httpx.Response:
    """Send one request."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return httpx.post(
        f"{api.url}{target}", content=request(method, params), headers=headers, timeout=60, trust_env=False
    )


def call(api: Api, token: str, tool: str, **arguments: Any) -> Any:
    """Call a tool that must succeed and return what it returns."""
    result = post(api, token, "tools/call", {"name": tool, "arguments": arguments}).json()["result"]
    assert result["isError"] is False, result
    return result["structuredContent"]


def test_an_agent_follows_its_inbox(api: Api, ten: str) -> None:
    token = api.agent([ten])
    (inbox,) = call(api, token, "list_inboxes")["inboxes"]
    assert (inbox["slug"], inbox["latest_seq"]) == (ten, 10)
    after, seen = 0, []
    while after < 10:
        page = call(api, token, "wait_for_messages", inbox=ten, after=after, limit=4, epoch=inbox["epoch"])
        seen += seqs(page)
        after = page["next_after"]
    assert seen == list(range(1, 11))
    assert call(api, token, "wait_for_messages", inbox=ten, after=10, timeout_seconds=0)["messages"] == []
    assert call(api, token, "get_message", inbox=ten, seq=7) == api.message(ten, 7)
    assert call(api, token, "query_messages", inbox=ten, bodies=True) == api.messages(ten, bodies=True)


def test_a_large_body_is_sent_whole_or_refused_with_its_address(api: Api) -> None:
    slug = api.inbox()
    token = api.agent([slug])
    api.send(slug, b'"' + b"x" * MIB + b'"')
    api.send(slug, b'"' + b"y" * (2 * MIB) + b'"')
    assert call(api, token, "get_message", inbox=slug, seq=1)["untrusted"]["body"] == "x" * MIB
    arguments = {"name": "get_message", "arguments": {"inbox": slug, "seq": 2}}
    result = post(api, token, "tools/call", arguments).json()["result"]
    assert result["isError"] is True
    assert f"/v1/inboxes/{slug}/messages/2/raw" in result["content"][0]["text"]


def test_hanging_up_frees_the_slot(fresh: Api) -> None:
    slug = fresh.inbox()
    token = fresh.agent([slug])
    body = request("tools/call", {"name": "wait_for_messages", "arguments": {"inbox": slug, "after": 0}})
    port = int(fresh.url.rpartition(":")[2])

    async def hang_up() -> None:
        fields = [
            ("Host", "127.0.0.1"),
            ("Authorization", f"Bearer {token}"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
        ]
        with trio.fail_after(PATIENCE_SECONDS):
            for _ in range(3):
                async with await connect(port) as client:
                    await client.send(head("POST", "/mcp", fields) + body)
                    await until_open(fresh, 1)
                await until_open(fresh, 0)

    trio.run(hang_up)


def test_a_restart_in_between_is_not_noticed(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        with Api(server.url, server.token) as api:
            slug = api.inbox()
            token = api.agent([slug])
            api.send(slug)
            before = call(api, token, "query_messages", inbox=slug, after=0)
            tools = post(api, token, "tools/list").content
        server.stop()
        server.start()
        with Api(server.url, server.token) as api:
            assert call(api, token, "query_messages", inbox=slug, after=0, epoch=before["epoch"]) == before
            assert post(api, token, "tools/list").content == tools


@pytest.mark.parametrize("setting", ["mcp_enabled", "read_api_enabled"])
def test_an_endpoint_that_is_switched_off_is_not_there(tmp_path: Path, setting: str) -> None:
    settings: dict[str, object] = {setting: "false"}
    with Server(tmp_path / "data", **settings) as server, Api(server.url, server.token) as api:
        answer = post(api, server.token, "ping")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_a_reload_switches_the_endpoint_and_its_limits(tmp_path: Path) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text("")
    server = Server(tmp_path / "data")
    server.start("--config", str(file))
    try:
        with Api(server.url, server.token) as api:
            assert post(api, server.token, "resources/list").status_code == 400
            assert post(api, server.token, "ping").status_code == 200
            file.write_text('mcp_empty_lists = true\nallowed_origins = ["https://console.example.org"]\n')
            server.signal(signal.SIGHUP)
            server.wait_for_output("MCP_EMPTY_LISTS=true")
            assert post(api, server.token, "resources/list").json()["result"] == {"resources": []}
            file.write_text("mcp_enabled = false\n")
            server.signal(signal.SIGHUP)
            server.wait_for_output("MCP_ENABLED=false")
            assert post(api, server.token, "ping").status_code == 404
    finally:
        server.kill()
