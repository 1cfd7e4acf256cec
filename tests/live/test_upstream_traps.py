"""One regression test for each trap of the field notes that `web/upstream/` works around, over real sockets."""

import signal
from pathlib import Path

import pytest
import trio

from tests.live.harness import Server, serving
from tests.live.stack import ECHO, MIB, flood, stack
from tests.wire.client import chunk, head
from web.http import Answer, Request
from web.routes import Route

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
    async with (
        stack(tmp_path, administration=ECHO, keep_alive_seconds=0.2) as served,
        await served.connect() as client,
    ):
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
    async with (
        serving(flood, stalled_reader_seconds=60) as served,
        await served.connect(receive_buffer=4_096) as client,
    ):
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


async def test_a_slow_head_is_closed(tmp_path: Path) -> None:
    async with stack(tmp_path, head_timeout_seconds=0.2) as served, await served.connect() as client:
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
        stack(tmp_path, hot=(Route("GET", "/v1/wait", wait),), keep_alive_seconds=0.5) as served,
        await served.connect() as client,
    ):
        with trio.fail_after(10):
            await client.send(head("GET", "/v1/wait", [await served.admin()]))
            async with await served.connect() as idle:
                await idle.until_closed()  # by now the waiting one has been silent for longer
            released.set()
            assert (await client.reply("GET")).body == b"at last"


# -- trap 20 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_in_order(tmp_path: Path, number: int) -> None:
    with Server(tmp_path / "data") as server:
        assert server.stop(number) == 0
        assert "Traceback" not in server.output
        assert "stopped" in server.output
