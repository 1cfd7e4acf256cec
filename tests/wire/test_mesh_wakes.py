"""Being woken, over REST and MCP with equal results: one wake for much mail, none for nothing, and what ends one."""

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tests.virtual import pass_time
from tests.wire.mesh_scene import WAYS, MeshScene, Way, mesh_scene
from web.notices import wakes_are_off

FIRED_SECONDS = 6.0
"""Of virtual time: the debounce is over, and the call made."""

EXPIRED_SECONDS = 601.0
"""A wake that was not answered counts no more."""

WAKE = {"url": "http://here/wake"}

both_ways = pytest.mark.parametrize("way", WAYS)


async def woken(at: MeshScene) -> list[tuple[str, int]]:
    """Return whom the server has called since, with how much it said is unread."""
    await pass_time(FIRED_SECONDS)
    calls = [(call.agent_id, call.unread) for call in at.world.calls]
    at.world.calls.clear()
    return calls


@both_ways
async def test_a_hundred_messages_make_one_wake(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, waking=True) as at:
        await at.here(way, "bob", wake=WAKE)
        for n in range(100):
            await at.send(way, "ada", "bob", payload=n)
        assert await woken(at) == [("bob", 100)]
        await at.send(way, "ada", "bob")
        assert await woken(at) == []


@both_ways
async def test_what_is_acknowledged_before_it_fires_makes_none(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, waking=True) as at:
        await at.here(way, "bob", wake=WAKE)
        sent = [await at.send(way, "ada", "bob") for _ in range(3)]
        await at.ack(way, "bob", *sent)
        assert await woken(at) == []


@both_ways
async def test_a_broadcast_wakes_each_that_wants_to_be(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, waking=True) as at:
        ada, *_ = await at.here(way, "ada", "bob", wake=WAKE)
        await at.here(way, "cyd")
        await ada.do(way, "agent_send", msg_type="freeze")
        assert await woken(at) == [("bob", 1)]


TOKENS: list[tuple[Any, list[tuple[str, int]]]] = [
    (None, []),
    ("", []),
    ("made up", []),
    ("the one", [("bob", 2)]),
]


@both_ways
@pytest.mark.parametrize(("token", "again"), TOKENS, ids=str)
async def test_a_wake_is_spent_by_its_own_token_alone(
    token: str | None,
    again: list[tuple[str, int]],
    way: Way,
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with mesh_scene(tmp_path, waking=True) as at:
        await at.here(way, "bob", wake=WAKE)
        await at.send(way, "ada", "bob")
        await pass_time(FIRED_SECONDS)
        [call] = at.world.calls
        at.world.calls.clear()
        how = {} if token is None else {"wake_token": call.wake_token if token == "the one" else token}
        assert len(await at.read(way, "bob", background=True, **how)) == 1
        await at.send(way, "ada", "bob")
        assert await woken(at) == again
        assert len(await at.read(way, "bob")) == 1


@both_ways
async def test_whoever_is_stale_and_can_be_woken_may_be_written_to(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, waking=True) as at:
        await at.here(way, "bob", wake=WAKE, ttl_seconds=30)
        await pass_time(31)
        await at.send(way, "ada", "bob", require_alive=True)
        assert await woken(at) == [("bob", 1)]
        await at.here(way, "bob", ttl_seconds=30)  # without a target now
        await pass_time(31)
        ada = await at.agent("ada")
        assert await ada.code(way, "agent_send", to_agent="bob", msg_type="note") == "not_found"


@both_ways
async def test_a_target_that_fails_three_times_is_off_and_its_agent_finds_that_in_its_inbox(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, waking=True) as at:
        at.world.mesh._notice = wakes_are_off
        at.world.answers += [False] * 3
        [bob] = await at.here(
            way, "bob", wake={**WAKE, "secret": "whsec_" + "c2VjcmV0" * 4}, ttl_seconds=86_400
        )
        await at.send(way, "ada", "bob")
        for _ in range(4):
            await pass_time(EXPIRED_SECONDS)
        assert len(at.world.calls) == 3
        _, told = (await bob.do(way, "agent_inbox", agent_id="bob"))["messages"]
        assert (told["sender"], told["untrusted"]["msg_type"]) == (None, "system")
        assert told["untrusted"]["payload"]["failures"] == 3
        items = (await bob.call("POST", "/v1/inbox:pull")).json["items"]
        assert sorted(item["diff"]["kind"] for item in items) == ["message", "system"]
