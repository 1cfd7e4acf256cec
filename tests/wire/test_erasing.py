"""Erasing a message takes it out of every inbox that it is in; and inboxes that agents depend on stay what they are."""

from pathlib import Path

import pytest
import trio.testing

from tests.virtual import pass_time
from tests.wire.client import Reply
from tests.wire.mail_scene import OPEN, Agent, MailScene, mail_scene

ROUTED_SECONDS = 0.1
"""Of virtual time, in which the router has long done what there is to do."""


async def as_admin(at: MailScene, method: str, target: str, body: object = None) -> Reply:
    token, text = at.world.tokens.draft("admin", inboxes=None)
    await at.world.tokens.create(token)
    admin = Agent(at.served, (await at.agent()).record, token.token_id, text)
    return await admin.call(method, target, body)


async def told(agent: Agent) -> list[int]:
    """Return what an agent finds in its inbox, by its numbers there, and be sure that pages agree with it."""
    await pass_time(ROUTED_SECONDS)
    seqs = sorted(item["delivery_seq"] for item in (await agent.pull(since=0))["items"])
    own = f"/v1/inboxes/agent.{agent.record.agent_id}/messages"
    page = (await agent.call("GET", f"{own}?after=0")).json
    assert [message["seq"] for message in page["messages"]] == seqs
    return seqs


async def test_an_erased_message_is_gone_from_every_agent_it_was_delivered_to(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, administering=True, routing=True) as at:
        agents = [await at.agent(name) for name in ("me", "you")]
        for agent in agents:
            assert (await agent.call("PUT", "/v1/beacons/all", {"inboxes": [OPEN]})).status == 200
        for n in range(3):
            await at.message(body=b'{"n": %d}' % n)
        assert [await told(agent) for agent in agents] == [[1, 2, 3]] * 2
        assert (await as_admin(at, "DELETE", f"/v1/inboxes/{OPEN}/messages/2")).status == 204
        assert [await told(agent) for agent in agents] == [[1, 3]] * 2
        for agent in agents:
            raw = f"/v1/inboxes/agent.{agent.record.agent_id}/messages/2/raw"
            assert (await agent.call("GET", raw)).status == 404
        assert (await as_admin(at, "DELETE", f"/v1/inboxes/{OPEN}/messages/2")).status == 404


async def test_mail_to_several_agents_is_erased_for_all_of_them_where_it_is_at_home(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, administering=True, routing=True) as at:
        me, you, them = [await at.agent(name) for name in ("me", "you", "them")]
        note = {
            "type": "created",
            "kind": "note",
            "subject": "s",
            "text": "t",
            "to": {"agents": ["you", "them"]},
        }
        assert (await me.call("POST", "/v1/publish", note)).status == 200
        assert (await told(you), await told(them)) == ([1], [1])
        assert (await as_admin(at, "DELETE", "/v1/inboxes/agent.you/messages/1")).status == 204
        assert (await told(you), await told(them)) == ([], [])


async def test_what_is_erased_in_one_agent_s_inbox_stays_where_it_came_from(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, administering=True, routing=True) as at:
        me, you = await at.agent("me"), await at.agent("you")
        for agent in (me, you):
            await agent.call("PUT", "/v1/beacons/all", {"inboxes": [OPEN]})
        await at.message()
        assert (await told(me), await told(you)) == ([1], [1])
        assert (await as_admin(at, "DELETE", "/v1/inboxes/agent.me/messages/1")).status == 204
        assert (await told(me), await told(you)) == ([], [1])
        assert (await me.call("GET", f"/v1/inboxes/{OPEN}/messages/1")).status == 200


# -- what agents depend on -----------------------------------------------------------------------------


async def test_the_commons_are_neither_deleted_nor_made_a_webhook_inbox(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, administering=True) as at:
        refused = await as_admin(at, "DELETE", "/v1/inboxes/commons")
        assert (refused.status, refused.code) == (409, "conflict")
        made = await as_admin(at, "POST", "/v1/inboxes", {"slug": "commons"})
        assert (made.status, made.json["error"]["field"]) == (400, "kind")


@pytest.mark.parametrize("changes", [{"policy": "refuse"}, {"max_messages": 2, "policy": "refuse"}])
async def test_an_agent_s_inbox_cannot_be_made_to_refuse(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, changes: dict[str, object]
) -> None:
    async with mail_scene(tmp_path, administering=True) as at:
        await at.agent()
        refused = await as_admin(at, "PATCH", "/v1/inboxes/agent.me", {"retention": changes})
        assert (refused.status, refused.json["error"]["field"]) == (400, "retention.policy")
        kept = await as_admin(at, "PATCH", "/v1/inboxes/agent.me", {"retention": {"max_messages": 2}})
        assert kept.status == 200
