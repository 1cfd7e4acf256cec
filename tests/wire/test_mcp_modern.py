"""The modern version of the protocol, 2026-07-28, on raw bytes: what its headers must say, and what it answers."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tests.wire.mcp_calls import (
    CAPABILITIES_KEY,
    MODERN,
    VERSION_KEY,
    modern,
    modern_headers,
    modern_params,
    post,
    request,
)
from tests.wire.scene import scene
from web.mcp.exchange import SERVED

LIST = request("tools/list", modern_params())
CALL = request("tools/call", modern_params(name="list_inboxes"))
BY_HEADER = ("MCP-Protocol-Version", MODERN)


async def test_discovery_tells_versions_and_capabilities(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await modern(at, "server/discover")
        assert reply.status == 200
        result = reply.json["result"]
        assert result.pop("instructions").startswith("Postroom keeps")
        server = result.pop("_meta")["io.modelcontextprotocol/serverInfo"]
        assert server["name"] == "postroom"
        assert result == {
            "resultType": "complete",
            "supportedVersions": list(SERVED),
            "capabilities": {"tools": {}},
            "ttlMs": 300_000,
            "cacheScope": "private",
        }


async def test_every_result_is_complete_and_names_the_server(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        listed = (await modern(at, "tools/list")).json["result"]
        assert (listed["ttlMs"], listed["cacheScope"]) == (300_000, "private")
        assert "nextCursor" not in listed
        called = (await modern(at, "tools/call", name="list_inboxes")).json["result"]
        refused = (await modern(at, "tools/call", name="get_message", arguments={"inbox": "x"})).json[
            "result"
        ]
        assert "ttlMs" not in called
        assert refused["isError"] is True
        for result in (listed, called, refused):
            assert result["resultType"] == "complete"
            assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "postroom"


async def test_both_eras_list_the_same_tools(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        legacy = (await post(at, request("tools/list"))).json["result"]["tools"]
        assert (await modern(at, "tools/list")).json["result"]["tools"] == legacy


@pytest.mark.parametrize(
    ("params", "headers", "field"),
    [
        (None, [BY_HEADER, ("Mcp-Method", "tools/list")], VERSION_KEY),
        ({}, [BY_HEADER], VERSION_KEY),
        ({"_meta": {}}, [BY_HEADER], VERSION_KEY),
        ({"_meta": "x"}, [BY_HEADER], VERSION_KEY),
        ({"_meta": {VERSION_KEY: 7, CAPABILITIES_KEY: {}}}, [BY_HEADER], VERSION_KEY),
        ({"_meta": {VERSION_KEY: MODERN}}, [BY_HEADER], CAPABILITIES_KEY),
        ({"_meta": {VERSION_KEY: MODERN}}, [], CAPABILITIES_KEY),
        ({"_meta": {VERSION_KEY: MODERN, CAPABILITIES_KEY: []}}, [], CAPABILITIES_KEY),
        ({"_meta": {CAPABILITIES_KEY: {}}}, [BY_HEADER], VERSION_KEY),
    ],
)
async def test_a_request_says_its_version_and_its_capabilities(
    tmp_path: Path,
    params: Any,
    headers: list[tuple[str, str]],
    field: str,
    mock_clock: trio.testing.MockClock,
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, request("tools/list", params), *headers)
        assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32602, 1)
        assert reply.json["error"]["data"] == {"code": "invalid_argument", "field": f"_meta.{field}"}


NAME = "list_inboxes"
WRAPPED = f"=?base64?{b64encode(NAME.encode()).decode()}?="
VERSION_OK, METHOD_OK, NAME_OK = modern_headers("tools/call", NAME)


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ([METHOD_OK, NAME_OK], "MCP-Protocol-Version"),
        ([("MCP-Protocol-Version", "2025-11-25"), METHOD_OK, NAME_OK], "MCP-Protocol-Version"),
        ([("MCP-Protocol-Version", ""), METHOD_OK, NAME_OK], "MCP-Protocol-Version"),
        ([VERSION_OK, VERSION_OK, METHOD_OK, NAME_OK], "MCP-Protocol-Version"),
        ([VERSION_OK, NAME_OK], "Mcp-Method"),
        ([VERSION_OK, ("Mcp-Method", "tools/list"), NAME_OK], "Mcp-Method"),
        ([VERSION_OK, ("Mcp-Method", "Tools/Call"), NAME_OK], "Mcp-Method"),
        ([VERSION_OK, METHOD_OK, METHOD_OK, NAME_OK], "Mcp-Method"),
        ([VERSION_OK, METHOD_OK], "Mcp-Name"),
        ([VERSION_OK, METHOD_OK, ("Mcp-Name", "get_message")], "Mcp-Name"),
        ([VERSION_OK, METHOD_OK, ("Mcp-Name", "")], "Mcp-Name"),
        ([VERSION_OK, METHOD_OK, NAME_OK, NAME_OK], "Mcp-Name"),
        ([VERSION_OK, METHOD_OK, ("Mcp-Name", "=?base64?%%%?=")], "Mcp-Name"),
        ([VERSION_OK, METHOD_OK, ("Mcp-Name", "=?base64?/w==?=")], "Mcp-Name"),
        ([VERSION_OK, METHOD_OK, ("Mcp-Name", "=?base64?=")], "Mcp-Name"),
        ([VERSION_OK, METHOD_OK, ("Mcp-Name", WRAPPED.replace("base64", "Base64"))], "Mcp-Name"),
    ],
)
async def test_headers_that_do_not_say_what_the_body_says_are_named(
    tmp_path: Path, headers: list[tuple[str, str]], named: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, CALL, *headers)
        assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32020, 1)
        assert named in reply.json["error"]["message"]
        assert reply.json["error"]["data"] == {"code": "invalid_argument", "field": named}


@pytest.mark.parametrize(
    "headers",
    [
        [VERSION_OK, METHOD_OK, NAME_OK],
        [VERSION_OK, METHOD_OK, ("Mcp-Name", WRAPPED)],
        [("mcp-protocol-version", MODERN), ("MCP-METHOD", "tools/call"), ("mcp-name", f"  {NAME}  ")],
    ],
)
async def test_headers_may_be_spelt_in_any_case_and_wrapped(
    tmp_path: Path, headers: list[tuple[str, str]], mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, CALL, *headers)
        assert (reply.status, reply.json["result"]["isError"]) == (200, False)


async def test_a_method_may_be_wrapped_too(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        wrapped = f"=?base64?{b64encode('pïng'.encode()).decode()}?="
        reply = await post(at, request("pïng", modern_params()), VERSION_OK, ("Mcp-Method", wrapped))
        assert (reply.status, reply.json["error"]["code"]) == (404, -32601)


async def test_no_header_may_be_repeated_whatever_is_called(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, LIST, *modern_headers("tools/list", "whatever"), ("Mcp-Name", "whatever"))
        assert (reply.status, reply.json["error"]["code"]) == (400, -32020)


async def test_a_name_is_compared_for_calls_of_tools_only(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, LIST, *modern_headers("tools/list", "whatever"))
        assert reply.status == 200


@pytest.mark.parametrize("version", ["2099-01-01", "DRAFT-2026-v1", "", "é"])
async def test_a_version_that_is_not_served_is_told_which_are(
    tmp_path: Path, version: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(
            at,
            request("tools/list", modern_params(version)),
            *modern_headers("tools/list", version=version),
        )
        assert (reply.status, reply.json["error"]["code"]) == (400, -32022)
        assert reply.json["error"]["data"] == {"supported": list(SERVED), "requested": version}


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "resources/list", "prompts/list", "tasks/get", "nope"]
)
async def test_any_other_method_is_not_found(
    tmp_path: Path, method: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        for target in ("/mcp", "/mcp?lists=empty"):
            reply = await post(at, request(method, modern_params()), *modern_headers(method), target=target)
            assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (404, -32601, 1)
            assert reply.json["error"]["data"] == {"code": "not_found", "field": "method"}


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("tools/call", {"name": "no_such_tool"}, "name"),
        ("tools/call", {}, "name"),
        ("tools/call", {"name": 7}, "name"),
        ("tools/call", {"name": NAME, "arguments": []}, "arguments"),
        ("tools/list", {"cursor": "x"}, "cursor"),
    ],
)
async def test_parameters_that_are_not_well_formed_are_refused(
    tmp_path: Path, method: str, params: dict[str, Any], field: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        name = params.get("name")
        headers = modern_headers(method, name if isinstance(name, str) else None)
        reply = await post(at, request(method, modern_params(**params)), *headers)
        assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32602, 1)
        assert reply.json["error"]["data"] == {"code": "invalid_argument", "field": field}


async def test_the_first_check_that_fails_answers(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        old = modern_params("2099-01-01", name="no_such_tool")
        unknown = modern_params(name="no_such_tool")
        no_version = [("Mcp-Method", "no/method")]
        steps: list[tuple[bytes, list[tuple[str, str]], int, int]] = [
            (request("no/method", {"name": 1}), [BY_HEADER], 400, -32602),
            (request("no/method", old), no_version, 400, -32020),
            (request("no/method", old), modern_headers("no/method", version="2099-01-01"), 400, -32022),
            (request("no/method", unknown), modern_headers("no/method"), 404, -32601),
            (request("tools/call", unknown), modern_headers("tools/call", "no_such_tool"), 400, -32602),
            (CALL, modern_headers("tools/call", NAME), 200, 0),
        ]
        for body, headers, status, code in steps:
            reply = await post(at, body, *headers)
            assert (reply.status, reply.json.get("error", {"code": 0})["code"]) == (status, code)


async def test_a_notification_is_accepted_in_this_era_too(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        body = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
        reply = await post(at, body, *modern_headers("notifications/cancelled"))
        assert (reply.status, reply.body, reply.header("content-type")) == (202, b"", None)
