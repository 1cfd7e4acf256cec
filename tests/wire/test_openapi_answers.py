"""What a server answers is what its OpenAPI document promises: every operation that answers JSON, with mail of all
kinds and with refusals, member by member.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio.testing

from tests.openapi import Contract
from tests.virtual import pass_time
from tests.wire.mesh_scene import Caller, MeshScene, mesh_scene
from web.routes import RouteTable

ROUTED_SECONDS = 0.1
"""Of virtual time, in which the router has long done what there is to do."""

NOTE = {"type": "created", "kind": "note", "subject": "Deployment", "text": "of billing", "tags": ["x"]}
INTEREST = {"about": "deployment of billing"}


class Judge:
    """Calls, and judges each answer."""

    def __init__(self, at: MeshScene) -> None:
        self.at = at
        self.contract = Contract(at.served.front.document.encoded)
        self._table: RouteTable = at.served.front._table
        self.answered: set[str] = set()
        """Operations that were answered with a success."""

    async def call(
        self, caller: Caller, method: str, target: str, body: Any = None, expect: int = 200
    ) -> Any:
        """Make one call; its body must be as the document says, unless it is to be refused."""
        found = self._table.match(target.partition("?")[0].encode())
        assert found is not None, target
        key = f"{method} {found.routes[method].template}"
        reply = await caller.call(method, target, body)
        assert reply.status == expect, (key, reply.body)
        if body is not None and expect < 300:
            assert self.contract.faults_of_body(key, body) == [], key
        if expect < 300:
            self.answered.add(key)
        if not reply.body:
            assert "content" not in self.contract.answer(key, expect), key
            return None
        assert self.contract.faults_of_answer(key, expect, reply.json) == [], key
        return reply.json

    def unanswered(self) -> set[str]:
        """Return the operations of the document that answer JSON or nothing, and were not called."""
        keys = {
            f"{method.upper()} {path}"
            for path, methods in self.contract.document["paths"].items()
            for method in methods
            if any(_is_json_or_nothing(answer) for answer in self._successes(methods[method]))
        }
        return {key for key in keys if key.partition(" ")[2].startswith(("/v1", "/agent"))} - self.answered

    def _successes(self, operation: dict[str, Any]) -> list[dict[str, Any]]:
        return [answer for status, answer in operation["responses"].items() if status.startswith("2")]


def _is_json_or_nothing(answer: dict[str, Any]) -> bool:
    return "content" not in answer or "application/json" in answer["content"]


@asynccontextmanager
async def judging(tmp_path: Path) -> AsyncIterator[Judge]:
    async with mesh_scene(tmp_path, administering=True) as at:
        yield Judge(at)


async def test_every_answer_is_as_the_document_says(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with judging(tmp_path) as judge:
        admin, ada, bob = await judge.at.admin(), await judge.at.agent("ada"), await judge.at.agent("bob")
        await _administration(judge, admin)
        await _reading(judge, admin, ada)
        await _agents(judge, ada, bob)
        await _mesh(judge, ada, bob)
        await _endings(judge, admin)
        assert judge.unanswered() == set()


async def _administration(judge: Judge, admin: Caller) -> None:
    call = judge.call
    made = {"slug": "shop", "secret": "s3cret", "verifier": "github", "issue_token": True, "search": True}
    await call(admin, "POST", "/v1/inboxes", made, 201)
    await call(admin, "POST", "/v1/inboxes", made, 409)
    await call(admin, "POST", "/v1/inboxes", {"slug": "No Slug"}, 400)
    own = {"status": 202, "headers": {"X-Queue": "shop"}}
    await call(admin, "PATCH", "/v1/inboxes/shop", {"response": own, "retention": {"max_bytes": None}})
    await call(admin, "GET", "/v1/inboxes/shop")
    await call(admin, "GET", "/v1/inboxes/nowhere", None, 404)
    await call(admin, "POST", "/v1/inboxes/shop/secrets", {"name": "second", "value": "x"}, 201)
    await call(admin, "DELETE", "/v1/inboxes/shop/secrets/second", None, 204)
    token = await call(admin, "POST", "/v1/tokens", {"kind": "agent", "inboxes": ["shop"]}, 201)
    await call(admin, "PATCH", f"/v1/tokens/{token['token_id']}", {"inboxes": "all", "name": None})
    await call(admin, "GET", "/v1/tokens?limit=1")
    await call(admin, "GET", "/v1/me")
    await call(admin, "DELETE", f"/v1/tokens/{token['token_id']}", None, 204)
    await call(admin, "POST", "/v1/machines", {"name": "attic"}, 201)
    await call(admin, "GET", "/v1/machines")
    await call(admin, "GET", "/v1/machines/attic")
    await call(admin, "POST", "/v1/agents", {"agent_id": "fay", "machine": "attic"}, 201)
    await call(admin, "POST", "/v1/agents", {"agent_id": "guy", "machine": "nowhere"}, 404)
    await call(admin, "GET", "/v1/agents?limit=1")
    await call(admin, "GET", "/v1/agents/fay")


async def _reading(judge: Judge, admin: Caller, ada: Caller) -> None:
    call = judge.call
    for body in (b'{"a": 1}', b"text", b"\xff", b""):
        async with judge.at.served.connect() as client:
            reply = await client.request("POST", "/in/shop/x?y=1", [], body)
        assert reply.status == 202
    page = await call(admin, "GET", "/v1/inboxes/shop/messages?after=0&bodies=true")
    assert {name for m in page["messages"] for name in m["untrusted"] if name.startswith("body")} == {
        "body",
        "body_text",
        "body_base64",
    }
    await call(admin, "GET", "/v1/inboxes/shop/messages?limit=1")
    await call(admin, "GET", "/v1/inboxes/shop/messages/1")
    await call(admin, "GET", "/v1/inboxes/shop/messages/99", None, 404)
    await call(admin, "GET", "/v1/inboxes/shop/messages?after=99", None, 409)
    await call(admin, "GET", "/v1/inboxes/shop/messages?epoch=other", None, 409)
    await call(admin, "GET", "/v1/inboxes/shop/wait?after=0&timeout_seconds=0")
    await call(admin, "GET", "/v1/inboxes/shop/search?q=text")
    await call(admin, "GET", "/v1/inboxes/commons/search?q=text", None, 409)
    await call(admin, "GET", "/v1/inboxes?limit=1")
    await call(ada, "GET", "/v1/inboxes/shop/messages", None, 404)


async def _agents(judge: Judge, ada: Caller, bob: Caller) -> None:
    call = judge.call
    await call(ada, "PUT", "/v1/beacons/billing", INTEREST)
    await call(ada, "PUT", "/v1/beacons", {"name": "other", **INTEREST, "weight": 0.5})
    await call(bob, "POST", "/v1/publish", NOTE)
    await call(bob, "POST", "/v1/publish", {**NOTE, "to": {"agents": ["ada"]}, "idempotency_key": "1"})
    await call(bob, "POST", "/v1/publish", {**NOTE, "to": {"inbox": "nowhere"}}, 404)
    await call(bob, "POST", "/agent/send", {"to_agent": "ada", "msg_type": "note", "require_alive": False})
    await pass_time(ROUTED_SECONDS)
    page = await call(ada, "POST", "/v1/inbox:pull", {})
    assert {item["delivery"]["via"] for item in page["items"]} == {"direct", "beacon:billing"}
    await call(ada, "POST", "/v1/inbox:pull", {"ack": 0, "limit": 1})
    await call(ada, "POST", "/v1/inbox:wait", {"timeout_seconds": 0})
    await call(ada, "GET", "/v1/inbox")
    await call(ada, "GET", "/v1/beacons")
    await call(ada, "GET", "/v1/beacons/billing")
    await call(ada, "POST", "/v1/beacons:test", INTEREST)
    await call(ada, "DELETE", "/v1/beacons/billing", None, 204)
    await call(ada, "DELETE", "/v1/beacons/billing", None, 404)
    await call(await judge.at.admin(), "GET", "/v1/inbox", None, 403)


async def _mesh(judge: Judge, ada: Caller, bob: Caller) -> None:
    call = judge.call
    await call(ada, "POST", "/agent/checkin", {"agent_id": "ada", "role": "r", "caps": ["c"], "status": "s"})
    await call(bob, "POST", "/agent/checkin", {"agent_id": "bob"})
    await call(bob, "POST", "/agent/checkin", {"agent_id": "bob", "ttl_seconds": 1}, 422)
    await call(await judge.at.agent("cyd"), "POST", "/agent/checkout", {"agent_id": "cyd"})
    await call(ada, "GET", "/agents?include_stale=true")
    mail = await call(ada, "GET", "/agent/inbox?agent_id=ada")
    kinds = {frozenset(message["untrusted"]) for message in mail["messages"]}
    assert len(kinds) > 1, "what was published, and what was sent"
    ids = [message["id"] for message in mail["messages"]]
    await call(ada, "POST", "/agent/ack", {"agent_id": "ada", "message_ids": [*ids, "none"]})
    await call(ada, "GET", "/agent/inbox?agent_id=bob", None, 403)
    broadcast = {"msg_type": "freeze", "payload": {"until": None}, "idempotency_key": "1"}
    told = await call(ada, "POST", "/agent/send", broadcast)
    assert told["skipped"], "who has left"
    await call(ada, "POST", "/agent/send", {**broadcast, "payload": 1}, 409)
    await call(ada, "POST", "/agent/send", {"to_agent": "nobody", "msg_type": "note"}, 404)
    await call(bob, "GET", "/agent/sent?agent_id=bob")


async def _endings(judge: Judge, admin: Caller) -> None:
    call = judge.call
    await call(admin, "GET", "/v1/inboxes/agent.ada/readers")
    await call(admin, "DELETE", "/v1/inboxes/shop/messages/1", None, 204)
    await call(admin, "POST", "/v1/inboxes/shop:purge")
    await call(admin, "DELETE", "/v1/inboxes/commons", None, 409)
    await call(admin, "DELETE", "/v1/inboxes/shop", None, 204)
    await call(admin, "DELETE", "/v1/agents/fay", None, 204)
    await call(admin, "DELETE", "/v1/machines/attic", None, 204)


def test_the_judge_finds_what_the_document_does_not_name() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}
    operation = {"responses": {"200": {"description": "", "content": content}}}
    document = {"paths": {"/a": {"get": operation}}, "components": {"schemas": {"A": schema}}}
    contract = Contract(msgspec.json.encode(document))
    assert contract.faults_of_answer("GET /a", 200, {"a": ""}) == []
    for wrong in ({}, {"a": 1}, {"a": "", "b": 1}):
        assert contract.faults_of_answer("GET /a", 200, wrong) != []
    with pytest.raises(KeyError):
        contract.faults_of_answer("GET /a", 201, {"a": ""})
