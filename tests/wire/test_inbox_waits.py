"""Waiting for one's own inbox, and its stream, on virtual time: what wakes them, what they show, what ends them."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from actors.commands import DeleteInbox
from tests.wire.client import Reply
from tests.wire.listening import listening, settled
from tests.wire.mail_scene import CLOSED, OPEN, Agent, by_seq, mail_scene

EMPTY = {"items": [], "cursor": 0, "window_high": 0, "has_more": False}


class Waiting:
    """A wait under way."""

    def __init__(self) -> None:
        self.answer: Reply | None = None
        self.seconds = -1.0

    @property
    def reply(self) -> Reply:
        assert self.answer is not None, "the wait has not been answered"
        return self.answer

    async def run(self, agent: Agent, params: dict[str, Any]) -> None:
        began = trio.current_time()
        self.answer = await agent.call("POST", "/v1/inbox:wait", params)
        self.seconds = trio.current_time() - began


async def started(agent: Agent, nursery: trio.Nursery, **params: Any) -> Waiting:
    """Start a wait and return when it sleeps."""
    waiting = Waiting()
    nursery.start_soon(waiting.run, agent, params)
    await settled()
    return waiting


# -- waits ---------------------------------------------------------------------------------------------


async def test_a_wait_without_mail_ends_on_time(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        for params, seconds in (({}, 30), ({"timeout_seconds": 60}, 60), ({"timeout_seconds": 1}, 1)):
            waiting = Waiting()
            await waiting.run(agent, params)
            assert waiting.seconds == pytest.approx(seconds, abs=0.001)
            assert waiting.reply.json == EMPTY


async def test_a_delivery_wakes_the_wait_and_the_slot_comes_back(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at, trio.open_nursery() as nursery:
        agent = await at.agent()
        draft = await at.message()
        waiting = await started(agent, nursery)
        assert at.served.slots.taken == at.served.slots.on(agent.record.inbox_id) == 1
        mock_clock.jump(7)
        await at.deliver(agent, draft)
        await settled()
        assert by_seq(waiting.reply.json)["items"] == [1]
        assert waiting.seconds == 7
        assert at.served.slots.taken == 0


async def test_a_wait_acknowledges_at_once_and_sleeps_for_what_comes_after(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at, trio.open_nursery() as nursery:
        agent = await at.agent()
        drafts = [await at.message() for _ in range(2)]
        await at.deliver(agent, drafts[0])
        waiting = await started(agent, nursery, ack=1)
        assert waiting.answer is None
        assert (await agent.pull())["cursor"] == 1
        await at.deliver(agent, drafts[1])
        await settled()
        assert by_seq(waiting.reply.json) == {
            "items": [2],
            "cursor": 1,
            "window_high": 2,
            "has_more": False,
        }


async def test_what_may_not_be_seen_wakes_nobody_and_is_passed_with_the_next(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at, trio.open_nursery() as nursery:
        agent = await at.agent()
        hidden, shown = await at.message(CLOSED), await at.message(OPEN)
        waiting = await started(agent, nursery)
        await at.deliver(agent, hidden)
        await settled()
        assert waiting.answer is None
        await at.deliver(agent, shown)
        await settled()
        assert by_seq(waiting.reply.json) == {
            "items": [2],
            "cursor": 0,
            "window_high": 2,
            "has_more": False,
        }


async def test_a_full_window_of_what_may_not_be_seen_is_answered_so_that_it_can_be_passed(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, max_batch=2) as at:
        agent = await at.agent()
        await at.deliver(agent, *[await at.message(slug) for slug in (CLOSED, CLOSED, OPEN)])
        waited = (await agent.call("POST", "/v1/inbox:wait", {})).json
        assert waited == {"items": [], "cursor": 0, "window_high": 2, "has_more": True}
        assert by_seq(await agent.pull(ack=2))["items"] == [3]


async def test_a_timeout_of_zero_looks_once_and_takes_no_slot(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, max_streams=1) as at, trio.open_nursery() as nursery:
        agent = await at.agent()
        await started(agent, nursery)
        assert (await agent.call("POST", "/v1/inbox:wait", {"timeout_seconds": 0})).json == EMPTY
        refused = await agent.call("POST", "/v1/inbox:wait", {"timeout_seconds": 1})
        assert (refused.status, refused.code) == (429, "too_many_waits")
        refused = await agent.call("POST", "/v1/inbox:wait", {"timeout_seconds": 61})
        assert (refused.code, refused.json["error"]["field"]) == ("invalid_argument", "timeout_seconds")
        nursery.cancel_scope.cancel()


async def test_a_wait_sees_by_the_scope_that_its_token_has_when_it_wakes(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at, trio.open_nursery() as nursery:
        agent = await at.agent()
        await at.deliver(agent, await at.message(CLOSED))
        waiting = await started(agent, nursery)
        assert waiting.answer is None
        await agent.rescope(OPEN, CLOSED)
        await settled()
        assert by_seq(waiting.reply.json)["items"] == [1]


async def test_a_wait_ends_with_its_token_its_agent_its_client_and_the_server(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at, trio.open_nursery() as nursery:
        agent, other, third = await at.agent(), await at.agent("other"), await at.agent("third")
        waiting = await started(agent, nursery)
        await at.world.tokens.revoke(agent.token_id)
        await settled()
        assert (waiting.reply.status, waiting.reply.code) == (401, "unauthenticated")

        waiting = await started(other, nursery)
        await at.world.mail.delete_agent("other")
        await settled()
        assert waiting.reply.status in (401, 404)

        async with at.served.connect() as client:
            body = b"{}"
            await client.send(
                b"POST /v1/inbox:wait HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nAuthorization: "
                + third.headers[0][1].encode()
                + b"\r\n\r\n"
                + body
            )
            await settled()
            assert at.served.slots.taken == 1
        await settled()
        assert at.served.slots.taken == 0

        waiting = await started(third, nursery)
        at.world.registry.end_watchers()
        await settled()
        assert (waiting.reply.status, waiting.reply.json) == (200, EMPTY)


# -- streams -------------------------------------------------------------------------------------------


async def test_a_stream_tells_of_each_delivery_as_a_message_with_its_record(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        await at.deliver(agent, await at.message())
        stream: Any = agent
        async with listening(stream, "/v1/inbox:stream?bodies=true") as heard:
            assert heard.seqs == []
            await at.deliver(agent, await at.message(body=b'{"n": 2}'))
            await settled()
            [event] = heard.events
            [item] = (await agent.pull(since=1))["items"]
            message = event.json
            assert list(message)[-2:] == ["delivery", "untrusted"]
            assert message["delivery"] == item["delivery"]
            assert message["untrusted"] == item["diff"]["untrusted"]
            assert (message["id"], message["seq"]) == (item["diff"]["diff_id"], 2)
            assert (message["inbox"], message["received_at"]) == (
                "agent.me",
                item["delivery"]["delivered_at"],
            )
            assert event.last_event_id == f"{message['epoch']}:2"


async def test_a_stream_shows_what_the_token_may_see_and_nothing_is_told_twice(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        await at.deliver(agent, *[await at.message(slug) for slug in (OPEN, CLOSED, OPEN, CLOSED)])
        stream: Any = agent
        for target in ("/v1/inbox:stream?after=0", "/v1/inboxes/agent.me/stream?after=0"):
            async with listening(stream, target) as heard:
                await at.deliver(agent, await at.message(CLOSED))
                await at.deliver(agent, await at.message(OPEN))
                await settled()
                assert heard.seqs == [seq for seq in heard.seqs if seq not in (2, 4, 5, 7)]
                assert heard.seqs == sorted(set(heard.seqs))
                last_id = heard.parser.last_event_id
        async with listening(stream, "/v1/inbox:stream", last_id) as heard:
            assert heard.seqs == []
            await agent.rescope()
            await at.deliver(agent, await at.message(OPEN))
            await settled()
            assert heard.seqs == []


async def test_a_stream_filters_by_type_and_ends_with_the_inbox(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        stream: Any = agent
        async with listening(stream, "/v1/inbox:stream?types=ping") as heard:
            await at.deliver(agent, await at.message(event_type="push"), await at.message(event_type="ping"))
            await settled()
            assert heard.seqs == [2]
            await at.world.registry.ask(agent.record.inbox_id, DeleteInbox())
            await settled()
            assert heard.names[-1] == "bye"
        reply = await agent.call("GET", "/v1/inbox:stream?after=99")
        assert reply.status in (401, 404)


# -- the routes of every inbox ---------------------------------------------------------------------------


async def test_the_agent_reads_its_inbox_as_every_other_one_but_for_what_it_may_not_see(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent, other = await at.agent(), await at.agent("other", inboxes=None)
        admin = await at.served.token("admin")
        await at.deliver(
            agent, *[await at.message(slug) for slug in (CLOSED, OPEN, CLOSED, CLOSED, OPEN, CLOSED)]
        )
        messages = "/v1/inboxes/agent.me/messages"

        async def seqs(query: str) -> list[int]:
            reply = await agent.call("GET", f"{messages}?{query}")
            return [message["seq"] for message in reply.json["messages"]]

        assert await seqs("after=0") == [2, 5]
        assert await seqs("after=0&limit=1") == [2]
        assert await seqs("after=2&limit=1") == [5]
        assert await seqs("after=5") == []
        assert await seqs("limit=1") == [5]
        assert await seqs("before=5&limit=1") == [2]
        assert await seqs("before=2") == []
        wait = await agent.call("GET", "/v1/inboxes/agent.me/wait?after=2&timeout_seconds=0")
        assert [message["seq"] for message in wait.json["messages"]] == [5]
        for seq, status in ((1, 404), (2, 200), (3, 404)):
            for path in (f"{messages}/{seq}", f"{messages}/{seq}/raw"):
                assert (await agent.call("GET", path)).status == status
                assert (await other.call("GET", path)).status == 404
        absent = await other.call("GET", "/v1/inboxes/agent.nobody/messages")
        assert (await other.call("GET", messages)).body == absent.body
        agent.headers = [admin]
        assert await seqs("after=0") == [1, 2, 3, 4, 5, 6]


async def test_a_filtered_page_says_nothing_of_messages_that_the_agent_may_not_see(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        sent = (
            (CLOSED, "rare"),
            (OPEN, "rare"),
            (OPEN, "push"),
            (OPEN, "rare"),
            (CLOSED, "rare"),
            (OPEN, "push"),
        )
        await at.deliver(agent, *[await at.message(slug, event_type=kind) for slug, kind in sent])

        async def page(query: str) -> tuple[list[int], Any]:
            reply = await agent.call("GET", f"/v1/inboxes/agent.me/messages?types=rare&{query}")
            body = reply.json
            return [one["seq"] for one in body["messages"]], body.get("next_after", body.get("next_before"))

        assert await page("after=0&limit=1") == ([2], 2)
        assert await page("after=2&limit=1") == ([4], 6), "the hidden one behind it is not announced"
        assert await page("limit=1") == ([4], 4)
        assert await page("before=4&limit=1") == ([2], None)
        assert await page("after=0&limit=9") == ([2, 4], 6)


async def test_an_agents_token_lists_its_own_inbox_and_the_commons(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        for inboxes, slugs in (
            ((OPEN,), ["agent.me", "commons", OPEN]),
            ((), ["agent.me", "commons"]),
            (None, ["agent.me", CLOSED, "commons", OPEN]),
        ):
            agent = await at.agent(inboxes=inboxes)
            listed = (await agent.call("GET", "/v1/inboxes")).json["inboxes"]
            assert [inbox["slug"] for inbox in listed] == slugs
            paged = (await agent.call("GET", "/v1/inboxes?limit=1&after_slug=agent.me")).json
            assert [inbox["slug"] for inbox in paged["inboxes"]] == slugs[1:2]
