"""What a tool is, who sees it, and how a call of it ends.

A tool's own refusal is a result (`isError`), not an error of the protocol: it is written for the model that called,
begins with the code of the REST errors, and says what to do next. Only what is a defect of ours raises.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from web.auth import Principal
from web.decoding import SAFE_INTEGER, from_object
from web.errors import NO_SUCH_INBOX, ApiError
from web.faults import as_api_error
from web.http import WhenGone
from web.mcp.jsonrpc import encode
from web.mcp.result import Outcome, failed
from web.mcp.schemas import Schema

T = TypeVar("T", bound=msgspec.Struct)


class Hints(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The annotations of a tool, all four always (surface, section 6)."""

    read_only_hint: bool
    destructive_hint: bool
    idempotent_hint: bool
    open_world_hint: bool


class Call(msgspec.Struct, frozen=True):
    """Who calls, and how: `when_gone` tells when the client leaves, `page_bytes` bounds a page as sent, `id_json`
    is the message's id, by which a later one may cancel it, `session` the program that calls (`web/activity.py`),
    `body` the message as it came.
    """

    principal: Principal
    when_gone: WhenGone
    page_bytes: int
    id_json: bytes | None = None
    session: str = ""
    body: bytes = b""


Arguments = Mapping[str, Any]
Heard = Callable[[Principal, str], None]
"""Is told who gave a sign of life, and in which session."""

Run = Callable[[Call, Arguments], Awaitable[Outcome]]


def unheard(_: Principal, __: str) -> None:
    """Take no note of signs of life."""


def everybody(_: Principal) -> bool:
    """Let every token see a tool."""
    return True


def never(_: Arguments) -> bool:
    """Say of a tool that it always answers at once."""
    return False


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool.

    `run` raises `ApiError`, whatever `web.faults` knows, and `RpcError` for what the protocol itself has an error for
    (a capability that the client lacks). `sleeps` says whether a call may take long, `silent` whether it is
    no sign of life of an agent (surface, section 8; one that may take long is none anyway). Neither may raise, whatever
    the arguments are.
    """

    name: str
    title: str
    description: str
    hints: Hints
    input_schema: Schema
    run: Run
    output_schema: Schema | None = None
    meta: dict[str, object] | None = None
    seen_by: Callable[[Principal], bool] = everybody
    sleeps: Callable[[Arguments], bool] = never
    silent: Callable[[Arguments], bool] = never

    def definition(self) -> dict[str, object]:
        """Return the tool as `tools/list` shows it."""
        shown: dict[str, object] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.hints,
        }
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        if self.meta is not None:
            shown["_meta"] = self.meta
        return shown


def taking(params: type[T], run: Callable[[Call, T], Awaitable[Outcome]]) -> Run:
    """Return a tool's `run` that decodes its arguments strictly first."""

    async def decoding(call: Call, arguments: Arguments) -> Outcome:
        return await run(call, from_object(params, _plain(arguments)))

    return decoding


def _plain(arguments: Arguments) -> Arguments:
    """Return arguments as they are meant: to JSON Schema 5.0 is a whole number, and a model that fills in every
    argument writes null for those that it leaves out.
    """
    return {
        name: int(value)
        if isinstance(value, float) and abs(value) <= SAFE_INTEGER and value % 1 == 0
        else value
        for name, value in arguments.items()
        if value is not None
    }


class ToolBox:
    """All tools of a server, in the fixed order in which they are listed."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) < len(tools):
            raise ValueError("two tools have the same name")
        self._definitions = {tool.name: encode(tool.definition()) for tool in tools}
        self._lists: dict[tuple[str, ...], bytes] = {}

    def listed(self, principal: Principal, *, read_only: bool) -> bytes:
        """Return the tools that a caller sees, as a JSON array; with `read_only` only those that change nothing."""
        names = tuple(tool.name for tool in self._tools.values() if _sees(principal, tool, read_only))
        known = self._lists.get(names)
        if known is None:
            known = b"[%b]" % b",".join(self._definitions[name] for name in names)
            self._lists[names] = known
        return known

    def find(self, name: str, principal: Principal, *, read_only: bool) -> Tool | None:
        """Return a tool that the caller sees: one that it does not see is unknown to it."""
        tool = self._tools.get(name)
        return tool if tool is not None and _sees(principal, tool, read_only) else None


def _sees(principal: Principal, tool: Tool, read_only: bool) -> bool:
    return (tool.hints.read_only_hint or not read_only) and tool.seen_by(principal)


async def run_tool(tool: Tool, call: Call, arguments: Arguments) -> Outcome:
    """Call a tool. What it refuses is an outcome; a defect of ours, or a client that left, is raised."""
    try:
        return await tool.run(call, arguments)
    except Exception as error:
        refused = _refusal(tool, arguments, error)
        if refused is None:
            raise
        return refused


def _refusal(tool: Tool, arguments: Arguments, error: Exception) -> Outcome | None:
    """Return what the model is told. Apart: a frame that an exception has passed, and that holds it, is a cycle."""
    told = as_api_error(error)
    return None if told is None else failed(_sentence(tool, arguments, told))


def _sentence(tool: Tool, arguments: Arguments, error: ApiError) -> str:
    details = error.details or {}
    text = f"{error.code}: {error.message}"
    match error.code:
        case "invalid_argument":
            field = error.field or "arguments"
            text = f"{error.code}: {field}: {error.message}"
            names = tool.input_schema.get("properties", {})
            if (field if field in arguments else field.partition(".")[0]) not in names:
                text += f" The arguments are: {', '.join(names) or 'none'}."
        case "epoch_changed":
            text += f" The new epoch is {details['epoch']}."
        case "cursor_ahead":
            text += " Start again with after: 0, or from latest_seq."
        case "not_found" if "alive" in details:
            text += _names("Near", details["near"]) + _names("Alive", details["alive"])  # or nothing
        case "not_found" if error.message == NO_SUCH_INBOX:
            text += " list_inboxes shows those that it reads."
        case "not_found" if error.field in ("seq", None):
            text += " query_messages shows those that are there."
    return text


def _names(what: str, names: object) -> str:
    """Return a sentence with names; none without a name, since whatever stood there might be one."""
    return f" {what}: {', '.join(map(str, names))}." if isinstance(names, list | tuple) and names else ""
