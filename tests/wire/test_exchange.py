"""An answer framed by us is what Hypercorn and h11 would have sent, and what is no answer is sent by neither."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from tests.wire.harness import PipeStream
from web.options import WebOptions
from web.serve import ServerConfig
from web.upstream.connections import Connection, Connections

Messages = tuple[tuple[str, Any], ...]
Serve = Callable[[Any], Any]


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> tuple[str, Any]:
    return "http.response.start", {"status": status, "headers": list(headers)}


def body(data: bytes, more: bool = False) -> tuple[str, Any]:
    return "http.response.body", {"body": data, "more_body": more}


def length(count: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % count


PLAIN = (b"content-type", b"text/plain")
CLOSE = (b"connection", b"close")

ANSWERS: dict[str, Messages] = {
    "of a known length": (start(200, PLAIN, length(5)), body(b"hello")),
    "in pieces of a known length": (start(200, length(6)), body(b"abc", True), body(b"def", True), body(b"")),
    "empty of a known length": (start(200, length(0)), body(b"")),
    "of no known length": (start(200, PLAIN), body(b"abc", True), body(b"", True), body(b"defg")),
    "of no known length, empty": (start(404), body(b"")),
    "without a body": (start(204), body(b"")),
    "without a body, with one": (start(204), body(b"not sent")),
    "not modified": (start(304, PLAIN), body(b"")),
    "reset content": (start(205, length(0)), body(b"")),
    "the last one": (start(200, length(2), CLOSE), body(b"no")),
    "the last one, of no known length": (start(200, (b"Connection", b"Close")), body(b"a", True), body(b"b")),
    "names in any case, values of any bytes": (
        start(
            200,
            (b"Content-Length", b"1"),
            (b"X-Odd", b'a \xe9;\t"b"'),
            (b"X-Twice", b"1"),
            (b"X-Twice", b"2"),
        ),
        body(b"x"),
    ),
    "large": (start(200, length(200_000)), body(b"x" * 200_000)),
    "none at all": (),
}

REQUESTS = {
    "GET": b"GET /a%20b?c=d HTTP/1.1\r\nHost: x\r\n\r\n",
    "HEAD": b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    "POST in chunks": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "the last": b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "of HTTP/1.0": b"GET / HTTP/1.0\r\n\r\n",
    "HEAD of HTTP/1.0": b"HEAD / HTTP/1.0\r\n\r\n",
}


class Application:
    """Answers every request with the same messages, after it has read all of it."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self.scopes: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.failures: list[Exception] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append({name: value for name, value in scope.items() if name != "state"})
        got = b""
        while (message := await receive()).get("more_body", False):
            got += message["body"]
        self.bodies.append(got)
        try:
            for kind, fields in self.messages:
                await send({"type": kind, **fields})
        except Exception as error:
            self.failures.append(error)


def stock(app: Any, stream: Any) -> TCPServer:
    """Return a connection of Hypercorn's own."""
    return TCPServer(
        ASGIWrapper(app), ServerConfig(WebOptions()), WorkerContext(None), ConnectionState({}), stream
    )


def ours(app: Any, stream: Any) -> Connection:
    """Return a connection of ours."""
    options = WebOptions()
    return Connection(
        Connections(options),
        ASGIWrapper(app),
        ServerConfig(options),
        WorkerContext(None),
        ConnectionState({}),
        stream,
    )


async def said(connect: Callable[[Any, Any], Any], app: Application, sent: bytes) -> bytes:
    """Return what a connection answers until nothing more comes."""
    client, server = trio.testing.memory_stream_pair()
    received = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect(app, PipeStream(server)).run)
        await client.send_all(sent)
        await trio.testing.wait_all_tasks_blocked()
        await client.send_stream.aclose()
        while piece := await client.receive_stream.receive_some():
            received += piece
    return received


def apart(answers: bytes) -> tuple[list[str], bytes]:
    """Return the lines of a first head, in any order and case of names, without the date; and what follows it."""
    head, _, rest = answers.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = sorted(name.lower() + ":" + value for name, _, value in (line.partition(":") for line in lines))
    return [first, *(field.lower() for field in fields if not field.startswith("date:"))], rest


@pytest.mark.parametrize("requested", REQUESTS)
@pytest.mark.parametrize("answered", ANSWERS)
async def test_an_answer_is_the_one_that_hypercorn_would_have_sent(
    answered: str, requested: str, autojump_clock: trio.testing.MockClock
) -> None:
    messages, sent = ANSWERS[answered], REQUESTS[requested]
    theirs, own = Application(messages), Application(messages)
    expected = await said(stock, theirs, sent)
    got = await said(ours, own, sent)
    assert apart(got) == apart(expected)
    assert (own.scopes, own.bodies, own.failures) == (theirs.scopes, theirs.bodies, [])


async def test_one_connection_answers_one_request_after_the_other_as_hypercorn_does(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sent = b"".join(REQUESTS[name] for name in ("GET", "POST", "HEAD", "POST in chunks", "GET"))
    for messages in (ANSWERS["of a known length"], ANSWERS["of no known length"], ANSWERS["without a body"]):
        theirs, own = Application(messages), Application(messages)
        expected, got = await said(stock, theirs, sent), await said(ours, own, sent)
        assert got.count(b"HTTP/1.1 ") == 5
        assert len(got) == len(expected)
        assert (own.scopes, own.bodies) == (theirs.scopes, theirs.bodies)


BROKEN: dict[str, tuple[Messages, bytes]] = {
    "a header that ends its line": ((start(200, (b"x-a", b"1\r\nx-b: 2"), length(0)), body(b"")), b"x-b"),
    "a header that ends the head": ((start(200, (b"x-a", b"\n\nhello"), length(0)), body(b"")), b"hello"),
    "a header with a zero byte": ((start(200, (b"x-a", b"a\x00b"), length(0)), body(b"")), b"x-a"),
    "a name with a space": ((start(200, (b"x a", b"1"), length(0)), body(b"")), b"x a"),
    "a name with a colon": ((start(200, (b"x:a", b"1"), length(0)), body(b"")), b"x:a"),
    "an empty name": ((start(200, (b"", b"1"), length(0)), body(b"")), b": 1"),
    "more than its length": ((start(200, length(3)), body(b"toolong")), b"toolong"),
    "more than its length, later": ((start(200, length(3)), body(b"ab", True), body(b"toolong")), b"toolong"),
    "a body before its head": ((body(b"early"), start(200)), b"early"),
    "two heads": ((start(200, length(1)), start(404, length(1)), body(b"x")), b"404"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_no_answer_is_an_error_and_does_not_reach_the_client(
    what: str, autojump_clock: trio.testing.MockClock
) -> None:
    messages, forbidden = BROKEN[what]
    app = Application(messages)
    got = await said(ours, app, REQUESTS["GET"])
    assert len(app.failures) == 1
    assert forbidden not in got


async def test_an_answer_that_is_short_of_its_length_ends_the_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    for messages in ((start(200, length(5)), body(b"abc")), (start(200, length(5)), body(b"abc", True))):
        app = Application(messages)
        got = await said(ours, app, REQUESTS["GET"] + REQUESTS["GET"])
        assert len(app.failures) == (1 if len(messages) == 2 and not messages[-1][1]["more_body"] else 0)
        assert apart(got)[1] in (b"", b"abc")
        assert len(app.scopes) == 1, "what follows is not taken for the rest"


async def test_after_its_end_an_answer_takes_nothing_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    app = Application((*ANSWERS["of a known length"], body(b"late")))
    got = await said(ours, app, REQUESTS["GET"])
    assert len(app.failures) == 1
    assert b"late" not in got


async def test_who_broke_the_protocol_is_told_so_and_not_answered_besides(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def late(released: trio.Event, scope: Any, receive: Any, send: Any) -> None:
        await released.wait()
        for kind, fields in ANSWERS["of a known length"]:
            await send({"type": kind, **fields})

    released = trio.Event()
    client, server = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours(partial(late, released), PipeStream(server)).run)
        await client.send_all(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a chunk\r\n"
        )
        await trio.testing.wait_all_tasks_blocked()
        released.set()
        await trio.testing.wait_all_tasks_blocked()
        await client.send_stream.aclose()
        got = b""
        while piece := await client.receive_stream.receive_some():
            got += piece
    assert got.startswith(b"HTTP/1.1 400 ")
    assert b"HTTP/1.1 200" not in got
