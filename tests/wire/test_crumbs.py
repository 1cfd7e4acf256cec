"""A body in many small chunks is handed on in fewer, unchanged, and its sender does not keep the loop to itself."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.wire.harness import PipeStream
from tests.wire.test_exchange import ours
from web.upstream.http1 import CRUMB_PAUSE_SECONDS, CRUMBS_AT_ONCE

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


class Reader:
    """Reads a request's body and answers it. `pieces`: as they were handed on; `ended`: whether it came to its end."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.ended = False
        self.seconds = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        began = trio.current_time()
        while (message := await receive()).get("more_body", False):
            self.pieces.append(message["body"])
        self.seconds = trio.current_time() - began
        self.ended = message["type"] == "http.request"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def in_chunks(data: bytes, size: int) -> bytes:
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


async def read(sent: bytes) -> tuple[Reader, bytes]:
    """Return what was read of a request, and what its sender was told."""
    app, told = Reader(), b""
    client, server = trio.testing.memory_stream_pair()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours(app, PipeStream(server)).run)
            await client.send_all(sent)
            told = bytes(await client.receive_some())
            await client.aclose()
    return app, told


@pytest.mark.parametrize("size", [1, 7, 5_000])
@pytest.mark.parametrize(
    "count", [0, 1, CRUMBS_AT_ONCE - 1, CRUMBS_AT_ONCE, CRUMBS_AT_ONCE + 1, 10 * CRUMBS_AT_ONCE + 3]
)
async def test_a_body_is_the_same_in_however_many_chunks(
    count: int, size: int, autojump_clock: trio.testing.MockClock
) -> None:
    data = bytes(n % 251 for n in range(count * size))
    app, told = await read(HEAD + in_chunks(data, size) + LAST)
    assert b"".join(app.pieces) == data
    assert app.ended
    assert told.startswith(b"HTTP/1.1 200 ")


async def test_small_chunks_are_handed_on_together_and_others_have_their_turn_between(
    autojump_clock: trio.testing.MockClock,
) -> None:
    app, _ = await read(HEAD + in_chunks(bytes(10 * CRUMBS_AT_ONCE), 1) + LAST)
    assert [len(piece) for piece in app.pieces] == [CRUMBS_AT_ONCE] * 10
    assert app.seconds >= 9 * CRUMB_PAUSE_SECONDS


async def test_a_body_in_one_piece_waits_for_nobody(autojump_clock: trio.testing.MockClock) -> None:
    app, _ = await read(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 30000\r\n\r\n" + bytes(30_000))
    assert b"".join(app.pieces) == bytes(30_000)
    assert app.seconds == 0


async def test_what_came_before_a_broken_chunk_is_no_body(autojump_clock: trio.testing.MockClock) -> None:
    app, told = await read(HEAD + in_chunks(b"half", 1) + b"not a chunk\r\n")
    assert b"".join(app.pieces) == b"half"
    assert not app.ended
    assert told.startswith(b"HTTP/1.1 400 ")
