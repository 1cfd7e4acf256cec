"""Messages between agents on every surface: pages, single messages, pulls, waits and streams of private and machine
inboxes.
"""

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tests.virtual import pass_time
from tests.wire.events import EventParser
from tests.wire.mesh_scene import Caller, MeshScene, mesh_scene

ROUTED_SECONDS = 0.1
"""Of virtual time, in which the router has long done what there is to do."""

CLAIMS = {"msg_type": "handoff", "payload": {"pr": 7}, "event_type": "handoff"}
UNSAID = {"msg_type": "handoff", "event_type": "handoff"}


async def sent(at: MeshScene) -> str:
    """Have `ada` send a broadcast and then a message to `bob`; return the id of the first."""
    ada = await at.agent("ada")
    every = await ada.do("rest", "agent_send", msg_type="handoff", payload={"pr": 7})
    await pass_time(ROUTED_SECONDS)
    await at.send("rest", "ada", "bob", msg_type="handoff", payload={"pr": 7})
    return str(every["id"])


async def reader_of(at: MeshScene, slug: str) -> Caller:
    return await (at.agent("bob") if slug.startswith("agent.") else at.machine())


async def messages(caller: Caller, target: str) -> Any:
    reply = await caller.call("GET", target)
    assert reply.status == 200, reply.body
    return reply.json["messages"]


SLUGS = [("agent.bob", 2), ("machine.box", 1)]


@pytest.mark.parametrize(("slug", "count"), SLUGS)
async def test_pages_waits_and_single_messages_show_the_same(
    slug: str, count: int, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        first, caller = await sent(at), await reader_of(at, slug)
        inbox = f"/v1/inboxes/{slug}"
        page = await messages(caller, f"{inbox}/messages?after=0&bodies=true")
        assert [message["untrusted"] for message in page] == [CLAIMS] * count
        assert [message["sender"] for message in page] == ["ada"] * count
        assert (page[0]["id"], page[0]["inbox"], page[0]["seq"]) == (first, slug, 1)
        assert await messages(caller, f"{inbox}/wait?after=0&bodies=true") == page
        assert list(reversed(await messages(caller, f"{inbox}/messages?bodies=true"))) == page
        assert (await caller.call("GET", f"{inbox}/messages/1")).json == page[0]
        plain = await messages(caller, f"{inbox}/messages?after=0&types=handoff")
        assert [message["untrusted"] for message in plain] == [UNSAID] * count
        assert await messages(caller, f"{inbox}/messages?after=0&types=note") == []
        result = await caller.tool("get_message", inbox=slug, seq=1)
        assert result["structuredContent"] == page[0]
        result = await caller.tool("query_messages", inbox=slug, after=0, bodies=True)
        assert result["structuredContent"]["messages"] == page
        raw = await caller.call("GET", f"{inbox}/messages/1/raw")
        assert (raw.body, raw.header("content-type")) == (b'{"pr":7}', "application/octet-stream")


async def test_a_pull_has_them_as_messages_with_how_they_came(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        first, bob = await sent(at), await at.agent("bob")
        items = (await bob.call("POST", "/v1/inbox:pull")).json["items"]
        assert [item["delivery"]["via"] for item in items] == ["broadcast", "direct"]
        for number, item in enumerate(items, 1):
            diff = item["diff"]
            assert (diff["type"], diff["kind"], diff["untrusted"]) == ("created", "message", CLAIMS)
            assert (diff["origin"]["inbox"], diff["origin"]["seq"]) == ("agent.bob", number)
            assert (diff["origin"]["sender"], item["delivery"]["score"]) == ("ada", 0.95)
        assert items[0]["diff"]["diff_id"] == first
        replayed = (await bob.call("GET", "/v1/inbox")).json["items"]
        assert replayed == items
        result = await bob.tool("pull_inbox")
        assert result["structuredContent"]["items"] == items


@pytest.mark.parametrize(("slug", "count"), SLUGS)
async def test_a_stream_tells_of_them_as_pages_do(
    slug: str, count: int, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        caller = await reader_of(at, slug)
        async with at.served.connect() as client:
            target = f"/v1/inboxes/{slug}/stream?after=0&bodies=true"
            assert (await client.start(target, caller.headers)).status == 200
            await sent(at)
            parser, events = EventParser(), []
            while len(events) < count:
                events += parser.feed(await client.data())
        page = await messages(caller, f"/v1/inboxes/{slug}/messages?after=0&bodies=true")
        shown = [event.json for event in events]
        if slug == "agent.bob":
            assert [message.pop("delivery")["via"] for message in shown] == ["broadcast", "direct"]
        assert shown == page


async def test_who_gets_a_broadcast_anyway_gets_it_once_whatever_its_beacons_say(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        for name in ("bob", "eve"):
            agent = await at.agent(name)
            beacon = {"types": ["handoff"], "kinds": ["message"]}
            assert (await agent.call("PUT", "/v1/beacons/handoffs", beacon)).status == 200
        first = await sent(at)
        assert (await at.read("rest", "bob")).count(first) == 1
        assert await at.read("rest", "eve") == []
