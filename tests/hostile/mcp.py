"""Messages for `/mcp` by type and schema: right ones, nearly right ones, and such as nobody would write.

Each tool's arguments are drawn from its own input schema, and then perhaps spoilt: a member of another type, one too
many, one left out. Around them JSON-RPC in all its forms, and bodies that are no JSON. Whatever is sent, the answer is
a JSON-RPC message or nothing, never a defect of the server, and shows nothing of its insides.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
from hypothesis import strategies as st

from tests.live.api import CALL_SECONDS, Api

KEPT = sorted((Path(__file__).parent / "corpus" / "mcp").iterdir())
"""Bodies that once were trouble somewhere, or are of a kind that is: each is sent as it is, and spoilt."""

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01", "")
STATUSES = frozenset({200, 202, 400, 401, 404, 405, 406, 413, 415, 429, 503, 507})
INTERNAL_ERROR = -32603
INSIDES = re.compile(r"Traceback|File \"|/site-packages/|sqlite3?\.|apsw|prm_(?:admin|agent|machine)_")
"""What no answer shows: traces, paths, statements, tokens."""

NO_WAIT = {"timeout_seconds": 0}
"""Waits are asked for without time, or a run would be spent asleep."""

_SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-3, 130) | st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
    "boolean": st.booleans(),
    "null": st.none(),
    "string": st.sampled_from(("demo", "ada", "box", "", "2026-01-01T00:00:00Z", "ü" * 70))
    | st.text(max_size=40),
}
anything = st.recursive(
    st.one_of(*_SIMPLE.values()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def fitting(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that a schema takes, as far as its types say."""
    if "$ref" in schema:
        return fitting(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if "anyOf" in schema:
        return st.one_of([fitting(one, definitions) for one in schema["anyOf"]])
    match schema.get("type"):
        case "object" if "properties" in schema:
            needed = set(schema.get("required", ()))
            each = {name: fitting(one, definitions) for name, one in schema["properties"].items()}
            return st.fixed_dictionaries(
                {name: one for name, one in each.items() if name in needed},
                optional={name: one for name, one in each.items() if name not in needed},
            )
        case "object":
            return st.dictionaries(st.text(max_size=8), anything, max_size=4)
        case "array":
            return st.lists(fitting(schema.get("items", {}), definitions), max_size=3)
        case list() as kinds:
            return st.one_of([_SIMPLE.get(kind, anything) for kind in kinds])
        case str() as kind:
            return _SIMPLE.get(kind, anything)
        case _:
            return anything


@st.composite
def spoilt(draw: st.DrawFn, arguments: st.SearchStrategy[dict[str, Any]]) -> Any:
    """Return arguments, perhaps with one that does not belong there."""
    made = dict(draw(arguments))
    how = draw(st.sampled_from(("right", "right", "other type", "too many", "too few", "no object")))
    if how == "other type" and made:
        made[draw(st.sampled_from(sorted(made)))] = draw(anything)
    elif how == "too many":
        made[draw(st.text(max_size=12))] = draw(anything)
    elif how == "too few" and made:
        del made[draw(st.sampled_from(sorted(made)))]
    elif how == "no object":
        return draw(anything)
    return made


def _calls(tools: list[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    calls = []
    for tool in tools:
        schema = tool["inputSchema"]
        right = fitting(schema, schema.get("$defs", {}))
        if "timeout_seconds" in schema.get("properties", {}):
            right = right.map(lambda made: {**made, **NO_WAIT})
        calls.append(st.fixed_dictionaries({"name": st.just(tool["name"]), "arguments": spoilt(right)}))
    return st.one_of(calls)


def messages(tools: list[dict[str, Any]]) -> st.SearchStrategy[bytes]:
    """Return bodies: calls of these tools, other methods, and what is no message."""
    ids = st.integers() | st.text(max_size=8) | anything
    params = (
        _calls(tools)
        | st.fixed_dictionaries({"name": st.text(max_size=20), "arguments": anything})
        | anything
    )
    methods = st.sampled_from(
        (
            "tools/call",
            "tools/call",
            "tools/list",
            "initialize",
            "ping",
            "notifications/cancelled",
            "resources/list",
        )
    )
    message = st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0") | st.just("1.0"), "method": methods | st.text(max_size=20)},
        optional={"id": ids, "params": params, "extra": anything},
    )
    call = st.fixed_dictionaries(
        {
            "jsonrpc": st.just("2.0"),
            "id": st.integers(1, 9),
            "method": st.just("tools/call"),
            "params": _calls(tools),
        }
    )
    whole = (call | call | message | anything).map(lambda value: msgspec.json.encode(value))
    return (
        whole
        | st.lists(message, max_size=3).map(msgspec.json.encode)
        | st.binary(max_size=200)
        | broken(whole)
        | broken(st.sampled_from(tuple(path.read_bytes() for path in KEPT)))
    )


@st.composite
def broken(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Return a body with a piece cut out of it, or bytes put into it."""
    body = draw(whole)
    at = draw(st.integers(0, len(body)))
    return body[:at] + draw(st.binary(max_size=4)) + body[at + draw(st.integers(0, 5)) :]


class Endpoint:
    """`/mcp` of one server as one token sees it. `hidden` is what no answer may contain, whatever was asked."""

    def __init__(self, url: str, token: str, hidden: Sequence[str] = ()) -> None:
        self._hidden = (token, *hidden)
        bearer = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=bearer, timeout=CALL_SECONDS, trust_env=False)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools that the token sees."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        tools: list[dict[str, Any]] = self._http.post("/mcp", json=body).json()["result"]["tools"]
        return tools

    def send(self, body: bytes, version: str) -> None:
        """Send one body. Raises `AssertionError` for an answer that may not be given."""
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if version:
            headers["MCP-Protocol-Version"] = version
        answer = self._http.post("/mcp", content=body, headers=headers)
        assert answer.status_code in STATUSES, f"{answer.status_code}: {answer.text[:500]}"
        if answer.status_code == 202:
            assert answer.content == b""
            return
        for text in self._hidden:
            assert text not in answer.text, f"{text!r} leaves the server: {answer.text[:500]}"
        told = answer.json()
        assert ("result" in told) != ("error" in told), told
        if "error" in told:
            assert told["error"].get("code") != INTERNAL_ERROR, f"a defect: {told}"
            refusal = str(told["error"].get("message", ""))
        elif told["result"].get("isError"):
            refusal = "".join(str(piece.get("text")) for piece in told["result"]["content"])
        else:
            return
        # What was sent may be repeated in a refusal; the insides of the server are not.
        found = INSIDES.search(refusal)
        assert found is None or found[0] in body.decode(errors="replace"), refusal


def furnish(api: Api) -> tuple[str, str]:
    """Make what the tools can be used on; return the tokens of an agent and of a machine."""
    api.ok("POST", "/inboxes", {"slug": "news", "kind": "topic"}, status=201)
    for n in range(5):
        api.send("demo", b'{"n":%d}' % n)
    api.ok("POST", "/machines", {"name": "box"}, status=201)
    api.ok("POST", "/agents", {"agent_id": "ada", "machine": "box"}, status=201)
    agent = api.ok("POST", "/tokens", {"kind": "agent", "agent": "ada", "inboxes": "all"}, status=201)
    machine = api.ok("POST", "/tokens", {"kind": "machine", "machine": "box", "inboxes": []}, status=201)
    return agent["token"], machine["token"]
