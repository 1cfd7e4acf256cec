"""Framing: where a body ends is never guessed. What is framed wrongly or not whole is refused, and not stored."""

from contextlib import suppress

import pytest

from tests.live.api import Api
from tests.live.rawhttp import Line, Sender, chunked, head, ingest

CHUNKED = (b"Transfer-Encoding", b"chunked")


@pytest.mark.parametrize(
    "lines",
    [
        [(b"Content-Length", b"2"), CHUNKED],
        [CHUNKED, (b"Content-Length", b"2")],
        [(b"Content-Length", b"7"), CHUNKED],
    ],
    ids=["length first", "length last", "length of the framed bytes"],
)
def test_a_body_framed_twice_is_refused_and_never_becomes_two_requests(
    api: Api, sender: Sender, lines: list[tuple[bytes, bytes]]
) -> None:
    slug = api.inbox()
    smuggled = head(b"POST", ingest(slug), [(b"Content-Length", b"0")])
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), lines), b"2\r\n{}\r\n0\r\n\r\n" + smuggled)
        reply = line.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "invalid_argument")
        assert line.ended()
    assert api.messages(slug)["latest_seq"] == 0


@pytest.mark.parametrize(
    "lines",
    [
        [(b"Content-Length", b"2"), (b"Content-Length", b"3")],
        [(b"Content-Length", b"-2")],
        [(b"Content-Length", b"2x")],
        [(b"Content-Length", b"2, 3")],
        [(b"Transfer-Encoding", b"gzip, chunked")],
        [(b"Transfer-Encoding", b"identity")],
        [CHUNKED, CHUNKED],
        [(b"Transfer-Encoding", b"chunked, chunked")],
        [(b"Transfer-Encoding ", b"chunked")],
        [(b"Content-Length", b"2"), (b"X\rY", b"z")],
    ],
    ids=str,
)
def test_a_body_framed_wrongly_is_refused(api: Api, sender: Sender, lines: list[tuple[bytes, bytes]]) -> None:
    slug = api.inbox()
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), lines), b"{}")
        reply = line.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "invalid_argument")
        assert line.ended()
    assert api.messages(slug)["latest_seq"] == 0


FIVE_MORE = b"5 more"
TRUNCATED = {
    "of a small length": ([(b"Content-Length", b"100")], b"x" * 50),
    "of one byte": ([(b"Content-Length", b"2")], b"{"),
    "of a large length": ([(b"Content-Length", b"1000000")], b"x" * 400_000),
    "chunked, in a chunk": ([CHUNKED], b"ff\r\n" + FIVE_MORE),
    "chunked, without the last one": ([CHUNKED], b"2\r\n{}\r\n"),
    "chunked, in the last one": ([CHUNKED], b"2\r\n{}\r\n0\r\n"),
    "chunked, large": ([CHUNKED], b"".join(chunked([b"x" * 1000] * 400)[:-1])),
}


def end_politely(line: Line) -> None:
    """Close for sending, and wait until the server has seen it: it may say what is wrong, and then it closes."""
    line.finish_sending()
    with suppress(ConnectionError):
        while True:
            assert line.reply().status == 400


@pytest.mark.parametrize("kind", TRUNCATED)
def test_a_truncated_body_stores_nothing(api: Api, sender: Sender, kind: str) -> None:
    slug = api.inbox()
    lines, part = TRUNCATED[kind]
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), lines), part)
        end_politely(line)
    assert api.messages(slug)["latest_seq"] == 0
    assert sender.post(slug, b"whole") == 1


@pytest.mark.parametrize("kind", TRUNCATED)
def test_a_body_cut_off_by_a_reset_stores_nothing(api: Api, sender: Sender, kind: str) -> None:
    slug = api.inbox()
    lines, part = TRUNCATED[kind]
    for _ in range(5):
        with sender.line() as line:
            line.send(head(b"POST", ingest(slug), lines), part)
            line.reset()
    # A part that were taken for a message would have a number before or between these.
    assert [sender.post(slug, b"whole") for _ in range(3)] == [1, 2, 3]
    assert {one["size"] for one in api.messages(slug, after=0)["messages"]} == {5}


# -- bytes between requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1], ids=["in one segment", "in a segment of its own"])
def test_a_line_break_after_the_last_body_does_not_spoil_its_answer(
    api: Api, sender: Sender, cut: int
) -> None:
    slug = api.inbox()
    request = head(b"POST", ingest(slug), [(b"Connection", b"close"), (b"Content-Length", b"2")]) + b"{}"
    with sender.line() as line:
        line.send(*([request + b"\r\n"], [request, b"\r\n"])[cut])
        assert line.reply().json()["seq"] == 1
        assert line.ended()
    assert api.messages(slug)["latest_seq"] == 1


def test_line_breaks_between_two_requests_are_passed_over(api: Api, sender: Sender) -> None:
    # RFC 9112, section 2.2: old clients send one after the body, and a server should ignore it.
    slug = api.inbox()
    request = head(b"POST", ingest(slug), [(b"Content-Length", b"2")]) + b"{}\r\n"
    with sender.line() as line:
        for n in range(1, 4):
            line.send(request)
            assert line.reply().json()["seq"] == n
    assert api.messages(slug)["latest_seq"] == 3
