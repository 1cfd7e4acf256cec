"""The four legacy versions, 2024-11-05 to 2025-11-25: a handshake that is stateless here, and four methods.

A parsed request's own errors ride HTTP 200; a method that there is not is 400, because there is nothing else here for a
client that asks for it.
"""

from web.mcp.exchange import SERVED, VERSION_HEADER, Era, Exchange, Facts
from web.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    RpcError,
    encode,
    shown,
)

VERSIONS = SERVED[:-1]
NEWEST = VERSIONS[-1]

EMPTY_LISTS = {
    "resources/list": b'"resources":[]',
    "resources/templates/list": b'"resourceTemplates":[]',
    "prompts/list": b'"prompts":[]',
}
"""What some clients ask for although nothing declares it; they show an error as a failed connection."""


def _check(exchange: Exchange) -> None:
    """Refuse a version that is not served. The handshake is where one is agreed on, so it may name any; a request that
    names none is taken for one of 2025-03-26.
    """
    if exchange.message.method == "initialize":
        return
    for version in exchange.values(VERSION_HEADER):
        if version not in VERSIONS:
            message = f"The protocol version {shown(version)} is not served: {', '.join(SERVED)} are."
            raise RpcError(INVALID_REQUEST, message, field="MCP-Protocol-Version")


def _initialize(exchange: Exchange, facts: Facts) -> bytes:
    asked = exchange.params.get("protocolVersion")
    version = asked if asked in VERSIONS else NEWEST
    return b'"protocolVersion":%b,"capabilities":{"tools":{}},"serverInfo":%b,"instructions":%b' % (
        encode(version),
        facts.server_info,
        facts.instructions,
    )


def _ping(_: Exchange, __: Facts) -> bytes:
    return b""


def list_tools(exchange: Exchange, facts: Facts) -> bytes:
    """Return the one page of tools; there is no cursor that could have come from here."""
    if exchange.params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "All tools are on one page; there is no other.", field="cursor")
    return b'"tools":%b' % facts.tools


def _empty_list(exchange: Exchange, facts: Facts) -> bytes:
    if not facts.empty_lists:
        raise no_such_method(exchange)
    return EMPTY_LISTS[exchange.message.method]


def no_such_method(exchange: Exchange) -> RpcError:
    """Return the error for a method that this server does not have."""
    return RpcError(
        METHOD_NOT_FOUND, f"There is no method {shown(exchange.message.method)} here.", field="method"
    )


ERA = Era(
    check=_check,
    methods={
        "initialize": _initialize,
        "ping": _ping,
        "tools/list": list_tools,
        **dict.fromkeys(EMPTY_LISTS, _empty_list),
    },
    statuses={
        INVALID_REQUEST: 400,
        METHOD_NOT_FOUND: 400,
        INVALID_PARAMS: 200,
        INTERNAL_ERROR: 200,
        MISSING_CAPABILITY: 200,
    },
)
