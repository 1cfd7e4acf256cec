"""Who is there, over REST and MCP with equal results: what is a sign of life and what is not, farewells, sessions."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.virtual import pass_time
from tests.wire.mcp_calls import PLAIN, request
from tests.wire.mesh_scene import WAYS, Caller, MeshScene, Way, mesh_scene, now_us
from web.auth import Principal
from web.grammar import parse_time
from web.mail_params import PullInbox
from web.options import WebOptions
from web.pulling import HeardPulls, Pulling

both_ways = pytest.mark.parametrize("way", WAYS)


@both_ways
async def test_a_check_in_says_until_when_it_holds_and_the_roster_shows_the_card(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, bob = await at.agent("ada"), await at.agent("bob")
        await at.send(way, "bob", "ada")
        card = {
            "role": "reviewer",
            "repo": "acme/shop",
            "caps": ["review", "deploy"],
            "status": "Reading #7.",
        }
        answer = await ada.do(way, "agent_checkin", agent_id="ada", ttl_seconds=600, **card)
        assert (parse_time(answer.pop("expires_at")) - now_us()) == 600_000_000
        assert answer == {"agent_id": "ada", "machine": "box", "unread": 1, "shared_reader": False}
        await pass_time(90)
        [line] = (await bob.do(way, "agents_list"))["agents"][:1]
        assert line.keys() == {
            "agent_id",
            "machine",
            "state",
            "last_activity_at",
            "expires_at",
            "status_age_s",
            "unread",
            "untrusted",
        }
        assert (line["agent_id"], line["machine"], line["state"]) == ("ada", "box", "idle")
        assert (line["status_age_s"], line["unread"]) == (90, 1)
        assert line["untrusted"] == card
        assert parse_time(line["expires_at"]) - parse_time(line["last_activity_at"]) == 600_000_000


@both_ways
async def test_a_check_in_replaces_what_was_said_before(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, _ = await at.here(way, "ada", "bob", role="r", caps=["c"], status="s", ttl_seconds=30)
        await ada.do(way, "agent_checkin", agent_id="ada")
        line = await at.seen("ada")
        assert line["untrusted"] == {"role": None, "repo": None, "caps": [], "status": None}
        assert line["status_age_s"] is None
        assert parse_time(line["expires_at"]) - parse_time(line["last_activity_at"]) == 300_000_000


@both_ways
async def test_the_roster_has_the_living_and_with_include_stale_all(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        await at.here(way, "bob", ttl_seconds=30)
        await pass_time(31)
        ada, cyd = await at.here(way, "ada", "cyd")
        await cyd.do(way, "agent_checkout", agent_id="cyd")

        async def states(**how: Any) -> dict[str, str]:
            lines = (await ada.do(way, "agents_list", **how))["agents"]
            return {line["agent_id"]: line["state"] for line in lines}

        assert await states() == {"ada": "active"}
        assert await states(include_stale=True) == {"ada": "active", "bob": "stale", "cyd": "gone"}
        await pass_time(61)
        assert await states() == {"ada": "idle"}
        assert (await at.seen("dan"))["state"] == "stale"  # never heard of
        assert (await at.seen("dan"))["expires_at"] is None


# -- signs of life -------------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("by", ["agent", "machine"])
async def test_a_hundred_polls_in_the_background_leave_the_end_alone_and_a_plain_one_still_serves(
    way: Way, by: str, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        [bob] = await at.here(way, "bob")
        caller = bob if by == "agent" else await at.machine()

        async def read(**how: Any) -> list[str]:
            answer = await caller.do(way, "agent_inbox", agent_id="bob", **how)
            return [message["id"] for message in answer["messages"]]

        sent = await at.send(way, "ada", "bob")
        before = (await at.seen("bob"))["expires_at"]
        await pass_time(1)
        for _ in range(99):
            assert await read(background=True, peek=True) == [sent]
        assert await read(background=True) == [sent]
        assert await read(background=True) == []
        assert (await at.seen("bob"))["expires_at"] == before
        assert await read(peek=True) == [sent]
        assert (await at.seen("bob"))["expires_at"] > before


@both_ways
async def test_a_farewell_survives_whatever_comes_after_it_but_a_check_in(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        [bob] = await at.here(way, "bob")
        told = await bob.do(way, "agent_checkout", agent_id="bob")
        assert told == {"agent_id": "bob", "state": "gone"}
        before = await at.seen("bob")
        await pass_time(1)
        for how in ({"background": True}, {"background": True, "peek": True}, {}):
            await at.read(way, "bob", **how)
        assert (await bob.call("GET", "/v1/me")).status == 200
        assert await at.seen("bob") == before
        assert before["state"] == "gone"
        await bob.do(way, "agent_checkin", agent_id="bob")
        assert (await at.seen("bob"))["state"] == "active"


@both_ways
async def test_a_farewell_of_one_that_was_never_heard_of_is_one(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        bob = await at.agent("bob")
        for _ in range(2):
            assert (await bob.do(way, "agent_checkout", agent_id="bob"))["state"] == "gone"
        assert (await at.seen("bob"))["state"] == "gone"


def shortly(value: object) -> str:
    """Return a value as a test's name shows it."""
    return str(value)[:60]


COUNTED: list[tuple[str, str, str, Any, bool]] = [
    ("agent", "GET", "/v1/me", None, True),
    ("agent", "GET", "/v1/inboxes", None, True),
    ("agent", "GET", "/v1/inboxes/agent.bob/messages", None, True),
    ("agent", "GET", "/v1/inboxes/nothing/messages", None, True),
    ("agent", "GET", "/v1/inboxes/agent.bob/wait?after=0&timeout_seconds=0", None, True),
    ("agent", "GET", "/v1/inboxes/agent.bob/wait?after=0&timeout_seconds=1", None, False),
    ("agent", "POST", "/v1/inbox:pull", None, True),
    ("agent", "POST", "/v1/inbox:wait", {"timeout_seconds": 0}, True),
    ("agent", "POST", "/v1/inbox:wait", {"timeout_seconds": 1}, False),
    ("agent", "GET", "/v1/beacons", None, True),
    ("agent", "GET", "/agents", None, False),
    ("agent", "GET", "/agents?agent_id=bob", None, True),
    ("agent", "GET", "/agent/sent", None, True),
    ("agent", "POST", "/agent/ack", {"agent_id": "bob", "message_ids": []}, True),
    ("agent", "GET", "/agent/inbox?agent_id=bob&background=true", None, False),
    ("agent", "GET", "/agent/inbox?agent_id=bob&background=true&limit=0", None, False),
    ("agent", "GET", "/agent/inbox?agent_id=bob&background=false&limit=0", None, True),
    ("agent", "GET", "/agent/inbox?agent_id=bob&background=maybe", None, True),
    ("agent", "GET", "/agent/inbox?agent_id=cyd", None, True),
    ("agent", "GET", "/agents?include_stale=maybe", None, False),
    ("agent", "POST", "/agent/send", {"msg_type": "shout"}, True),
    ("agent", "POST", "/agent/send", {"msg_type": "note", "payload": "x" * 20_000}, True),
    ("agent", "POST", "/agent/send", b"{", True),
    ("agent", "POST", "/agent/checkin", {}, True),
    ("agent", "POST", "/agent/checkout", {}, True),
    ("agent", "POST", "/agent/ack", {"agent_id": "bob"}, True),
    ("agent", "GET", "/agent/sent?limit=0", None, True),
    (
        "machine",
        "POST",
        "/agent/send",
        {"from_agent": "bob", "msg_type": "note", "payload": "x" * 20_000},
        True,
    ),
    ("machine", "POST", "/agent/send", {"from_agent": "bob", "msg_type": "shout"}, False),
    ("machine", "GET", "/v1/me", None, False),
    ("machine", "GET", "/agents", None, False),
    ("machine", "GET", "/agents?agent_id=bob", None, True),
    ("machine", "GET", "/agent/inbox?agent_id=bob", None, True),
    ("machine", "GET", "/agent/inbox?agent_id=cyd", None, False),
    ("machine", "GET", "/agent/sent?agent_id=bob", None, True),
    ("admin", "GET", "/agent/inbox?agent_id=bob", None, False),
    ("admin", "GET", "/agents?agent_id=bob", None, False),
]


@pytest.mark.parametrize(("who", "method", "target", "body", "counts"), COUNTED, ids=shortly)
async def test_which_call_is_a_sign_of_life(
    who: str,
    method: str,
    target: str,
    body: Any,
    counts: bool,
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        [bob] = await at.here("rest", "bob")
        callers = {"agent": bob, "machine": await at.machine(), "admin": await at.admin()}
        before = await at.seen("bob")
        await pass_time(1)
        await callers[who].call(method, target, body)
        assert ((await at.seen("bob"))["last_activity_at"] > before["last_activity_at"]) is counts


TOOLS: list[tuple[str, dict[str, Any], bool]] = [
    ("list_inboxes", {}, True),
    ("query_messages", {"inbox": "agent.bob"}, True),
    ("wait_for_messages", {"inbox": "agent.bob", "after": 0, "timeout_seconds": 0}, True),
    ("wait_for_messages", {"inbox": "agent.bob", "after": 0, "timeout_seconds": 1}, False),
    ("pull_inbox", {}, True),
    ("agents_list", {}, False),
    ("agents_list", {"agent_id": "bob"}, True),
    ("agent_inbox", {"agent_id": "bob", "background": True}, False),
    ("agent_inbox", {"agent_id": "bob", "background": True, "limit": 0}, False),
    ("agent_inbox", {"agent_id": "bob", "background": False, "limit": 0}, True),
    ("agent_inbox", {"background": "true"}, True),
    ("agents_list", {"agent_id": None}, False),
    ("agent_send", {"msg_type": "shout"}, True),
    ("agent_send", {"msg_type": "note", "payload": "x" * 20_000}, True),
    ("pull_inbox", {"limit": 0}, True),
]


@pytest.mark.parametrize(("name", "arguments", "counts"), TOOLS, ids=shortly)
async def test_which_call_of_a_tool_is_a_sign_of_life(
    name: str,
    arguments: dict[str, Any],
    counts: bool,
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with mesh_scene(tmp_path) as at:
        [bob] = await at.here("mcp", "bob")
        before = await at.seen("bob")
        await pass_time(1)
        await bob.tool(name, **arguments)
        assert ((await at.seen("bob"))["last_activity_at"] > before["last_activity_at"]) is counts


MESSAGES: list[tuple[str, bytes, bool]] = [
    ("handshake", request("initialize", {"protocolVersion": "2025-06-18"}), True),
    ("notification", b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', True),
    ("unknown method", request("resources/list"), True),
    ("unknown tool", request("tools/call", {"name": "nope"}), True),
    ("no arguments", request("tools/call", {"name": "agents_list", "arguments": []}), True),
    ("no message", b"{", True),
    ("ping", request("ping"), False),
    ("list", request("tools/list"), False),
]


@pytest.mark.parametrize(("body", "counts"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
async def test_which_message_of_the_protocol_is_a_sign_of_life(
    body: bytes, counts: bool, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        [bob] = await at.here("mcp", "bob")
        before = await at.seen("bob")
        await pass_time(1)
        await bob.call("POST", "/mcp", body, *PLAIN)
        assert ((await at.seen("bob"))["last_activity_at"] > before["last_activity_at"]) is counts


async def test_a_list_of_tools_and_a_stream_are_none(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        [bob] = await at.here("rest", "bob")
        before = await at.seen("bob")
        await pass_time(1)
        for method in ("ping", "tools/list"):
            body = {"jsonrpc": "2.0", "id": 1, "method": method}
            plain = (("Host", "127.0.0.1"), ("Content-Type", "application/json"))
            assert (await bob.call("POST", "/mcp", body, *plain)).status == 200
        async with at.served.connect() as client:
            assert (await client.start("/v1/inbox:stream", bob.headers)).status == 200
        assert await at.seen("bob") == before


async def test_a_pull_over_grpc_is_one(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with mesh_scene(tmp_path) as at:
        [bob] = await at.here("rest", "bob")
        before = await at.seen("bob")
        await pass_time(1)
        token = at.world.tokens.get(bob.token_id)
        assert token is not None
        pulls = HeardPulls(Pulling(at.served.service, WebOptions(), at.served.slots))
        await pulls.pull(Principal(token), PullInbox())
        assert (await at.seen("bob"))["last_activity_at"] > before["last_activity_at"]


WAITS: list[tuple[str, str, Any]] = [
    ("GET", "/v1/inboxes/agent.bob/wait?after=0&timeout_seconds=30", None),
    ("POST", "/v1/inbox:wait", {"timeout_seconds": 30}),
    ("POST", "/mcp", None),
]


@pytest.mark.parametrize(("method", "target", "body"), WAITS, ids=str)
async def test_whoever_holds_a_wait_is_waiting(
    method: str, target: str, body: Any, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        [bob] = await at.here("rest", "bob")

        async def wait() -> None:
            if target == "/mcp":
                await bob.tool("wait_for_messages", inbox="agent.bob", after=0, timeout_seconds=30)
            else:
                assert (await bob.call(method, target, body)).status == 200

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await pass_time(10)
            assert (await at.seen("bob"))["state"] == "waiting"
        assert (await at.seen("bob"))["state"] == "active"


# -- sessions ------------------------------------------------------------------------------------------------


def session(name: str) -> tuple[str, str]:
    return ("Postroom-Session", name)


async def shared(caller: Caller, way: Way, *more: tuple[str, str]) -> bool:
    """Check the agent `bob` in, in some session; return whether another one reads its mail."""
    answer = await caller.do(way, "agent_checkin", *more, agent_id="bob", ttl_seconds=60)
    return bool(answer["shared_reader"])


async def by_name(at: MeshScene) -> list[tuple[Caller, tuple[str, str]]]:
    return [(await at.agent("bob"), session(name)) for name in ("one", "two")]


async def by_user_agent(at: MeshScene) -> list[tuple[Caller, tuple[str, str]]]:
    return [(await at.machine(), ("User-Agent", name)) for name in ("one", "two")]


async def by_token(at: MeshScene) -> list[tuple[Caller, tuple[str, str]]]:
    return [(await at.token("agent", agent="bob"), ("User-Agent", "same")) for _ in range(2)]


@both_ways
@pytest.mark.parametrize("sessions", [by_name, by_user_agent, by_token])
async def test_two_live_sessions_of_one_agent_are_reported_until_one_has_gone_quiet(
    way: Way, sessions: Any, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        (one, its), (two, others) = await sessions(at)
        assert await shared(one, way, its) is False
        assert await shared(one, way, its) is False
        assert await shared(two, way, others) is True
        await pass_time(40)
        assert await shared(one, way, its) is True
        await pass_time(40)
        await one.do(way, "agent_inbox", its, agent_id="bob")
        assert await shared(one, way, its) is False
        assert await shared(two, way, others) is True
        await one.do(way, "agent_checkout", its, agent_id="bob")
        assert await shared(two, way, others) is False


async def test_a_session_is_the_same_whichever_way_it_calls(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        bob = await at.agent("bob")
        assert [await shared(bob, way, session("mine")) for way in WAYS] == [False, False]
        assert (await bob.call("POST", "/v1/inbox:pull", None, session("other"))).status == 200
        assert await shared(bob, "rest", session("mine")) is True
