"""Bytes in flight, bodies as they arrive, and the spool."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from web import spool as spooling
from web.errors import ApiError
from web.limits import (
    LINGER_SECONDS,
    SMALL_BODY_BYTES,
    SMALL_RESERVE_BYTES,
    BodiesInFlight,
    ClientGone,
    Incoming,
    Peer,
)
from web.spool import MEMORY_BYTES, Spool

MIB = 1024 * 1024


# -- bytes in flight ------------------------------------------------------------------------------------


def test_large_bodies_leave_the_reserve_to_small_ones() -> None:
    bodies = BodiesInFlight(64 * MIB)
    large = bodies.share()
    large.take(48 * MIB)
    with pytest.raises(ApiError) as refused:
        bodies.share().take(SMALL_BODY_BYTES + 1)
    assert refused.value.code == "busy"
    for _ in range(SMALL_RESERVE_BYTES // SMALL_BODY_BYTES):
        bodies.share().take(SMALL_BODY_BYTES)
    with pytest.raises(ApiError):
        bodies.share().take(1)


def test_seven_slow_uploads_do_not_close_ingest() -> None:
    """What is counted is what has been received, not what was declared."""
    bodies = BodiesInFlight(64 * MIB)
    for _ in range(7):
        bodies.share().take(SMALL_BODY_BYTES + 1)
    bodies.share().take(40 * MIB)


def test_a_body_that_grows_large_leaves_the_small_part() -> None:
    bodies = BodiesInFlight(64 * MIB)
    with bodies.share() as share:
        share.take(SMALL_BODY_BYTES)
        assert (bodies.small, bodies.large) == (SMALL_BODY_BYTES, 0)
        share.take(1)
        assert (bodies.small, bodies.large) == (0, SMALL_BODY_BYTES + 1)
    assert (bodies.small, bodies.large) == (0, 0)


def test_a_refused_share_gives_back_only_what_it_holds() -> None:
    bodies = BodiesInFlight(MIB)
    with bodies.share() as first:
        first.take(700_000)
        with bodies.share() as second:
            second.take(1_000)
            second.take(SMALL_BODY_BYTES)
            with pytest.raises(ApiError):
                second.take(200_000)
        assert (bodies.small, bodies.large) == (0, 700_000)
    assert (bodies.small, bodies.large) == (0, 0)


# -- a body as it arrives -----------------------------------------------------------------------------------


def incoming(
    events: Iterable[bytes | None],
    headers: list[tuple[bytes, bytes]] | None = None,
    peer: Peer | None = None,
) -> tuple[Incoming, list[int]]:
    """Return a body that arrives in these pieces; None is the client's leaving. Then nothing comes any
    more."""
    left = list(events)
    asked: list[int] = []

    async def receive() -> Any:
        asked.append(1)
        await trio.lowlevel.checkpoint()
        if not left:
            await trio.sleep_forever()
        piece = left.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": piece != b""}

    fields = [(b"transfer-encoding", b"chunked")] if headers is None else headers
    return Incoming(fields, receive, peer), asked


def declared(length: int) -> list[tuple[bytes, bytes]]:
    return [(b"content-length", str(length).encode())]


async def test_a_request_without_a_body_is_never_waited_for() -> None:
    for headers in ([], declared(0)):
        body, asked = incoming([], headers)
        assert body.ended
        assert await body.next() == b""
        assert asked == []


async def test_a_declared_body_ends_with_its_last_byte() -> None:
    body, asked = incoming([b"12", b"345"], declared(5))
    assert [await body.next() for _ in range(3)] == [b"12", b"345", b""]
    assert len(asked) == 2


async def test_a_chunked_body_ends_with_its_last_message() -> None:
    body, _ = incoming([b"1", b"2", b""])
    assert await body.whole(10, 5) == b"12"


async def test_a_client_that_leaves_is_gone() -> None:
    body, _ = incoming([b"1", None], declared(5))
    with pytest.raises(ClientGone):
        await body.whole(10, 5)


@pytest.mark.parametrize(
    ("pieces", "headers", "code"),
    [
        ([], declared(11), "payload_too_large"),
        ([b"12345", b"67890", b"1"], None, "payload_too_large"),
        ([b"1"], declared(5), "timeout"),
        ([b"1"], [*declared(5), (b"transfer-encoding", b"chunked")], "invalid_argument"),
    ],
)
async def test_a_whole_body_is_within_its_limits(
    autojump_clock: trio.testing.MockClock,
    pieces: list[bytes | None],
    headers: list[tuple[bytes, bytes]] | None,
    code: str,
) -> None:
    body, _ = incoming(pieces, headers)
    with pytest.raises(ApiError) as refused:
        await body.whole(10, 30)
    assert refused.value.code == code


async def test_the_rest_of_a_refused_body_is_read_for_a_bounded_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    body, _ = incoming([b"x"] * 1_000)
    began = trio.current_time()
    await body.discard_rest()
    assert body.received == 1_000
    assert trio.current_time() - began == pytest.approx(LINGER_SECONDS)


# -- a sender that waits to be asked ----------------------------------------------------------------------


class Asking:
    """A client that sends its body when it is asked for it."""

    def __init__(self) -> None:
        self.broken = False
        self.waits_to_be_asked = True

    async def ask_for_body(self) -> None:
        self.waits_to_be_asked = False


async def test_a_sender_is_asked_when_its_body_is_first_wanted() -> None:
    peer = Asking()
    asked, _ = incoming([b"12", b"345"], declared(5), peer)
    asked.check_declared(10)
    assert peer.waits_to_be_asked
    assert await asked.whole(10, 5) == b"12345"
    assert not peer.waits_to_be_asked


async def test_a_sender_whose_body_is_not_wanted_is_not_asked_for_the_rest() -> None:
    peer = Asking()
    unwanted, receives = incoming([], declared(5), peer)
    await unwanted.discard_small_rest()
    assert peer.waits_to_be_asked
    assert receives == []


# -- the spool ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, MEMORY_BYTES, MEMORY_BYTES + 1, 3 * MIB])
def test_a_spool_gives_back_what_was_written(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    with Spool(tmp_path) as spool:
        for start in range(0, size, 65_536):
            spool.write(data[start : start + 65_536])
        assert spool.size == size
        assert spool.on_disk == (size > MEMORY_BYTES)
        assert spool.whole() == data
        assert spool.open().read() == data
        assert spool.whole() == data, "reading takes nothing away"
        assert os.listdir(tmp_path) == [], "a file on disk has no name"


def test_one_piece_is_not_copied(tmp_path: Path) -> None:
    data = b"x" * 1_000
    with Spool(tmp_path) as spool:
        spool.write(data)
        assert spool.whole() is data


def test_a_disk_without_room_is_the_callers_to_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(spooling.tempfile, "TemporaryFile", full)
    with Spool(tmp_path) as spool, pytest.raises(OSError, match="no space"):
        spool.write(bytes(MEMORY_BYTES + 1))
