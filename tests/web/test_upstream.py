"""Watched sends and idle times on virtual time: who is evicted and who is not."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.events import RawData
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from tests.wire.client import Client, head
from tests.wire.harness import PipeStream, wire
from web.options import WebOptions
from web.serve import ServerConfig, parse_bind
from web.upstream.connections import SEND_PIECE_BYTES, Connection, Connections

STALLED_SECONDS = 20.0


async def large(scope: Any, receive: Any, send: Any) -> None:
    body = bytes(4 * SEND_PIECE_BYTES)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body, "more_body": False})


@pytest.mark.parametrize(
    ("pause", "evicted"), [(STALLED_SECONDS * 0.8, False), (STALLED_SECONDS * 1.2, True)]
)
async def test_only_a_reader_that_takes_too_little_is_evicted(
    mock_clock: trio.testing.MockClock, pause: float, evicted: bool
) -> None:
    options = WebOptions(stalled_reader_seconds=STALLED_SECONDS)
    connections = Connections(options)
    ours, theirs = trio.testing.lockstep_stream_pair()
    client = Client(ours)
    connection = Connection(
        connections,
        ASGIWrapper(large),
        ServerConfig(options),
        WorkerContext(None),
        ConnectionState({}),
        PipeStream(theirs),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connections.watch)
        nursery.start_soon(connection.run)
        await client.send(head("GET", "/"))
        received = 0
        while received < 4 * SEND_PIECE_BYTES and not connections.evicted:
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(pause)
            await trio.testing.wait_all_tasks_blocked()
            if not connections.evicted:
                received += len(await ours.receive_some(SEND_PIECE_BYTES))
        assert (connections.evicted == 1) == evicted
        await client.aclose()
        nursery.cancel_scope.cancel()


async def test_what_two_send_at_once_over_one_socket_is_never_mixed() -> None:
    """The first part of each goes to the kernel at once, the rest when the reader has made room."""
    options = WebOptions()
    ours, theirs = trio.socket.socketpair()
    theirs.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, SEND_PIECE_BYTES // 8)
    connection = Connection(
        Connections(options),
        ASGIWrapper(large),
        ServerConfig(options),
        WorkerContext(None),
        ConnectionState({}),
        trio.SocketStream(theirs),
    )
    sent = [bytes([number]) * SEND_PIECE_BYTES for number in range(1, 41)]
    received = b""
    with ours, theirs:
        async with trio.open_nursery() as nursery:
            for data in sent:  # each begins while others wait, when there is some room again
                nursery.start_soon(connection.protocol_send, RawData(data))
                received += await ours.recv(SEND_PIECE_BYTES // 4)
            while len(received) < len(sent) * SEND_PIECE_BYTES:
                received += await ours.recv(SEND_PIECE_BYTES)
        await connection.protocol_send(RawData(b"end"))
        assert await ours.recv(SEND_PIECE_BYTES) == b"end", "a small one needs nobody's turn"
    assert [received[n : n + SEND_PIECE_BYTES] for n in range(0, len(received), SEND_PIECE_BYTES)] == sent


async def test_an_idle_connection_lives_for_the_keep_alive_and_no_longer(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with wire(tmp_path, keep_alive_seconds=75) as served, served.connect() as client:
        for _ in range(3):
            assert (await client.request("GET", "/healthz")).status == 200
            await trio.testing.wait_all_tasks_blocked()  # the server has noted that it is idle
            mock_clock.jump(74)
            await trio.testing.wait_all_tasks_blocked()
            assert served.connections.live
        mock_clock.jump(2)
        await client.until_closed()
        await served.connections.wait_until_none()


async def test_a_head_must_be_whole_in_time_however_it_trickles(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with wire(tmp_path, head_timeout_seconds=10) as served, served.connect() as client:
        await client.send(b"GET /healthz HTTP/1.1\r\n")
        for piece in (b"Host: x\r\n", b"X-A: 1\r\n"):
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(4)
            await client.send(piece)
        await trio.testing.wait_all_tasks_blocked()
        assert served.connections.live
        mock_clock.jump(3)
        await client.until_closed()
        await served.connections.wait_until_none()


async def test_the_time_of_a_later_head_begins_with_its_first_byte(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with (
        wire(tmp_path, head_timeout_seconds=10, keep_alive_seconds=75) as served,
        served.connect() as client,
    ):
        assert (await client.request("GET", "/healthz")).status == 200
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(60)
        await client.send(b"GET /healthz HTTP/1.1\r\n")
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(9)
        await client.send(b"Host: x\r\n\r\n")
        assert (await client.reply("GET")).status == 200
        await client.send(b"GET")
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(11)
        await client.until_closed()
        await served.connections.wait_until_none()


async def test_a_line_break_after_a_request_is_no_head(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with (
        wire(tmp_path, head_timeout_seconds=10, keep_alive_seconds=75) as served,
        served.connect() as client,
    ):
        await client.send(head("GET", "/healthz") + b"\r\n")
        assert (await client.reply("GET")).status == 200
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(60)
        assert (await client.request("GET", "/healthz")).status == 200


async def test_only_a_connection_that_has_been_idle_for_a_while_makes_room(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with wire(tmp_path) as served, served.connect() as older, served.connect() as younger:
        for client in (older, younger):
            assert (await client.request("GET", "/healthz")).status == 200
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(0.6)
        assert served.connections.shut_down_longest_idle()
        await older.until_closed()
        assert not served.connections.shut_down_longest_idle(), "the other one is too young"
        assert (await younger.request("GET", "/healthz")).status == 200


@pytest.mark.parametrize(
    ("bind", "parsed"),
    [("127.0.0.1:8025", ("127.0.0.1", 8025)), ("[::1]:0", ("::1", 0)), ("localhost:1", ("localhost", 1))],
)
def test_an_address_is_parsed(bind: str, parsed: tuple[str, int]) -> None:
    assert parse_bind(bind) == parsed


@pytest.mark.parametrize("bind", ["", "8025", ":8025", "localhost:", "localhost:x", "localhost:65536"])
def test_what_is_no_address_is_refused(bind: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        parse_bind(bind)
