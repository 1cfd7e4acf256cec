"""Who may act for whom among agents on machines, and what a token reaches, over REST and MCP with equal results."""

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from storage.records import TokenKind
from tests.virtual import pass_time
from tests.wire.mcp_calls import PLAIN, request
from tests.wire.mesh_scene import OPERATIONS, WAYS, Caller, Refused, Way, mesh_scene

ROUTED_SECONDS = 0.1
"""Of virtual time, in which the router has long done what there is to do."""

both_ways = pytest.mark.parametrize("way", WAYS)

NAMING: dict[str, dict[str, Any]] = {
    "agent_checkin": {},
    "agent_checkout": {},
    "agent_inbox": {},
    "agent_ack": {"message_ids": []},
    "agent_sent": {},
    "agents_list": {},
    "agent_send": {"msg_type": "note", "to": "yard"},
}
"""Operations that say for whom they are, with the arguments that they need beside that."""


def named(operation: str, agent_id: str) -> dict[str, Any]:
    """Return the arguments of an operation that is made for an agent."""
    field = "from_agent" if operation == "agent_send" else "agent_id"
    return {**NAMING[operation], field: agent_id}


async def refusal(caller: Caller, way: Way, operation: str, **arguments: Any) -> Refused:
    with pytest.raises(Refused) as found:
        await caller.do(way, operation, **arguments)
    return found.value


@both_ways
@pytest.mark.parametrize("operation", NAMING)
async def test_a_token_acts_for_its_own_and_learns_nothing_of_others(
    operation: str, way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        cases = (
            (await at.token("agent", agent="ada", machines=["yard"]), "ada", ("bob", "eve", "nobody", "sol")),
            (await at.token("machine", machine="box", machines=["yard"]), "bob", ("eve", "nobody", "sol")),
        )
        for caller, own, others in cases:
            assert await caller.do(way, operation, **named(operation, own))
            texts = set()
            for other in others:
                error = await refusal(caller, way, operation, **named(operation, other))
                assert (error.code, error.status) == ("permission_denied", 403 if way == "rest" else None)
                texts.add(error.text)
            assert len(texts) == 1


@pytest.mark.parametrize("operation", NAMING)
async def test_an_admin_acts_for_any_agent_that_there_is(
    operation: str, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        admin = await at.admin()
        for agent_id in ("ada", "eve", "sol"):
            assert await admin.do("rest", operation, **named(operation, agent_id))
        error = await refusal(admin, "rest", operation, **named(operation, "nobody"))
        assert (error.code, error.status) == ("not_found", 404)


OUTSIDERS: list[tuple[TokenKind, dict[str, Any]]] = [
    ("agent", {"agent": "sol", "inboxes": None}),
    ("agent", {"inboxes": None}),
    ("agent", {"agent": "sol", "machines": ["box"]}),
]


@pytest.mark.parametrize(("kind", "binding"), OUTSIDERS, ids=str)
async def test_a_token_without_a_machine_has_no_part_in_it(
    kind: TokenKind, binding: dict[str, Any], tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        outsider = await at.token(kind, **binding)
        for operation in OPERATIONS:
            error = await refusal(outsider, "rest", operation, **named(operation, "sol"))
            assert (error.code, error.status) == ("permission_denied", 403)
        assert not set(OPERATIONS) & set(await tools(outsider))


async def tools(caller: Caller) -> list[str]:
    """Return the names of the tools that a token sees."""
    async with caller.served.connect() as client:
        reply = await client.request("POST", "/mcp", [*PLAIN, *caller.headers], request("tools/list"))
    return [tool["name"] for tool in reply.json["result"]["tools"]]


async def test_tokens_of_machines_and_of_their_agents_see_the_tools_and_admins_do_not(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        assert set(OPERATIONS) <= set(await tools(await at.agent("ada")))
        machine = await tools(await at.machine())
        assert set(OPERATIONS) <= set(machine)
        assert "pull_inbox" not in machine
        assert not set(OPERATIONS) & set(await tools(await at.admin()))


async def test_without_a_token_there_is_nothing_to_be_learned(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at, at.served.connect() as client:
        for method, path in (*OPERATIONS.values(), ("GET", "/agent/nothing")):
            reply = await client.request(method, path, [], b"" if method == "POST" else None)
            assert (reply.status, reply.code) == (401, "unauthenticated")
            assert reply.header("www-authenticate") == 'Bearer realm="postroom"'
        headers = (await at.agent("ada")).headers
        assert (await client.request("GET", "/agent/nothing", headers)).status == 404
        assert (await client.request("GET", "/agents/ada", headers)).status == 404
        wrong = await client.request("DELETE", "/agents", headers)
        assert (wrong.status, wrong.header("allow")) == (405, "GET, HEAD")


# -- machines ------------------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("kind", ["agent", "machine"])
async def test_machines_that_a_token_does_not_name_are_as_those_that_there_are_not(
    kind: str, way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        await at.here(way, "ada", "eve")
        caller = await (at.agent("ada") if kind == "agent" else at.machine())
        texts = set()
        for to in ("yard", "nowhere"):
            for members in ({}, {"to_agent": "eve"}):
                error = await refusal(
                    caller, way, "agent_send", from_agent="ada", msg_type="note", to=to, **members
                )
                assert error.code == "not_found"
                texts.add(error.text.replace(to, "…"))
        assert len(texts) == 1
        error = await refusal(caller, way, "agent_send", from_agent="ada", msg_type="note", to_agent="eve")
        unknown = await refusal(
            caller, way, "agent_send", from_agent="ada", msg_type="note", to_agent="Eve0".lower()
        )
        assert error.text.replace("eve", "…") == unknown.text.replace("eve0", "…")
        roster = await caller.do(way, "agents_list", include_stale=True)
        assert {line["machine"] for line in roster["agents"]} == {"box"}


@both_ways
@pytest.mark.parametrize("kind", ["agent", "machine"])
async def test_a_token_sees_and_reaches_the_machines_that_it_names(
    kind: TokenKind, way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        await at.here(way, "ada", "eve")
        caller = await at.token(
            kind, **{kind: "ada" if kind == "agent" else "box"}, machines=["yard", "nowhere"]
        )
        roster = await caller.do(way, "agents_list", include_stale=True)
        assert [line["agent_id"] for line in roster["agents"]] == ["ada", "bob", "cyd", "dan", "eve"]
        asked = {"from_agent": "ada", "msg_type": "note", "to": "yard"}
        direct = await caller.do(way, "agent_send", **asked, to_agent="eve")
        every = await caller.do(way, "agent_send", **asked)
        assert (direct["delivered_to"], every["delivered_to"]) == (["eve"], ["dan", "eve"])
        await pass_time(ROUTED_SECONDS)
        assert await at.read(way, "eve") == [direct["id"], every["id"]]
        assert (await refusal(caller, way, "agent_send", **{**asked, "to": "nowhere"})).code == "not_found"
        # Whom it may write to, it may not read.
        assert (await refusal(caller, way, "agent_inbox", agent_id="eve")).code == "permission_denied"


async def test_a_change_of_the_machines_counts_for_the_next_call(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        ada, admin = await at.agent("ada"), await at.admin()
        patched = await admin.call("PATCH", f"/v1/tokens/{ada.token_id}", {"machines": ["yard"]})
        assert patched.json["machines"] == ["yard"]
        roster = await ada.do("rest", "agents_list", include_stale=True)
        assert {line["machine"] for line in roster["agents"]} == {"box", "yard"}


# -- inboxes -------------------------------------------------------------------------------------------------

READABLE = {
    "machine.box": {"machine", "admin"},
    "machine.yard": {"admin"},
    "agent.ada": {"agent", "admin"},
    "agent.bob": {"admin"},
    "commons": {"machine", "agent", "admin"},
}
"""Who reads which inbox: a machine's token, the token of its agent `ada`, an admin."""


@pytest.mark.parametrize(("slug", "readers"), READABLE.items())
async def test_a_machine_s_inbox_is_read_by_its_own_tokens_and_its_agents_by_themselves(
    slug: str, readers: set[str], tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        callers = {
            "machine": await at.token("machine", machine="box", machines=["yard"], inboxes=None),
            "agent": await at.token("agent", agent="ada", machines=["box", "yard"], inboxes=None),
            "admin": await at.admin(),
        }
        for name, caller in callers.items():
            status = 200 if name in readers else 404
            for path in (
                f"/v1/inboxes/{slug}/messages",
                f"/v1/inboxes/{slug}/wait?after=0&timeout_seconds=0",
            ):
                assert (await caller.call("GET", path)).status == status, (name, path)
            result = await caller.tool("query_messages", inbox=slug)
            assert result["isError"] is (status == 404)


async def test_a_machine_s_token_lists_what_it_reads(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        await at.served.inbox("hooks")
        for inboxes, listed in (
            ((), ["commons", "machine.box"]),
            (("hooks",), ["commons", "hooks", "machine.box"]),
            (None, ["commons", "hooks", "machine.box"]),
        ):
            caller = await at.token("machine", machine="box", inboxes=inboxes)
            page = (await caller.call("GET", "/v1/inboxes")).json
            assert [line["slug"] for line in page["inboxes"]] == listed
            me = (await caller.call("GET", "/v1/me")).json
            assert (me["kind"], me["machine"], me["machines"]) == ("machine", "box", [])
