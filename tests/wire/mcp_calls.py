"""Calls of `/mcp` over the wire, as raw bytes and as tools, for the tests of the endpoint."""

from typing import Any

import msgspec

from tests.wire.client import Headers, Reply
from tests.wire.scene import Scene

PLAIN = (("Host", "127.0.0.1"), ("Content-Type", "application/json"))
"""What a client of a server on loopback sends besides its token."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
MODERN = "2026-07-28"


def request(method: str, params: Any = None, **members: Any) -> bytes:
    """Return the body of a request; `members` replace or add."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, **members}
    if params is not None:
        body["params"] = params
    return msgspec.json.encode(body)


async def post(
    at: Scene,
    body: bytes,
    *more: tuple[str, str],
    headers: Headers | None = None,
    target: str = "/mcp",
    method: str = "POST",
) -> Reply:
    """Send one request on a connection of its own; `headers` replace the usual ones, the token's included."""
    fields = [*PLAIN, *at.headers] if headers is None else list(headers)
    async with at.served.connect() as client:
        return await client.request(method, target, [*fields, *more], body)


async def call(at: Scene, tool: str, *more: tuple[str, str], target: str = "/mcp", **arguments: Any) -> Any:
    """Call a tool in a legacy version and return its result."""
    body = request("tools/call", {"name": tool, "arguments": arguments})
    reply = await post(at, body, *more, target=target)
    assert reply.status == 200, reply.body
    return reply.json["result"]


async def refusal(at: Scene, tool: str, **arguments: Any) -> str:
    """Call a tool that must refuse, and return the text that it does it with."""
    result = await call(at, tool, **arguments)
    assert result.keys() == {"content", "isError"}, result
    assert result["isError"] is True
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


def modern_params(version: str = MODERN, **params: Any) -> dict[str, Any]:
    """Return parameters as the modern version has them."""
    return {**params, "_meta": {VERSION_KEY: version, CAPABILITIES_KEY: {}}}


def modern_headers(method: str, name: str | None = None, version: str = MODERN) -> list[tuple[str, str]]:
    """Return the headers that a modern request repeats its body in."""
    fields = [("MCP-Protocol-Version", version), ("Mcp-Method", method)]
    return fields if name is None else [*fields, ("Mcp-Name", name)]


async def modern(at: Scene, method: str, **params: Any) -> Reply:
    """Make a well-formed modern request."""
    return await post(
        at, request(method, modern_params(**params)), *modern_headers(method, params.get("name"))
    )
