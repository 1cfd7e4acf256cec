"""Every result in every version of the protocol, held to that version's own definitions by the official types."""

import json
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from tests.live.api import Api

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


CLIENT = {"name": "tests", "version": "1"}


class Caller:
    """Calls of one version."""

    def __init__(self, api: Api, version: str) -> None:
        self._api = api
        self._version = version

    def result(self, method: str, **params: Any) -> Any:
        """Make a call and return its result, which must be one of its version."""
        headers = {"MCP-Protocol-Version": self._version}
        if self._version == MODERN:
            params["_meta"] = META
            headers["Mcp-Method"] = method
            if "name" in params:
                headers["Mcp-Name"] = params["name"]
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self._api._http.post("/mcp", json=message, headers=headers)
        assert answer.status_code == 200, answer.text
        result = answer.json()["result"]
        validate_server_result(method, self._version, result)
        return result


@pytest.mark.parametrize("version", [*LEGACY, MODERN])
def test_every_result_is_one_of_its_version(version: str, api: Api, ten: str) -> None:
    caller = Caller(api.as_(api.agent([ten])), version)
    if version == MODERN:
        assert caller.result("server/discover")["supportedVersions"] == [*LEGACY, MODERN]
    else:
        shaken = caller.result("initialize", protocolVersion=version, capabilities={}, clientInfo=CLIENT)
        assert shaken["protocolVersion"] == version
        caller.result("ping")
    assert len(caller.result("tools/list")["tools"]) == 4
    for name, arguments in (
        ("list_inboxes", {}),
        ("query_messages", {"inbox": ten, "after": 0, "bodies": True}),
        ("query_messages", {"inbox": ten, "limit": 3}),
        ("get_message", {"inbox": ten, "seq": 1}),
        ("wait_for_messages", {"inbox": ten, "after": 10, "timeout_seconds": 0}),
    ):
        told = caller.result("tools/call", name=name, arguments=arguments)
        assert json.loads(told["content"][0]["text"]) == told["structuredContent"]
    refused = caller.result("tools/call", name="get_message", arguments={"inbox": "elsewhere", "seq": 1})
    assert refused["isError"] is True
    assert "structuredContent" not in refused
