"""Work-arounds that no numbered trap names: refusals that can be read, heads, limits of connections, the end."""

from pathlib import Path
from typing import Any

import pytest
import trio
from hypercorn.events import RawData

from tests.live.harness import serving
from tests.live.stack import ECHO, MIB, stack
from tests.wire.client import chunk, head
from web.http import Answer, Request
from web.routes import Route
from web.upstream.connections import Connection
from web.upstream.http1 import Http1

# -- refusals that can be read ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/in/demo", "/in/absent", "/v1/echo", "/nothing"])
async def test_a_refused_upload_can_read_the_refusal(tmp_path: Path, target: str) -> None:
    """The client writes everything before it reads anything, as many do, and far more than the buffers
    hold."""
    async with stack(tmp_path, max_body_bytes=MIB) as served, await served.connect() as client:
        with trio.fail_after(10):
            reply = await client.request("POST", target, body=bytes(16 * MIB))
            assert reply.status in (401, 404, 413)
            assert reply.complete
            assert reply.header("connection") == "close"
            await client.until_closed()
        await served.served.connections.wait_until_none()


async def test_a_413_is_sent_while_the_client_is_still_sending(tmp_path: Path) -> None:
    async with stack(tmp_path, max_body_bytes=MIB) as served, await served.connect() as client:
        with trio.fail_after(5):
            await client.send(head("POST", "/in/demo", [("Content-Length", str(MIB + 1))]) + bytes(1_000))
            reply = await client.reply()
            assert (reply.status, reply.code, reply.complete) == (413, "payload_too_large", True)


# -- heads that are too large, or no heads -------------------------------------------------------------------


async def test_a_header_of_32_kib_is_taken_and_a_head_over_64_kib_gets_431(tmp_path: Path) -> None:
    async with stack(tmp_path) as served:
        async with await served.connect() as client:
            with trio.fail_after(5):
                long = [("X-Long", "v" * 32 * 1024)]
                assert (await client.request("POST", "/in/demo", long, b"b")).status == 200
        for fields in ([("X-Long", "v" * 65_536)], [(f"X-{n}", "v" * 1_000) for n in range(66)]):
            async with await served.connect() as client:
                with trio.fail_after(5):
                    reply = await client.request("POST", "/in/demo", fields, b"b")
                    assert (reply.status, reply.code) == (431, "headers_too_large")


async def test_a_head_over_every_limit_gets_431(tmp_path: Path) -> None:
    async with stack(tmp_path) as served, await served.connect() as client:
        with trio.fail_after(5):
            await client.send(head("GET", "/healthz", [("X-Long", "v" * 2 * MIB)]))
            reply = await client.reply("GET")
            assert (reply.status, reply.code) == (431, "headers_too_large")
            assert reply.header("cache-control") == "no-store"


@pytest.mark.parametrize(
    "bad",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
        b"POST /in/demo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /in/demo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_and_the_connection_closed(tmp_path: Path, bad: bytes) -> None:
    async with stack(tmp_path) as served, await served.connect() as client:
        with trio.fail_after(5):
            await client.send(bad)
            answer = await client.until_closed()
        assert answer.startswith(b"HTTP/1.1 4")
        assert b'{"error":{"code":' in answer


async def test_an_offer_of_websocket_or_http_2_is_not_taken(tmp_path: Path) -> None:
    async with stack(tmp_path) as served:
        for offer in ("websocket", "h2c"):
            headers = [("Connection", "Upgrade"), ("Upgrade", offer), ("Sec-WebSocket-Version", "13")]
            headers.append(("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="))
            async with await served.connect() as client:
                with trio.fail_after(5):
                    for _ in range(2):
                        assert (await client.request("GET", "/healthz", headers)).status == 200


@pytest.mark.parametrize("extra", [b"\r\n", b"x" * 100_000, head("GET", "/healthz")])
async def test_bytes_after_the_last_request_do_not_cut_its_answer(tmp_path: Path, extra: bytes) -> None:
    async with stack(tmp_path) as served:
        for _ in range(20):  # which of two tasks is first is a matter of chance
            async with await served.connect() as client:
                with trio.fail_after(5):
                    headers = [("Transfer-Encoding", "chunked")]
                    await client.send(head("POST", "/nothing", headers) + chunk(b"") + extra)
                    reply = await client.reply()
                    assert (reply.status, reply.code, reply.complete) == (404, "not_found", True)


# -- connections ------------------------------------------------------------------------------------------


async def test_a_connection_over_the_limit_is_told_so(tmp_path: Path) -> None:
    async with stack(tmp_path, max_connections=1) as served:
        async with await served.connect() as first:
            with trio.fail_after(5):
                assert (await first.request("GET", "/healthz")).status == 200
                async with await served.connect() as second:
                    reply = await second.reply("GET")
                    assert (reply.status, reply.code) == (503, "busy")
                    assert reply.header("retry-after") is not None
                assert (await first.request("GET", "/healthz")).status == 200
        with trio.fail_after(5):
            await served.served.connections.wait_until_none()
            async with await served.connect() as third:
                assert (await third.request("GET", "/healthz")).status == 200


async def test_a_bug_in_one_connection_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fine(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    handle = Http1.handle

    async def sometimes(self: Http1, event: Any) -> None:
        if isinstance(event, RawData) and b"/poison" in event.data:
            raise ZeroDivisionError
        await handle(self, event)

    monkeypatch.setattr(Http1, "handle", sometimes)
    async with serving(fine) as served, await served.connect() as good, await served.connect() as bad:
        with trio.fail_after(5):
            assert (await good.request("GET", "/")).status == 204
            await bad.send(head("GET", "/poison"))
            assert await bad.until_closed() == b""
            assert (await good.request("GET", "/")).status == 204


async def test_a_small_answer_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    send = Connection.protocol_send

    async def noting(self: Connection, event: Any) -> None:
        if isinstance(event, RawData):
            writes.append(event.data)
        await send(self, event)

    monkeypatch.setattr(Connection, "protocol_send", noting)
    async with stack(tmp_path, administration=ECHO) as served, await served.connect() as client:
        with trio.fail_after(5):
            for method, target in (("POST", "/in/demo"), ("GET", "/healthz"), ("POST", "/v1/echo")):
                writes.clear()
                assert (await client.request(method, target, [await served.admin()], b"body")).status == 200
                assert len(writes) == 1, target


# -- the end ----------------------------------------------------------------------------------------------


async def test_the_shutdown_does_not_wait_for_idle_connections(tmp_path: Path) -> None:
    async with (
        stack(tmp_path, administration=ECHO) as served,
        await served.connect() as used,
        await served.connect() as fresh,
    ):
        with trio.fail_after(5):
            assert (await used.request("GET", "/v1/echo", [await served.admin()])).status == 200
            began = trio.current_time()
            served.served.stopping.set()
            await served.served.ended.wait()
            assert trio.current_time() - began < 1
            assert await used.until_closed() == b""
            await fresh.until_closed()


async def test_the_shutdown_lets_an_answer_be_finished(tmp_path: Path) -> None:
    released, taken = trio.Event(), trio.Event()

    async def slowly(request: Request) -> Answer:
        taken.set()
        await released.wait()
        return Answer(200, b"finished")

    async with (
        stack(tmp_path, hot=(Route("GET", "/v1/slowly", slowly),)) as served,
        await served.connect() as client,
    ):
        with trio.fail_after(5):
            await client.send(head("GET", "/v1/slowly", [await served.admin()]))
            await taken.wait()
            served.served.stopping.set()
            released.set()
            assert (await client.reply("GET")).body == b"finished"
            assert await client.until_closed() == b""
