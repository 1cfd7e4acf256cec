"""Sending between agents, over REST and MCP with equal results: to one, to all of a machine, to nobody, and twice."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio.testing

from tests.virtual import pass_time
from tests.wire.mcp_calls import PLAIN
from tests.wire.mesh_scene import WAYS, Caller, MeshScene, Refused, Way, mesh_scene, now_us
from web.grammar import parse_time
from web.mesh_params import MAX_PAYLOAD_BYTES

ROUTED_SECONDS = 0.1
"""Of virtual time, in which the router has long done what there is to do."""

both_ways = pytest.mark.parametrize("way", WAYS)


async def refused(caller: Caller, way: Way, **members: Any) -> Refused:
    """Return how a message is refused."""
    with pytest.raises(Refused) as found:
        await caller.do(way, "agent_send", **{"msg_type": "note", **members})
    return found.value


async def stored(at: MeshScene) -> int:
    """Return how many messages the server has."""
    admin = await at.admin()
    listed = (await admin.call("GET", "/v1/inboxes")).json["inboxes"]
    private = [
        (await admin.call("GET", f"/v1/inboxes/{slug}")).json
        for slug in (
            "machine.box",
            "machine.yard",
            *(f"agent.{name}" for name in ("ada", "bob", "cyd", "dan")),
        )
    ]
    return sum(inbox["latest_seq"] for inbox in (*listed, *private))


# -- to one --------------------------------------------------------------------------------------------------


@both_ways
async def test_a_message_to_one_names_whom_it_is_delivered_to(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, _ = await at.here(way, "ada", "bob")
        answer = await ada.do(way, "agent_send", to_agent="bob", msg_type="ping")
        assert answer.keys() == {"id", "delivered_to", "skipped"}
        assert (answer["delivered_to"], answer["skipped"]) == (["bob"], [])
        [message] = (await (await at.agent("bob")).do(way, "agent_inbox", agent_id="bob"))["messages"]
        assert (message["id"], message["size"]) == (answer["id"], 0)
        assert message["untrusted"] == {"msg_type": "ping", "payload": None, "event_type": "ping"}


@both_ways
async def test_an_unknown_name_stores_nothing_and_hears_who_is_alive_and_like_it(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        ada, *_ = await at.here(way, "ada", "bob", "dan")
        error = await refused(ada, way, to_agent="bobb", require_alive=False)
        assert error.code == "not_found"
        if way == "rest":
            assert (error.status, error.error["field"]) == (404, "to_agent")
            assert error.error["details"] == {"alive": ["bob"], "near": ["bob"]}
        else:
            assert "Near: bob. Alive: bob." in error.text
        assert await stored(at) == 0


@both_ways
async def test_an_agent_that_would_not_notice_is_refused_unless_that_is_wanted(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, _ = await at.here(way, "ada", "bob", ttl_seconds=30)
        assert (await refused(ada, way, to_agent="cyd")).code == "not_found"  # never heard of
        await ada.do(way, "agent_send", to_agent="bob", msg_type="note")
        await pass_time(31)
        assert (await refused(ada, way, to_agent="bob")).code == "not_found"
        await ada.do(way, "agent_send", to_agent="bob", msg_type="note", require_alive=False)
        await (await at.agent("bob")).do(way, "agent_checkout", agent_id="bob")
        assert (await refused(ada, way, to_agent="bob")).code == "not_found"
        assert len(await at.read(way, "bob", peek=True)) == 2


# -- to all of a machine -------------------------------------------------------------------------------------


@both_ways
async def test_a_broadcast_goes_to_all_that_have_not_left_but_its_sender(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, _, cyd = await at.here(way, "ada", "bob", "cyd", ttl_seconds=30)
        await cyd.do(way, "agent_checkout", agent_id="cyd")
        await pass_time(31)  # bob is stale
        answer = await ada.do(way, "agent_send", msg_type="freeze", payload={"until": "noon"})
        assert answer["delivered_to"] == ["bob"]
        assert answer["skipped"] == [{"agent_id": "cyd", "reason": "gone"}]
        await pass_time(ROUTED_SECONDS)
        assert await at.read(way, "bob") == [answer["id"]]
        assert await at.read(way, "cyd") == []
        listed = (await (await at.machine()).call("GET", "/v1/inboxes/machine.box/messages?bodies=true")).json
        [message] = listed["messages"]
        assert (message["id"], message["sender"]) == (answer["id"], "ada")
        assert message["untrusted"]["payload"] == {"until": "noon"}


@both_ways
async def test_a_broadcast_to_nobody_is_refused_and_stores_nothing(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        await at.here(way, "ada", "bob", "cyd")
        for name in ("bob", "cyd"):
            await (await at.agent(name)).do(way, "agent_checkout", agent_id=name)
        error = await refused(await at.agent("ada"), way)
        assert (error.code, error.status) == ("no_recipient", 422 if way == "rest" else None)
        assert await stored(at) == 0


@both_ways
async def test_a_broadcast_of_an_agent_that_is_alone_on_its_machine_is_refused(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        await at.world.machine("lone")
        await at.world.agent("uno", "lone")
        [uno] = await at.here(way, "uno")
        error = await refused(uno, way)
        assert (error.code, error.status) == ("no_recipient", 422 if way == "rest" else None)
        assert (await uno.do(way, "agent_sent"))["messages"] == []
        listed = await (await at.admin()).call("GET", "/v1/inboxes/machine.lone/messages")
        assert listed.json["messages"] == []


@both_ways
async def test_where_nobody_is_alive_or_like_it_nobody_is_named(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        error = await refused(await at.agent("ada"), way, to_agent="zzzzzzzz")
        if way == "rest":
            assert error.error["details"] == {"alive": [], "near": []}
        assert error.text == 'There is no agent "zzzzzzzz" on "box".'


@both_ways
async def test_an_administrator_sends_from_the_system_or_from_an_agent(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, routing=False) as at:
        admin = await at.admin()
        if way == "mcp":
            assert "error" in await unknown_tool(admin)
            return
        await at.here(way, "bob")
        for members in ({}, {"from_agent": "eve"}):
            await admin.do(way, "agent_send", to="box", to_agent="bob", msg_type="note", **members)
        bob = await at.agent("bob")
        messages = (await bob.do(way, "agent_inbox", agent_id="bob"))["messages"]
        assert [message["sender"] for message in messages] == [None, "eve"]
        kinds = [item["diff"]["kind"] for item in (await bob.call("POST", "/v1/inbox:pull")).json["items"]]
        assert sorted(kinds) == ["message", "system"]
        assert (await admin.do(way, "agent_send", to="yard", msg_type="note"))["delivered_to"] == [
            "dan",
            "eve",
        ]
        assert (await refused(admin, way)).error["field"] == "to"
        assert (await refused(admin, way, from_agent="nobody")).code == "not_found"


async def unknown_tool(caller: Caller) -> Any:
    """Return what a token that does not see the tools is told."""
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "agent_send"}}'
    async with caller.served.connect() as client:
        return (await client.request("POST", "/mcp", [*PLAIN, *caller.headers], body)).json


# -- once ----------------------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("to", [{"to_agent": "bob"}, {}], ids=["direct", "broadcast"])
async def test_the_same_key_twice_is_one_message_and_with_another_body_a_conflict(
    way: Way, to: dict[str, str], tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, *_ = await at.here(way, "ada", "bob", "cyd")
        asked = {"msg_type": "note", "payload": {"a": 1, "b": [2]}, "idempotency_key": "k", **to}
        first = await ada.do(way, "agent_send", **asked)
        for other in WAYS:
            assert await ada.do(other, "agent_send", **asked) == first
        for change in (
            {"payload": {"b": [2], "a": 1}},
            {"payload": None},
            {"msg_type": "ping"},
            {"require_alive": False},
        ):
            error = await refused(ada, way, **{**asked, **change})
            assert (error.code, error.status) == ("conflict", 409 if way == "rest" else None)
        await (await at.agent("bob")).do(way, "agent_send", **{**asked, "to_agent": "ada"})
        await pass_time(ROUTED_SECONDS)
        assert await at.read(way, "bob") == [first["id"]]


NEAR: list[tuple[bytes, bytes]] = [
    (b"1", b"1.0"),
    (b"0.1", b"0.10000000000000000001"),
    (b'{"a":1,"a":2}', b'{"a":3,"a":2}'),
    (b'{"a":1}', b'{"a": 1}'),
    (b'"A"', b'"\\u0041"'),
]


@both_ways
@pytest.mark.parametrize(("first", "second"), NEAR)
async def test_the_same_key_with_a_payload_that_is_nearly_equal_is_a_conflict(
    way: Way, first: bytes, second: bytes, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, _ = await at.here(way, "ada", "bob")
        for before, after in ((first, second), (second, first)):
            key = b"k" + before
            one = await sending(ada, way, before, key)
            for other in WAYS:
                assert await sending(ada, other, before, key) == one
            assert "conflict" in await sending(ada, way, after, key)


async def sending(caller: Caller, way: Way, payload: bytes, key: bytes | None = None) -> str:
    """Send to `bob` a payload as it is written; return the id, or how it was refused, as text."""
    keyed = b"" if key is None else b'"idempotency_key": %b, ' % msgspec.json.encode(key.decode())
    members = b'{"to_agent": "bob", "msg_type": "note", %b"payload": %b }' % (keyed, payload)
    if way == "rest":
        reply = await caller.call("POST", "/agent/send", members)
        return str(reply.json["id"]) if reply.status == 200 else f"{reply.status} {reply.json['error']}"
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "agent_send", '
    reply = await caller.call("POST", "/mcp", call + b'"arguments": %b}}' % members, *PLAIN)
    if reply.status != 200:
        return str(reply.json["error"]["message"])
    result = reply.json["result"]
    return str(result["content"][0]["text"] if result["isError"] else result["structuredContent"]["id"])


async def test_a_repeated_request_is_marked_as_a_duplicate(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, _ = await at.here("rest", "ada", "bob")
        body = {"to_agent": "bob", "msg_type": "note", "idempotency_key": "k"}
        replies = [await ada.call("POST", "/agent/send", body) for _ in range(2)]
        assert [reply.header("postroom-duplicate") for reply in replies] == [None, "true"]


# -- payloads ------------------------------------------------------------------------------------------------

PAYLOADS = [
    b'{ "n" : 1e2, "m" : 1.0 }',
    b'"text with \\u0000 and \xc3\xa9"',
    b"123456789012345678901234567890",
    b"[]",
    b"false",
    b"0",
    b'""',
    b"null",
    b'{"n": 1, "n": {"m": "2", "m": 3}}',
    b"[" * 100 + b"]" * 100,
]


@both_ways
@pytest.mark.parametrize("payload", PAYLOADS)
async def test_a_payload_is_kept_byte_for_byte(
    way: Way, payload: bytes, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, bob = await at.here(way, "ada", "bob")
        sent = await sending(ada, way, payload)
        mail = (await bob.call("GET", "/agent/inbox?agent_id=bob")).body
        assert b'"payload":%b,"event_type"' % payload in mail
        [message] = msgspec.json.decode(mail)["messages"]
        assert (message["id"], message["size"]) == (sent, len(payload))
        raw = await bob.call("GET", "/v1/inboxes/agent.bob/messages/1/raw")
        assert raw.body == payload


@both_ways
@pytest.mark.parametrize(
    ("size", "code"), [(MAX_PAYLOAD_BYTES, None), (MAX_PAYLOAD_BYTES + 1, "payload_too_large")]
)
async def test_a_payload_has_at_most_16_kib(
    way: Way, size: int, code: str | None, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, inline_body_bytes=1_024) as at:
        ada, bob = await at.here(way, "ada", "bob")
        asked = {"to_agent": "bob", "msg_type": "note", "payload": "x" * (size - 2)}
        if code is None:
            await ada.do(way, "agent_send", **asked)
            [message] = (await bob.do(way, "agent_inbox", agent_id="bob"))["messages"]
            assert message["untrusted"]["payload"] == asked["payload"]
            assert "body_truncated" not in message
            return
        error = await refused(ada, way, **asked)
        assert (error.code, error.status) == (code, 413 if way == "rest" else None)


@both_ways
@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"1e999", "has a number that is beyond the range of a double"),
        (b'{"a": [-1e400]}', "has a number that is beyond the range of a double"),
        (b"9" * 400, "Expected JSON that every reader can read"),
        (b"[" * 101 + b"]" * 101, "nested"),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "nested"),
        (b"[" * 950 + b"]" * 950, "nested"),
        (b"[" * 5_000 + b"]" * 5_000, "is nested too deeply"),
    ],
    ids=lambda value: value[:12] if isinstance(value, bytes) else "",
)
async def test_a_payload_that_not_every_reader_can_read_is_refused_for_what_is_wrong_with_it(
    way: Way, payload: bytes, reason: str, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        ada, _ = await at.here(way, "ada", "bob")
        said = await sending(ada, way, payload)
        assert reason in said
        if way == "rest":
            assert said.startswith("422")
            assert ("'field': 'payload'" in said) is (len(payload) < 1_000)
        assert await stored(at) == 0


# -- what became of it ---------------------------------------------------------------------------------------


@both_ways
async def test_the_sender_is_told_of_each_step_at_each_recipient_with_its_time(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada, *_ = await at.here(way, "ada", "bob", "cyd")
        sent = (await ada.do(way, "agent_send", msg_type="release-out"))["id"]
        at_sending = now_us()
        await pass_time(ROUTED_SECONDS)
        await pass_time(10)
        await at.read(way, "bob")
        await pass_time(10)
        await at.ack(way, "bob", sent)
        await at.ack(way, "cyd", sent)
        [line] = (await ada.do(way, "agent_sent"))["messages"]
        assert (line["id"], line["msg_type"]) == (sent, "release-out")
        bob, cyd = line["recipients"]
        assert [one["agent_id"] for one in (bob, cyd)] == ["bob", "cyd"]
        seconds = {
            name: (parse_time(bob[name]) - at_sending) // 1_000_000 for name in ("served_at", "acked_at")
        }
        assert seconds == {"served_at": 10, "acked_at": 20}
        assert line["sent_at"] <= bob["stored_at"] < bob["served_at"] < bob["acked_at"]
        assert cyd["served_at"] == cyd["acked_at"] == bob["acked_at"]  # an acknowledgement implies serving
        assert bob["expired_at"] is None


@both_ways
async def test_what_was_sent_is_listed_newest_first_and_paged_by_id(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        ada = await at.agent("ada")
        sent = []
        for _ in range(4):
            sent.append(await at.send(way, "ada", "bob"))
            await pass_time(0.01)

        async def listed(**how: Any) -> list[str]:
            return [line["id"] for line in (await ada.do(way, "agent_sent", **how))["messages"]]

        newest_first = sorted(sent, reverse=True)
        assert await listed() == await listed(agent_id="ada") == newest_first
        assert await listed(limit=2) == newest_first[:2]
        assert await listed(before=newest_first[1]) == newest_first[2:]
        assert (await (await at.agent("bob")).do(way, "agent_sent"))["messages"] == []
