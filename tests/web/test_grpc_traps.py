"""What strangers may send to the gRPC port: none of it hurts the others, ends the server, or writes a line in the log.

Each test is one row of the table in `web/grpc/upstream.py`, or a limit. The client writes frames by itself.
"""

import asyncio
import gc
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import trio.testing
from h2.errors import ErrorCodes
from h2.exceptions import StreamClosedError
from h2.settings import SettingCodes
from hyperframe.frame import (
    ContinuationFrame,
    ExtensionFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
)

from tests.web.grpc_stack import RawClient, Stack, grpc_stack, item
from web.figures import CallFigures
from web.grpc import frames
from web.grpc.calls import CallHandler, guarded
from web.grpc.inbox import PULL_INBOX
from web.grpc.postroom.v1.inbox_pb2 import PullInboxRequest
from web.grpc.upstream import MAX_STREAMS, BoundStream, Link
from web.pulling import PullPage

OK = ("0", "")
SECONDS = 0.2
"""A limit that is short enough to be waited for."""


pytestmark = pytest.mark.usefixtures("nothing_logged")


async def still_serves(stack: Stack) -> None:
    assert (await stack.call()).code == "OK"


async def test_a_frame_of_an_unknown_type_is_passed_over() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        frame = ExtensionFrame(type=0xF5, stream_id=0, body=b"grease")
        frame.body_len = len(frame.body)
        await client.flush(frame.serialize())
        assert await client.status(await client.begin(client.head(token=stack.token))) == OK


async def test_a_header_that_is_not_ascii_is_a_wrong_token_at_most() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        head = client.head(("x-name", "Zoë €"), token=stack.token)
        assert await client.status(await client.begin(head)) == OK


@pytest.mark.parametrize(
    "extra",
    [
        ("x-trace-bin", "!"),
        ("x-trace-bin", "é"),
        ("user-agent", ""),
        ("grpc-encoding", "gzip"),
        ("connection", "close"),
        ("UPPER", "case"),
    ],
    ids=str,
)
async def test_headers_that_nobody_asked_for_do_no_harm(extra: tuple[str, str]) -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        status = await client.status(await client.begin(client.head(extra, token=stack.token)))
        assert status == OK
        await still_serves(stack)


@pytest.mark.parametrize("missing", [":method", ":path", "content-type", "te"])
async def test_a_head_that_lacks_something_is_refused(missing: str) -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        head = [pair for pair in client.head(token=stack.token) if pair[0] != missing]
        stream = await client.begin(head)
        await client.status(stream)
        answer = client.headers[stream]
        assert (answer.get(":status"), answer.get("grpc-status")) in {
            ("405", None),
            ("200", "12"),
            ("415", "2"),
            ("400", "2"),
        }
        await still_serves(stack)


async def test_a_message_is_bounded_before_it_is_collected() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        stream = await client.begin(client.head(token=stack.token), None, end=False)
        client.h2.send_data(stream, b"\x00\xff\xff\xff\xff" + bytes(5000))
        await client.flush()
        code, message = await client.status(stream)
        assert (code, message.partition(",")[0]) == ("8", "A message may have 4096 bytes")


@pytest.mark.parametrize(
    "service", [PULL_INBOX, "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"]
)
@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x00\x00\x00\x09abc"], ids=str)
async def test_a_call_without_a_whole_message_is_refused(service: str, body: bytes) -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        stream = await client.begin(client.head(path=service, token=stack.token), None, end=False)
        client.h2.send_data(stream, body, end_stream=True)
        await client.flush()
        assert (await client.status(stream))[0] == "3"


async def test_an_empty_piece_is_not_the_end_of_the_request() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        stream = await client.begin(client.head(token=stack.token), None, end=False)
        message = PullInboxRequest(ack=7).SerializeToString()
        for piece in (b"", b"\x00\x00", b"", b"\x00\x00" + bytes([len(message)]), b"", message):
            client.h2.send_data(stream, piece)
        client.h2.end_stream(stream)
        await client.flush()
        assert await client.status(stream) == OK
        assert stack.pulling.asked[0].ack == 7


@pytest.mark.parametrize(
    ("timeout", "status"),
    [
        ("0n", "4"),
        ("1n", "4"),
        ("99999999H", "0"),
        ("x", "2"),
        ("-1S", "2"),
        ("1" * 5000 + "S", "2"),
        ("", "2"),
    ],
    ids=lambda value: str(value)[:12],
)
async def test_a_timeout_is_kept_to_or_refused(timeout: str, status: str) -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        head = client.head(("grpc-timeout", timeout), token=stack.token)
        assert (await client.status(await client.begin(head)))[0] == status
        assert bool(stack.pulling.asked) == (status == "0")


async def test_the_server_keeps_the_deadline_of_a_client_that_does_not() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        stack.pulling.gate = trio.Event()
        stream = await client.begin(client.head(("grpc-timeout", "100m"), token=stack.token))
        assert (await client.status(stream))[0] == "4"
        assert stack.pulling.cancelled == 1


async def test_a_request_that_does_not_arrive_is_given_up() -> None:
    async with grpc_stack(body_timeout_seconds=SECONDS) as stack, await stack.raw() as client:
        streams = [
            await client.begin(client.head(path=path, token=stack.token), None, end=False)
            for path in (PULL_INBOX, "/grpc.health.v1.Health/Check")
        ]
        assert [(await client.status(stream))[0] for stream in streams] == ["4", "4"]
        assert await client.status(await client.begin(client.head(token=stack.token))) == OK


async def test_a_client_that_takes_no_data_is_reset_and_its_other_calls_go_on() -> None:
    async with grpc_stack(stalled_reader_seconds=SECONDS) as stack, await stack.raw() as client:
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
        await client.flush()
        client.acknowledges = False
        stack.pulling.page = PullPage(items=[item(1, bytes(5000))], cursor=0, window_high=1, has_more=False)
        stalled = await client.begin(client.head(token=stack.token))
        assert await client.status(stalled) == ("reset", str(int(ErrorCodes.CANCEL)))
        stack.pulling.page = PullPage(items=[], cursor=0, window_high=1, has_more=False)
        assert await client.status(await client.begin(client.head(token=stack.token))) == OK


async def test_a_client_that_reads_nothing_at_all_is_cut_off() -> None:
    async with grpc_stack(stalled_reader_seconds=SECONDS) as stack, await stack.raw() as client:
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1})
        client.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        await client.flush()
        stack.pulling.page = PullPage(
            items=[item(1, bytes(64 * 1024 * 1024))], cursor=0, window_high=1, has_more=False
        )
        await client.begin(client.head(token=stack.token))
        await stack.connections_end()


async def test_pings_of_a_client_that_does_not_read_are_not_answered_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers fill the buffers, and then the server must not read more of them, be they as many as they like."""
    monkeypatch.setattr(frames, "MAX_OWED", 10**9)
    async with grpc_stack() as stack, await stack.raw(buffers=4096) as client:
        pings = PingFrame(0, opaque_data=b"12345678").serialize() * 10_000
        blocked = False
        for _ in range(20):
            with trio.move_on_after(1) as scope:
                await client.stream.send_all(pings)
            blocked = blocked or scope.cancelled_caught
            if blocked:
                break
        assert blocked, "the server reads on, and so it buffers"
        await still_serves(stack)


async def test_a_stream_that_is_reset_at_once_is_released() -> None:
    """One that is not keeps its connection from ever being idle."""
    async with grpc_stack(keep_alive_seconds=SECONDS) as stack, await stack.raw() as client:
        for _ in range(200):
            stream = client.h2.get_next_available_stream_id()
            client.h2.send_headers(stream, client.head(token=stack.token))
            client.h2.reset_stream(stream)
        await client.flush()
        assert await client.status(await client.begin(client.head(token=stack.token))) == OK
        assert stack.pulling.under_way == 0
        await client.until(lambda: client.closed)


async def test_a_client_that_makes_more_calls_than_was_agreed_is_closed() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        stack.pulling.gate = trio.Event()
        client.h2.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 2**31 - 1
        for _ in range(MAX_STREAMS + 1):
            await client.begin(client.head(token=stack.token))
        await client.until(lambda: client.closed)
        await stack.connections_end()
        stack.pulling.gate.set()
        await still_serves(stack)


async def test_an_answer_to_a_stream_that_has_been_closed_is_a_cancelled_call() -> None:
    async def answer(stream: object) -> None:
        raise StreamClosedError(1)

    stream = SimpleNamespace(_stream=SimpleNamespace(verdict=None, deadline=trio.current_time() + 1))
    calls = CallFigures()
    with pytest.raises(asyncio.CancelledError):
        await guarded(calls, "/path", answer, stream)  # type: ignore[arg-type]  # what is asked of a stream
    assert calls.counts == {"CANCELLED": 1}


async def test_a_client_that_says_goodbye_and_more_in_one_breath_is_let_go() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        await client.flush(
            GoAwayFrame(0, last_stream_id=0).serialize() + PingFrame(0, opaque_data=bytes(8)).serialize()
        )
        await client.until(lambda: client.closed)
        await still_serves(stack)


NOISE: Sequence[bytes] = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
    bytes(100),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 17_000,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + RstStreamFrame(7).serialize(),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HeadersFrame(1, b"\xff" * 50, flags=["END_HEADERS"]).serialize(),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HeadersFrame(2, b"", flags=["END_HEADERS"]).serialize(),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + HeadersFrame(1, b"\x82").serialize()
    + ContinuationFrame(1, b"").serialize() * 500,
)


@pytest.mark.parametrize("noise", NOISE, ids=range(len(NOISE)))
async def test_who_does_not_speak_http2_is_shown_the_door(noise: bytes) -> None:
    async with grpc_stack() as stack:
        with trio.fail_after(5):
            stream = await trio.open_tcp_stream("127.0.0.1", stack.port)
            async with stream:
                await stream.send_all(noise)
                try:
                    while await stream.receive_some(65_536):
                        pass
                except trio.BrokenResourceError:
                    pass
        await still_serves(stack)


async def test_a_head_that_is_too_large_ends_the_connection() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        head = client.head(*((f"x-{n}", "v" * 1000) for n in range(80)), token=stack.token)
        assert (await client.status(await client.begin(head)))[0] == "closed"
        await still_serves(stack)


async def test_connections_that_are_idle_or_say_nothing_are_closed() -> None:
    async with grpc_stack(keep_alive_seconds=SECONDS, head_timeout_seconds=SECONDS) as stack:
        mute = await trio.open_tcp_stream("127.0.0.1", stack.port)
        async with await stack.raw() as client, mute:
            assert await client.status(await client.begin(client.head(token=stack.token))) == OK
            await client.until(lambda: client.closed)
            assert client.goodbye
            with trio.fail_after(5):
                while await mute.receive_some(65_536):
                    pass
            await stack.connections_end()


async def test_a_connection_with_a_call_under_way_is_not_idle() -> None:
    async with grpc_stack(keep_alive_seconds=SECONDS) as stack, await stack.raw() as client:
        stack.pulling.gate = trio.Event()
        stream = await client.begin(client.head(token=stack.token))
        async with await stack.raw() as other:  # which is closed: so much time has passed
            await other.until(lambda: other.closed)
        stack.pulling.gate.set()
        assert await client.status(stream) == OK


async def test_connections_of_both_ports_count_together() -> None:
    async with grpc_stack(max_connections=2) as stack:
        async with await stack.raw() as one, await stack.raw() as two:
            for client in (one, two):
                assert await client.status(await client.begin(client.head(token=stack.token))) == OK
            assert stack.connections.is_full
            async with await stack.raw() as third:
                await third.until(lambda: third.closed)
            assert stack.connections.refused == 1
        await stack.connections_end()
        await still_serves(stack)


async def test_a_page_is_gone_when_it_is_sent() -> None:
    """Without the collector's help: a thousand pages of a MiB would not wait for it in memory."""

    async with grpc_stack() as stack, await stack.raw() as client:
        assert await client.status(await client.begin(client.head(token=stack.token))) == OK
        gc.collect()
        gc.disable()
        try:
            found = await garbage_of_calls(client, stack, 50)
        finally:
            gc.enable()
    assert found < 50, f"{found} unreachable objects after 50 calls"


async def test_a_connection_is_gone_when_it_has_ended() -> None:
    """Without the collector's help: what has lived for a while waits for its next full run, which may be never."""
    kinds = (Link, BoundStream, CallHandler, asyncio.Transport)
    gc.collect()
    gc.disable()
    try:
        async with grpc_stack() as stack:
            for _ in range(3):
                async with await stack.raw() as client:
                    assert await client.status(await client.begin(client.head(token=stack.token))) == OK
                    await client.begin(client.head(token=stack.token), None, end=False)
                await stack.connections_end()
            await trio.testing.wait_all_tasks_blocked()
            assert [known for known in gc.get_objects() if isinstance(known, kinds)] == []
    finally:
        gc.enable()


async def garbage_of_calls(client: RawClient, stack: Stack, calls: int) -> int:
    for _ in range(calls):
        assert await client.status(await client.begin(client.head(token=stack.token))) == OK
    return gc.collect()
