"""The four tools that read: what they list, return and refuse, and how large a result may be; on raw bytes.

In one module, because the four are held to the same rules, tool by tool in one table each.
"""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio.testing
from structlog.testing import capture_logs

from actors.commands import Purge
from storage.memory import MemoryStore
from tests.wire.client import Reply
from tests.wire.mcp_calls import call, modern, post, refusal, request
from tests.wire.scene import Scene, scene
from web.mcp.shapes import ForwardPage, Inboxes, Message, Page

KIB = 1024
TOOLS = ["list_inboxes", "query_messages", "get_message", "wait_for_messages"]
LIST_BYTES = 10_000
"""What the list of tools may cost an agent's context, for a token that only reads."""


async def send(at: Scene, body: bytes = b"{}", slug: str = "demo", path: str = "", **headers: str) -> int:
    """Send a webhook as a sender does."""
    async with at.served.connect() as client:
        fields = [
            ("Content-Type", "application/json"),
            *((k.replace("_", "-"), v) for k, v in headers.items()),
        ]
        reply = await client.request("POST", f"/in/{slug}{path}", fields, body)
        assert reply.status == 200, reply.body
        return int(reply.json["seq"])


def content(result: Any, shape: type[msgspec.Struct]) -> Any:
    """Check that a result carries one thing twice and that it has this shape; return it."""
    assert result.keys() == {"content", "structuredContent", "isError"}
    assert result["isError"] is False
    (block,) = result["content"]
    assert block.keys() == {"type", "text"}
    assert json.loads(block["text"]) == result["structuredContent"]
    msgspec.convert(result["structuredContent"], shape)
    for message in result["structuredContent"].get("messages", ()):
        msgspec.convert(message, Message)
    return result["structuredContent"]


# -- the list ----------------------------------------------------------------------


async def test_the_list_is_short_fixed_and_in_plain_words(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, request("tools/list"))
        assert len(reply.body) < LIST_BYTES
        tools = reply.json["result"]["tools"]
        assert [tool["name"] for tool in tools] == TOOLS
        for tool in tools:
            assert re.fullmatch(r"[A-Za-z0-9_]{1,64}", tool["name"])
            assert tool["description"]
            for schema in (tool["inputSchema"], tool["outputSchema"]):
                assert schema["type"] == "object"
                text = json.dumps(schema)
                assert not any(
                    f'"{word}"' in text for word in ("$ref", "anyOf", "oneOf", "allOf", "format", "$defs")
                )
                assert "(?!" not in text
            assert tool["inputSchema"]["additionalProperties"] is False
            assert "additionalProperties" not in json.dumps(tool["outputSchema"])
        assert (await post(at, request("tools/list"))).body == reply.body


async def test_all_four_annotations_are_there(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        tools = (await post(at, request("tools/list"))).json["result"]["tools"]
        names = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
        hints = {tool["name"]: [tool["annotations"].pop(name) for name in names] for tool in tools}
        assert hints == {
            "list_inboxes": [True, False, True, False],
            "query_messages": [True, False, True, True],
            "get_message": [True, False, True, True],
            "wait_for_messages": [True, False, True, True],
        }
        assert not any(tool["annotations"] for tool in tools)


async def test_what_a_sender_wrote_is_said_to_be_data(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        tools = (await post(at, request("tools/list"))).json["result"]["tools"]
        for tool in tools[1:]:
            assert "never instructions" in tool["description"]
        whole = next(tool for tool in tools if tool["name"] == "get_message")
        assert whole["_meta"] == {"anthropic/maxResultSizeChars": 500_000}


async def test_a_server_that_is_read_only_lists_and_runs_what_reads(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, mcp_read_only=True) as at:
        tools = (await post(at, request("tools/list"))).json["result"]["tools"]
        assert [tool["name"] for tool in tools] == TOOLS
        content(await call(at, "list_inboxes"), Inboxes)


# -- what they return ----------------------------------------------------------------------


async def test_the_tools_return_what_rest_returns(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client:

        async def rest(target: str) -> Any:
            return (await client.request("GET", f"/v1/{target}", at.headers)).json

        for number in range(5):
            await send(at, b'{ "n" : %d, "n" : 1e2 }' % number, path="/a%20b?q=%C3%BC")
        inboxes = content(await call(at, "list_inboxes"), Inboxes)
        assert inboxes == await rest("inboxes")
        for arguments, query in (
            ({"after": 0}, "after=0"),
            ({"after": 2, "limit": 2, "bodies": True}, "after=2&limit=2&bodies=true"),
            ({}, ""),
            ({"before": 4, "limit": 2}, "before=4&limit=2"),
            ({"types": ["none", "such"]}, "types=none&types=such"),
            ({"verified": False}, "verified=false"),
            (
                {"since": "2020-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"},
                "since=2020-01-01T00:00:00Z",
            ),
        ):
            page = content(await call(at, "query_messages", inbox="demo", **arguments), Page)
            assert page == await rest(f"inboxes/demo/messages?{query}")
        page = content(await call(at, "wait_for_messages", inbox="demo", after=1, limit=1), ForwardPage)
        assert page == await rest("inboxes/demo/wait?after=1&limit=1")
        message = content(await call(at, "get_message", inbox="demo", seq=3), Message)
        assert message == await rest("inboxes/demo/messages/3")


@pytest.mark.parametrize(
    "body",
    [
        b'{"text": "quotes \\" and \\\\ and \\u0001 \\n", "emoji": "\xf0\x9f\x98\x80"}',
        b'[\n\t{"spread": "over lines"}\r\n]',
        b'plain \x00 text "with" \\ everything \x7f\r\n',
        b"\xff\xfe not utf-8",
        b"",
        b"1.000000000000000000000000000001",
        b'{"dup": 1, "dup": 2}',
    ],
)
async def test_both_copies_are_the_very_same_bytes(
    tmp_path: Path, body: bytes, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        await send(at, body)
        for tool, arguments in (("get_message", {"seq": 1}), ("query_messages", {"bodies": True})):
            reply = await post(
                at, request("tools/call", {"name": tool, "arguments": {"inbox": "demo", **arguments}})
            )
            text = reply.json["result"]["content"][0]["text"].encode()
            assert b'"structuredContent":%b,"isError":false' % text in reply.body


async def test_rows_of_any_body_are_spliced_and_not_encoded_again(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        body = b'{"n": 1.50, "big": 123456789012345678901234567890,  "s": "\\u00e9"}'
        await send(at, body)
        reply = await post(
            at, request("tools/call", {"name": "get_message", "arguments": {"inbox": "demo", "seq": 1}})
        )
        assert body in reply.body


async def test_bodies_over_the_inline_limit_are_marked_and_fetched_whole(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        body = b'"' + b"x" * 200 * KIB + b'"'
        await send(at, body)
        (message,) = (await call(at, "query_messages", inbox="demo", bodies=True))["structuredContent"][
            "messages"
        ]
        assert message["body_truncated"] is True
        assert "body" not in message["untrusted"]
        assert message["size"] == len(body)
        whole = content(await call(at, "get_message", inbox="demo", seq=1), Message)
        assert whole["untrusted"]["body"] == "x" * 200 * KIB
        assert "body_truncated" not in whole


async def test_a_gap_and_a_new_cursor_are_told(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        for _ in range(5):
            await send(at)
        await at.served.world.registry.ask(at.inbox.inbox_id, Purge())
        page = content(await call(at, "query_messages", inbox="demo", after=2), Page)
        assert (page["gap"], page["next_after"], page["messages"]) == (True, 5, [])


async def test_a_list_that_is_cut_says_so(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        await at.new_token(None)
        for number in range(99):
            await at.served.inbox(f"more-{number}")
        everything = content(await call(at, "list_inboxes"), Inboxes)
        assert len(everything["inboxes"]) == 100
        assert everything.keys() == {"inboxes"}
        await at.served.inbox("one-more")
        cut = content(await call(at, "list_inboxes"), Inboxes)
        assert len(cut["inboxes"]) == 100
        assert cut.keys() == {"inboxes", "truncated"}
        assert cut["truncated"] is True


@pytest.mark.parametrize("whole", [1, 1.0])
async def test_a_whole_number_may_have_a_point_and_null_counts_as_left_out(
    tmp_path: Path, whole: float, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        for _ in range(3):
            await at.send()
        plain = await call(at, "query_messages", inbox="demo", after=1, limit=1)
        filled_in = {"before": None, "types": None, "since": None, "bodies": None, "epoch": None}
        assert await call(at, "query_messages", inbox="demo", after=whole, limit=whole, **filled_in) == plain
        assert (await call(at, "get_message", inbox="demo", seq=whole))["isError"] is False


# -- what they refuse ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("query_messages", {}, r"inbox: .*required"),
        ("query_messages", {"inbox": 7}, r"inbox: Expected .*a-z 0-9"),
        ("query_messages", {"inbox": "no slug!"}, r"inbox: Expected .*a-z 0-9"),
        ("query_messages", {"inbox": "demo", "limit": 0}, r"limit: Expected .* 1 to 100"),
        ("query_messages", {"inbox": "demo", "limit": 101}, r"limit: Expected .* 1 to 100"),
        ("query_messages", {"inbox": "demo", "limit": "20"}, r"limit: Expected .* 1 to 100"),
        ("query_messages", {"inbox": "demo", "limit": 2.5}, r"limit: Expected .* 1 to 100"),
        ("query_messages", {"inbox": "demo", "limit": True}, r"limit: Expected .* 1 to 100"),
        ("query_messages", {"inbox": "demo", "limit": 1e300}, r"limit: Expected .* 1 to 100"),
        ("query_messages", {"inbox": None}, r"inbox: .*required"),
        ("query_messages", {"inbox": "demo", "inbox.x": 1}, r"inbox\.x: .*inbox, after, before, limit"),
        ("query_messages", {"inbox": "demo", "after": -1}, r"after: Expected .* 0 to "),
        ("query_messages", {"inbox": "demo", "after": 2**63}, r"after: Expected .* 0 to "),
        ("query_messages", {"inbox": "demo", "after": 10**400}, r"after: Expected .* 0 to "),
        ("query_messages", {"inbox": "demo", "after": 1, "before": 2}, r"before: Give after .* or before"),
        (
            "query_messages",
            {"inbox": "demo", "types": "push"},
            r"types: Expected a list|types: Expected up to",
        ),
        ("query_messages", {"inbox": "demo", "types": [1]}, r"types: Expected"),
        ("query_messages", {"inbox": "demo", "since": "yesterday"}, r"since: Expected .*RFC 3339"),
        ("query_messages", {"inbox": "demo", "bodies": "true"}, r"bodies: Expected .*true.* or .*false"),
        ("query_messages", {"inbox": "demo", "Limit": 1}, r"Limit: .*inbox, after, before, limit"),
        ("query_messages", {"inbox": "demo", "cursor\n": 1}, r"cursor\n: .*inbox, after, before, limit"),
        ("list_inboxes", {"limit": 1}, r"limit: .*The arguments are: none"),
        ("get_message", {"inbox": "demo"}, r"seq: .*required"),
        ("get_message", {"inbox": "demo", "seq": 0}, r"seq: Expected .* 1 to"),
        ("wait_for_messages", {"inbox": "demo"}, r"after: .*required"),
        (
            "wait_for_messages",
            {"inbox": "demo", "after": 0, "timeout_seconds": 61},
            r"timeout_seconds: .* 0 to 60",
        ),
        (
            "wait_for_messages",
            {"inbox": "demo", "after": 0, "timeout_seconds": -1},
            r"timeout_seconds: .* 0 to 60",
        ),
        ("wait_for_messages", {"inbox": "demo", "after": 0, "before": 1}, r"before: .*inbox, after, types"),
    ],
)
async def test_bad_arguments_are_refused_by_name_with_what_is_allowed(
    tmp_path: Path, tool: str, arguments: dict[str, Any], text: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        said = await refusal(at, tool, **arguments)
        assert re.match(f"invalid_argument: {text}", said, re.DOTALL), said
        for inside in ("`", "msgspec", "regex", "`str", "`int"):
            assert inside not in said


async def test_cursors_of_another_life_or_the_future_say_how_to_go_on(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        await send(at)
        epoch = await at.epoch()
        calls = (
            ("query_messages", {"after": 9}),
            ("wait_for_messages", {"after": 9}),
            ("get_message", {"seq": 1}),
        )
        for tool, arguments in calls:
            said = await refusal(at, tool, inbox="demo", epoch="another", **arguments)
            assert said.startswith("epoch_changed: ")
            assert "start again with after: 0" in said
            assert epoch in said
        for tool, arguments in calls[:2]:
            said = await refusal(at, tool, inbox="demo", epoch=epoch, **arguments)
            assert said.startswith("cursor_ahead: ")
            assert "latest_seq is 1" in said
        assert (await refusal(at, "get_message", inbox="demo", seq=2)).startswith("not_found: ")


async def test_a_message_that_is_too_large_is_refused_with_its_address(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    options = {"message_bytes": 16 * KIB, "public_url": "https://hooks.example.org"}
    async with scene(tmp_path, **options) as at:
        for size in (9 * KIB, 100 * KIB):
            seq = await send(at, b'"' + b"x" * size + b'"')
            said = await refusal(at, "get_message", inbox="demo", seq=seq)
            assert said.startswith("payload_too_large: ")
            assert f"https://hooks.example.org/v1/inboxes/demo/messages/{seq}/raw" in said


class Failing(MemoryStore):
    """A store whose reads fail when a test says so."""

    failure: Exception | None = None

    async def read(self, look: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        return await super().read(look)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_defect_is_logged_and_told_as_internal(
    tmp_path: Path, era: str, mock_clock: trio.testing.MockClock
) -> None:
    store = Failing()
    with capture_logs() as logs:
        async with scene(tmp_path, store=store) as at:
            store.failure = ArithmeticError("a defect at /secret/path")
            if era == "modern":
                reply = await modern(at, "tools/call", name="list_inboxes")
            else:
                reply = await post(at, request("tools/call", {"name": "list_inboxes"}))
            assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (200, -32603, 1)
            assert reply.json["error"]["data"] == {"code": "internal"}
            assert b"secret" not in reply.body
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["a tool failed"]


# -- sizes ----------------------------------------------------------------------


ENVELOPE_BYTES = 200
"""What is around both copies of a page."""


async def walked(at: Scene, page_bytes: int, target: str, **arguments: Any) -> list[int]:
    """Follow a page's cursor to the end; check every answer's size and return the seqs."""
    seqs: list[int] = []
    while True:
        body = request("tools/call", {"name": "query_messages", "arguments": {"inbox": "demo", **arguments}})
        reply = await post(at, body, target=target)
        page = reply.json["result"]["structuredContent"]
        found = [message["seq"] for message in page["messages"]]
        assert len(reply.body) <= page_bytes + ENVELOPE_BYTES or len(found) == 1
        seqs += found
        if not found or page.get("next_before", 0) is None:
            return seqs
        if "next_after" in page:
            arguments["after"] = page["next_after"]
        else:
            arguments["before"] = page["next_before"]


@pytest.mark.parametrize("target", ["/mcp", "/mcp?page_bytes=20000"])
@pytest.mark.parametrize("filler", [b"x", b'\\"', "é".encode(), b"\\u0001"])
async def test_a_page_is_measured_as_sent_and_nothing_is_skipped(
    tmp_path: Path, filler: bytes, target: str, mock_clock: trio.testing.MockClock
) -> None:
    limit = 20_000 if "page_bytes" in target else 64 * KIB
    async with scene(tmp_path, page_bytes=64 * KIB) as at:
        for number in range(30):
            await send(at, b'"' + filler * (number * 400 // len(filler)) + b'"')
        forward = await walked(at, limit, target, after=0, bodies=True, limit=100)
        assert forward == list(range(1, 31))
        backward = await walked(at, limit, target, bodies=True, limit=100)
        assert backward == list(range(30, 0, -1))


async def test_a_page_is_nearly_as_large_as_it_may_be(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, page_bytes=64 * KIB) as at:
        for _ in range(60):
            await send(at, b'"' + b"x" * 1000 + b'"')
        body = request(
            "tools/call",
            {
                "name": "query_messages",
                "arguments": {"inbox": "demo", "after": 0, "bodies": True, "limit": 100},
            },
        )
        reply = await post(at, body)
        assert 60 * KIB < len(reply.body) <= 64 * KIB + ENVELOPE_BYTES


async def test_one_message_is_there_however_large(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        await send(at, b'"' + b"x" * 15_000 + b'"')
        await send(at, b'"' + b"y" * 15_000 + b'"')
        for tool in ("query_messages", "wait_for_messages"):
            result = await call(at, tool, target="/mcp?page_bytes=4096", inbox="demo", after=0, bodies=True)
            page = result["structuredContent"]
            assert [message["seq"] for message in page["messages"]] == [1]
            assert page["next_after"] == 1


async def test_a_client_may_ask_for_smaller_pages_only(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, page_bytes=16 * KIB) as at:
        for _ in range(20):
            await send(at, b'"' + b"x" * 1000 + b'"')
        seqs = await walked(at, 16 * KIB, "/mcp?page_bytes=1000000", after=0, bodies=True, limit=100)
        assert seqs == list(range(1, 21))


# -- what a token may not see ----------------------------------------------------------------------


def without(reply: Reply, slug: str) -> bytes:
    """Return an answer with the slug that was asked for taken out."""
    return reply.body.replace(slug.encode(), b"SLUG")


async def test_a_token_never_learns_of_inboxes_that_it_may_not_read(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Neither from lists, counts and cursors nor from the words of a refusal, whatever the foreign inbox holds."""
    async with scene(tmp_path) as at:
        before = (await post(at, request("tools/call", {"name": "list_inboxes"}))).body
        tools = (await post(at, request("tools/list"))).body
        await at.served.inbox("secret", verifier="none")
        for _ in range(3):
            await send(at, slug="secret")
        assert (await post(at, request("tools/call", {"name": "list_inboxes"}))).body == before
        assert (await post(at, request("tools/list"))).body == tools
        tries: list[tuple[str, dict[str, Any]]] = [
            ("query_messages", {}),
            ("query_messages", {"after": 0}),
            ("query_messages", {"after": 10**9}),
            ("query_messages", {"epoch": "x"}),
            ("query_messages", {"limit": 0}),
            ("query_messages", {"nonsense": 0}),
            ("get_message", {"seq": 1}),
            ("get_message", {"seq": 10**9}),
            ("wait_for_messages", {"after": 0}),
            ("wait_for_messages", {"after": 10**9}),
            ("wait_for_messages", {"after": 0, "timeout_seconds": 0}),
        ]
        for tool, arguments in tries:
            said = set()
            for slug in ("secret", "absent", "agent.somebody", "machine.one"):
                body = request("tools/call", {"name": tool, "arguments": {"inbox": slug, **arguments}})
                reply = await post(at, body)
                assert reply.json["result"]["isError"] is True
                said.add(without(reply, slug))
            assert len(said) == 1, (tool, arguments, said)


class Counting(MemoryStore):
    """A store that counts its reads."""

    reads = 0

    async def read(self, look: Any) -> Any:
        self.reads += 1
        return await super().read(look)


async def test_absent_and_forbidden_take_the_same_path(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """So they take the same time: nothing is looked up for an inbox that is not the caller's, and no slot is taken."""
    store = Counting()
    async with scene(tmp_path, store=store, max_streams=1) as at:
        await at.served.inbox("secret")
        for slug in ("secret", "absent"):
            for tool, arguments in (
                ("query_messages", {}),
                ("get_message", {"seq": 1}),
                ("wait_for_messages", {"after": 0}),
            ):
                reads = store.reads
                await refusal(at, tool, inbox=slug, **arguments)
                assert store.reads == reads
                assert at.served.slots.taken == 0


async def test_a_changed_scope_is_in_force_on_the_next_call(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        await at.served.inbox("other")
        assert (await refusal(at, "query_messages", inbox="other")).startswith("not_found: ")
        await at.rescope(("other",))
        content(await call(at, "query_messages", inbox="other"), Page)
        assert (await refusal(at, "query_messages", inbox="demo")).startswith("not_found: ")
        await at.served.world.tokens.revoke(at.token.token_id)
        assert (await post(at, request("ping"))).status == 401
