"""Waits through the whole stack on virtual time: when they answer, what ends them, and that slots come back."""

import gc
import time
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from actors.commands import DeleteInbox, Purge
from storage.memory import MemoryStore
from tests.wire.client import Client, Reply
from tests.wire.scene import Scene, scene
from web.auth import Principal
from web.http import Request
from web.options import WebOptions
from web.waits import Waits


class Waiting:
    """A wait under way: `reply` and the virtual seconds that it took, once it is answered."""

    def __init__(self) -> None:
        self.answer: Reply | None = None
        self.seconds = -1.0

    @property
    def reply(self) -> Reply:
        assert self.answer is not None, "the wait has not been answered"
        return self.answer

    async def run(self, scene: Scene, params: dict[str, Any]) -> None:
        began = trio.current_time()
        self.answer = await scene.wait(**params)
        self.seconds = trio.current_time() - began


async def started(scene: Scene, nursery: trio.Nursery, **params: Any) -> Waiting:
    """Start a wait and return when it sleeps."""
    waiting = Waiting()
    nursery.start_soon(waiting.run, scene, params)
    await trio.testing.wait_all_tasks_blocked()
    return waiting


# -- when a wait answers -----------------------------------------------------------------------------


async def test_a_wait_without_a_message_ends_on_time_with_its_cursor(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        for params, seconds in (({}, 30), ({"timeout_seconds": 60}, 60), ({"timeout_seconds": 1}, 1)):
            waiting = Waiting()
            await waiting.run(at, params)
            assert waiting.seconds == pytest.approx(seconds, abs=0.001)
            epoch = waiting.reply.json["epoch"]
            assert waiting.reply.json == {
                "messages": [],
                "latest_seq": 0,
                "epoch": epoch,
                "gap": False,
                "next_after": 0,
            }


async def test_a_wait_returns_at_once_when_something_is_there(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        for _ in range(3):
            await at.send()
        waiting = Waiting()
        await waiting.run(at, {"after": 1, "limit": 1})
        assert waiting.seconds == 0
        assert [message["seq"] for message in waiting.reply.json["messages"]] == [2]
        assert waiting.reply.json["next_after"] == 2


async def test_a_message_wakes_the_wait(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        waiting = await started(at, nursery)
        mock_clock.jump(7)
        await at.send()
        await trio.testing.wait_all_tasks_blocked()
        assert [message["seq"] for message in waiting.reply.json["messages"]] == [1]
        assert waiting.seconds == 7


async def test_a_timeout_of_zero_looks_once_and_takes_no_slot(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, max_streams=1) as at, trio.open_nursery() as nursery:
        await started(at, nursery, timeout_seconds=60)
        assert at.served.slots.taken == 1
        looked = await at.wait(timeout_seconds=0)
        assert (looked.status, looked.json["messages"]) == (200, [])
        refused = await at.wait(timeout_seconds=1)
        assert (refused.status, refused.code) == (429, "too_many_waits")
        assert refused.header("retry-after") is not None
        nursery.cancel_scope.cancel()


async def test_filters_move_the_cursor_past_what_they_skip(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        waiting = await started(at, nursery, types="push", timeout_seconds=20)
        await at.send("ping")
        await at.send("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.answer is None
        mock_clock.jump(20)
        await trio.testing.wait_all_tasks_blocked()
        assert (waiting.reply.json["messages"], waiting.reply.json["next_after"]) == ([], 2)


async def test_a_gap_is_told_at_once(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        for _ in range(5):
            await at.send()
        await at.served.world.registry.ask(at.inbox.inbox_id, Purge())
        waiting = await started(at, nursery, after=2)
        assert (waiting.reply.json["gap"], waiting.reply.json["next_after"]) == (True, 5)


async def test_cursors_of_another_life_or_the_future_are_refused(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        await at.send()
        ahead = await at.wait(after=2)
        assert (ahead.status, ahead.code, ahead.json["error"]["field"]) == (409, "cursor_ahead", "after")
        other = await at.wait(after=2, epoch="another")
        assert (other.status, other.code, other.json["error"]["field"]) == (409, "epoch_changed", "epoch")
        assert at.served.slots.taken == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "after"),
        ("after=-1", "after"),
        ("after=0&timeout_seconds=61", "timeout_seconds"),
        ("after=0&timeout_seconds=-1", "timeout_seconds"),
        ("after=0&timeout_seconds=1.5", "timeout_seconds"),
        ("after=0&limit=0", "limit"),
        ("after=0&before=3", "before"),
        ("after=0&inbox=demo", "inbox"),
    ],
)
async def test_parameters_are_refused_by_name(
    tmp_path: Path, query: str, field: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client:
        reply = await client.request("GET", f"/v1/inboxes/demo/wait?{query}", at.headers)
        assert (reply.status, reply.code, reply.json["error"]["field"]) == (400, "invalid_argument", field)


# -- what ends a wait ----------------------------------------------------------------------------------


async def test_a_shutdown_answers_waits_normally(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        waits = [await started(at, nursery) for _ in range(10)]
        at.served.world.registry.end_watchers()
        await trio.testing.wait_all_tasks_blocked()
        assert all(wait.reply.json["next_after"] == 0 for wait in waits)
        late = await started(at, nursery)
        assert late.reply.status == 200, "a wait that comes in after the end does not sleep either"


async def test_a_revoked_token_ends_its_waits_at_once(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        waiting = await started(at, nursery)
        await at.served.world.tokens.revoke(at.token.token_id)
        await trio.testing.wait_all_tasks_blocked()
        assert (waiting.reply.status, waiting.reply.code) == (401, "unauthenticated")
        assert "invalid_token" in (waiting.reply.header("www-authenticate") or "")


async def test_an_expiring_token_ends_its_waits_in_time(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        await at.new_token(["demo"], lifetime_seconds=20)
        waiting = await started(at, nursery, timeout_seconds=60)
        mock_clock.jump(19)
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.answer is None
        mock_clock.jump(1)
        await trio.testing.wait_all_tasks_blocked()
        assert (waiting.reply.status, waiting.reply.code) == (401, "unauthenticated")


@pytest.mark.parametrize("kept", [True, False])
async def test_a_token_that_changes_is_asked_again(
    tmp_path: Path, kept: bool, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        waiting = await started(at, nursery)

        await at.rescope(("demo", "other") if kept else ("other",))
        await trio.testing.wait_all_tasks_blocked()
        if kept:
            assert waiting.answer is None
            await at.send()
            await trio.testing.wait_all_tasks_blocked()
            assert waiting.reply.json["next_after"] == 1
        else:
            assert (waiting.reply.status, waiting.reply.code) == (404, "not_found")


async def test_a_deleted_inbox_ends_its_waits(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at, trio.open_nursery() as nursery:
        waiting = await started(at, nursery)
        await at.served.world.registry.ask(at.inbox.inbox_id, DeleteInbox())
        await trio.testing.wait_all_tasks_blocked()
        assert (waiting.reply.status, waiting.reply.code) == (404, "not_found")


# -- slots ---------------------------------------------------------------------------------------------------


async def test_slots_are_counted_overall_and_per_inbox(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, max_streams=3, max_streams_per_inbox=2) as at:
        other = await at.served.inbox("other")
        await at.rescope(None)
        async with trio.open_nursery() as nursery:
            await started(at, nursery)
            await started(at, nursery)
            assert at.served.slots.on(at.inbox.inbox_id) == 2
            assert (await at.wait()).code == "too_many_waits"
            async with at.served.connect() as client, at.served.connect() as late:
                await client.send(at.get("/v1/inboxes/other/wait?after=0"))
                await trio.testing.wait_all_tasks_blocked()
                assert (at.served.slots.taken, at.served.slots.on(other.inbox_id)) == (3, 1)
                refused = await late.request("GET", "/v1/inboxes/other/wait?after=0", at.headers)
                assert (refused.status, refused.code) == (429, "too_many_waits")
            await trio.testing.wait_all_tasks_blocked()
            assert at.served.slots.taken == 2
            nursery.cancel_scope.cancel()


async def test_a_client_that_hangs_up_gives_its_slot_back_at_once(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        clients: list[Client] = []
        for _ in range(5):
            client = at.served.connect()
            await client.send(at.get(at.target(timeout_seconds=60)))
            clients.append(client)
        await trio.testing.wait_all_tasks_blocked()
        assert at.served.slots.taken == 5
        for client in clients:
            await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert at.served.slots.taken == 0
        assert not at.served.world.registry.live(at.inbox.inbox_id).watchers
        assert not at.served.connections.live


async def test_a_wait_with_a_body_is_answered_and_the_connection_kept(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client, trio.open_nursery() as nursery:

        async def ask() -> None:
            for after in (0, 1):
                reply = await client.request("GET", at.target(after=after), at.headers, b"a body")
                assert reply.json["next_after"] == after + 1

        nursery.start_soon(ask)
        for _ in range(2):
            await trio.testing.wait_all_tasks_blocked()
            await at.send()


async def test_a_stray_byte_hides_the_hang_up_but_not_beyond_the_timeout(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        async with at.served.connect() as client:
            await client.send(at.get(at.target(timeout_seconds=60)) + at.get("/v1/me"))
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(60)
        await trio.testing.wait_all_tasks_blocked()
        assert at.served.slots.taken == 0
        assert not at.served.connections.live


class Failing(MemoryStore):
    """A store whose reads fail when a test says so."""

    failure: Exception | None = None

    async def read(self, look: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        return await super().read(look)


async def test_a_wait_that_fails_gives_its_slot_back(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    store = Failing()
    with capture_logs() as logs:
        async with scene(tmp_path, store=store) as at:
            await at.served.service.find("demo")
            store.failure = ArithmeticError("a defect")
            reply = await at.wait()
            assert (reply.status, reply.code) == (500, "internal")
            assert at.served.slots.taken == 0
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["a request failed"]


async def test_virtual_minutes_take_no_real_ones(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    began = time.perf_counter()
    async with scene(tmp_path) as at:
        for _ in range(5):
            await at.wait(timeout_seconds=60)
    assert time.perf_counter() - began < 5


async def test_a_slot_is_held_until_the_answer_has_been_sent(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Also the place in a crowd's pacing: both end with the last byte, not with the answer's making."""
    async with scene(tmp_path) as at:
        waits = Waits(at.served.service, WebOptions(), at.served.slots)

        async def read_body() -> bytes:
            return b""

        request = Request(
            "GET",
            b"/v1/inboxes/demo/wait",
            b"after=0",
            [],
            None,
            read_body,
            Principal(at.token),
            {"slug": "demo"},
        )
        await at.send()
        answer = await waits.wait(request)
        assert at.served.slots.taken == 1
        assert answer.sent is not None
        answer.sent()
        assert at.served.slots.taken == 0


@pytest.mark.parametrize("kind", ["refused", "woken", "empty"])
async def test_a_wait_leaves_no_cycle_for_the_collector(
    tmp_path: Path, kind: str, mock_clock: trio.testing.MockClock
) -> None:
    """The thresholds of the collector are raised (study, S7), so a cycle per request would be a leak."""
    rounds = 20
    async with scene(tmp_path, keep_alive_seconds=10_000.0) as at, at.served.connect() as client:

        async def once() -> None:
            after = 10**9 if kind == "refused" else await at.send()
            async with trio.open_nursery() as nursery:
                target = at.target(after=after, timeout_seconds=10)
                nursery.start_soon(client.request, "GET", target, at.headers)
                await trio.testing.wait_all_tasks_blocked()
                if kind == "woken":
                    await at.send()
                elif kind == "empty":
                    mock_clock.jump(10)

        await once()
        gc.collect()
        gc.disable()
        try:
            for _ in range(rounds):
                await once()
            found = gc.collect()
        finally:
            gc.enable()
    assert found < rounds, f"{found} unreachable objects after {rounds} waits"
