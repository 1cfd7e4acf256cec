"""The front: who answers which path, in which order a request is refused, and what leaves on every path."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from actors.commands import Refusal
from storage.errors import InboxGone, ReadersBusy, SlugTaken, StorageClosed, UnitFailed
from storage.memory import MemoryStore
from tests.wire.client import Reply, head
from tests.wire.harness import Wire, wire
from web.errors import ApiError
from web.http import Answer, Request, StreamedAnswer
from web.routes import Route, RouteTable

THROUGH = ["hot", "administration"]


async def show(request: Request) -> Answer:
    body = await request.read_body()
    assert request.principal is not None
    told = f"{request.method} {sorted(request.params.items())} {request.raw_query!r} {body!r}"
    return Answer(200, told.encode(), b"text/plain", ((b"x-mine", b"1"), (b"x-mine", b"2")))


async def nothing(request: Request) -> Answer:
    return Answer(204)


TABLE = (
    Route("GET", "/v1/things", show),
    Route("POST", "/v1/things", show),
    Route("DELETE", "/v1/things/{name}", nothing),
    Route("GET", "/v1/things/{name}", show),
    Route("POST", "/v1/things/{name}:wipe", show),
)


async def ask(served: Wire, method: str, target: str, headers: Any = (), body: bytes | None = None) -> Reply:
    with trio.fail_after(5):
        async with served.connect() as client:
            return await client.request(method, target, headers, body)


@asynccontextmanager
async def both(tmp_path: Path, through: str, *routes: Route, **options: Any) -> AsyncIterator[Wire]:
    async with wire(tmp_path, **{through: routes or TABLE}, **options) as served:
        yield served


@pytest.mark.parametrize("through", THROUGH)
async def test_the_token_comes_before_everything(tmp_path: Path, through: str) -> None:
    async with both(tmp_path, through) as served:
        for method, target in (
            ("GET", "/v1/things"),
            ("PUT", "/v1/things"),
            ("GET", "/v1/absent"),
            ("BREW", "/v1/"),
        ):
            for headers in ((), [("Authorization", "Bearer prm_admin_wrong")]):
                reply = await ask(served, method, target, headers)
                assert (reply.status, reply.code) == (401, "unauthenticated")
                assert (reply.header("www-authenticate") or "").startswith("Bearer")


@pytest.mark.parametrize("through", THROUGH)
async def test_a_handler_sees_the_raw_request(tmp_path: Path, through: str) -> None:
    async with both(tmp_path, through) as served:
        token = await served.token()
        reply = await ask(served, "POST", "/v1/things/a%20b:wipe?x=%2F&x=", [token], b'{"n":1}')
        assert reply.body == b"""POST [('name', 'a b')] b'x=%2F&x=' b'{"n":1}'"""
        assert [value for name, value in reply.headers if name == b"x-mine"] == [b"1", b"2"]
        assert reply.header("content-type") == "text/plain"
        assert reply.header("content-length") == str(len(reply.body))
        names = [name for name, _ in reply.headers]
        assert sorted(set(names) - {b"x-mine"}) == sorted(name for name in names if name != b"x-mine")


@pytest.mark.parametrize("through", THROUGH)
async def test_a_known_path_with_another_method_names_the_right_ones(tmp_path: Path, through: str) -> None:
    async with both(tmp_path, through) as served:
        token = await served.token()
        for target, allow in (
            ("/v1/things", "GET, HEAD, POST"),
            ("/v1/things/x", "DELETE, GET, HEAD"),
            ("/v1/things/x:wipe", "POST"),
        ):
            reply = await ask(served, "PATCH", target, [token])
            assert (reply.status, reply.code) == (405, "method_not_allowed")
            assert reply.header("allow") == allow


@pytest.mark.parametrize("through", THROUGH)
async def test_head_is_get_without_the_body(tmp_path: Path, through: str) -> None:
    async with both(tmp_path, through) as served:
        token = await served.token()
        got = await ask(served, "GET", "/v1/things", [token])
        head_ = await ask(served, "HEAD", "/v1/things", [token])
        assert (head_.status, head_.body) == (200, b"")
        assert head_.header("content-length") is not None
        assert got.status == 200


@pytest.mark.parametrize("through", THROUGH)
async def test_no_content_has_neither_length_nor_type(tmp_path: Path, through: str) -> None:
    async with both(tmp_path, through) as served:
        reply = await ask(served, "DELETE", "/v1/things/x", [await served.token()])
        assert (reply.status, reply.body) == (204, b"")
        assert (reply.header("content-length"), reply.header("content-type")) == (None, None)
        assert reply.header("cache-control") == "no-store"


@pytest.mark.parametrize("target", ["/", "/in", "/v1", "/v2/x", "*", "//in/demo", "/IN/demo", "/healthz/"])
async def test_unknown_paths_get_the_error_shape(tmp_path: Path, target: str) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        reply = await ask(served, "POST", target)
        assert (reply.status, reply.code) == (404, "not_found")


@pytest.mark.parametrize("through", THROUGH)
async def test_an_unexpected_exception_is_logged_once_and_not_told(tmp_path: Path, through: str) -> None:
    async def broken(request: Request) -> Answer:
        raise ZeroDivisionError("the secret is 42")

    async with both(tmp_path, through, Route("GET", "/v1/broken", broken)) as served:
        token = await served.token()
        with capture_logs() as logs:
            reply = await ask(served, "GET", "/v1/broken?token=hidden", [token])
        assert (reply.status, reply.code) == (500, "internal")
        assert b"42" not in reply.body
        assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["a request failed"]
        assert "hidden" not in repr(logs[0])


@pytest.mark.parametrize(
    ("target", "logged"),
    [
        ("/in/demo", "/in/demo"),
        ("/in/demo/hidden/more?key=hidden", "/in/demo"),
        ("/in/demo/%68idden?hidden", "/in/demo"),
        ("http://test/in/demo/hidden", "/in/demo"),
        ("/in/Hidden!/hidden", "/in/…"),
        ("/in//hidden", "/in/…"),
        ("/v1/things/x", "/v1/things/x"),
        ("/v1/things/" + "x" * 500, "/v1/things/" + "x" * (256 - len("/v1/things/"))),
    ],
)
async def test_the_log_names_the_inbox_of_a_failed_request_and_not_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, logged: str
) -> None:
    """Some senders have their credential there."""

    async def broken(*_: object) -> Answer:
        raise ZeroDivisionError

    async with wire(tmp_path, hot=[Route("GET", "/v1/things/{name}", broken)]) as served:
        await served.inbox()
        monkeypatch.setattr(served.front, "ingest", broken)
        token = await served.token()
        with capture_logs() as logs:
            method = "GET" if target.startswith("/v1") else "POST"
            reply = await ask(served, method, target, [token])
        assert reply.status == 500
        [line] = logs
        assert line["path"] == logged
        assert "hidden" not in repr({**line, "exc_info": None})


@pytest.mark.parametrize("through", THROUGH)
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ApiError("conflict", "no", field="slug"), 409, "conflict"),
        (Refusal("not_found", "no such token", "token_id"), 404, "not_found"),
        (InboxGone(), 404, "not_found"),
        (SlugTaken(), 409, "conflict"),
        (ReadersBusy(), 503, "busy"),
        (StorageClosed(), 503, "shutting_down"),
        (UnitFailed(), 500, "internal"),
    ],
)
async def test_faults_become_the_errors_of_the_table(
    tmp_path: Path, through: str, error: Exception, status: int, code: str
) -> None:
    async def fail(request: Request) -> Answer:
        raise error

    async with both(tmp_path, through, Route("GET", "/v1/fail", fail)) as served:
        reply = await ask(served, "GET", "/v1/fail", [await served.token()])
        assert (reply.status, reply.code) == (status, code)
        assert (reply.header("retry-after") is not None) == (status == 503)


@pytest.mark.parametrize("through", THROUGH)
async def test_a_body_over_a_mebibyte_is_too_large_for_the_api(tmp_path: Path, through: str) -> None:
    async with both(tmp_path, through) as served:
        reply = await ask(served, "POST", "/v1/things", [await served.token()], bytes(1024 * 1024 + 1))
        assert (reply.status, reply.code) == (413, "payload_too_large")


async def test_new_work_is_refused_while_the_server_ends(tmp_path: Path) -> None:
    stopping = trio.Event()
    async with wire(tmp_path, hot=TABLE, stopping=stopping) as served:
        await served.inbox()
        token = await served.token()
        stopping.set()
        for method, target in (("POST", "/in/demo"), ("GET", "/v1/things")):
            reply = await ask(served, method, target, [token])
            assert (reply.status, reply.code) == (503, "shutting_down")
            assert reply.header("retry-after") is not None
        assert (await ask(served, "GET", "/healthz")).status == 200
        ready = await ask(served, "GET", "/readyz")
        assert (ready.status, ready.json["stopping"]) == (503, True)


async def test_readiness_follows_the_store(tmp_path: Path) -> None:
    store = MemoryStore()
    async with wire(tmp_path, store=store) as served:
        assert (await ask(served, "GET", "/readyz")).json == {"ready": True, "store": "open"}
        store.health.state, store.health.reason = "degraded", "The disk does not take writes."
        reply = await ask(served, "GET", "/readyz")
        assert reply.status == 503
        assert reply.json == {
            "ready": False,
            "store": "degraded",
            "reason": "The disk does not take writes.",
        }
        assert (await ask(served, "GET", "/healthz")).status == 200
        assert (await ask(served, "POST", "/healthz")).header("allow") == "GET, HEAD"


# -- streamed answers ----------------------------------------------------------------------------------


def streamed(pieces: list[bytes], fails: bool, closed: trio.Event, length: int | None) -> Route:
    @asynccontextmanager
    async def source() -> AsyncIterator[AsyncIterator[bytes]]:
        async def generate() -> AsyncGenerator[bytes, None]:
            for piece in pieces:
                await trio.lowlevel.checkpoint()
                yield piece
            if fails:
                raise RuntimeError("retention took it")

        try:
            yield generate()
        finally:
            closed.set()

    async def handler(request: Request) -> StreamedAnswer:
        return StreamedAnswer(200, source, b"application/octet-stream", length)

    return Route("GET", "/v1/raw", handler)


@pytest.mark.parametrize("length", [6, None])
async def test_a_streamed_answer_arrives_whole_and_the_connection_is_kept(
    tmp_path: Path, length: int | None
) -> None:
    route = streamed([b"abc", b"def"], False, trio.Event(), length)
    async with wire(tmp_path, hot=[route]) as served:
        token = await served.token()
        async with served.connect() as client:
            with trio.fail_after(5):
                for _ in range(3):
                    reply = await client.request("GET", "/v1/raw", [token])
                    assert (reply.body, reply.complete) == (b"abcdef", True)
                    assert reply.header("cache-control") == "no-store"


@pytest.mark.parametrize("length", [6, None])
async def test_a_source_that_fails_never_looks_whole(tmp_path: Path, length: int | None) -> None:
    closed = trio.Event()
    async with wire(tmp_path, hot=[streamed([b"abc"], True, closed, length)]) as served:
        reply = await ask(served, "GET", "/v1/raw", [await served.token()])
        assert (reply.status, reply.body, reply.complete) == (200, b"abc", False)
        assert closed.is_set()


async def test_a_client_that_leaves_closes_the_source(tmp_path: Path) -> None:
    closed, sent = trio.Event(), trio.Event()

    @asynccontextmanager
    async def source() -> AsyncIterator[AsyncIterator[bytes]]:
        async def endless() -> AsyncGenerator[bytes, None]:
            while True:
                yield b"x"
                sent.set()
                await trio.sleep_forever()

        try:
            yield endless()
        finally:
            closed.set()

    async def handler(request: Request) -> StreamedAnswer:
        return StreamedAnswer(200, source, b"text/plain", None)

    async with wire(tmp_path, hot=[Route("GET", "/v1/endless", handler)]) as served:
        with trio.fail_after(5):
            async with served.connect() as client:
                await client.send(head("GET", "/v1/endless", [await served.token()]))
                await sent.wait()
            await closed.wait()


# -- the table of routes ---------------------------------------------------------------------------------


def test_a_literal_wins_over_a_parameter() -> None:
    table = RouteTable([Route("GET", "/v1/a/{x}", show), Route("GET", "/v1/a/b", nothing)])
    found = table.match(b"/v1/a/b")
    assert found is not None
    assert found.routes["GET"].handler is nothing


def test_a_route_in_the_table_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        RouteTable([Route("GET", "/v1/a", show), Route("GET", "/v1/a", nothing)])
    with pytest.raises(ValueError, match="called"):
        RouteTable([Route("GET", "/v1/{a}", show), Route("PUT", "/v1/{b}", nothing)])
