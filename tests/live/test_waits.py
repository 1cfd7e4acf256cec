"""Waits on a real server: a crowd that is woken, clients that die, and limits."""

from pathlib import Path

import trio

from tests.live.api import Api
from tests.live.harness import Server, connect
from tests.live.rawhttp import Sender
from tests.live.rawhttp import head as raw_head
from tests.wire.client import Client, Reply, head

CROWD = 200
AHEAD_OF_THE_SENDER = 16
"""Of the crowd, in a client that reads both from one loop: the pacing lets 8 answers be under way."""
PATIENCE_SECONDS = 30


async def until_open(api: Api, count: int) -> None:
    """Return when the server says that so many waits and streams are open."""
    while api.get("/stats")["waits"]["open"] != count:
        await trio.lowlevel.checkpoint()


def test_a_crowd_is_answered_completely_and_its_sender_first(tmp_path: Path) -> None:
    with (
        Server(tmp_path / "data", max_streams_per_inbox=CROWD) as server,
        Api(server.url, server.token) as api,
    ):
        slug = api.inbox()
        answered: list[Reply] = []
        ahead = -1

        async def wait() -> None:
            async with await connect(server.port) as client:
                target = f"/v1/inboxes/{slug}/wait?after=0&timeout_seconds=60"
                headers = [("Authorization", f"Bearer {server.token}")]
                answered.append(await client.request("GET", target, headers))

        async def wake() -> None:
            nonlocal ahead
            async with trio.open_nursery() as nursery:
                for _ in range(CROWD):
                    nursery.start_soon(wait)
                await until_open(api, CROWD)
                async with await connect(server.port) as client:
                    reply = await client.request("POST", f"/in/{slug}", body=b"{}")
                ahead = len(answered)
                assert reply.status == 200

        async def bounded() -> None:
            with trio.fail_after(PATIENCE_SECONDS):
                await wake()
                await until_open(api, 0)

        trio.run(bounded)
        assert ahead <= AHEAD_OF_THE_SENDER
        assert [reply.status for reply in answered] == [200] * CROWD
        assert {reply.body for reply in answered} == {answered[0].body}
        assert [message["seq"] for message in answered[0].json["messages"]] == [1]


def test_clients_that_die_without_goodbye_give_their_slots_back(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        slug = api.inbox()
        token = [(b"Authorization", f"Bearer {server.token}".encode())]
        lines = [Sender(server.url).line() for _ in range(20)]
        for n, line in enumerate(lines):
            target = "wait?after=0&timeout_seconds=60" if n % 2 else "stream"
            line.send(raw_head(b"GET", f"/v1/inboxes/{slug}/{target}".encode(), token))

        async def die() -> None:
            with trio.fail_after(PATIENCE_SECONDS):
                await until_open(api, len(lines))
                for line in lines:
                    line.reset()
                await until_open(api, 0)

        trio.run(die)


def test_the_slot_is_held_until_the_answer_has_been_taken(tmp_path: Path) -> None:
    """A client that does not read its answer holds its slot, until it is disconnected for that."""
    with (
        Server(tmp_path / "data", stalled_reader_seconds=1, page_bytes=64 * 1024 * 1024) as server,
        Api(server.url, server.token) as api,
    ):
        slug = api.inbox(max_body_bytes=1024 * 1024)
        for _ in range(100):
            api.send(slug, headers={"X-Long": "x" * 60_000})
        target = f"/v1/inboxes/{slug}/wait?after=0&limit=100&timeout_seconds=1"

        async def stall() -> None:
            with trio.fail_after(PATIENCE_SECONDS):
                async with await connect(server.port, receive_buffer=4096) as client:
                    await ask(client, target, server.token)
                    await until_open(api, 1)
                    await until_open(api, 0)

        trio.run(stall)


async def ask(client: Client, target: str, token: str) -> None:
    await client.send(head("GET", target, [("Authorization", f"Bearer {token}")]))


def test_a_wait_ends_with_its_token_and_its_inbox(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        kept, deleted = api.inbox(), api.inbox()
        issued = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": [kept]}, status=201)

        async def end_both() -> tuple[Reply, Reply]:
            with trio.fail_after(PATIENCE_SECONDS):
                async with await connect(server.port) as one, await connect(server.port) as another:
                    await ask(one, f"/v1/inboxes/{kept}/wait?after=0", issued["token"])
                    await ask(another, f"/v1/inboxes/{deleted}/wait?after=0", server.token)
                    await until_open(api, 2)
                    api.call("DELETE", f"/tokens/{issued['token_id']}").raise_for_status()
                    api.call("DELETE", f"/inboxes/{deleted}").raise_for_status()
                    return await one.reply("GET"), await another.reply("GET")

        revoked, gone = trio.run(end_both)
        assert (revoked.status, revoked.code) == (401, "unauthenticated")
        assert (gone.status, gone.code) == (404, "not_found")
