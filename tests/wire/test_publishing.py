"""Publishing over REST and MCP: where a message goes, how it is read there, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.virtual import pass_time
from tests.wire.client import Reply
from tests.wire.mail_scene import OPEN, Agent, mail_scene
from tests.wire.test_pulls import tool

ROUTED_SECONDS = 0.1
"""Of virtual time, in which the router has long done what there is to do."""

NOTE: dict[str, Any] = {
    "type": "created",
    "kind": "note",
    "subject": "Deploy",
    "text": "Deployment of api failed.",
}


async def publish(agent: Agent, **changes: Any) -> Reply:
    return await agent.call("POST", "/v1/publish", {**NOTE, **changes})


async def published(agent: Agent, **changes: Any) -> Any:
    reply = await publish(agent, **changes)
    assert reply.status == 200, reply.body
    return reply.json


async def refused(agent: Agent, **changes: Any) -> tuple[int, str, str | None]:
    error = await publish(agent, **changes)
    return error.status, error.code, error.json["error"].get("field")


async def items(agent: Agent) -> list[Any]:
    await pass_time(ROUTED_SECONDS)
    page: list[Any] = (await agent.pull(since=0))["items"]
    return page


# -- to a topic ----------------------------------------------------------------------------------------


async def test_without_an_address_a_message_goes_to_the_commons_and_is_read_there(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent, reader = await at.agent(), await at.agent("reader", inboxes=())
        answer = await published(agent, tags=["api"], supersedes="01M8PKRX87DWZMGC1XN4D5CRQ5")
        assert answer == {"diff_id": answer["diff_id"], "inbox": "commons", "seq": 1}
        page = (await reader.call("GET", "/v1/inboxes/commons/messages?after=0&bodies=true")).json
        [message] = page["messages"]
        assert message["id"] == answer["diff_id"]
        assert (message["sender"], message["size"]) == ("me", len(NOTE["text"]))
        assert message["untrusted"] == {
            "subject": "Deploy",
            "text": NOTE["text"],
            "tags": ["api"],
            "type": "created",
            "kind": "note",
            "event_type": "note",
        }


async def test_a_topic_outside_the_scope_is_not_there_in_the_same_words(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        await at.world.inbox("mine", "topic")
        await at.world.inbox("theirs", "topic")
        agent = await at.agent(inboxes=("mine", "absent", OPEN))
        assert (await published(agent, to={"inbox": "mine"}))["inbox"] == "mine"
        assert await refused(agent, to={"inbox": OPEN}) == (400, "invalid_argument", "to")
        for slug in ("theirs", "absent", "agent.me", "agent.other", "nowhere"):
            error = await publish(agent, to={"inbox": slug})
            assert (error.status, error.json["error"]) == (
                404,
                {"code": "not_found", "message": f'There is no topic inbox "{slug}".', "field": "to"},
            )


# -- to agents -----------------------------------------------------------------------------------------


async def test_mail_comes_to_every_agent_named_and_tells_none_of_them_of_the_others(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, routing=True) as at:
        agent = await at.agent()
        others = [await at.agent(name, inboxes=()) for name in ("a", "b", "c")]
        await at.deliver(others[0], await at.message(), await at.message())
        answer = await published(agent, to={"agents": ["a", "b", "c", "a"]}, kind="task", salience=1)
        assert answer == {
            "diff_id": answer["diff_id"],
            "inbox": None,
            "seq": None,
            "recipients": ["a", "b", "c"],
        }
        for other in others:
            *_, item = sorted(await items(other), key=lambda one: one["delivery_seq"])
            name = other.record.agent_id
            diff, delivery = item["diff"], item["delivery"]
            assert (diff["diff_id"], diff["kind"], diff["salience"]) == (answer["diff_id"], "task", 1)
            origin = diff["origin"]
            assert (origin["inbox"], origin["seq"]) == (f"agent.{name}", item["delivery_seq"])
            assert (origin["sender"], origin["verified"]) == ("me", None)
            whole = (await other.call("GET", f"/v1/inboxes/agent.{name}/messages/{origin['seq']}")).json
            assert (whole["epoch"], whole["untrusted"]["text"]) == (origin["epoch"], NOTE["text"])
            assert (delivery["via"], delivery["score"]) == ("direct", 1.0)
        assert await items(agent) == []


async def test_an_unknown_agent_is_named_and_nothing_is_sent(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, routing=True) as at:
        agent, other = await at.agent(), await at.agent("other")
        error = await publish(agent, to={"agents": ["other", "nobody"]})
        assert (error.status, error.code) == (404, "not_found")
        assert "nobody" in error.json["error"]["message"]
        assert await items(other) == []


async def test_an_expired_message_is_passed_over(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent, other = await at.agent(), await at.agent("other")
        await published(agent, to={"agents": ["other"]}, ttl_seconds=3600)
        [item] = await items(other)
        assert item["diff"]["expires_at"] > item["delivery"]["delivered_at"]
        now = at.world.mail._clock
        at.world.mail._clock = lambda: now() + 3601 * 1_000_000
        assert (await other.pull(since=0)) == {"items": [], "cursor": 0, "window_high": 1, "has_more": False}


# -- once ----------------------------------------------------------------------------------------------


async def test_the_same_key_publishes_once_and_another_request_with_it_is_a_conflict(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, routing=True) as at:
        agent, other = await at.agent(), await at.agent("other")
        first = await publish(agent, idempotency_key="k", ttl_seconds=60)
        again = await publish(agent, idempotency_key="k", ttl_seconds=60)
        assert first.json == again.json
        assert (first.header("postroom-duplicate"), again.header("postroom-duplicate")) == (None, "true")
        assert await refused(agent, idempotency_key="k") == (409, "conflict", "idempotency_key")
        assert (await published(other, idempotency_key="k", ttl_seconds=60))["seq"] == 2
        mail = await published(agent, idempotency_key="m", to={"agents": ["other"]})
        result = await tool(agent, "publish", **NOTE, idempotency_key="m", to={"agents": ["other"]})
        assert result["structuredContent"] == mail
        assert len(await items(other)) == 1


REFUSED = [
    ({"kind": "webhook"}, "kind"),
    ({"kind": "system"}, "kind"),
    ({"type": "deleted"}, "type"),
    ({"subject": "x" * 201}, "subject"),
    ({"text": "x" * 65_537}, "text"),
    ({"text": "\u00e9" * 32_769}, "text"),
    ({"tags": ["x"] * 21}, "tags"),
    ({"salience": 1.01}, "salience"),
    ({"salience": -0.1}, "salience"),
    ({"to": {}}, "to"),
    ({"to": {"agents": []}}, "to"),
    ({"to": {"agents": ["a"], "inbox": "commons"}}, "to"),
    ({"to": {"agents": ["A"]}}, "to.agents"),
    ({"to": {"machine": "m"}}, "to.machine"),
    ({"to": "a"}, "to"),
    ({"supersedes": "x"}, "supersedes"),
    ({"ttl_seconds": 0}, "ttl_seconds"),
    ({"idempotency_key": ""}, "idempotency_key"),
    ({"sender": "other"}, "sender"),
]


@pytest.mark.parametrize(("changes", "field"), REFUSED, ids=lambda one: str(one)[:40])
async def test_what_is_not_as_it_must_be_is_refused_by_name(
    changes: dict[str, Any], field: str, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent("a")
        assert await refused(agent, **changes) == (400, "invalid_argument", field)
        result = await tool(agent, "publish", **{**NOTE, **changes})
        assert result["isError"] is True
        assert result["content"][0]["text"].startswith(f"invalid_argument: {field}: ")


async def test_the_largest_message_is_taken_and_comes_back_whole(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        text = "\u00e9" * 32_768
        answer = await published(
            agent,
            subject="\U0001f4e6" * 200,
            text=text,
            tags=["x" * 64] * 20,
            salience=0,
            idempotency_key="k" * 200,
        )
        whole = (await agent.call("GET", f"/v1/inboxes/commons/messages/{answer['seq']}")).json
        assert whole["untrusted"]["text"] == text
        assert (await published(agent, text="", subject=""))["seq"] == 2
        bodies = (await agent.call("GET", "/v1/inboxes/commons/messages?after=1&bodies=true")).json
        assert bodies["messages"][0]["untrusted"]["text"] == ""
