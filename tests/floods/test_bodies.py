"""A body that seems to have no end: 1 GiB in chunks, refused and taken; and one of which each byte is a chunk."""

import re
from contextlib import suppress

from tests.floods.accounting import MIB
from tests.floods.conftest import Flooded
from tests.floods.mob import dial

BODY_BYTES = {"small": 40 * MIB, "full": 1024 * MIB}
TAKEN_BYTES = {"small": 10 * MIB, "full": 1024 * MIB}
"""The small one is the default of MAX_BODY_BYTES."""

CHUNK_BYTES = 64 * 1024

CRUMBS = {"small": 20_000, "full": 300_000}
"""Bytes of the body that comes in chunks of one byte. The server takes some 40,000 of them a second from one client."""

PIECE_BYTES = 256 * 1024
"""What is sent at once: more than the server reads at once."""

LIMIT_BYTES = 10 * MIB
"""Of the inbox that refuses; the default of a server as well."""

ROOM_BYTES = 2048 * MIB
"""For all bodies in flight: the server is told that it has room for the whole gibibyte, which is the most it can."""

BODY_SECONDS = 300
"""The server's patience with the gibibyte, for which the default (30 s) is just enough where the disk is not slow."""

SEND_SECONDS = 60.0


def pour(port: int, slug: str, size: int, chunk_bytes: int) -> int:
    """Send a body of so many bytes in chunks, as fast as the server takes them; return the status of the answer."""
    chunk = b"%x\r\n%b\r\n" % (chunk_bytes, b"x" * chunk_bytes)
    at_once = max(1, PIECE_BYTES // len(chunk))
    whole, rest = divmod(size // chunk_bytes, at_once)
    with dial(port) as sock:
        sock.settimeout(SEND_SECONDS)
        sock.sendall(f"POST /in/{slug} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        # Who was refused may be cut off; what it was told can be read all the same.
        with suppress(ConnectionError):
            for _ in range(whole):
                sock.sendall(chunk * at_once)
            sock.sendall(chunk * rest + b"0\r\n\r\n")
        answer = re.match(rb"HTTP/1\.1 (\d{3}) ", sock.recv(4_096))
    assert answer is not None
    return int(answer[1])


def test_a_gibibyte_in_chunks_is_refused_or_taken_and_holds_up_nobody(flooded: Flooded, size: str) -> None:
    room = {"max_body_bytes": TAKEN_BYTES["full"], "bodies_in_flight_bytes": ROOM_BYTES}
    with flooded(**room, body_timeout_seconds=BODY_SECONDS) as here:
        here.api.inbox(slug="limited", max_body_bytes=LIMIT_BYTES)
        here.api.inbox(slug="roomy")
        for slug, body_bytes, chunk_bytes, status in (
            ("limited", BODY_BYTES[size], CHUNK_BYTES, 413),
            ("roomy", TAKEN_BYTES[size], CHUNK_BYTES, 200),
            ("roomy", CRUMBS[size], 1, 200),
        ):
            print(f"{body_bytes} bytes in chunks of {chunk_bytes}, which must be answered {status}:")
            with here.honest_client_beside():
                assert pour(here.port, slug, body_bytes, chunk_bytes) == status
        here.all_is_given_back()
