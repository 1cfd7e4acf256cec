"""Agents over REST and MCP against a real server: made, bound to tokens, sent mail, listening, deleted; black-box."""

import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from tests.live.api import Api
from tests.live.harness import Server

ARRIVES_SECONDS = 10.0
"""For the router to have delivered; it takes a few hundredths of a second."""

NOTE = {"type": "created", "kind": "note", "subject": "Deploy", "text": "The deployment of billing failed."}


def new_agent(api: Api, inboxes: list[str] | str = "all", agent_id: str = "") -> Api:
    """Make an agent; return a client with its token."""
    agent_id = agent_id or f"agent-{uuid4().hex[:8]}"
    made = api.ok("POST", "/agents", {"agent_id": agent_id}, status=201)
    assert made == {
        "agent_id": agent_id,
        "inbox": f"agent.{agent_id}",
        "machine": None,
        "created_at": made["created_at"],
    }
    return api.as_(bound(api, agent_id, inboxes))


def bound(api: Api, agent_id: str, inboxes: list[str] | str = "all") -> str:
    """Issue a token for an agent; return its text."""
    body = {"kind": "agent", "agent": agent_id, "inboxes": inboxes}
    made = api.ok("POST", "/tokens", body, status=201)
    assert made["agent"] == agent_id
    return str(made["token"])


def pull(agent: Api, **params: Any) -> Any:
    return agent.ok("POST", "/inbox:pull", params)


def arrived(agent: Api, count: int) -> list[Any]:
    """Return the items of an inbox once there are so many, in the order of their delivery."""
    return until(lambda: sorted(pull(agent)["items"], key=lambda one: one["delivery_seq"]), count)


def until(look: Callable[[], list[Any]], count: int) -> list[Any]:
    ends = monotonic() + ARRIVES_SECONDS
    while len(found := look()) < count:
        assert monotonic() < ends, found
    assert len(found) == count
    return found


def test_an_agent_is_made_shown_listed_and_deleted_with_all_that_is_its(api: Api) -> None:
    agent_id = f"agent-{uuid4().hex[:8]}"
    agent = new_agent(api, agent_id=agent_id)
    me = agent.get("/me")
    assert (me["kind"], me["agent"], me["inboxes"]) == ("agent", agent_id, "all")
    assert api.get(f"/agents/{agent_id}")["inbox"] == f"agent.{agent_id}"
    assert api.get(f"/inboxes/agent.{agent_id}")["kind"] == "agent"
    assert api.refused("POST", "/agents", {"agent_id": agent_id}) == (409, "conflict", "agent_id")

    agent.ok("PUT", "/beacons/ci", {"about": "deployments of billing"})
    api.ok("DELETE", f"/agents/{agent_id}", status=204)
    assert agent.refused("POST", "/inbox:pull", {})[:2] == (401, "unauthenticated")
    assert api.refused("GET", f"/agents/{agent_id}") == (404, "not_found", "agent_id")
    assert api.refused("DELETE", f"/agents/{agent_id}") == (404, "not_found", "agent_id")
    assert api.refused("GET", f"/inboxes/agent.{agent_id}")[:2] == (404, "not_found")

    again = new_agent(api, agent_id=agent_id)
    assert again.get("/beacons") == {"beacons": []}
    assert pull(again)["items"] == []


def test_agents_are_listed_page_by_page(fresh: Api) -> None:
    for name in ("c", "a", "b"):
        new_agent(fresh, agent_id=name)
    first = fresh.get("/agents", limit=2)
    assert [one["agent_id"] for one in first["agents"]] == ["a", "b"]
    assert (first["truncated"], first["next_after"]) == (True, "b")
    rest = fresh.get("/agents", after="b")
    assert [one["agent_id"] for one in rest["agents"]] == ["c"]
    assert rest.keys() == {"agents"}


def test_what_is_no_agent_is_refused_by_name(api: Api) -> None:
    for body, field in (
        ({}, "agent_id"),
        ({"agent_id": "No"}, "agent_id"),
        ({"agent_id": "x" * 65}, "agent_id"),
        ({"agent_id": "x", "machine": "M"}, "machine"),
        ({"agent_id": "x", "role": "r"}, "role"),
    ):
        assert api.refused("POST", "/agents", body) == (400, "invalid_argument", field)
    absent = {"agent_id": "x", "machine": f"nowhere-{uuid4().hex[:8]}"}
    assert api.refused("POST", "/agents", absent) == (404, "not_found", "machine")
    for call in (("POST", "/agents", {"agent_id": "x"}), ("GET", "/agents"), ("DELETE", "/agents/x")):
        assert new_agent(api).refused(*call)[:2] == (403, "permission_denied")


def test_a_token_is_bound_to_an_agent_that_there_is(api: Api) -> None:
    body = {"kind": "agent", "agent": f"nobody-{uuid4().hex[:8]}", "inboxes": "all"}
    assert api.refused("POST", "/tokens", body) == (404, "not_found", "agent")
    assert api.refused("POST", "/tokens", {"kind": "admin", "agent": "a"}) == (
        400,
        "invalid_argument",
        "agent",
    )
    agent_id = f"agent-{uuid4().hex[:8]}"
    new_agent(api, agent_id=agent_id)
    bare = api.as_(api.ok("POST", "/tokens", {"kind": "agent", "agent": agent_id}, status=201)["token"])
    assert [one["slug"] for one in bare.get("/inboxes")["inboxes"]] == [f"agent.{agent_id}", "commons"]


def test_the_longest_name_of_an_agent_is_a_name_everywhere(api: Api) -> None:
    agent_id = f"a{uuid4().hex}".ljust(63, "x") + "-"
    agent = new_agent(api, agent_id=agent_id)
    agent.ok("POST", "/publish", {**NOTE, "to": {"agents": [agent_id]}})
    [item] = pull(agent)["items"]
    slug = item["diff"]["origin"]["inbox"]
    assert slug == f"agent.{agent_id}"
    assert agent.message(slug, 1)["untrusted"]["text"] == NOTE["text"]
    assert len(agent.messages(slug)["messages"]) == 1


def test_published_and_received_messages_reach_who_listens_and_are_drained_once(tmp_path: Path) -> None:
    with Server(tmp_path / "data", pull_max_batch=2) as server, Api(server.url, server.token) as api:
        slug = api.inbox()
        listener, sender = new_agent(api, [slug], "listener"), new_agent(api, [slug], "sender")
        placed = listener.ok("PUT", "/beacons/billing", {"about": "deployment of billing"})
        assert {term["term"] for term in placed["terms"]} == {"deployment", "billing"}
        sender.ok("POST", "/publish", NOTE)
        api.send(
            slug, b'{"text": "deployment of billing: done"}', headers={"Content-Type": "application/json"}
        )
        sender.ok("POST", "/publish", {**NOTE, "to": {"agents": ["listener"]}, "kind": "task"})
        until(lambda: listener.get("/inbox")["items"], 3)

        first = pull(listener)
        assert (len(first["items"]), first["has_more"]) == (2, True)
        server.kill()
        server.start()
    with server, Api(server.url, server.token) as api:
        listener = api.as_(bound(api, "listener", [slug]))
        again = pull(listener)
        assert again == first
        rest = pull(listener, ack=first["window_high"])
        assert [item["delivery_seq"] for item in rest["items"]] == [3]
        assert pull(listener, ack=rest["window_high"]) == {
            "items": [],
            "cursor": 3,
            "window_high": 3,
            "has_more": False,
        }
        replay = listener.get("/inbox")["items"]
        assert sorted(item["delivery"]["via"] for item in replay) == [
            "beacon:billing",
            "beacon:billing",
            "direct",
        ]


def test_a_wait_over_a_real_connection_ends_with_the_mail(api: Api) -> None:
    agent_id = f"agent-{uuid4().hex[:8]}"
    agent, sender = new_agent(api, agent_id=agent_id), new_agent(api)
    sender.ok("POST", "/publish", {**NOTE, "to": {"agents": [agent_id]}})
    waited = agent.ok("POST", "/inbox:wait", {"timeout_seconds": 10})
    assert [item["delivery_seq"] for item in waited["items"]] == [1]
    assert agent.ok("POST", "/inbox:wait", {"ack": 1, "timeout_seconds": 0})["items"] == []


def test_mcp_answers_as_rest_does(api: Api) -> None:
    agent_id = f"agent-{uuid4().hex[:8]}"
    agent = new_agent(api, agent_id=agent_id)
    agent.ok("POST", "/publish", {**NOTE, "to": {"agents": [agent_id]}})
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "pull_inbox", "arguments": {"since": 0}},
    }
    answer = agent._http.post("/mcp", json=call)
    result = json.loads(answer.content)["result"]
    assert result["structuredContent"] == pull(agent, since=0)
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_nothing_of_agents_is_there_with_the_read_api_off(tmp_path: Path) -> None:
    with Server(tmp_path / "data", read_api_enabled="false") as server, Api(server.url, server.token) as api:
        agent = new_agent(api)
        for call in (
            ("POST", "/inbox:pull", {}),
            ("POST", "/inbox:wait", {}),
            ("GET", "/inbox"),
            ("GET", "/inbox:stream"),
            ("POST", "/publish", NOTE),
            ("GET", "/beacons"),
        ):
            assert agent.refused(*call)[:2] == (404, "not_found"), call
