"""Spans of a real server in this process: which there are, what is below what, and what none of them holds."""

import hashlib
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from actors.waking import WakeCall
from postroom.config import load
from postroom.server import Started, run
from tests.live.api import Api
from tests.live.harness import Server, connect
from tests.wire.client import Reply
from web.tracing import Tracing

START_SECONDS = 20.0

SECRET = "a-secret-of-an-inbox"
PAYLOAD = "a-payload"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01")


class Traced:
    """A server whose spans are kept. `token` is an admin's."""

    def __init__(self, port: int, token: str, exporter: InMemorySpanExporter) -> None:
        self.port = port
        self.token = ("Authorization", f"Bearer {token}")
        self._exporter = exporter

    async def ask(self, method: str, target: str, *headers: tuple[str, str], body: object = None) -> Reply:
        """Make one call; a body that is no bytes is sent as JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        async with await connect(self.port) as client:
            return await client.request(method, target, headers, data)

    def spans(self) -> Sequence[ReadableSpan]:
        """Return the spans that have ended since the last time, in the order of their ends."""
        found = self._exporter.get_finished_spans()
        self._exporter.clear()
        return found


def tracer() -> tuple[Tracing, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider.get_tracer("tests")), exporter


@asynccontextmanager
async def traced(tmp_path: Path, **settings: str) -> AsyncIterator[Traced]:
    """Run a server with an inbox `demo` that takes GitHub's signatures; leaving stops it."""
    tracing, exporter = tracer()
    token = f"prm_admin_{secrets.token_urlsafe(32)}"
    given = {"data_dir": str(tmp_path / "data"), "bind": "127.0.0.1:0", "admin_token": token, **settings}
    config = load(environment={f"POSTROOM_{name.upper()}": value for name, value in given.items()})
    stopping, answering = trio.Event(), trio.Event()
    started: list[Started] = []

    def ready(this: Started) -> None:
        started.append(this)
        answering.set()

    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await run(config, stopping, ready, tracing=tracing)

        nursery.start_soon(serve)
        with trio.fail_after(START_SECONDS):
            await answering.wait()
        server = Traced(int(started[0].url.rpartition(":")[2]), token, exporter)
        inbox = {"slug": "github", "verifier": "github", "secret": SECRET}
        assert (await server.ask("POST", "/v1/inboxes", server.token, body=inbox)).status == 201
        server.spans()
        try:
            yield server
        finally:
            stopping.set()


def signed(body: bytes) -> list[tuple[str, str]]:
    mac = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return [("X-Hub-Signature-256", f"sha256={mac}")]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent_of(span: ReadableSpan, spans: Sequence[ReadableSpan]) -> str | None:
    """Return the name of the span above, None when it is none of these."""
    above = {one.context.span_id: one.name for one in spans if one.context is not None}
    return None if span.parent is None else above.get(span.parent.span_id)


async def test_a_message_is_a_span_with_its_verdict_its_outcome_and_how_long_it_took_to_be_durable(
    tmp_path: Path,
) -> None:
    async with traced(tmp_path) as server:
        reply = await server.ask("POST", "/in/github", *signed(b"{}"), body=b"{}")
        append, request = server.spans()
    assert (append.name, parent_of(append, [append, request])) == ("append", "POST /in/{slug}")
    assert (request.kind, request.parent, request.status.status_code) == (
        SpanKind.SERVER,
        None,
        StatusCode.UNSET,
    )
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.route": "/in/{slug}",
        "http.response.status_code": 200,
        "postroom.outcome": "stored",
        "postroom.request_id": reply.header("postroom-request-id"),
    }
    [judged] = request.events
    assert (judged.name, dict(judged.attributes or {})) == (
        "judged",
        {"postroom.verifier": "github", "postroom.verdict": "verified"},
    )


async def test_every_request_is_a_trace_of_its_own_also_of_an_inbox_in_use(tmp_path: Path) -> None:
    async with traced(tmp_path) as server:
        for _ in range(3):
            await server.ask("POST", "/in/demo", body=b"{}")
        spans = server.spans()
    assert [span.name for span in spans] == ["append", "POST /in/{slug}"] * 3
    assert len({span.context.trace_id for span in spans if span.context is not None}) == 3


async def test_a_read_and_a_tool_are_spans_below_their_requests(tmp_path: Path) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_inboxes"}}
    json_too = (
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Host", "127.0.0.1"),
    )
    async with traced(tmp_path) as server:
        await server.ask("GET", "/v1/inboxes/demo/messages?limit=1", server.token)
        read, request = server.spans()
        assert (read.name, request.name) == ("store.read", "GET /v1/inboxes/{slug}/messages")
        assert parent_of(read, [read, request]) == request.name
        assert (await server.ask("POST", "/mcp", server.token, *json_too, body=call)).status == 200
        spans = server.spans()
    assert [(span.name, parent_of(span, spans)) for span in spans] == [
        ("store.read", "tools/call list_inboxes"),
        ("tools/call list_inboxes", "POST /mcp"),
        ("POST /mcp", None),
    ]


@pytest.mark.parametrize(
    ("method", "target", "name", "status"),
    [
        ("GET", "/healthz", "GET /healthz", 200),
        ("GET", f"/{PAYLOAD}", "GET", 404),
        ("GET", f"/v1/{PAYLOAD}", "GET", 401),
        ("BREW", "/healthz", "_OTHER /healthz", 405),
        ("POST", f"/in/{PAYLOAD}", "POST /in/{slug}", 404),
    ],
)
async def test_a_span_is_named_by_its_route_and_never_by_its_path(
    tmp_path: Path, method: str, target: str, name: str, status: int
) -> None:
    async with traced(tmp_path) as server:
        await server.ask(method, target)
        [span] = [span for span in server.spans() if span.kind is SpanKind.SERVER]
    assert (span.name, attributes(span)["http.response.status_code"]) == (name, status)
    assert PAYLOAD not in span.to_json()


@pytest.mark.parametrize(
    ("target", "known", "proxies", "continued"),
    [
        ("/v1/inboxes", True, "none", True),
        ("/v1/inboxes", False, "none", False),
        ("/nothing", False, "none", False),
        ("/in/demo", False, "none", False),
        ("/in/demo", False, "127.0.0.0/8", True),
    ],
)
async def test_the_caller_s_trace_is_continued_unless_the_caller_may_be_anybody(
    tmp_path: Path, target: str, known: bool, proxies: str, continued: bool
) -> None:
    async with traced(tmp_path, trusted_proxies=proxies) as server:
        token = server.token if known else ("Authorization", "Bearer prm_agent_of_nobody")
        await server.ask("GET", target, token, PARENT)
        [span] = [span for span in server.spans() if span.kind is SpanKind.SERVER]
    assert span.context is not None
    assert (f"{span.context.trace_id:032x}" == TRACE) is continued
    assert (span.parent is not None) is continued


async def test_a_stream_s_span_ends_with_its_head_and_nothing_is_said_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with traced(tmp_path) as server:
        async with await connect(server.port) as client:
            await client.start("/v1/inboxes/demo/stream", [server.token])
            [span] = [span for span in server.spans() if span.kind is SpanKind.SERVER]
            assert span.name == "GET /v1/inboxes/{slug}/stream"
            await server.ask("POST", "/in/demo", body=b"{}")
            while b"event: message" not in await client.data():
                pass
        assert [span.name for span in server.spans()] == ["append", "POST /in/{slug}"]
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


async def test_no_span_holds_a_payload_a_secret_or_a_token(tmp_path: Path) -> None:
    async with traced(tmp_path) as server:
        admin = server.token[1].removeprefix("Bearer ")
        for method, target, body in (
            ("POST", f"/in/github/{SECRET}?q={PAYLOAD}", PAYLOAD.encode()),
            ("GET", f"/v1/inboxes/{PAYLOAD}/messages?after={PAYLOAD}", None),
            ("POST", "/v1/inboxes", {"slug": "other", "secret": SECRET, "verifier": PAYLOAD}),
            ("DELETE", f"/v1/tokens/{admin}", None),
        ):
            await server.ask(method, target, server.token, ("X-Mark", PAYLOAD), ("Cookie", SECRET), body=body)
        text = "".join(span.to_json() for span in server.spans())
    for held in (PAYLOAD, SECRET, admin, "127.0.0.1"):
        assert held not in text


async def test_a_call_to_wake_an_agent_is_a_span_that_names_neither_place_nor_failure() -> None:
    tracing, exporter = tracer()
    call = WakeCall("ada", f"http://127.0.0.1/{SECRET}", None, 1, SECRET)

    async def answers(given: WakeCall) -> bool:
        return given is call

    async def fails(_: WakeCall) -> bool:
        raise RuntimeError(SECRET)

    assert await tracing.post(answers)(call)
    with pytest.raises(RuntimeError):
        await tracing.post(fails)(call)
    reached, failed = exporter.get_finished_spans()
    assert (reached.name, reached.kind) == ("wake", SpanKind.CLIENT)
    assert attributes(reached) == {"postroom.outcome": "reached"}
    assert attributes(failed) == {"error.type": "RuntimeError"}
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description is None
    assert failed.events == ()


def test_a_server_sends_its_last_spans_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        api.send("demo")
        assert "/in/{slug}" not in server.output
        assert server.stop() == 0
    assert '"name": "POST /in/{slug}"' in server.output
    assert '"service.name": "postroom"' in server.output
