"""One message on its way through the endpoint, and the two tables that an era of the protocol is made of."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from web.decoding import from_query
from web.errors import ApiError
from web.http import RawHeaders
from web.mcp.jsonrpc import INVALID_REQUEST, Message, RpcError, encode
from web.version import VERSION

SERVED = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""The versions of the protocol, oldest first."""

SERVER_INFO = encode({"name": "postroom", "title": "Postroom", "version": VERSION})

VERSION_HEADER = b"mcp-protocol-version"

SMALLEST_PAGE_BYTES = 4_096
"""Two messages without bodies; a page of less would be one message whatever it asks for."""

LARGEST_PAGE_BYTES = 64 * 1024 * 1024
"""What the server's own limit can be set to; a client cannot ask for more than that limit anyway."""


class UrlOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client's configuration says in the endpoint's URL: `?lists=empty`, `?page_bytes=65536`."""

    lists: Literal["empty"] | None = None
    page_bytes: Annotated[int, Meta(ge=SMALLEST_PAGE_BYTES, le=LARGEST_PAGE_BYTES)] | None = None


class Exchange(msgspec.Struct, frozen=True):
    """A message with what came around it. `params` is `{}` when there are none; `meta` is its `_meta`, likewise."""

    message: Message
    headers: RawHeaders
    params: Mapping[str, Any]
    meta: Mapping[str, Any]

    def values(self, wanted: bytes) -> list[str]:
        """Return the values of a header (name in lower case)."""
        return [value.decode("latin-1") for name, value in self.headers if name == wanted]


class Facts(msgspec.Struct, frozen=True):
    """What the endpoint tells of itself: JSON as bytes, but for `empty_lists`, which some clients ask for."""

    server_info: bytes
    instructions: bytes
    tools: bytes
    empty_lists: bool


Method = Callable[[Exchange, Facts], bytes]
"""Answers a request with the members of its result. Raises `RpcError`. (`tools/call` is the core's own.)"""


class Era(msgspec.Struct, frozen=True):
    """One table of methods and how results and errors are sent.

    `check` raises `RpcError` for what a message breaks before its method is looked at. `statuses`: the HTTP status of
    each error. `prefix`: the members that every result begins with.
    """

    check: Callable[[Exchange], None]
    methods: Mapping[str, Method]
    statuses: Mapping[int, int]
    prefix: bytes = b""


@lru_cache(maxsize=16)
def url_options(raw_query: bytes) -> UrlOptions:
    """Return the options of the URL. Raises `RpcError`, naming the parameter."""
    try:
        return from_query(UrlOptions, raw_query)
    except ApiError as error:
        raise RpcError(INVALID_REQUEST, error.message, field=error.field) from None
