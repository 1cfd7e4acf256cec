"""HTTP/2 on the gRPC port: frames that cost their sender nothing end their connection, and nobody else's."""

from collections.abc import Callable
from contextlib import suppress

import pytest
import trio
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    ExtensionFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.web.grpc_stack import RawClient, Stack, grpc_stack, item
from web.grpc.frames import MAX_OWED
from web.pulling import PullPage

OK = ("0", "")

TOKENLESS = b"\x83\x86\x10\x05:path\x0a/a.B/Call_"
"""A head, without a table: POST, http, and a path that there is not."""

FRAME_HEAD_BYTES = 9


pytestmark = pytest.mark.usefixtures("nothing_logged")


def reset_at_once(n: int) -> bytes:
    stream = 1 + 2 * n
    opened = HeadersFrame(stream, TOKENLESS, flags=["END_HEADERS"])
    return opened.serialize() + RstStreamFrame(stream, error_code=ErrorCodes.CANCEL).serialize()


def of_one_stream(frame: Frame) -> Callable[[int], bytes]:
    """Return frames of a stream that is open and not answered."""

    def made(n: int) -> bytes:
        opened = HeadersFrame(1, TOKENLESS, flags=["END_HEADERS"]).serialize() if n == 0 else b""
        return opened + frame.serialize()

    return made


def unknown(n: int) -> bytes:
    frame = ExtensionFrame(type=0xF5, stream_id=0, body=b"grease")
    frame.body_len = len(frame.body)
    return frame.serialize()


FLOODS: dict[str, Callable[[int], bytes]] = {
    "rapid reset": reset_at_once,
    "PING": lambda n: PingFrame(0, opaque_data=bytes(8)).serialize(),
    "SETTINGS": lambda n: SettingsFrame(0, settings={SettingsFrame.MAX_CONCURRENT_STREAMS: n}).serialize(),
    "PRIORITY": lambda n: PriorityFrame(1 + 2 * n, stream_weight=1).serialize(),
    "WINDOW_UPDATE": lambda n: WindowUpdateFrame(0, window_increment=1).serialize(),
    "DATA without data": of_one_stream(DataFrame(1, b"")),
    "unknown": unknown,
}


async def last_words(client: RawClient) -> list[Frame]:
    """Return the frames that the server has sent until it closed."""
    received = bytearray()
    with trio.fail_after(5):
        try:
            while data := await client.stream.receive_some(65_536):
                received += data
        except trio.BrokenResourceError:  # it has not read all that it was sent
            pass
    frames = []
    while len(received) >= FRAME_HEAD_BYTES:
        frame, length = Frame.parse_frame_header(memoryview(received)[:FRAME_HEAD_BYTES])
        frame.parse_body(memoryview(bytes(received[FRAME_HEAD_BYTES : FRAME_HEAD_BYTES + length])))
        frames.append(frame)
        del received[: FRAME_HEAD_BYTES + length]
    return frames


async def honest(stack: Stack) -> None:
    assert (await stack.call()).code == "OK"


@pytest.mark.parametrize("flood", FLOODS)
async def test_frames_that_lead_nowhere_end_their_connection(flood: str) -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        made = FLOODS[flood]
        await client.stream.send_all(b"".join(map(made, range(2 * MAX_OWED))))
        goodbyes = [frame for frame in await last_words(client) if isinstance(frame, GoAwayFrame)]
        assert [frame.error_code for frame in goodbyes] == [ErrorCodes.ENHANCE_YOUR_CALM]
        assert stack.pulling.asked == []
        await stack.connections_end()
        await honest(stack)


async def test_a_flood_is_left_in_the_middle_of_what_was_read_at_once() -> None:
    """A quarter of a mebibyte may be read at once: to look at it all first would hold up everybody."""
    async with grpc_stack() as stack, await stack.raw() as client:
        pings = PingFrame(0, opaque_data=bytes(8)).serialize() * 2000
        with trio.fail_after(5), suppress(trio.BrokenResourceError):
            await client.stream.send_all(pings)
        answered = [frame for frame in await last_words(client) if isinstance(frame, PingFrame)]
        assert len(answered) <= MAX_OWED


async def test_a_head_in_pieces_without_end_is_refused() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        pieces = ContinuationFrame(1, b"").serialize() * 200
        await client.stream.send_all(HeadersFrame(1, TOKENLESS).serialize() + pieces)
        assert any(isinstance(frame, GoAwayFrame) for frame in await last_words(client))
        await honest(stack)


async def test_a_small_head_that_means_a_large_one_is_refused() -> None:
    """A value of 3,900 bytes that is named 16,000 times, with one byte each time, would be 60 MiB."""
    async with grpc_stack() as stack, await stack.raw() as client:
        length = 3_900 - 127
        kept = b"\x40\x01a\x7f" + bytes((0x80 | length & 0x7F, length >> 7)) + b"b" * 3_900
        bomb = HeadersFrame(1, kept, flags=["END_HEADERS"]).serialize()
        bomb += HeadersFrame(3, b"\xbe" * 16_000, flags=["END_HEADERS"]).serialize()
        await client.stream.send_all(bomb)
        assert any(isinstance(frame, GoAwayFrame) for frame in await last_words(client))
        await honest(stack)


async def test_a_client_that_calls_without_end_owes_nothing() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        for _ in range(MAX_OWED // 2):  # of three frames each
            assert await client.status(await client.begin(client.head(token=stack.token))) == OK


async def test_a_client_that_makes_room_for_large_pages_owes_nothing() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        large = item(1, b'"' + b"x" * 1024 * 1024 + b'"')
        stack.pulling.page = PullPage(items=[large], cursor=0, window_high=1, has_more=False)
        for _ in range(12):  # with some 130 frames each by which the client makes room
            assert await client.status(await client.begin(client.head(token=stack.token))) == OK
