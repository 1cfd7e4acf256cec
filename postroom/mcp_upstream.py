"""One MCP call over HTTP, for the stdio form: the headers that the call needs, the tries, the answer as one line.

`Upstream` owns the connections to one server's `POST /mcp`. A call that finds no server is tried again for as long as a
restart takes. A call whose connection breaks half-way may have been carried out, so it is tried again only where that
changes nothing: methods that only ask, and tools that say of themselves (`annotations`) that they may be repeated.
"""

import base64
import re
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import httpx
import msgspec
import trio

from postroom.client import (
    CONNECT_SECONDS,
    JSON_TYPE,
    LOOPBACK_HOSTS,
    READ_SECONDS,
    SESSION_HEADER,
    USER_AGENT,
    ClientError,
    Refused,
    Unreachable,
    checked,
    translated,
)

PATIENCE_SECONDS = 20.0
"""How long a call waits for a server that does not answer: a restart takes about two, clients give up after 60."""
START_PATIENCE_SECONDS = 5.0
"""The same at the start, when a wrong URL is likelier than a restart, and somebody waits to see the error."""
FIRST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 1.0
"""Between two tries, doubling from the first: one process that asks a server on its own network need not be shy."""

KEPT_CONNECTIONS = 8
"""Idle ones. Calls under way have one each, since a wait must not be in the way of a ping."""

PROXY_STATUSES = frozenset({502, 504})
"""A proxy says so when its server broke off, or did not answer: the call may have been carried out."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
"""In `params._meta` of a call of the versions without a handshake."""

INTERNAL_ERROR = -32603
"""JSON-RPC's code for what is nobody's mistake in the call: here, that the server could not be asked."""
INVALID_REQUEST = -32600
"""JSON-RPC's code for a call that the server would not take, such as one that is too large."""

_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED = re.compile(r"=\?base64\?.*\?=")

UNSET: Final = msgspec.UNSET


class Call(msgspec.Struct, frozen=True):
    """What is looked at in a message of the client. `id` is its JSON; a notification has none, an answer no method."""

    id: msgspec.Raw | msgspec.UnsetType = UNSET
    method: str | msgspec.UnsetType = UNSET
    params: Any = None

    @property
    def tool(self) -> str | None:
        """The name of the tool that is called."""
        name = self.params.get("name") if isinstance(self.params, dict) else None
        return name if self.method == "tools/call" and isinstance(name, str) else None


class _Tool(msgspec.Struct):
    name: str
    annotations: dict[str, Any] = {}


class _Tools(msgspec.Struct):
    tools: list[_Tool]


class _Answer(msgspec.Struct):
    """What is looked at in an answer of the server."""

    jsonrpc: str
    result: msgspec.Raw | msgspec.UnsetType = UNSET


class _Initialized(msgspec.Struct):
    protocolVersion: str


class Upstream:
    """The MCP endpoint of one server, with one token. An async context manager.

    `say` is told, in a sentence, when the server cannot be reached and when it is back. `session`: which of its agent's
    sessions the client is, None if nobody says. Raises `ClientError` for a URL that is none.
    """

    def __init__(
        self, url: str, query: str, token: str, say: Callable[[str], None], session: str | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self._endpoint = f"{self.url}/mcp" + (f"?{query}" if query else "")
        self._say = say
        self._version: str | None = None
        self._repeatable: frozenset[str] = frozenset()
        self._lost = False
        try:
            host = httpx.URL(self.url).host
        except httpx.InvalidURL as error:
            raise ClientError(f"{self.url!r} is not a URL: {error}.") from error
        self._http = httpx.AsyncClient(
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": JSON_TYPE,
                "Accept": JSON_TYPE,
                "User-Agent": USER_AGENT,
                **({SESSION_HEADER: session} if session else {}),
            },
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS),
            trust_env=host not in LOOPBACK_HOSTS,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def check(self) -> None:
        """Ask for the list of tools, to learn whether the token is good and which tools may be repeated.

        Raises `Refused`, `Unreachable`.
        """
        question = b'{"jsonrpc":"2.0","id":0,"method":"tools/list"}'
        content = await self._ask(question, {}, repeatable=True, patience=START_PATIENCE_SECONDS)
        try:
            tools = msgspec.json.decode(_result(content), type=_Tools).tools
        except msgspec.DecodeError as error:
            raise self._no_postroom() from error
        self._repeatable = frozenset(
            tool.name
            for tool in tools
            if tool.annotations.get("readOnlyHint") is True or tool.annotations.get("idempotentHint") is True
        )

    async def call(self, call: Call | None, line: bytes) -> bytes:
        """Have a message answered; return the answer as one line. `call` is None when the message makes no sense.

        Never raises for the server: what cannot be asked is an answer as well.
        """
        method = call.method if call is not None else UNSET
        repeatable = method != "tools/call" or (call is not None and call.tool in self._repeatable)
        try:
            content = await self._ask(line, self._headers(call), repeatable=repeatable)
        except ClientError as error:
            return _failed(call, error)
        if method == "initialize":
            self._note_version(content)
        # A newline of JSON stands between two tokens, never inside a string; a line of ours must be one line.
        return content.strip().replace(b"\n", b" ").replace(b"\r", b" ")

    async def _ask(
        self, body: bytes, headers: dict[str, str], *, repeatable: bool, patience: float = PATIENCE_SECONDS
    ) -> bytes:
        """Send one call until it is answered. Raises `Refused`, `Unreachable`."""
        until = trio.current_time() + patience
        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                content = await self._try(body, headers)
            except (Unreachable, Refused) as error:
                if not _again(error, repeatable) or trio.current_time() + pause > until:
                    raise
                self._note_lost(str(error))
            else:
                self._note_back()
                return content
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_RETRY_SECONDS)

    async def _try(self, body: bytes, headers: dict[str, str]) -> bytes:
        with translated(self.url):
            response = await self._http.post(self._endpoint, content=body, headers=headers)
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        if kind == JSON_TYPE and _is_answer(response.content):
            return response.content
        checked(response)
        raise self._no_postroom()

    def _headers(self, call: Call | None) -> dict[str, str]:
        """Return the headers that say again what the body says, as the version of the protocol wants it."""
        if call is None or call.method is UNSET:
            return {}
        meta = call.params.get("_meta") if isinstance(call.params, dict) else None
        version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
        if isinstance(version, str):
            headers = {"MCP-Protocol-Version": header_value(version), "Mcp-Method": header_value(call.method)}
            if call.tool is not None:
                headers["Mcp-Name"] = header_value(call.tool)
            return headers
        if self._version is None or call.method == "initialize":
            return {}
        return {"MCP-Protocol-Version": header_value(self._version)}

    def _note_version(self, content: bytes) -> None:
        with suppress(msgspec.DecodeError):  # an error, then: no version was agreed on
            self._version = msgspec.json.decode(_result(content), type=_Initialized).protocolVersion

    def _note_lost(self, why: str) -> None:
        if not self._lost:
            self._lost = True
            self._say(f"{why} Trying again.")

    def _note_back(self) -> None:
        if self._lost:
            self._lost = False
            self._say("The server answers again.")

    def _no_postroom(self) -> Unreachable:
        return Unreachable(f"{self.url} answers, but not as a Postroom server does; is POSTROOM_URL right?")


def header_value(text: str) -> str:
    """Return text as the value of a header: as it is, or in base64 where it would not survive (MCP 2026-07-28)."""
    if _PLAIN.fullmatch(text) and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def parsed(line: bytes) -> Call | None:
    """Return what a message is, None for one that no server would understand either."""
    try:
        return msgspec.json.decode(line, type=Call)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _again(error: Unreachable | Refused, repeatable: bool) -> bool:
    """Return whether a call may be tried again: it was not carried out, or repeating it changes nothing."""
    if isinstance(error, Refused):
        return error.status == 503 or (repeatable and error.status in PROXY_STATUSES)
    cause = error.__cause__
    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout):
        return True
    broken = isinstance(cause, httpx.TransportError) and not isinstance(cause, httpx.TimeoutException)
    return repeatable and broken


def _is_answer(content: bytes) -> bool:
    try:
        return msgspec.json.decode(content, type=_Answer).jsonrpc == "2.0"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _result(content: bytes) -> bytes:
    """Return the JSON of an answer's result, nothing when it has none."""
    result = msgspec.json.decode(content, type=_Answer).result
    return b"" if isinstance(result, msgspec.UnsetType) else bytes(result)


def _failed(call: Call | None, error: ClientError) -> bytes:
    """Return the answer to a call that the server did not answer itself."""
    number = msgspec.Raw(b"null") if call is None or isinstance(call.id, msgspec.UnsetType) else call.id
    refused = isinstance(error, Refused) and error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    told: dict[str, Any] = {"code": INVALID_REQUEST if refused else INTERNAL_ERROR, "message": str(error)}
    if isinstance(error, Refused):
        told["data"] = {"code": error.code}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": told})
