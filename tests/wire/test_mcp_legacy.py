"""The four legacy versions of the protocol, on raw bytes."""

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tests.wire.mcp_calls import MODERN, post, request
from tests.wire.scene import scene
from web.mcp.exchange import SERVED

LEGACY = SERVED[:-1]
NEWEST = "2025-11-25"
LISTS = {
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
}


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        *((version, version) for version in LEGACY),
        *((other, NEWEST) for other in (MODERN, "2099-01-01", "", 7, None)),
    ],
)
async def test_the_handshake_agrees_on_a_version_and_is_never_an_error(
    tmp_path: Path, asked: Any, agreed: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        client = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        for params in ({"protocolVersion": asked, **client}, {"protocolVersion": asked}):
            reply = await post(at, request("initialize", params))
            assert reply.status == 200
            result = reply.json["result"]
            assert result.keys() == {"protocolVersion", "capabilities", "serverInfo", "instructions"}
            assert result["protocolVersion"] == agreed
            assert result["capabilities"] == {"tools": {}}
            assert result["serverInfo"]["name"] == "postroom"
            assert "untrusted" in result["instructions"]
            assert reply.header("mcp-session-id") is None
        assert (await post(at, request("initialize"))).json["result"]["protocolVersion"] == NEWEST


async def test_the_handshake_may_come_with_a_version_that_is_not_served(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(
            at,
            request("initialize", {"protocolVersion": "2099-01-01"}),
            ("MCP-Protocol-Version", "2099-01-01"),
        )
        assert reply.json["result"]["protocolVersion"] == NEWEST


@pytest.mark.parametrize("version", [None, *LEGACY])
async def test_a_version_that_is_served_may_be_named_or_left_out(
    tmp_path: Path, version: str | None, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        headers = [] if version is None else [("MCP-Protocol-Version", version)]
        assert (await post(at, request("ping"), *headers)).json["result"] == {}
        listed = (await post(at, request("tools/list"), *headers)).json["result"]
        assert listed.keys() == {"tools"}


@pytest.mark.parametrize("versions", [["2099-01-01"], [""], ["2025-06-18", "1999-01-01"]])
@pytest.mark.parametrize("members", [{}, {"method": "notifications/initialized"}])
async def test_a_version_that_is_not_served_is_refused(
    tmp_path: Path, versions: list[str], members: dict[str, str], mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}' if members else request("ping")
        reply = await post(at, body, *(("MCP-Protocol-Version", version) for version in versions))
        error = reply.json["error"]
        assert (reply.status, error["code"]) == (400, -32600)
        assert error["data"] == {"code": "invalid_argument", "field": "MCP-Protocol-Version"}
        assert all(version in error["message"] for version in SERVED)


@pytest.mark.parametrize(
    "method", ["notifications/initialized", "notifications/cancelled", "notifications/anything/at/all"]
)
async def test_a_notification_is_accepted_and_dropped(
    tmp_path: Path, method: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        for params in (b"", b',"params":{}', b',"params":{"requestId":1}', b',"params":null'):
            reply = await post(at, b'{"jsonrpc":"2.0","method":"%b"%b}' % (method.encode(), params))
            assert (reply.status, reply.body) == (202, b"")
            assert reply.header("content-type") is None
            assert reply.header("cache-control") == "no-store"


@pytest.mark.parametrize(
    "method",
    [
        "server/discover",
        "resources/read",
        "resources/subscribe",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "tools/",
        "",
        "notifications/initialized",
        "Ping",
        "x" * 5000,
        *LISTS,
    ],
)
async def test_any_other_method_is_not_found(
    tmp_path: Path, method: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, request(method))
        assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32601, 1)
        assert reply.json["error"]["data"] == {"code": "invalid_argument", "field": "method"}
        assert len(reply.body) < 1000


@pytest.mark.parametrize(("method", "result"), LISTS.items())
async def test_empty_lists_are_for_those_who_ask(
    tmp_path: Path, method: str, result: dict[str, list[Any]], mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        assert (await post(at, request(method), target="/mcp?lists=empty")).json["result"] == result
        assert (await post(at, request(method))).status == 400
    async with scene(tmp_path, mcp_empty_lists=True) as at:
        assert (await post(at, request(method))).json["result"] == result
        assert (await post(at, request("resources/read"))).status == 400


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("lists=full", "lists"),
        ("lists=", "lists"),
        ("page_bytes=few", "page_bytes"),
        ("page_bytes=0", "page_bytes"),
        ("page_bytes=65536&page_bytes=65536", "page_bytes"),
        ("pagebytes=65536", "pagebytes"),
    ],
)
async def test_options_of_the_address_are_refused_by_name(
    tmp_path: Path, query: str, field: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, request("ping", id="q"), target=f"/mcp?{query}")
        assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32600, "q")
        assert reply.json["error"]["data"] == {"code": "invalid_argument", "field": field}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (request("tools/list", {"cursor": "x"}), "cursor"),
        (request("tools/list", {"cursor": ""}), "cursor"),
        (request("tools/list", {"cursor": 1}), "cursor"),
        (request("tools/list", []), "params"),
        (request("tools/list", "x"), "params"),
        (request("ping", 3), "params"),
        (request("tools/call"), "name"),
        (request("tools/call", {}), "name"),
        (request("tools/call", {"name": None}), "name"),
        (request("tools/call", {"name": 1}), "name"),
        (request("tools/call", {"name": "no_such_tool"}), "name"),
        (request("tools/call", {"name": "x" * 10_000}), "name"),
        (request("tools/call", {"name": "list_inboxes", "arguments": []}), "arguments"),
        (request("tools/call", {"name": "list_inboxes", "arguments": "{}"}), "arguments"),
        (request("tools/call", {"name": "list_inboxes", "arguments": False}), "arguments"),
    ],
)
async def test_a_parsed_requests_own_errors_ride_200(
    tmp_path: Path, body: bytes, field: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, body)
        assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (200, -32602, 1)
        assert reply.json["error"]["data"] == {"code": "invalid_argument", "field": field}
        assert len(reply.body) < 1000


@pytest.mark.parametrize(
    "params",
    [
        {"name": "list_inboxes"},
        {"name": "list_inboxes", "arguments": None},
        {"name": "list_inboxes", "arguments": {}},
        {"name": "list_inboxes", "arguments": {}, "_meta": {"progressToken": 7}},
        {"name": "list_inboxes", "arguments": {}, "_meta": None},
        {"name": "list_inboxes", "task": {"ttl": 1000}},
    ],
)
async def test_a_call_without_arguments_has_none(
    tmp_path: Path, params: dict[str, Any], mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, request("tools/call", params))
        assert reply.json["result"]["structuredContent"]["inboxes"][0]["slug"] == "demo"
        assert reply.json["result"].keys() == {"content", "structuredContent", "isError"}
