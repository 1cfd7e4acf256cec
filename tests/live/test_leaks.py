"""What must be given back: descriptors, connections, bytes in flight, spool files, and memory's cycles."""

import gc
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from tests.live.harness import Server, connect, open_descriptors
from tests.live.stack import ECHO, stack
from tests.wire.client import head
from web.http import Answer, Request
from web.routes import Route
from web.upstream.connections import Connection
from web.upstream.http1 import Http1

REQUESTS = 1_000
CLIENTS = 8


async def many(port: int, target: str, headers: list[tuple[str, str]], *, close: bool) -> None:
    """Send `REQUESTS` requests, each on a connection of its own or all of them on `CLIENTS` connections."""
    if close:
        headers = [*headers, ("Connection", "close")]

    async def one_client() -> None:
        left = REQUESTS // CLIENTS
        while left:
            async with await connect(port) as client:
                for _ in range(1 if close else left):
                    reply = await client.request("POST", target, headers, b"body")
                    assert reply.status == 200, reply.body
                    left -= 1
                if close:
                    assert await client.until_closed() == b""

    async with trio.open_nursery() as nursery:
        for _ in range(CLIENTS):
            nursery.start_soon(one_client)


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("target", ["/in/demo", "/v1/echo"])
async def test_requests_leave_no_descriptor_open(tmp_path: Path, target: str, close: bool) -> None:
    async with stack(tmp_path, administration=ECHO) as served:
        headers = [await served.admin()]
        before = open_descriptors()
        with trio.fail_after(30):
            await many(served.served.port, target, headers, close=close)
            await served.served.connections.wait_until_none()
        assert open_descriptors() == before


def test_a_thousand_requests_leave_the_process_as_it_was(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        process = psutil.Process(server.pid)
        trio.run(one_request, server.port)
        before = process.num_fds()
        for close in (False, True):
            trio.run(lambda close=close: many(server.port, "/in/demo", [], close=close))
        trio.run(until_descriptors, process, before)
        assert server.stop() == 0


async def one_request(port: int) -> None:
    async with await connect(port) as client:
        assert (await client.request("POST", "/in/demo", body=b"")).status == 200


async def until_descriptors(process: psutil.Process, expected: int) -> None:
    """Return when the process has no more descriptors than that; each look is after an answer of the
    server's."""
    with trio.fail_after(10):
        while process.num_fds() > expected:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("size", [100, 100_000, 1_000_000])
async def test_uploads_that_break_off_give_everything_back(tmp_path: Path, size: int) -> None:
    async with stack(tmp_path) as served:
        before = open_descriptors()
        with trio.fail_after(10):
            for _ in range(20):
                async with await served.connect() as client:
                    headers = [("Content-Length", str(size + 1))]
                    await client.send(head("POST", "/in/demo", headers) + bytes(size))
            await served.served.connections.wait_until_none()
        in_flight = served.front.ingest.in_flight
        assert (in_flight.small, in_flight.large) == (0, 0)
        assert open_descriptors() == before


LAST_WORDS = {
    "nothing": b"",
    "half a head": b"POST /in/demo HTTP/1.1\r\nHost:",
    "half a body": head("POST", "/in/demo", [("Content-Length", "10")]) + b"half",
    "a request": head("POST", "/in/demo", [("Content-Length", "0")]),
    "its last request": head("POST", "/in/demo", [("Content-Length", "0"), ("Connection", "close")]),
    "what is no request": b"\0\r\n\r\n",
}


@pytest.mark.parametrize("words", LAST_WORDS)
async def test_a_connection_leaves_no_cycle_for_the_collector(tmp_path: Path, words: str) -> None:
    """One would keep what the connection has received last until the collector looks at what has lived for long."""

    async def some(count: int) -> None:
        for _ in range(count):
            async with await served.connect() as client:
                if words:
                    await client.send(LAST_WORDS[words])
                await served.served.connections.wait_until(bool)
                if "request" in words:
                    await client.reply()
        await served.served.connections.wait_until_none()

    async with stack(tmp_path) as served:
        with trio.fail_after(10):
            await some(3)  # what is made on first use is there
            gc.collect()
            gc.disable()
            try:
                await some(20)
                found = [one for one in unreachable() if isinstance(one, Connection | Http1)]
            finally:
                gc.enable()
    assert not found


def unreachable() -> list[object]:
    """Return what only the collector would find."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return gc.garbage[:]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@pytest.mark.parametrize("target", ["/in/demo", "/v1/hot", "/healthz"])
async def test_a_request_leaves_no_cycle_for_the_collector(tmp_path: Path, target: str) -> None:
    """The thresholds of the collector are raised (study, S7), so a cycle per request would be a leak."""

    async def hot(request: Request) -> Answer:
        return Answer(200, b"x")

    async with stack(tmp_path, hot=(Route("POST", "/v1/hot", hot),)) as served:
        headers = [await served.admin()]
        method = "GET" if target == "/healthz" else "POST"
        body: Any = None if method == "GET" else b"body"
        async with await served.connect() as client:
            with trio.fail_after(10):
                await client.request(method, target, headers, body)
                gc.collect()
                gc.disable()
                try:
                    for _ in range(100):
                        assert (await client.request(method, target, headers, body)).status == 200
                    found = gc.collect()
                finally:
                    gc.enable()
    # The test's own client (h11) makes a few per answer; what matters is that they do not come from the server.
    assert found < 100, f"{found} unreachable objects after 100 requests"
