"""Draining an inbox over REST and MCP: the conversations of the contract, with equal answers; what is refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio.testing

from tests.pulls import CONVERSATIONS, MAX_BATCH, Conversation
from tests.wire.client import Reply
from tests.wire.mail_scene import CLOSED, OPEN, Agent, MailScene, by_seq, mail_scene, record
from tests.wire.mcp_calls import PLAIN, request

FIELDS = ["items", "cursor", "window_high", "has_more"]


async def tool(agent: Agent, name: str, /, **arguments: Any) -> Any:
    """Call a tool; return its result."""
    body = request("tools/call", {"name": name, "arguments": arguments})
    async with agent.served.connect() as client:
        reply = await client.request("POST", "/mcp", [*PLAIN, *agent.headers], body)
    assert reply.status == 200, reply.body
    return reply.json["result"]


async def over_rest(agent: Agent, call: dict[str, int]) -> Any:
    return await agent.pull(**call)


async def over_mcp(agent: Agent, call: dict[str, int]) -> Any:
    result = await tool(agent, "pull_inbox", **call)
    assert result["isError"] is False, result
    [text] = result["content"]
    assert json.loads(text["text"]) == result["structuredContent"]
    return result["structuredContent"]


async def over_wait(agent: Agent, call: dict[str, int]) -> Any:
    reply = await agent.call("POST", "/v1/inbox:wait", {**call, "timeout_seconds": 0})
    assert reply.status == 200, reply.body
    return reply.json


WAYS = {"rest": over_rest, "mcp": over_mcp, "wait": over_wait}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.name)
async def test_a_conversation_goes_as_the_contract_says(
    conversation: Conversation, way: str, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, MAX_BATCH) as at:
        agent = await at.agent()
        await at.seed(agent, conversation)
        for step in conversation.steps:
            page = await WAYS[way](agent, step.call)
            assert list(page) == FIELDS
            assert by_seq(page) == step.answer, step.call


async def test_rest_and_mcp_answer_with_the_same_page(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        await at.deliver(
            agent, await at.message(body=b'{ "n" : 1e2, "n" : 1.0 }'), await at.message(body=b"\xff")
        )
        assert await over_mcp(agent, {"since": 0}) == await over_rest(agent, {"since": 0})


async def test_an_item_is_a_diff_and_its_delivery_record(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        await at.deliver(agent, await at.message(body=b'{"n": 1}'))
        [item] = (await agent.pull())["items"]
        whole = (await agent.call("GET", "/v1/inboxes/open/messages/1")).json
        assert list(item) == ["delivery_seq", "diff", "delivery"]
        assert item["diff"]["diff_id"] == whole["id"]
        assert item["diff"]["untrusted"] == whole["untrusted"]
        assert item["diff"]["origin"] == {
            name: whole[name] for name in ("inbox", "seq", "epoch", "sender", "verified", "received_at")
        }
        assert item["delivery"]["via"] == "beacon:all"
        assert item["delivery"]["delivered_at"] > whole["received_at"]


async def test_an_empty_body_is_a_call_without_arguments(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        for body in (None, b"", b"{}", b" "):
            reply = await agent.call("POST", "/v1/inbox:pull", body)
            assert reply.json == {"items": [], "cursor": 0, "window_high": 0, "has_more": False}


REFUSED = [
    ({"ack": -1}, "ack"),
    ({"ack": 2**63}, "ack"),
    ({"ack": 1.5}, "ack"),
    ({"ack": "1"}, "ack"),
    ({"since": -1}, "since"),
    ({"since": 2**63}, "since"),
    ({"limit": 0}, "limit"),
    ({"limit": -5}, "limit"),
    ({"agent_id": "other"}, "agent_id"),
    ({"timeout": 1}, "timeout"),
]


@pytest.mark.parametrize(("call", "field"), REFUSED, ids=str)
async def test_what_is_out_of_range_or_unknown_is_refused_by_name(
    call: dict[str, Any], field: str, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        for path in ("/v1/inbox:pull", "/v1/inbox:wait"):
            reply = await agent.call("POST", path, call)
            assert (reply.status, reply.code) == (400, "invalid_argument")
            assert reply.json["error"]["field"] == field
        result = await tool(agent, "pull_inbox", **call)
        assert result["isError"] is True
        assert "structuredContent" not in result
        assert result["content"][0]["text"].startswith(f"invalid_argument: {field}: ")


async def test_the_edges_of_the_ranges_are_taken(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        await at.deliver(agent, await at.message())
        top = 2**63 - 1
        assert by_seq(await agent.pull(since=top)) == {
            "items": [],
            "cursor": 0,
            "window_high": 0,
            "has_more": False,
        }
        assert (await agent.pull(ack=top, limit=top))["cursor"] == 1
        assert (await agent.pull(ack=None, since=None, limit=None))["cursor"] == 1


async def test_only_a_token_of_an_agent_has_an_inbox(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        for kind, inboxes in (("admin", None), ("agent", [OPEN])):
            agent.headers = [await at.served.token(kind, inboxes)]  # type: ignore[arg-type]  # the pairs are right together
            for method, path, body in CALLS:
                reply = await agent.call(method, path, body)
                assert (reply.status, reply.code) == (403, "permission_denied"), path
            listed = await listing(agent)
            assert [one["name"] for one in listed] == [
                "list_inboxes",
                "query_messages",
                "get_message",
                "wait_for_messages",
            ]
            async with at.served.connect() as client:
                reply = await client.request(
                    "POST", "/mcp", [*PLAIN, *agent.headers], request("tools/call", {"name": "pull_inbox"})
                )
            assert reply.json["error"]["code"] == -32602


CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/v1/inbox:pull", {}),
    ("POST", "/v1/inbox:wait", {}),
    ("GET", "/v1/inbox", None),
    ("GET", "/v1/inbox:stream", None),
    ("GET", "/v1/beacons", None),
    ("GET", "/v1/beacons/ci", None),
    ("DELETE", "/v1/beacons/ci", None),
    ("PUT", "/v1/beacons/ci", {"about": "deployments"}),
    ("POST", "/v1/beacons:test", {"about": "deployments"}),
    ("POST", "/v1/publish", {"type": "created", "kind": "note", "subject": "a", "text": "b"}),
]


async def listing(agent: Agent) -> Any:
    async with agent.served.connect() as client:
        reply = await client.request("POST", "/mcp", [*PLAIN, *agent.headers], request("tools/list"))
    return reply.json["result"]["tools"]


# -- what may be seen ----------------------------------------------------------------------------------


async def test_a_scope_revoked_after_delivery_hides_the_row_and_the_window_passes_it(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent(inboxes=(OPEN, CLOSED))
        await at.deliver(agent, await at.message(OPEN), await at.message(CLOSED), await at.message(OPEN))
        assert by_seq(await agent.pull())["items"] == [1, 2, 3]
        await agent.rescope(OPEN)
        assert by_seq(await agent.pull()) == {
            "items": [1, 3],
            "cursor": 0,
            "window_high": 3,
            "has_more": False,
        }
        assert by_seq(await agent.pull(ack=3))["cursor"] == 3
        assert by_seq(await agent.pull(since=0))["items"] == [1, 3]


async def test_two_tokens_of_one_agent_see_by_their_own_scopes_and_share_the_cursor(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        narrow, wide = await at.agent(inboxes=()), await at.agent(inboxes=None)
        await at.deliver(narrow, await at.message(OPEN), await at.message(CLOSED))
        assert by_seq(await narrow.pull())["items"] == []
        assert by_seq(await wide.pull())["items"] == [1, 2]
        assert (await narrow.pull(ack=2))["cursor"] == 2
        assert by_seq(await wide.pull())["items"] == []


# -- the size of a page ------------------------------------------------------------------------------------


async def drained(at: MailScene, agent: Agent, limit_bytes: int, over: Any) -> list[int]:
    """Drain an inbox by the client's rule; return the seqs in the order of the pages, each page sorted."""
    seen: list[int] = []
    ack: int | None = None
    while True:
        size, page = await over(agent, ack)
        assert size <= limit_bytes or len(page["items"]) == 1
        seen += sorted(item["delivery_seq"] for item in page["items"])
        ack = page["window_high"]
        if not page["has_more"]:
            return seen


async def sized_rest(agent: Agent, ack: int | None) -> tuple[int, Any]:
    reply = await agent.call("POST", "/v1/inbox:pull", {} if ack is None else {"ack": ack})
    return len(reply.body), reply.json


async def sized_mcp(agent: Agent, ack: int | None) -> tuple[int, Any]:
    body = request("tools/call", {"name": "pull_inbox", "arguments": {} if ack is None else {"ack": ack}})
    async with agent.served.connect() as client:
        reply: Reply = await client.request("POST", "/mcp", [*PLAIN, *agent.headers], body)
    return len(reply.body) - 200, reply.json["result"]["structuredContent"]


BODIES = {
    "json": b'{"a": "%s"}' % (b"x" * 9_000),
    "quotes": b'"%s"' % (b'\\"' * 4_000),
    "controls": b"\x01" * 9_000,
    "bytes": b"\xff" * 9_000,
}


@pytest.mark.parametrize("over", [sized_rest, sized_mcp], ids=["rest", "mcp"])
@pytest.mark.parametrize("body", BODIES)
async def test_a_page_is_cut_by_its_bytes_as_sent_and_nothing_is_lost(
    body: str, over: Any, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, page_bytes=65_536) as at:
        agent = await at.agent()
        rows = 30
        await at.deliver(agent, *[await at.message(body=BODIES[body]) for _ in range(rows)])
        assert await drained(at, agent, 65_536, over) == list(range(1, rows + 1))


async def test_a_page_has_one_item_at_least(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with mail_scene(tmp_path, page_bytes=16_384) as at:
        agent = await at.agent()
        large = b'"%s"' % (b"x" * 16_000)
        await at.deliver(agent, await at.message(body=large), await at.message(body=large))
        for seq in (1, 2):
            page = await agent.pull(ack=seq - 1)
            assert by_seq(page) == {
                "items": [seq],
                "cursor": seq - 1,
                "window_high": seq,
                "has_more": seq == 1,
            }


async def test_a_body_over_the_inline_limit_is_left_out_and_said_so(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, inline_body_bytes=100) as at:
        agent = await at.agent()
        await at.deliver(agent, await at.message(body=b"x" * 101), await at.message(body=b"x" * 100))
        cut, whole = (item["diff"] for item in (await agent.pull())["items"])
        assert cut["body_truncated"] is True
        assert "body_text" not in cut["untrusted"]
        assert "body_truncated" not in whole
        assert whole["untrusted"]["body_text"] == "x" * 100


# -- inbox -----------------------------------------------------------------------------------------------


async def test_the_inbox_is_replayed_by_time_and_marks_nothing(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        for score in (0.1, 0.9, 0.5, 0.5):
            draft = await at.message()
            await at.deliver(agent, msgspec.structs.replace(draft, delivery=record(score)))
        await agent.pull(ack=4)
        seen: list[int] = []
        query = "?limit=3"
        for truncated in (True, False):
            page = (await agent.call("GET", f"/v1/inbox{query}")).json
            assert list(page) == ["items", "last_seen", "truncated"]
            assert page["truncated"] is truncated
            assert page["last_seen"] == page["items"][-1]["delivery"]["delivered_at"]
            seen += [item["delivery_seq"] for item in page["items"]]
            query = f"?limit=3&last_seen={page['last_seen']}"
        assert seen == [1, 2, 3, 4]
        again = (await agent.call("GET", f"/v1/inbox{query}")).json
        assert again == {"items": [], "last_seen": page["last_seen"], "truncated": False}
        over_mcp = await tool(agent, "inbox", last_seen=page["items"][-1]["delivery"]["delivered_at"])
        assert over_mcp["structuredContent"] == again
        whole = await tool(agent, "inbox")
        assert [item["delivery_seq"] for item in whole["structuredContent"]["items"]] == [1, 2, 3, 4]


async def test_an_inbox_that_never_got_anything_has_no_last_seen(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        assert (await agent.call("GET", "/v1/inbox")).json == {
            "items": [],
            "last_seen": None,
            "truncated": False,
        }
        for query, field in (("last_seen=yesterday", "last_seen"), ("limit=101", "limit"), ("ack=1", "ack")):
            reply = await agent.call("GET", f"/v1/inbox?{query}")
            assert (reply.code, reply.json["error"]["field"]) == ("invalid_argument", field)


async def test_a_replay_is_bounded_by_bytes_and_by_the_scope(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, page_bytes=65_536) as at:
        agent = await at.agent()
        drafts = [await at.message(OPEN if n % 3 else CLOSED, BODIES["json"]) for n in range(30)]
        await at.deliver(agent, *drafts)
        seen: list[int] = []
        query = ""
        while True:
            reply = await agent.call("GET", f"/v1/inbox{query}")
            assert len(reply.body) <= 65_536
            seen += [item["delivery_seq"] for item in reply.json["items"]]
            query = f"?last_seen={reply.json['last_seen']}"
            if not reply.json["truncated"]:
                break
        assert seen == [n + 1 for n in range(30) if n % 3]
