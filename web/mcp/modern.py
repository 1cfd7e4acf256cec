"""The modern version, 2026-07-28: no handshake; every request carries its version and capabilities, and says in its
headers what its body says, so that a proxy can route it unread.
"""

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from web.http import RawHeaders
from web.mcp.exchange import SERVED, SERVER_INFO, VERSION_HEADER, Era, Exchange, Facts
from web.mcp.jsonrpc import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    RpcError,
    encode,
    shown,
)
from web.mcp.legacy import list_tools

VERSIONS = SERVED[-1:]
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
METHOD_HEADER = b"mcp-method"
NAME_HEADER = b"mcp-name"

SHOWN_NAMES = {
    VERSION_HEADER: "MCP-Protocol-Version",
    METHOD_HEADER: "Mcp-Method",
    NAME_HEADER: "Mcp-Name",
}

LIST_TTL_MS = 300_000
"""How long a client may keep the list of tools: it changes with the token's kind and with the server's version only."""

_CACHED = b'"ttlMs":%d,"cacheScope":"private"' % LIST_TTL_MS  # private: the list depends on the token
_ENCODED = ("=?base64?", "?=")


def speaks(headers: RawHeaders, meta: Mapping[str, Any]) -> bool:
    """Whether a message is of this era: it says so in its `_meta`, or its header names a version of it."""
    return VERSION_KEY in meta or any(
        name == VERSION_HEADER and value.decode("latin-1") in VERSIONS for name, value in headers
    )


def _check(exchange: Exchange) -> None:
    message, meta = exchange.message, exchange.meta
    if message.id_json is None:
        return
    version = meta.get(VERSION_KEY)
    if not isinstance(version, str):
        raise _missing(VERSION_KEY, "the version of the protocol")
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        raise _missing(CAPABILITIES_KEY, "an object")
    for header, name in SHOWN_NAMES.items():
        if len(exchange.values(header)) > 1:
            raise RpcError(HEADER_MISMATCH, f"The header {name} is there more than once.", field=name)
    _check_header(exchange, VERSION_HEADER, version)
    _check_header(exchange, METHOD_HEADER, message.method)
    if message.method == "tools/call" and isinstance(exchange.params.get("name"), str):
        _check_header(exchange, NAME_HEADER, exchange.params["name"])
    if version not in SERVED:
        raise RpcError(
            UNSUPPORTED_VERSION,
            f"The protocol version {shown(version)} is not served.",
            data={"supported": list(SERVED), "requested": version},
        )


def _missing(key: str, what: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"params._meta must have {key}: {what}.", field=f"_meta.{key}")


def _check_header(exchange: Exchange, header: bytes, said: str) -> None:
    """Refuse a header that is missing or says another thing than the body."""
    given, name = exchange.values(header), SHOWN_NAMES[header]
    if not given:
        raise RpcError(HEADER_MISMATCH, f"The header {name} is missing.", field=name)
    if _decoded(given[0]) != said:
        raise RpcError(HEADER_MISMATCH, f"The header {name} does not say what the body says.", field=name)


def _decoded(value: str) -> str | None:
    """Return a header's value, which may be wrapped in base64 (for text that is not plain ASCII)."""
    opening, closing = _ENCODED
    if not (value.startswith(opening) and value.endswith(closing) and len(value) >= len(opening + closing)):
        return value
    try:
        return b64decode(value[len(opening) : -len(closing)], validate=True).decode()
    except ValueError:
        return None


def _discover(_: Exchange, facts: Facts) -> bytes:
    return b'"supportedVersions":%b,"capabilities":{"tools":{}},"instructions":%b,%b' % (
        encode(SERVED),
        facts.instructions,
        _CACHED,
    )


def _list_tools(exchange: Exchange, facts: Facts) -> bytes:
    return b"%b,%b" % (list_tools(exchange, facts), _CACHED)


ERA = Era(
    check=_check,
    methods={"server/discover": _discover, "tools/list": _list_tools},
    statuses={
        INVALID_REQUEST: 400,
        METHOD_NOT_FOUND: 404,
        INVALID_PARAMS: 400,
        INTERNAL_ERROR: 200,
        HEADER_MISMATCH: 400,
        MISSING_CAPABILITY: 400,
        UNSUPPORTED_VERSION: 400,
    },
    prefix=b'"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":%b},' % SERVER_INFO,
)
