"""`wait_for_messages` through the whole stack on virtual time: when it answers, what ends it, and its slot."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from actors.commands import DeleteInbox
from tests.wire.client import Client, Reply, head
from tests.wire.mcp_calls import PLAIN, modern, post, request
from tests.wire.scene import Scene, scene


def wait_request(**arguments: Any) -> bytes:
    """Return the body of a wait's call."""
    given = {"inbox": "demo", "after": 0, **arguments}
    return request("tools/call", {"name": "wait_for_messages", "arguments": given})


def notification(method: str, params: Any) -> bytes:
    """Return the body of a notification."""
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params})


class Waiting:
    """A wait under way; `seconds` are the virtual ones that it took."""

    def __init__(self) -> None:
        self.answer: Reply | None = None
        self.seconds = -1.0

    async def run(self, at: Scene, arguments: dict[str, Any]) -> None:
        began = trio.current_time()
        self.answer = await post(at, wait_request(**arguments))
        self.seconds = trio.current_time() - began

    @property
    def result(self) -> Any:
        assert self.answer is not None, "the wait has not been answered"
        assert self.answer.status == 200
        return self.answer.json["result"]

    @property
    def page(self) -> Any:
        return self.result["structuredContent"]

    @property
    def text(self) -> str:
        assert self.result["isError"] is True
        return str(self.result["content"][0]["text"])


async def started(at: Scene, nursery: trio.Nursery, **arguments: Any) -> Waiting:
    """Start a wait and return when it sleeps."""
    waiting = Waiting()
    nursery.start_soon(waiting.run, at, arguments)
    await trio.testing.wait_all_tasks_blocked()
    return waiting


@pytest.mark.parametrize(
    ("arguments", "options", "seconds"),
    [
        ({}, {}, 30),
        ({"timeout_seconds": 7}, {}, 7),
        ({"timeout_seconds": 50}, {}, 50),
        ({"timeout_seconds": 60}, {}, 50),
        ({"timeout_seconds": 60}, {"mcp_wait_cap_seconds": 60.0}, 60),
        ({"timeout_seconds": 60}, {"mcp_wait_cap_seconds": 5.0}, 5),
        ({"timeout_seconds": 0}, {}, 0),
    ],
)
async def test_a_wait_without_a_message_ends_on_time_with_its_cursor(
    tmp_path: Path,
    arguments: dict[str, Any],
    options: dict[str, Any],
    seconds: float,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene(tmp_path, **options) as at:
        waiting = Waiting()
        await waiting.run(at, arguments)
        assert waiting.seconds == pytest.approx(seconds, abs=0.001)
        epoch = await at.epoch()
        assert waiting.page == {
            "messages": [],
            "latest_seq": 0,
            "epoch": epoch,
            "gap": False,
            "next_after": 0,
        }


async def test_a_message_wakes_the_wait(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        waiting = await started(at, nursery, types=["push"], bodies=True)
        await at.send("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.answer is None
        mock_clock.jump(7)
        await at.send("push", body=b'{"a": "\\""}')
        await trio.testing.wait_all_tasks_blocked()
        (message,) = waiting.page["messages"]
        assert (message["seq"], message["untrusted"]["body"], waiting.seconds) == (2, {"a": '"'}, 7)
        assert at.served.slots.taken == 0


async def test_the_loop_of_the_contract_sees_every_message_once(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        after, seen = 0, []
        for _ in range(5):
            waiting = await started(at, nursery, after=after, limit=2)
            for _ in range(3):
                await at.send()
            await trio.testing.wait_all_tasks_blocked()
            seen += [message["seq"] for message in waiting.page["messages"]]
            after = waiting.page["next_after"]
        assert seen == list(range(1, after + 1))


async def test_waits_of_all_surfaces_share_their_slots(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, max_streams=2) as at, trio.open_nursery() as nursery:
        await started(at, nursery)
        nursery.start_soon(at.wait)
        await trio.testing.wait_all_tasks_blocked()
        assert at.served.slots.taken == 2
        refused = await started(at, nursery)
        assert refused.text.startswith("too_many_waits: Too many waits are in progress")
        looked = await started(at, nursery, timeout_seconds=0)
        assert looked.page["messages"] == []
        nursery.cancel_scope.cancel()


async def call_and_leave(at: Scene) -> Client:
    """Send a wait's call and return its connection, which the test closes."""
    client = at.served.connect()
    body = wait_request(timeout_seconds=60)
    fields = [*PLAIN, *at.headers, ("Content-Length", str(len(body)))]
    await client.send(head("POST", "/mcp", fields) + body)
    return client


async def test_a_cancelled_wait_ends_at_once_with_a_normal_answer_and_frees_its_slot(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        waiting = await started(at, nursery)
        for other in (2, "1", 1.5, None, [1]):  # somebody else's call, or nobody's
            await post(at, notification("notifications/cancelled", {"requestId": other}))
            await trio.testing.wait_all_tasks_blocked()
            assert waiting.answer is None
        answer = await post(at, notification("notifications/cancelled", {"requestId": 1}))
        assert (answer.status, answer.body) == (202, b"")
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.page["messages"] == []
        assert waiting.seconds == 0
        assert at.served.slots.taken == 0


async def test_another_token_cannot_cancel_a_wait(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        waiting = await started(at, nursery)
        await at.new_token(None)
        await post(at, notification("notifications/cancelled", {"requestId": 1}))
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.answer is None
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("keepalive", [None, 5.0])
async def test_a_client_that_hangs_up_gives_its_slot_back_at_once(
    tmp_path: Path, keepalive: float | None, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, mcp_wait_keepalive_seconds=keepalive) as at:
        clients = [await call_and_leave(at) for _ in range(5)]
        await trio.testing.wait_all_tasks_blocked()
        assert at.served.slots.taken == 5
        for client in clients:
            await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert at.served.slots.taken == 0
        assert not at.served.world.registry.live(at.inbox.inbox_id).watchers
        assert not at.served.connections.live


async def test_a_hang_up_that_is_not_heard_of_lasts_to_the_cap(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """A stray byte after the request hides it (field notes, trap 14)."""
    async with scene(tmp_path) as at:
        client = await call_and_leave(at)
        await client.send(head("GET", "/v1/me"))
        await trio.testing.wait_all_tasks_blocked()
        await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(50)
        await trio.testing.wait_all_tasks_blocked()
        assert at.served.slots.taken == 0


async def end_the_server(at: Scene) -> None:
    at.served.world.registry.end_watchers()


async def revoke(at: Scene) -> None:
    await at.served.world.tokens.revoke(at.token.token_id)


async def take_the_inbox(at: Scene) -> None:
    await at.rescope(("other",))


async def delete(at: Scene) -> None:
    await at.served.world.registry.ask(at.inbox.inbox_id, DeleteInbox())


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (end_the_server, None),
        (revoke, "unauthenticated"),
        (take_the_inbox, "not_found"),
        (delete, "not_found"),
    ],
)
@pytest.mark.parametrize("keepalive", [None, 5.0])
async def test_what_ends_a_wait_is_told_as_rest_tells_it(
    tmp_path: Path,
    ending: Callable[[Scene], Any],
    code: str | None,
    keepalive: float | None,
    mock_clock: trio.testing.MockClock,
) -> None:
    async with scene(tmp_path, mcp_wait_keepalive_seconds=keepalive) as at, trio.open_nursery() as nursery:
        waiting = await started(at, nursery)
        await ending(at)
        await trio.testing.wait_all_tasks_blocked()
        if code is None:
            assert waiting.page["next_after"] == 0
        else:
            assert waiting.text.startswith(f"{code}: ")
        assert at.served.slots.taken == 0


async def test_a_progress_token_is_no_reason_to_say_anything_earlier(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client:
        body = msgspec.json.decode(wait_request(timeout_seconds=10))
        body["params"]["_meta"] = {"progressToken": 1}
        async with trio.open_nursery() as nursery:
            replies: list[Reply] = []

            async def ask() -> None:
                fields = [*PLAIN, *at.headers, ("Accept", "application/json, text/event-stream")]
                replies.append(await client.request("POST", "/mcp", fields, msgspec.json.encode(body)))

            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(10)
        assert replies[0].header("content-type") == "application/json"
        assert replies[0].json["result"]["structuredContent"]["messages"] == []


async def test_a_wait_in_the_modern_version_is_the_same(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        began = trio.current_time()
        reply = await modern(
            at,
            "tools/call",
            name="wait_for_messages",
            arguments={"inbox": "demo", "after": 0, "timeout_seconds": 60},
        )
        assert trio.current_time() - began == pytest.approx(50, abs=0.001)
        assert reply.json["result"]["structuredContent"]["messages"] == []
        assert reply.json["result"]["resultType"] == "complete"


@pytest.mark.parametrize("keepalive", [None, 5.0])
@pytest.mark.parametrize("kind", ["refused", "unknown", "woken", "empty", "queried"])
async def test_a_call_leaves_no_cycle_for_the_collector(
    tmp_path: Path, kind: str, keepalive: float | None, mock_clock: trio.testing.MockClock
) -> None:
    """The thresholds of the collector are raised (study, S7), so a cycle per request would be a leak."""
    rounds = 20
    options = {"keep_alive_seconds": 10_000.0, "mcp_wait_keepalive_seconds": keepalive}
    async with scene(tmp_path, **options) as at, at.served.connect() as client:

        async def once() -> None:
            after = await at.send()
            body = wait_request(after=10**9 if kind == "refused" else after, timeout_seconds=10)
            if kind == "unknown":
                body = request("tools/call", {"name": "nope"})
            elif kind == "queried":
                body = request("tools/call", {"name": "query_messages", "arguments": {"inbox": "demo"}})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.request, "POST", "/mcp", [*PLAIN, *at.headers], body)
                await trio.testing.wait_all_tasks_blocked()
                if kind == "woken":
                    await at.send()
                elif kind == "empty":
                    for _ in range(2):
                        mock_clock.jump(5)
                        await trio.testing.wait_all_tasks_blocked()

        await once()
        gc.collect()
        gc.disable()
        try:
            for _ in range(rounds):
                await once()
            found = gc.collect()
        finally:
            gc.enable()
    assert found < rounds, f"{found} unreachable objects after {rounds} calls"


# -- keeping quiet connections open ----------------------------------------------------------------------


async def test_newlines_keep_a_wait_alive_and_the_answer_is_still_json(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, mcp_wait_keepalive_seconds=5.0) as at, at.served.connect() as client:
        body = wait_request(timeout_seconds=30)
        await client.send(
            head("POST", "/mcp", [*PLAIN, *at.headers, ("Content-Length", str(len(body)))]) + body
        )
        async with trio.open_nursery() as nursery:
            replies: list[Reply] = []

            async def read() -> None:
                replies.append(await client.reply())

            nursery.start_soon(read)
            for _ in range(2):
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(5)
            await trio.testing.wait_all_tasks_blocked()
            assert not replies
            await at.send()
        (reply,) = replies
        assert (reply.status, reply.complete) == (200, True)
        assert reply.header("content-type") == "application/json"
        assert reply.header("cache-control") == "no-store"
        assert reply.header("transfer-encoding") == "chunked"
        assert reply.body.startswith(b'\n\n{"jsonrpc":"2.0","id":1,"result":')
        assert reply.json["result"]["structuredContent"]["next_after"] == 1
        await trio.testing.wait_all_tasks_blocked()
        assert at.served.slots.taken == 0


async def test_what_does_not_sleep_is_sent_in_one_piece(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, mcp_wait_keepalive_seconds=5.0) as at:
        for body in (wait_request(timeout_seconds=0), request("tools/call", {"name": "list_inboxes"})):
            reply = await post(at, body)
            assert reply.header("content-length") == str(len(reply.body))
