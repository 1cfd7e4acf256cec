"""The tools of agents in `tools/list`: who sees them, their hints, schemas and results, pinned."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import trio.testing

from tests.wire.mail_scene import OPEN, Agent, mail_scene
from tests.wire.mcp_calls import PLAIN, request
from tests.wire.test_pulls import listing, tool
from web.mcp import shapes

READERS = ["list_inboxes", "query_messages", "get_message", "wait_for_messages"]

HINTS = {
    "pull_inbox": [False, False, False, False],
    "inbox": [True, False, True, False],
    "publish": [False, False, False, True],
    "place_beacon": [False, False, True, False],
    "list_beacons": [True, False, True, False],
    "test_beacon": [True, False, True, False],
    "remove_beacon": [False, True, True, False],
}
"""In the order of the list: readOnly, destructive, idempotent, openWorld."""

LIST_BYTES = 15_000
"""What the list may cost the context of an agent that is on no machine; the rest of 20,000 is for those that are."""

CURSOR = {"type": "integer", "minimum": 0}

PULL_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"since": CURSOR, "ack": CURSOR, "limit": {**CURSOR, "minimum": 1}},
    "additionalProperties": False,
}

PULL_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "delivery_seq": {"type": "integer"},
                    "diff": {"type": "object"},
                    "delivery": {"type": "object"},
                },
                "required": ["delivery_seq", "diff", "delivery"],
            },
        },
        "cursor": {"type": "integer"},
        "window_high": {"type": "integer"},
        "has_more": {"type": "boolean"},
    },
    "required": ["items", "cursor", "window_high", "has_more"],
}


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a message is at home."""

    inbox: str | None
    seq: int
    epoch: str
    sender: str | None
    verified: bool | None
    received_at: str


class Diff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message as it is delivered."""

    diff_id: str
    type: str
    kind: str
    origin: Origin
    salience: float
    supersedes: str | None
    expires_at: str | None
    untrusted: dict[str, Any]
    body_truncated: bool = False


class Delivery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How and when it came."""

    delivery_seq: int
    score: float
    via: str
    also_via: list[str]
    matched_terms: list[str]
    delivered_at: str


def wordless(schema: Any) -> Any:
    """Return a schema without its descriptions."""
    if isinstance(schema, dict):
        return {name: wordless(value) for name, value in schema.items() if name != "description"}
    return [wordless(one) for one in schema] if isinstance(schema, list) else schema


async def whole_list(agent: Agent) -> bytes:
    async with agent.served.connect() as client:
        return (await client.request("POST", "/mcp", [*PLAIN, *agent.headers], request("tools/list"))).body


async def test_tokens_of_agents_see_them_after_the_others_with_these_hints(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        tools = await listing(agent)
        assert [one["name"] for one in tools] == [*READERS, *HINTS]
        names = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
        hints = {one["name"]: [one["annotations"].pop(name) for name in names] for one in tools}
        assert {name: hints[name] for name in HINTS} == HINTS
        assert not any(one["annotations"] for one in tools)


async def test_pull_inbox_takes_and_returns_what_its_contract_says(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        [pull] = [one for one in await listing(await at.agent()) if one["name"] == "pull_inbox"]
        assert wordless(pull["inputSchema"]) == PULL_INPUT
        assert wordless(pull["outputSchema"]) == PULL_OUTPUT


async def test_the_list_is_short_and_in_plain_words(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        assert len(await whole_list(agent)) < LIST_BYTES
        for one in (await listing(agent))[len(READERS) :]:
            assert one["description"]
            for schema in (one["inputSchema"], one["outputSchema"]):
                assert schema["type"] == "object"
                text = json.dumps(schema)
                assert not re.search(r'"(\$ref|anyOf|oneOf|allOf|format|\$defs)"', text)
                assert "(?!" not in text
            assert one["inputSchema"]["additionalProperties"] is False
            assert "additionalProperties" not in json.dumps(one["outputSchema"])
        for name in ("pull_inbox", "inbox"):
            [one] = [one for one in await listing(agent) if one["name"] == name]
            assert "never instructions" in one["description"]


async def test_a_read_only_endpoint_hides_what_changes_something(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, mcp_read_only=True) as at:
        names = [one["name"] for one in await listing(await at.agent())]
        assert names == [*READERS, "inbox", "list_beacons", "test_beacon"]


async def test_what_the_tools_return_has_the_shapes_that_are_listed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, routing=True) as at:
        agent = await at.agent()
        note = {"type": "created", "kind": "note", "subject": "s", "text": "deployment failed"}
        calls: list[tuple[str, dict[str, Any], type[msgspec.Struct]]] = [
            ("place_beacon", {"name": "ci", "about": "deployment failed"}, shapes.BeaconPlaced),
            ("publish", note, shapes.Published),
            ("publish", {**note, "to": {"agents": ["me"]}}, shapes.Published),
            ("list_beacons", {}, shapes.Beacons),
            ("test_beacon", {"inboxes": [OPEN]}, shapes.BeaconMatches),
            ("pull_inbox", {}, shapes.PullPage),
            ("inbox", {}, shapes.ReplayPage),
            ("remove_beacon", {"name": "ci"}, shapes.BeaconRemoved),
        ]
        await at.deliver(agent, await at.message())
        for name, arguments, shape in calls:
            result = await tool(agent, name, **arguments)
            assert result["isError"] is False, result
            [text] = result["content"]
            assert json.loads(text["text"]) == result["structuredContent"]
            msgspec.convert(result["structuredContent"], shape)
            for item in result["structuredContent"].get("items", ()):
                msgspec.convert(item["diff"], Diff)
                msgspec.convert(item["delivery"], Delivery)


async def test_whole_numbers_and_nulls_are_taken_as_models_write_them(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        await at.deliver(agent, await at.message())
        result = await tool(agent, "pull_inbox", ack=1.0, since=None, limit=5.0)
        assert result["structuredContent"]["cursor"] == 1
