"""What `/mcp` refuses before the protocol begins, in which order and in which shape; on raw bytes."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing

from tests.wire.client import Reply, head
from tests.wire.mcp_calls import PLAIN, post, request
from tests.wire.scene import scene

PING = request("ping")
JSON = ("Content-Type", "application/json")
HOST = ("Host", "127.0.0.1")


def rest_error(reply: Reply) -> str:
    """Check that a refusal has the shape of every REST error and return its code."""
    assert reply.json.keys() == {"error"}
    assert {"code", "message"} <= reply.json["error"].keys()
    assert reply.header("cache-control") == "no-store"
    return reply.code


def rpc_error(reply: Reply) -> Any:
    """Check that an error has JSON-RPC's shape and return it, with its id."""
    assert reply.header("content-type") == "application/json"
    assert reply.header("cache-control") == "no-store"
    assert reply.json.keys() == {"jsonrpc", "id", "error"}
    assert reply.json["jsonrpc"] == "2.0"
    assert reply.json["error"].keys() == {"code", "message", "data"}
    return reply.json["error"]["code"], reply.json["id"]


# -- the token ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ([], 'Bearer realm="postroom"'),
        ([("Authorization", "Bearer wrong")], 'Bearer realm="postroom", error="invalid_token"'),
        ([("Authorization", "Basic eDp5")], 'Bearer realm="postroom", error="invalid_token"'),
    ],
)
async def test_without_a_valid_token_nothing_else_is_looked_at(
    tmp_path: Path, headers: list[tuple[str, str]], challenge: str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        for method, body in (("POST", PING), ("GET", b""), ("DELETE", b"not json"), ("OPTIONS", b"")):
            reply = await post(at, body, headers=[HOST, ("Origin", "https://evil"), *headers], method=method)
            assert (reply.status, rest_error(reply)) == (401, "unauthenticated")
            assert reply.header("www-authenticate") == challenge


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
async def test_only_post_is_taken(tmp_path: Path, method: str, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, PING, method=method)
        assert (reply.status, rest_error(reply), reply.header("allow")) == (405, "method_not_allowed", "POST")


async def test_the_head_of_a_get_is_refused_as_well(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client:
        reply = await client.request("HEAD", "/mcp", [HOST, *at.headers])
        assert (reply.status, reply.header("allow"), reply.body) == (405, "POST", b"")


# -- foreign browsers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost", True),
        ("http://localhost:3000", True),
        ("https://127.0.0.1:9", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:3000", True),
        ("https://hooks.example.org", True),
        ("https://HOOKS.example.org:443", True),
        ("https://console.example.org:8443", True),
        ("https://console.example.org", False),
        ("http://hooks.example.org", False),
        ("https://hooks.example.org.evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
        ("file://", False),
        ("http://user@localhost", False),
        ("chrome-extension://abcdef", False),
    ],
)
async def test_an_origin_is_let_in_or_not(
    tmp_path: Path, origin: str, allowed: bool, mock_clock: trio.testing.MockClock
) -> None:
    options = {
        "public_url": "https://hooks.example.org/post",
        "allowed_origins": ("https://console.example.org:8443",),
    }
    async with scene(tmp_path, **options) as at:
        reply = await post(at, PING, ("Origin", origin))
        assert reply.status == (200 if allowed else 403)
        assert allowed or rest_error(reply) == "permission_denied"


async def test_loopback_origins_count_on_loopback_only(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, bind="0.0.0.0:8025") as at:
        assert (await post(at, PING, ("Origin", "http://localhost:3000"))).status == 403
        assert (await post(at, PING)).status == 200


async def test_every_origin_of_a_request_must_be_allowed(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        both = (("Origin", "http://localhost"), ("Origin", "https://evil.example"))
        assert (await post(at, PING, *both)).status == 403


@pytest.mark.parametrize(
    ("host", "on_loopback"),
    [
        ("127.0.0.1:8025", 200),
        ("localhost", 200),
        ("LOCALHOST:8025", 200),
        ("[::1]:8025", 200),
        ("hooks.example.org", 200),
        ("hooks.example.org:444", 200),
        ("inside.example.org", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("evil.example:8025", 403),
        ("localhost@evil.example", 403),
        ("", 403),
    ],
)
async def test_on_loopback_the_host_must_be_known(
    tmp_path: Path, host: str, on_loopback: int, mock_clock: trio.testing.MockClock
) -> None:
    options: dict[str, Any] = {
        "public_url": "https://hooks.example.org",
        "allowed_hosts": ("Inside.example.org",),
    }
    for bind, status in (("127.0.0.1:8025", on_loopback), ("0.0.0.0:8025", 200)):
        async with scene(tmp_path, bind=bind, **options) as at:
            reply = await post(at, PING, headers=[("Host", host), JSON, *at.headers])
            assert reply.status == status
            assert status == 200 or rest_error(reply) == "permission_denied"


# -- media types ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "status"),
    [
        (["application/json"], 200),
        (["Application/JSON; charset=utf-8"], 200),
        ([], 415),
        (["text/plain"], 415),
        (["application/jsonp"], 415),
        (["application/x-www-form-urlencoded"], 415),
        (["application/json", "text/plain"], 415),
    ],
)
async def test_the_body_must_be_said_to_be_json(
    tmp_path: Path, types: list[str], status: int, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, PING, headers=[HOST, *at.headers, *(("Content-Type", kind) for kind in types)])
        assert reply.status == status
        assert status == 200 or rest_error(reply) == "unsupported_media_type"


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ([], 200),
        ([""], 200),
        (["application/json"], 200),
        (["application/json, text/event-stream"], 200),
        (["text/event-stream", "application/json"], 200),
        (["APPLICATION/JSON;q=0.1"], 200),
        (["application/*"], 200),
        (["*/*"], 200),
        (["text/html, */*;q=0.1"], 200),
        (["text/event-stream"], 406),
        (["text/html, text/*"], 406),
        (["application/json;q=0, */*"], 406),
        (["*/*;q=0.000"], 406),
    ],
)
async def test_the_answer_must_be_acceptable(
    tmp_path: Path, accept: list[str], status: int, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, PING, *(("Accept", value) for value in accept))
        assert reply.status == status
        assert status == 200 or rest_error(reply) == "not_acceptable"


# -- bodies ----------------------------------------------------------------------


MIB = 1024 * 1024


@pytest.mark.parametrize(("size", "status"), [(MIB, 200), (MIB + 1, 413), (3 * MIB, 413)])
async def test_a_body_may_have_one_mebibyte(
    tmp_path: Path, size: int, status: int, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, PING.ljust(size))
        assert reply.status == status
        assert status == 200 or rest_error(reply) == "payload_too_large"


async def test_a_chunked_body_is_measured_while_it_comes(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async def endless() -> Any:
        for _ in range(20):
            yield b" " * 65_536

    async with scene(tmp_path) as at, at.served.connect() as client:
        reply = await client.request("POST", "/mcp", [*PLAIN, *at.headers], endless())
        assert (reply.status, rest_error(reply)) == (413, "payload_too_large")


async def test_a_body_that_is_framed_twice_is_refused_in_the_protocols_shape(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client:
        fields = [*PLAIN, *at.headers, ("Content-Length", "5"), ("Transfer-Encoding", "chunked")]
        await client.send(head("POST", "/mcp", fields) + b"0\r\n\r\n")
        reply = await client.reply()
        assert (reply.status, *rpc_error(reply)) == (400, -32600, None)


class Bad(NamedTuple):
    """A body that is no request, the error it gets and the id that the answer repeats."""

    body: bytes
    code: int
    id: Any = None
    field: str | None = None


@pytest.mark.parametrize(
    "bad",
    [
        Bad(b"", -32700),
        Bad(b"   ", -32700),
        Bad(b"nonsense", -32700),
        Bad(b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700),
        Bad(b'{"jsonrpc":"2.0","id":1,"method":"ping"}}', -32700),
        Bad(b'{"jsonrpc":"2.0","id":1,"method":"pi\xffng"}', -32700),
        Bad(b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"\xff"}', -32700),
        Bad(b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', -32700),
        Bad(b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32700),
        Bad(b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700),
        Bad(b"[" * 200_000, -32700),
        Bad(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, -32700),
        Bad(b"[]", -32600),
        Bad(b"[" + PING + b"]", -32600),
        Bad(b"null", -32600),
        Bad(b"1", -32600),
        Bad(b'"ping"', -32600),
        Bad(b"{}", -32600, None, "jsonrpc"),
        Bad(request("ping", id=None), -32600, None, "id"),
        Bad(request("ping", id=True), -32600, None, "id"),
        Bad(request("ping", id=1.5), -32600, None, "id"),
        Bad(request("ping", id=1e300), -32600, None, "id"),
        Bad(request("ping", id=[]), -32600, None, "id"),
        Bad(request("ping", id={}), -32600, None, "id"),
        Bad(b'{"jsonrpc":"2.0","method":"ping"}', -32600, None, "id"),
        Bad(b'{"jsonrpc":"2.0","id":7}', -32600, 7, "method"),
        Bad(b'{"jsonrpc":"2.0","id":7,"result":{}}', -32600, 7, "method"),
        Bad(request("ping", id="a", jsonrpc="1.0"), -32600, "a", "jsonrpc"),
        Bad(request("ping", jsonrpc=2.0), -32600, 1, "jsonrpc"),
        Bad(request("ping").replace(b'"ping"', b"3"), -32600, 1, "method"),
        Bad(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600),
        Bad(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":1}}', -32600),
        Bad(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"\\u0061":1}}', -32600),
    ],
    ids=lambda bad: repr(bad.body[:60]),
)
async def test_a_body_that_is_no_request_is_refused(
    tmp_path: Path, bad: Bad, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        reply = await post(at, bad.body)
        assert (reply.status, *rpc_error(reply)) == (400, bad.code, bad.id)
        assert reply.json["error"]["data"].get("field") == bad.field
        assert reply.json["error"]["data"]["code"] == "invalid_argument"


@pytest.mark.parametrize("request_id", [0, -1, 2**63, 10**30, 1.0, "", 'é\n"\\ \u0001', "x" * 1000])
async def test_an_id_comes_back_as_it_was(
    tmp_path: Path, request_id: int | str, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        assert (await post(at, request("ping", id=request_id))).json == {
            "jsonrpc": "2.0",
            "id": request_id,
            "result": {},
        }


# -- the order of the checks ----------------------------------------------------------------------


async def test_the_first_check_that_fails_answers(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    """Each request mends one fault of the one before and still has all that are looked at later."""
    async with scene(tmp_path) as at:
        evil = ("Origin", "https://evil.example")
        text, html = ("Content-Type", "text/plain"), ("Accept", "text/html")
        large = b"[" * (MIB + 1)
        steps: list[tuple[str, list[tuple[str, str]], bytes, int]] = [
            ("GET", [HOST, evil, text, html], large, 401),
            ("GET", [HOST, *at.headers, evil, text, html], large, 405),
            ("POST", [HOST, *at.headers, evil, text, html], large, 403),
            ("POST", [HOST, *at.headers, text, html], large, 415),
            ("POST", [HOST, *at.headers, JSON, html], large, 406),
            ("POST", [HOST, *at.headers, JSON], large, 413),
            ("POST", [HOST, *at.headers, JSON], b"[", 400),
        ]
        for method, headers, body, status in steps:
            assert (await post(at, body, headers=headers, method=method)).status == status


# -- around the endpoint ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
        "/mcp/.well-known/openid-configuration",
        "/register",
        "/authorize",
        "/mcp/",
        "/MCP",
    ],
)
async def test_there_is_no_oauth_here(tmp_path: Path, path: str, mock_clock: trio.testing.MockClock) -> None:
    """Anything but a JSON 404, before any token is asked for, would keep a client in OAuth discovery."""
    async with scene(tmp_path) as at:
        for method in ("GET", "POST"):
            reply = await post(at, b"", headers=[HOST], target=path, method=method)
            assert (reply.status, rest_error(reply)) == (404, "not_found")
            assert reply.header("content-type") == "application/json"


@pytest.mark.parametrize("off", [{"mcp_enabled": False}])
async def test_an_endpoint_that_is_off_is_not_there(
    tmp_path: Path, off: dict[str, bool], mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, **off) as at:
        for headers in ([HOST, JSON], [HOST, JSON, *at.headers]):
            reply = await post(at, PING, headers=headers)
            assert (reply.status, rest_error(reply)) == (404, "not_found")
        async with at.served.connect() as client:
            assert (await client.request("GET", "/v1/inboxes", at.headers)).status == 200


async def test_a_server_that_stops_takes_no_more_calls(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    stopping = trio.Event()
    async with scene(tmp_path, stopping=stopping) as at:
        stopping.set()
        reply = await post(at, PING)
        assert (reply.status, rest_error(reply)) == (503, "shutting_down")
        assert reply.header("retry-after") is not None


async def test_calls_follow_each_other_on_one_connection(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client:
        fields = [*PLAIN, *at.headers, ("Mcp-Session-Id", "of another server")]
        for number in range(5):
            reply = await client.request("POST", "/mcp", fields, request("ping", id=number))
            assert (reply.status, reply.json["id"]) == (200, number)
            assert reply.header("mcp-session-id") is None
