"""Two readers of one connection must not disagree on where a request ends: what is not plain is refused, and then the
connection is closed. What the fidelity tests have not tried (`tests/live/test_fidelity_framing.py`).
"""

import re
import socket

import pytest

from tests.live.harness import Server

SECONDS = 10.0

HEAD = b"POST /in/demo HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SECOND = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""What a smuggler hides behind a body."""

REFUSED = {
    "a folded Transfer-Encoding beside a length": HEAD
    + b"Content-Length: 4\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a folded length beside Transfer-Encoding": HEAD
    + b"Transfer-Encoding: chunked\r\nContent-Length:\r\n\t4\r\n\r\n0\r\n\r\n",
    "a length with a sign": HEAD + b"Content-Length: +3\r\n\r\nabc",
    "a hexadecimal length": HEAD + b"Content-Length: 0x3\r\n\r\nabc",
    "a length as Python writes it": HEAD + b"Content-Length: 0_3\r\n\r\nabc",
    "a length in other digits": HEAD + "Content-Length: \u0663\r\n\r\nabc".encode(),
    "a length beyond all numbers": HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nabc",
    "a name with a blank": HEAD + b"Content-Length : 3\r\n\r\nabc",
    "a line without a name": HEAD + b": 3\r\nContent-Length: 3\r\n\r\nabc",
    "a bare CR": HEAD + b"X: a\rContent-Length: 0\r\nContent-Length: 3\r\n\r\nabc",
    "a NUL": HEAD + b"X: a\x00\r\nContent-Length: 3\r\n\r\nabc",
    "another coding": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a coding with a letter more": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding after a vertical tab": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a negative chunk": CHUNKED + b"-1\r\n\r\n0\r\n\r\n",
    "a chunk with a prefix": CHUNKED + b"0x1\r\na\r\n0\r\n\r\n",
    "a chunk that is longer than it says": CHUNKED + b"1\r\nabc\r\n0\r\n\r\n",
    "a chunk's size ended by LF alone": CHUNKED + b"1\na\r\n0\r\n\r\n",
    "an LF in a chunk's extension": CHUNKED + b"1;a\nb\r\na\r\n0\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
}


def answers(server: Server, sent: bytes) -> list[int]:
    """Return the statuses of all answers to what was sent. Fails when the connection stays open."""
    with socket.create_connection((server.host, server.port), SECONDS) as sock:
        sock.sendall(sent)
        received = bytearray()
        try:
            while data := sock.recv(65_536):
                received += data
        except ConnectionResetError:  # it has not read all that was sent
            pass
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_what_two_readers_could_understand_differently_is_refused_and_the_rest_never_read(
    server: Server, sent: bytes
) -> None:
    assert answers(server, sent + SECOND) == [400]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/inboxes",
        "/mcp",
        "/ui",
        "/ui/sign-in",
        "/healthz",
        "/openapi.json",
        "/metrics",
        "/nowhere",
        "/agents",
    ],
)
def test_after_a_body_framed_twice_no_second_request_is_read_wherever_it_went(
    server: Server, path: str
) -> None:
    lines = f"POST {path} HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token}\r\n"
    framed = (
        "Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    (status,) = answers(server, (lines + framed).encode() + SECOND)
    assert 400 <= status < 500


def test_equal_lengths_are_one_and_a_trailer_frames_nothing(server: Server) -> None:
    twice = HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"
    trailer = CHUNKED + b"3\r\nabc\r\n0\r\nContent-Length: 50\r\n\r\n"
    assert answers(server, twice + SECOND) == [200, 200]
    assert answers(server, trailer + SECOND) == [200, 200]


def test_http_1_0_has_no_chunks_that_could_hide_a_request(server: Server) -> None:
    old = CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"3\r\nabc\r\n0\r\n\r\n"
    assert len(answers(server, old + SECOND)) == 1
