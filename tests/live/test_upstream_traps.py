"""One regression test for each work-around in `web/upstream.py`, over real sockets. Traps are those of the
field notes.
"""

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypercorn.events import RawData

from storage.records import InboxSettings, NewInbox
from tests.actors.world import World, running
from tests.live.harness import Server, Serving, serving
from tests.wire.client import chunk, head
from tests.wire.harness import front_of
from web.front import Front
from web.http import Answer, Request
from web.options import WebOptions
from web.routes import Route
from web.upstream import Connection, Http1

MIB = 1024 * 1024


class Stack:
    """The edge over actors and the store in memory, on a socket."""

    def __init__(self, world: World, front: Front, served: Serving) -> None:
        self.world = world
        self.front = front
        self.served = served
        self.connect = served.connect

    async def admin(self) -> tuple[str, str]:
        record, text = self.world.tokens.draft("admin", inboxes=None)
        await self.world.tokens.create(record)
        return ("Authorization", f"Bearer {text}")


@asynccontextmanager
async def stack(
    tmp_path: Path, *, administration: Sequence[Route] = (), hot: Sequence[Route] = (), **options: Any
) -> AsyncIterator[Stack]:
    stopping = trio.Event()
    async with running() as world:
        await world.service.create_inbox(NewInbox("demo", "webhook", "", InboxSettings()))
        front = front_of(
            world, tmp_path, WebOptions(**options), stopping, hot=hot, administration=administration
        )
        async with serving(front, stopping, **options) as served:
            yield Stack(world, front, served)


async def echo(request: Request) -> Answer:
    return Answer(200, await request.read_body() or b"nothing")


ECHO = (Route("POST", "/v1/echo", echo), Route("GET", "/v1/echo", echo))


async def flood(scope: Any, receive: Any, send: Any) -> None:
    """Answer with far more than the buffers of a connection hold."""
    if scope["type"] != "http":
        raise NotImplementedError  # how an application says that it has no lifespan
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64):
        await send({"type": "http.response.body", "body": bytes(MIB), "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


# -- trap 2 -----------------------------------------------------------------------------------------------


async def test_a_chunked_body_is_stopped_at_the_limit_before_quart_sees_it(tmp_path: Path) -> None:
    async with stack(tmp_path, administration=ECHO) as served, await served.connect() as client:
        with trio.fail_after(5):
            await client.send(
                head("POST", "/v1/echo", [await served.admin(), ("Transfer-Encoding", "chunked")])
            )
            await client.send(chunk(bytes(MIB)))
            await client.send(chunk(b"x"))  # and no last chunk
            reply = await client.reply()
    assert (reply.status, reply.code) == (413, "payload_too_large")


# -- trap 3 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["quart", "the plain adapter"])
async def test_connection_close_is_kept_at_once(tmp_path: Path, through: str) -> None:
    routes = {"administration": ECHO} if through == "quart" else {"hot": ECHO}
    async with stack(tmp_path, **routes) as served, await served.connect() as client:
        with trio.fail_after(5):
            headers = [await served.admin(), ("Connection", "close")]
            assert (await client.request("GET", "/v1/echo", headers)).status == 200
            assert await client.until_closed() == b""


async def test_an_idle_connection_is_closed_on_time_after_an_answer_through_quart(tmp_path: Path) -> None:
    async with stack(tmp_path, administration=ECHO, keep_alive_seconds=0.2) as served:
        async with await served.connect() as client:
            with trio.fail_after(5):
                assert (await client.request("GET", "/v1/echo", [await served.admin()])).status == 200
                assert await client.until_closed() == b""


# -- trap 4 and S17 -----------------------------------------------------------------------------------------


async def test_a_reader_that_stops_is_evicted() -> None:
    async with serving(flood, stalled_reader_seconds=0.4) as served:
        async with await served.connect(receive_buffer=4_096) as client:
            with trio.fail_after(5):
                await client.send(head("GET", "/"))
                await served.connections.wait_until(bool)
                await served.connections.wait_until_none()
        assert served.connections.evicted == 1


async def test_a_stalled_reader_does_not_delay_the_shutdown() -> None:
    async with serving(flood, stalled_reader_seconds=60) as served:
        async with await served.connect(receive_buffer=4_096) as client:
            await client.send(head("GET", "/"))
            with trio.fail_after(5):
                await client.until(b"HTTP/1.1 200")
            started = trio.current_time()
            served.stopping.set()
            with trio.fail_after(5):
                await served.ended.wait()
            assert trio.current_time() - started < 2


# -- trap 5 -----------------------------------------------------------------------------------------------


async def test_nothing_runs_in_the_nursery_of_quart(tmp_path: Path) -> None:
    async with stack(tmp_path, administration=ECHO) as served, await served.connect() as client:
        with trio.fail_after(5):
            assert (await client.request("GET", "/v1/echo", [await served.admin()])).status == 200
        assert not served.front.administration.quart.nursery.child_tasks


# -- trap 15 ----------------------------------------------------------------------------------------------


async def where(request: Request) -> Answer:
    return Answer(200, repr(sorted(request.params.items())).encode(), b"text/plain")


async def elsewhere(request: Request) -> Answer:
    return Answer(500)


@pytest.mark.parametrize("through", ["quart", "the plain adapter"])
@pytest.mark.parametrize(
    ("target", "status", "params"),
    [
        ("/v1/things/a%2Fb", 200, [("name", "a/b")]),
        ("/v1/things/a%2Fparts%2F1", 200, [("name", "a/parts/1")]),
        ("/v1/things/%C3%BC", 200, [("name", "ü")]),
        ("/v1/things/%FF", 200, [("name", "\N{REPLACEMENT CHARACTER}")]),
        ("/v1/things/..", 200, [("name", "..")]),
        ("/v1/things/a", 200, [("name", "a")]),
        ("//v1/things/a", 404, None),
        ("/v1//things/a", 404, None),
        ("/v1/things/a/", 404, None),
        ("/v1/things/", 404, None),
        ("/v1/%74hings/a", 404, None),
    ],
)
async def test_raw_paths_decide_the_route(
    tmp_path: Path, through: str, target: str, status: int, params: object
) -> None:
    table = (Route("GET", "/v1/things/{name}", where), Route("GET", "/v1/things/{name}/parts/{n}", elsewhere))
    routes = {"administration": table} if through == "quart" else {"hot": table}
    async with stack(tmp_path, **routes) as served, await served.connect() as client:
        with trio.fail_after(5):
            reply = await client.request("GET", target, [await served.admin()])
    assert reply.status == status
    if params is not None:
        assert reply.body.decode() == repr(params)


# -- trap 16 ----------------------------------------------------------------------------------------------


async def test_a_body_framed_twice_is_refused(tmp_path: Path) -> None:
    async with stack(tmp_path) as served, await served.connect() as client:
        with trio.fail_after(5):
            headers = [("Content-Length", "5"), ("Transfer-Encoding", "chunked")]
            smuggled = head("GET", "/healthz")
            await client.send(head("POST", "/in/demo", headers) + chunk(b"") + smuggled)
            reply = await client.reply()
            assert (reply.status, reply.code) == (400, "invalid_argument")
            assert await client.until_closed() == b"", "what follows is not taken for a request"


# -- trap 18 ----------------------------------------------------------------------------------------------


async def test_a_slow_body_gets_408(tmp_path: Path) -> None:
    async with stack(tmp_path, body_timeout_seconds=0.1) as served, await served.connect() as client:
        with trio.fail_after(5):
            await client.send(head("POST", "/in/demo", [("Content-Length", "500000")]) + b"some")
            reply = await client.reply()
    assert (reply.status, reply.code) == (408, "timeout")
    assert reply.header("connection") == "close"


async def test_a_slow_head_is_closed_as_idle(tmp_path: Path) -> None:
    async with stack(tmp_path, keep_alive_seconds=0.2) as served, await served.connect() as client:
        with trio.fail_after(5):
            await client.send(b"POST /in/demo HTTP/1.1\r\nHost: te")
            await client.until_closed()
            await served.served.connections.wait_until_none()


async def test_a_client_that_waits_for_its_answer_is_not_idle(tmp_path: Path) -> None:
    released = trio.Event()

    async def wait(request: Request) -> Answer:
        await released.wait()
        return Answer(200, b"at last")

    async with (
        stack(tmp_path, hot=(Route("GET", "/v1/wait", wait),), keep_alive_seconds=0.05) as served,
        await served.connect() as client,
        await served.connect() as idle,
    ):
        with trio.fail_after(5):
            await client.send(head("GET", "/v1/wait", [await served.admin()]))
            await idle.until_closed()  # by now the waiting one has been silent for as long
            released.set()
            assert (await client.reply("GET")).body == b"at last"


# -- refusals that can be read ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/in/demo", "/in/absent", "/v1/echo", "/nothing"])
async def test_a_refused_upload_can_read_the_refusal(tmp_path: Path, target: str) -> None:
    """The client writes everything before it reads anything, as many do, and far more than the buffers hold."""
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
    async with stack(tmp_path, administration=ECHO) as served:
        async with await served.connect() as used, await served.connect() as fresh:
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

    async with stack(tmp_path, hot=(Route("GET", "/v1/slowly", slowly),)) as served:
        async with await served.connect() as client:
            with trio.fail_after(5):
                await client.send(head("GET", "/v1/slowly", [await served.admin()]))
                await taken.wait()
                served.served.stopping.set()
                released.set()
                assert (await client.reply("GET")).body == b"finished"
                assert await client.until_closed() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_in_order(tmp_path: Path, number: int) -> None:
    with Server(tmp_path / "data") as server:
        assert server.stop(number) == 0
        assert "Traceback" not in server.output
        assert "stopped" in server.output
