"""How each MCP client is told of a server: the configuration or command that it takes, ready to be used.

Knows the clients' formats and nothing of terminals. The token is never written: every format names the environment
variable that holds it. `docs/connecting.md` says when each format was looked up, and where.
"""

import json
import shlex
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from postroom.client import ClientError

TOKEN_VARIABLE = "POSTROOM_TOKEN"  # noqa: S105 - the name of a variable, not a token # nosec B105

SMALL_PAGE_BYTES = 65_536
"""As sent, so about 30 KiB of text: well under the 25,000 tokens at which some clients throw a whole result away."""


class Wanted(msgspec.Struct, frozen=True):
    """What to connect with: `url` is the server's base URL, `name` what the client shall call it.

    `variable` holds the token. `stdio`: through `postroom mcp`, for clients that only start programs.
    """

    url: str
    name: str = "postroom"
    variable: str = TOKEN_VARIABLE
    stdio: bool = False


class Ready(msgspec.Struct, frozen=True):
    """What to hand over: `text` is the configuration or command, `hint` says where it goes."""

    text: str
    hint: str


class Traits(msgspec.Struct, frozen=True):
    """How a client differs from others, seen from the server.

    `small_pages`: it refuses or cuts large results. `empty_lists`: it asks for resources and prompts that nobody
    declared, and takes an error for a failed connection.
    """

    small_pages: bool = False
    empty_lists: bool = False

    def query(self) -> str:
        """Return the query of the endpoint's URL."""
        options: dict[str, str] = {}
        if self.empty_lists:
            options["lists"] = "empty"
        if self.small_pages:
            options["page_bytes"] = str(SMALL_PAGE_BYTES)
        return urlencode(options)

    def arguments(self) -> list[str]:
        """Return the same as arguments of `postroom mcp`."""
        arguments = ["--empty-lists"] if self.empty_lists else []
        return arguments + (["--page-bytes", str(SMALL_PAGE_BYTES)] if self.small_pages else [])


PLAIN = Traits()
SMALL_PAGES = Traits(small_pages=True)
EMPTY_LISTS = Traits(empty_lists=True)


def claude_code(wanted: Wanted) -> Ready:
    """Return the command for Claude Code. Quoted so that the reference is stored and not the token."""
    if wanted.stdio:
        words = ["claude", "mcp", "add", "--scope", "project", wanted.name]
        words += ["--env", f"{TOKEN_VARIABLE}=${{{wanted.variable}}}", "--", *_command(wanted, SMALL_PAGES)]
    else:
        words = ["claude", "mcp", "add", "--transport", "http", "--scope", "project", wanted.name]
        words += [_endpoint(wanted, SMALL_PAGES), "--header", f"Authorization: Bearer ${{{wanted.variable}}}"]
    return Ready(
        shlex.join(words),
        f"Run it in your project: it writes .mcp.json, in which {wanted.variable} is read when Claude Code starts.",
    )


def cursor(wanted: Wanted) -> Ready:
    """Return the configuration for Cursor."""
    reference = f"${{env:{wanted.variable}}}"
    if wanted.stdio:
        server = _program(wanted, EMPTY_LISTS, reference)
    else:
        server = {"url": _endpoint(wanted, EMPTY_LISTS), "headers": _headers(reference)}
    return Ready(
        _json({"mcpServers": {wanted.name: server}}),
        f"Put it into .cursor/mcp.json of a project, or ~/.cursor/mcp.json; start Cursor with {wanted.variable} set.",
    )


def vscode(wanted: Wanted) -> Ready:
    """Return the configuration for Visual Studio Code."""
    reference = f"${{env:{wanted.variable}}}"
    if wanted.stdio:
        server = {"type": "stdio", **_program(wanted, PLAIN, reference)}
    else:
        server = {"type": "http", "url": _endpoint(wanted, PLAIN), "headers": _headers(reference)}
    return Ready(
        _json({"servers": {wanted.name: server}}),
        f"Put it into .vscode/mcp.json of a project; start VS Code with {wanted.variable} set.",
    )


def codex(wanted: Wanted) -> Ready:
    """Return the configuration for Codex. Raises `ClientError` for what its format cannot say."""
    table = f"[mcp_servers.{wanted.name}]"
    if wanted.stdio:
        if wanted.variable != TOKEN_VARIABLE:
            raise ClientError(f"Codex passes a variable on under its own name only; use {TOKEN_VARIABLE}.")
        command, *arguments = _command(wanted, SMALL_PAGES)
        lines = [
            f"command = {_toml(command)}",
            f"args = [{', '.join(map(_toml, arguments))}]",
            f"env_vars = [{_toml(wanted.variable)}]",
        ]
    else:
        lines = [
            f"url = {_toml(_endpoint(wanted, SMALL_PAGES))}",
            f"bearer_token_env_var = {_toml(wanted.variable)}",
        ]
    return Ready(
        "\n".join([table, *lines]),
        f"Add it to ~/.codex/config.toml; start Codex with {wanted.variable} set.",
    )


def plain_json(wanted: Wanted) -> Ready:
    """Return the form that most other clients take, with variables in the commonest spelling."""
    reference = f"${{{wanted.variable}}}"
    if wanted.stdio:
        server = _program(wanted, PLAIN, reference)
    else:
        server = {"type": "http", "url": _endpoint(wanted, PLAIN), "headers": _headers(reference)}
    return Ready(
        _json({"mcpServers": {wanted.name: server}}),
        "Keys and the spelling of variables differ between clients; look them up in your client's documentation. "
        "?lists=empty helps one that shows an error about resources or prompts, ?page_bytes=65536 one that "
        "refuses large results.",
    )


CLIENTS: dict[str, Callable[[Wanted], Ready]] = {
    "claude-code": claude_code,
    "cursor": cursor,
    "vscode": vscode,
    "codex": codex,
    "json": plain_json,
}


def _endpoint(wanted: Wanted, traits: Traits) -> str:
    query = traits.query()
    return f"{wanted.url.rstrip('/')}/mcp" + (f"?{query}" if query else "")


def _command(wanted: Wanted, traits: Traits) -> list[str]:
    return ["postroom", "mcp", "--url", wanted.url, *traits.arguments()]


def _program(wanted: Wanted, traits: Traits, reference: str) -> dict[str, Any]:
    command, *arguments = _command(wanted, traits)
    return {"command": command, "args": arguments, "env": {TOKEN_VARIABLE: reference}}


def _headers(reference: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {reference}"}


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _toml(text: str) -> str:
    """Return a basic string of TOML; JSON writes the same one, but for DEL, which no URL and no name holds."""
    return json.dumps(text, ensure_ascii=False)
