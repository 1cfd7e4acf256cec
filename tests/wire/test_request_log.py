"""The id of a request is in its answer and in what is logged meanwhile; the log has nothing that must not be in it."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
import trio.testing

from actors.turn import Turn
from postroom.logs import configure
from storage.errors import Fenced
from storage.memory import MemoryStore
from tests.wire.client import head
from tests.wire.harness import wire
from web.request_log import surface_of

Lines = Callable[[], list[dict[str, Any]]]

TOKEN = "prm_admin_" + "T0ken" * 8
SECRET = "a-secret-of-an-inbox"
PAYLOAD = "a-payload"


@pytest.fixture
def debug() -> Iterator[Lines]:
    """Log everything as JSON, and return what was logged."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    out = io.StringIO()
    configure("json", "debug", out)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


async def test_every_answer_has_an_id(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with wire(tmp_path, reading=True) as served:
        await served.inbox()
        token = await served.token()
        ids = []
        for method, target in (
            ("POST", "/in/demo"),
            ("POST", "/in/nothing"),
            ("GET", "/v1/inboxes"),
            ("GET", "/v1/nothing"),
            ("GET", "/healthz"),
            ("POST", "/mcp"),
            ("GET", "/"),
        ):
            async with served.connect() as client:
                ids.append((await client.request(method, target, [token])).header("postroom-request-id"))
        async with served.connect() as client:
            stream = await client.start("/v1/inboxes/demo/stream", [token])
            ids.append(stream.header("postroom-request-id"))
        assert all(ids)
        assert len(set(ids)) == len(ids)


async def test_a_line_at_debug_tells_of_each_request_and_has_its_id(
    tmp_path: Path, debug: Lines, autojump_clock: trio.testing.MockClock
) -> None:
    async with wire(tmp_path, reading=True) as served, served.connect() as client:
        await served.inbox()
        token = await served.token()
        sent = await client.request("POST", "/in/demo/deeper?q=1", body=b"{}")
        read = await client.request("GET", "/v1/inboxes/demo/messages?after=0", [token])
        gone = await client.request("GET", "/v1/nothing/here", [token])
        unknown = await client.request("GET", "/v1/inboxes/demo/messages")
        odd = await client.request("X" * 2_000, "/v1/inboxes/demo/messages", [token])
    lines = [line for line in debug() if line["event"] == "answered"]
    assert [(line["method"], line["route"], line["inbox"], line["status"]) for line in lines] == [
        ("POST", "/in/{slug}", "demo", 200),
        ("GET", "/v1/inboxes/{slug}/messages", "demo", 200),
        ("GET", "…", None, 404),
        ("GET", "/v1/inboxes/{slug}/messages", None, 401),
        ("_OTHER", "…", None, 405),
    ]
    ids = [reply.header("postroom-request-id") for reply in (sent, read, gone, unknown, odd)]
    assert [line["request_id"] for line in lines] == ids
    for line in lines:
        assert (line["level"], line["logger"], line["address"]) == ("debug", "postroom.requests", "192.0.2.7")
        assert 0 <= line["seconds"] < 60


async def test_the_id_of_a_trusted_proxy_is_the_request_s(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    given = ("X-Request-Id", "from-a-proxy")
    for trusted, taken in ((("192.0.2.0/24",), True), (("198.51.100.0/24",), False), ((), False)):
        async with wire(tmp_path, trusted_proxies=trusted) as served, served.connect() as client:
            reply = await client.request("GET", "/healthz", [given])
            assert (reply.header("postroom-request-id") == "from-a-proxy") is taken


async def test_an_actor_that_a_request_has_started_does_not_log_under_its_id(
    tmp_path: Path, debug: Lines, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryStore()

    def fault(unit: object) -> None:
        if isinstance(unit, Turn):
            raise Fenced

    async with wire(tmp_path, store=store) as served, served.connect() as client:
        await served.inbox()
        assert (await client.request("POST", "/in/demo", body=b"{}")).status == 200
        store.fault = fault
        await client.request("POST", "/in/demo", body=b"{}")
        store.fault = None
    fenced = [line for line in debug() if line["event"] == "inbox actor was fenced off"]
    assert fenced
    assert not [line for line in fenced if "request_id" in line]


async def test_no_line_holds_a_payload_a_secret_or_a_token(
    tmp_path: Path, debug: Lines, autojump_clock: trio.testing.MockClock
) -> None:
    bearer = ("Authorization", f"Bearer {TOKEN}")
    more = [("X-Api-Key", SECRET), ("Cookie", SECRET), ("X-Hub-Signature-256", f"sha256={SECRET}")]
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s"}}' % PAYLOAD.encode()
    async with wire(tmp_path, reading=True) as served:
        await served.inbox("demo", {"default": SECRET.encode()}, verifier="github")
        token = await served.token()
        for method, target, headers, body in (
            ("POST", f"/in/demo/{SECRET}?key={SECRET}", more, PAYLOAD),
            ("POST", f"/in/{TOKEN}", [], PAYLOAD),
            ("GET", f"/v1/inboxes/{TOKEN}/messages?after={PAYLOAD}", [token], None),
            ("GET", f"/v1/{TOKEN}", [bearer], None),
            ("GET", f"/{TOKEN}", [bearer], None),
            ("DELETE", f"/v1/tokens/{TOKEN}", [token], None),
            ("POST", "/v1/publish", [token, *more], PAYLOAD),
            ("PUT", f"/v1/beacons/{PAYLOAD}", [token], PAYLOAD),
            ("POST", "/mcp", [token, *more], call.decode()),
            (
                "POST",
                "/v1/inboxes",
                [token],
                f'{{"slug": "{PAYLOAD}", "secret": "{SECRET}", "no": "{TOKEN}"}}',
            ),
        ):
            async with served.connect() as client:
                await client.request(method, target, headers, None if body is None else body.encode())
        async with served.connect() as client:
            await client.send(head("POST", "/in/demo", [("Content-Length", "99")]) + PAYLOAD.encode())
    lines = debug()
    assert len([line for line in lines if line["event"] == "answered"]) == 10
    text = "\n".join(map(json.dumps, lines))
    for held in (PAYLOAD, SECRET, TOKEN, token[1].removeprefix("Bearer ")):
        assert held not in text


async def test_above_debug_there_is_no_line_for_a_request(
    tmp_path: Path, debug: Lines, autojump_clock: trio.testing.MockClock
) -> None:
    logging.getLogger().setLevel(logging.INFO)
    async with wire(tmp_path) as served, served.connect() as client:
        await served.inbox()
        await client.request("POST", "/in/demo", body=b"{}")
        await client.request("GET", "/nothing")
    assert not [line for line in debug() if "request_id" in line]


@pytest.mark.parametrize(
    ("path", "surface"),
    [
        (b"/in/x", "ingest"),
        (b"/v1/inboxes", "api"),
        (b"/agent/send", "api"),
        (b"/agents", "api"),
        (b"/mcp", "mcp"),
        (b"/mcp/x", "other"),
        (b"/ui", "ui"),
        (b"/ui/sign-in", "ui"),
        (b"/uix", "other"),
        (b"/healthz", "health"),
        (b"/metrics", "metrics"),
        (b"/", "other"),
    ],
)
def test_a_path_belongs_to_one_part_of_the_surface(path: bytes, surface: str) -> None:
    assert surface_of(path) == surface
