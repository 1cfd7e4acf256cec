"""The administration of machines, of agents on them, and of the tokens that act for either."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.virtual import pass_time
from tests.wire.client import Reply
from tests.wire.mesh_scene import Caller, mesh_scene

ROUTED_SECONDS = 0.1
"""Of virtual time, in which the router has long done what there is to do."""


def refused(reply: Reply) -> tuple[int, str, str | None]:
    """Return status, code and field of a refusal."""
    return reply.status, reply.code, reply.json["error"].get("field")


async def issued(admin: Caller, **members: Any) -> Any:
    reply = await admin.call("POST", "/v1/tokens", members)
    assert reply.status == 201, reply.body
    return reply.json


async def test_a_machine_is_made_listed_shown_and_deleted(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        admin = await at.admin()
        made = await admin.call("POST", "/v1/machines", {"name": "attic"})
        assert (made.status, made.json["created_at"] > "2029") == (201, True)
        told = {"name": "attic", "inbox": "machine.attic", "agents": 0, "created_at": made.json["created_at"]}
        assert made.json == told
        assert (await admin.call("POST", "/v1/agents", {"agent_id": "fay", "machine": "attic"})).status == 201
        shown = (await admin.call("GET", "/v1/machines/attic")).json
        assert shown == {**told, "agents": 1}
        listed = (await admin.call("GET", "/v1/machines")).json
        assert [machine["name"] for machine in listed["machines"]] == ["attic", "box", "yard"]
        assert (await admin.call("DELETE", "/v1/machines/attic")).status == 204
        for method, target in (("GET", "/v1/machines/attic"), ("DELETE", "/v1/machines/attic")):
            assert (await admin.call(method, target)).status == 404
        for slug in ("machine.attic", "agent.fay"):
            assert (await admin.call("GET", f"/v1/inboxes/{slug}")).status == 404


async def test_machines_are_paged_by_name(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        admin = await at.admin()
        first = (await admin.call("GET", "/v1/machines?limit=1")).json
        assert (first["truncated"], first["next_after"]) == (True, "box")
        rest = (await admin.call("GET", f"/v1/machines?limit=1&after={first['next_after']}")).json
        assert [machine["name"] for machine in rest.pop("machines")] == ["yard"]
        assert rest == {}


REFUSED: list[tuple[str, str, dict[str, Any], tuple[int, str, str | None]]] = [
    ("POST", "/v1/machines", {"name": "box"}, (409, "conflict", "name")),
    ("POST", "/v1/machines", {"name": "Box"}, (400, "invalid_argument", "name")),
    ("POST", "/v1/machines", {}, (400, "invalid_argument", "name")),
    ("POST", "/v1/machines", {"name": "a", "agents": []}, (400, "invalid_argument", "agents")),
    ("POST", "/v1/agents", {"agent_id": "fay", "machine": "attic"}, (404, "not_found", "machine")),
    (
        "POST",
        "/v1/agents",
        {"agent_id": "fay", "machine": "attic", "issue_token": True},
        (404, "not_found", "machine"),
    ),
    ("POST", "/v1/agents", {"agent_id": "fay", "inboxes": ["news"]}, (400, "invalid_argument", "inboxes")),
    (
        "POST",
        "/v1/agents",
        {"agent_id": "fay", "issue_token": True, "inboxes": ["agent.x"]},
        (400, "invalid_argument", "inboxes"),
    ),
    ("POST", "/v1/tokens", {"kind": "machine", "machine": "attic"}, (404, "not_found", "machine")),
    ("POST", "/v1/tokens", {"kind": "machine"}, (400, "invalid_argument", "machine")),
    ("POST", "/v1/tokens", {"kind": "agent", "machine": "box"}, (400, "invalid_argument", "machine")),
    (
        "POST",
        "/v1/tokens",
        {"kind": "agent", "inboxes": "all", "machines": ["box"]},
        (400, "invalid_argument", "machines"),
    ),
    (
        "PATCH",
        "/v1/inboxes/machine.box",
        {"retention": {"policy": "refuse"}},
        (400, "invalid_argument", "retention.policy"),
    ),
]


@pytest.mark.parametrize(("method", "target", "body", "how"), REFUSED, ids=str)
async def test_what_cannot_be_is_refused_by_name(
    method: str,
    target: str,
    body: dict[str, Any],
    how: tuple[int, str, str | None],
    tmp_path: Path,
    mock_clock: trio.testing.MockClock,
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        assert refused(await (await at.admin()).call(method, target, body)) == how


async def test_only_an_admin_administers_machines(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        for caller in (await at.machine(), await at.agent("ada")):
            for method, target in (
                ("POST", "/v1/machines"),
                ("GET", "/v1/machines"),
                ("GET", "/v1/machines/box"),
                ("DELETE", "/v1/machines/nothing"),
            ):
                assert refused(await caller.call(method, target)) == (403, "permission_denied", None)


async def test_an_agent_comes_with_its_first_token_or_not_at_all(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        admin = await at.admin()
        wanted = {"agent_id": "fay", "machine": "box", "issue_token": True, "inboxes": ["news", "news"]}
        made = (await admin.call("POST", "/v1/agents", wanted)).json
        assert list(made) == ["agent_id", "inbox", "machine", "created_at", "token_id", "token"]
        me = (await Caller(at.served, made["token_id"], made["token"]).call("GET", "/v1/me")).json
        assert (me["agent"], me["kind"], me["inboxes"]) == ("fay", "agent", ["news"])
        before = (await admin.call("GET", "/v1/tokens")).json
        assert refused(await admin.call("POST", "/v1/agents", wanted)) == (409, "conflict", "agent_id")
        assert [one["token_id"] for one in (await admin.call("GET", "/v1/tokens")).json["tokens"]] == [
            one["token_id"] for one in before["tokens"]
        ]
        assert "token" not in (await admin.call("POST", "/v1/agents", {"agent_id": "guy"})).json


async def test_a_token_for_a_machine_is_shown_with_what_it_reaches(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        admin = await at.admin()
        made = await issued(
            admin, kind="machine", machine="box", machines=["yard", "yard", "later"], name="ci"
        )
        assert made["token"].startswith("prm_machine_")
        assert list(made)[2:8] == ["kind", "inboxes", "agent", "machine", "machines", "name"]
        told = {name: made[name] for name in ("kind", "inboxes", "agent", "machine", "machines", "name")}
        assert told == {
            "kind": "machine",
            "inboxes": [],
            "agent": None,
            "machine": "box",
            "machines": ["yard", "later"],
            "name": "ci",
        }
        caller = Caller(at.served, made["token_id"], made["token"])
        me = (await caller.call("GET", "/v1/me")).json
        assert {name: me[name] for name in told} == told


async def test_deleting_a_machine_ends_its_tokens_and_those_of_its_agents_with_their_waits(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        admin = await at.admin()
        await at.send("rest", "ada", "bob")
        others = await at.agent("dan")
        callers = [await at.agent("ada"), await at.agent("bob"), await at.machine()]
        slugs = ("agent.ada", "agent.bob", "machine.box")
        replies: list[Reply] = []

        async def wait(caller: Caller, slug: str) -> None:
            replies.append(
                await caller.call("GET", f"/v1/inboxes/{slug}/wait?after=0&types=ping&timeout_seconds=60")
            )

        async with trio.open_nursery() as nursery:
            for caller, slug in zip(callers, slugs, strict=True):
                nursery.start_soon(wait, caller, slug)
            await pass_time(ROUTED_SECONDS)
            assert (await admin.call("DELETE", "/v1/machines/box")).status == 204
        assert {reply.status for reply in replies} <= {401, 404}
        for caller in callers:
            assert (await caller.call("GET", "/v1/me")).status == 401
        assert (await others.call("GET", "/v1/me")).status == 200
        tokens = (await admin.call("GET", "/v1/tokens")).json["tokens"]
        assert not [
            token for token in tokens if token["machine"] == "box" or token["agent"] in ("ada", "bob")
        ]
        # Made again, it begins from nothing.
        assert (await admin.call("POST", "/v1/machines", {"name": "box"})).json["agents"] == 0


async def test_deleting_the_inbox_of_a_machine_deletes_the_machine(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, administering=True) as at:
        admin, ada = await at.admin(), await at.agent("ada")
        assert (await admin.call("DELETE", "/v1/inboxes/machine.box")).status == 204
        assert (await admin.call("GET", "/v1/machines/box")).status == 404
        assert (await admin.call("GET", "/v1/agents/ada")).status == 404
        assert (await ada.call("GET", "/v1/me")).status == 401
