"""The orderly end of a real process with everybody connected: who gets what, how soon, and what the log says of it."""

import json
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.live.api import Api
from tests.live.harness import Server, connect
from tests.wire.client import Client, head

WAITS = 500
STREAMS = 100
END_SECONDS = 3.0
"""From the signal to the end of the process, everybody served."""
PATIENCE_SECONDS = 45
"""For 600 clients to connect on a busy machine."""
LARGE_BYTES = 8 * 1024 * 1024
"""More than the buffers of a connection hold, so that whoever does not read it blocks its sender."""
SMALL_BUFFER_BYTES = 4096


def crowded(data_dir: Path) -> Server:
    """Return a server that takes the crowd on one inbox."""
    return Server(data_dir, max_streams=2 * WAITS, max_streams_per_inbox=2 * WAITS)


class Crowd:
    """Clients of one server, all on the inbox `crowd`, where one message is."""

    def __init__(self, server: Server, held: AsyncExitStack) -> None:
        self._server = server
        self._held = held
        self._authorization = [("Authorization", f"Bearer {server.token}")]
        self.waits: list[Client] = []
        self.streams: list[Client] = []

    async def connect(self, *, receive_buffer: int | None = None) -> Client:
        client = await connect(self._server.port, receive_buffer=receive_buffer)
        return await self._held.enter_async_context(client)

    async def ask(self, client: Client, target: str) -> None:
        await client.send(head("GET", target, self._authorization))

    async def wait(self) -> None:
        client = await self.connect()
        await self.ask(client, "/v1/inboxes/crowd/wait?after=1&timeout_seconds=60")
        self.waits.append(client)

    async def stream(self) -> None:
        client = await self.connect()
        await self.ask(client, "/v1/inboxes/crowd/stream")
        assert b"HTTP/1.1 200" in await client.until(b"id: ")
        self.streams.append(client)

    async def idle(self) -> Client:
        client = await self.connect()
        reply = await client.request("GET", "/v1/me", self._authorization)
        assert reply.status == 200
        return client

    async def reader_that_does_not_read(self, target: str) -> Client:
        client = await self.connect(receive_buffer=SMALL_BUFFER_BYTES)
        with trio.fail_after(PATIENCE_SECONDS):
            await self.ask(client, target)
            await client.until(b"HTTP/1.1 200")
        return client

    async def until_open(self, count: int) -> None:
        """Return when the server says that so many waits and streams are open."""
        async with await connect(self._server.port) as client:
            opened = -1
            while opened != count:
                reply = await client.request("GET", "/v1/stats", self._authorization)
                opened = reply.json["waits"]["open"]


@asynccontextmanager
async def crowd(server: Server, *, waits: int, streams: int) -> AsyncIterator[Crowd]:
    """Give a crowd that is all there."""
    with Api(server.url, server.token) as api:
        api.inbox(slug="crowd")
        api.inbox(slug="large")
        api.send("crowd", b"{}")
        api.send("large", bytes(LARGE_BYTES))
    async with AsyncExitStack() as held:
        everybody = Crowd(server, held)
        with trio.fail_after(PATIENCE_SECONDS):
            for _ in range(waits):
                await everybody.wait()
            for _ in range(streams):
                await everybody.stream()
            await everybody.until_open(waits + streams)
        yield everybody


async def end(server: Server) -> tuple[int, float]:
    """Wait for the end of a process that was told to end; return its exit code and how long it took."""
    began = time.monotonic()
    code = await trio.to_thread.run_sync(server.wait)
    return code, time.monotonic() - began


def complaints(server: Server) -> list[str]:
    """Return the lines of the log above the level info."""
    return [line for line in server.output.splitlines() if re.search(r"\[(warning|error|critical)", line)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_everybody_is_seen_off_within_three_seconds(tmp_path: Path, number: signal.Signals) -> None:
    with crowded(tmp_path / "data") as server:
        async with crowd(server, waits=WAITS, streams=STREAMS) as everybody:
            idle = await everybody.idle()
            half_a_head = await everybody.connect()
            await half_a_head.send(b"GET /v1/me HTT")
            stuck = await everybody.reader_that_does_not_read("/v1/inboxes/large/messages/1/raw")
            server.signal(number)
            took: list[tuple[int, float]] = []
            with trio.fail_after(PATIENCE_SECONDS):
                async with trio.open_nursery() as nursery:

                    async def see() -> None:
                        took.append(await end(server))

                    nursery.start_soon(see)
                    for client in everybody.waits:
                        reply = await client.reply("GET")
                        assert (reply.status, reply.complete) == (200, True)
                        assert reply.json["messages"] == []
                        assert reply.json["next_after"] == reply.json["latest_seq"] == 1
                    for client in everybody.streams:
                        rest = (await client.until_closed()).decode()
                        assert 'event: bye\ndata: {"reason":"shutdown"}' in rest
                        assert rest.endswith("0\r\n\r\n"), "the stream was cut off"
                    assert await idle.until_closed() == b""
                    assert await half_a_head.until_closed() == b""
                    assert len(await stuck.until_closed()) < LARGE_BYTES
        [(code, seconds)] = took
        assert code == 0
        assert seconds < END_SECONDS
        assert complaints(server) == []
        assert "stopped" in server.output


async def test_a_stream_whose_reader_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    with crowded(tmp_path / "data") as server:
        with Api(server.url, server.token) as api:
            api.inbox(slug="busy")
            for _ in range(400):
                api.send("busy", bytes(16_000))
        async with crowd(server, waits=1, streams=1) as everybody:
            await everybody.reader_that_does_not_read("/v1/inboxes/busy/stream?after=0&bodies=true")
            with trio.fail_after(PATIENCE_SECONDS):
                await everybody.until_open(3)
            server.signal(signal.SIGTERM)
            with trio.fail_after(PATIENCE_SECONDS):
                code, seconds = await end(server)
        assert code == 0
        assert seconds < END_SECONDS
        assert complaints(server) == []


async def test_new_work_is_told_that_the_server_is_shutting_down(tmp_path: Path) -> None:
    with crowded(tmp_path / "data") as server:
        async with crowd(server, waits=0, streams=0) as everybody:
            # Somebody who does not read keeps the shutdown busy for as long as the others have time.
            await everybody.reader_that_does_not_read("/v1/inboxes/large/messages/1/raw")
            server.signal(signal.SIGTERM)
            await trio.to_thread.run_sync(server.wait_for_output, "shutting down")
            with trio.fail_after(PATIENCE_SECONDS):
                for target in ("/v1/me", "/in/crowd"):
                    reply = await (await everybody.connect()).request("GET", target)
                    assert (reply.status, reply.code) == (503, "shutting_down")
                    assert reply.header("retry-after") is not None
                code, _ = await end(server)
        assert code == 0


async def test_a_message_that_is_on_its_way_is_still_stored(tmp_path: Path) -> None:
    with crowded(tmp_path / "data") as server:
        async with crowd(server, waits=0, streams=0) as everybody:
            sender = await everybody.connect()
            await sender.send(head("POST", "/in/crowd", [("Content-Length", "4")]) + b"be")
            await everybody.reader_that_does_not_read("/v1/inboxes/large/messages/1/raw")
            server.signal(signal.SIGTERM)
            await trio.to_thread.run_sync(server.wait_for_output, "shutting down")
            await sender.send(b"en")
            with trio.fail_after(PATIENCE_SECONDS):
                assert (await sender.reply()).json["seq"] == 2
                await end(server)
        server.start()
        with Api(server.url, server.token) as api:
            assert api.message("crowd", 2)["untrusted"]["body_text"] == "been"


async def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    with crowded(tmp_path / "data") as server:
        async with crowd(server, waits=3, streams=0) as everybody:
            await everybody.reader_that_does_not_read("/v1/inboxes/large/messages/1/raw")
            server.signal(signal.SIGTERM)
            await trio.to_thread.run_sync(server.wait_for_output, "shutting down")
            server.signal(signal.SIGINT)
            with trio.fail_after(PATIENCE_SECONDS):
                code, seconds = await end(server)
        assert code == 130
        assert seconds < 1.0
        # What had been answered before is there.
        server.start()
        with Api(server.url, server.token) as api:
            assert json.loads(api.call("GET", "/inboxes/crowd/messages").content)["latest_seq"] == 1


async def test_a_reload_during_the_end_changes_nothing(tmp_path: Path) -> None:
    with crowded(tmp_path / "data") as server:
        async with crowd(server, waits=0, streams=0) as everybody:
            await everybody.reader_that_does_not_read("/v1/inboxes/large/messages/1/raw")
            server.signal(signal.SIGTERM)
            await trio.to_thread.run_sync(server.wait_for_output, "shutting down")
            server.signal(signal.SIGHUP)
            with trio.fail_after(PATIENCE_SECONDS):
                code, _ = await end(server)
        assert code == 0
        assert "reloaded" not in server.output
