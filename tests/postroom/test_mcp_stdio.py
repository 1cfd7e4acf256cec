"""`postroom mcp` in parts: what is sent for a line, what is made of the answer, and how the input is read."""

import json
import os
import socket
from typing import Any

import pytest
import trio
import trio.testing

from postroom.client import Refused, Unreachable
from postroom.mcp_stdio import LINE_BYTES, Bridge, LineReader, serve_stdio
from postroom.mcp_upstream import PATIENCE_SECONDS, START_PATIENCE_SECONDS, Upstream, header_value, parsed
from tests.postroom.scriptedserver import ScriptedServer, answer

PROTOCOL = "io.modelcontextprotocol/protocolVersion"

TOOLS = [
    {"name": "looks", "annotations": {"readOnlyHint": True, "idempotentHint": False}},
    {"name": "may_repeat", "annotations": {"readOnlyHint": False, "idempotentHint": True}},
    {"name": "acts", "annotations": {"readOnlyHint": False, "idempotentHint": False}},
    {"name": "says_nothing"},
]

BROKEN = b""
"""A connection that is closed without an answer."""


def message(method: str, number: Any = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def result(number: Any = 1, **members: Any) -> bytes:
    return answer(json.dumps({"jsonrpc": "2.0", "id": number, "result": members}).encode())


def error(code: str, text: str, status: str) -> bytes:
    return answer(json.dumps({"error": {"code": code, "message": text}}).encode(), status=status)


class Conversation:
    """A bridge to a server: `written` is what it wrote, `said` what it told the person at the terminal."""

    def __init__(self, url: str, *, query: str = "") -> None:
        self.written: list[bytes] = []
        self.said: list[str] = []
        self.upstream = Upstream(url, query, "prm_agent_secret", self.said.append)
        self._answered = trio.Event()

    async def talk(self, *lines: bytes, answered: bool = True) -> list[Any]:
        """Send these lines, each when the one before has been answered, close stdin, and return the answers."""
        left = list(lines)

        async def next_line() -> bytes | None:
            if answered and len(left) < len(lines):
                await self._answered.wait()
            self._answered = trio.Event()
            return left.pop(0) if left else None

        with trio.fail_after(PATIENCE_SECONDS):
            await Bridge(self.upstream, self._write, self.said.append).run(next_line)
        return [json.loads(line) for line in self.written]

    async def _write(self, data: bytes) -> None:
        self.written.append(data)
        self._answered.set()


def headers_of(server: ScriptedServer, number: int) -> dict[str, str]:
    return {name.lower(): value for name, value in server.asked[number].headers}


# -- from a line to a call -----------------------------------------------------------------------------------


async def test_a_line_is_sent_as_it_is_with_the_token_and_the_options_of_the_url() -> None:
    line = b'{"jsonrpc": "2.0",  "id":"a", "method":"ping"}'
    with ScriptedServer(result("a")) as server:
        answers = await Conversation(server.url, query="page_bytes=65536").talk(line)
        assert answers == [{"jsonrpc": "2.0", "id": "a", "result": {}}]
        assert server.asked[0].body == line
        assert server.asked[0].target == "/mcp?page_bytes=65536"
        headers = headers_of(server, 0)
        assert headers["authorization"] == "Bearer prm_agent_secret"
        assert headers["content-type"] == "application/json"


async def test_after_the_handshake_every_call_names_the_version_that_was_agreed_on() -> None:
    with ScriptedServer(result(protocolVersion="2025-06-18"), result()) as server:
        await Conversation(server.url).talk(
            message("initialize", protocolVersion="2025-06-18"), message("ping")
        )
        assert "mcp-protocol-version" not in headers_of(server, 0)
        assert headers_of(server, 1)["mcp-protocol-version"] == "2025-06-18"


async def test_a_call_without_handshake_repeats_in_headers_what_its_body_says() -> None:
    meta = {PROTOCOL: "2026-07-28"}
    with ScriptedServer(result(), result()) as server:
        await Conversation(server.url).talk(
            message("tools/list", _meta=meta), message("tools/call", name="grüße", _meta=meta)
        )
        first, second = headers_of(server, 0), headers_of(server, 1)
        assert (first["mcp-protocol-version"], first["mcp-method"]) == ("2026-07-28", "tools/list")
        assert "mcp-name" not in first
        assert second["mcp-name"] == "=?base64?Z3LDvMOfZQ==?="


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("get_message", "get_message"),
        ("two words", "two words"),
        (" edge", "=?base64?IGVkZ2U=?="),
        ("line\nbreak", "=?base64?bGluZQpicmVhaw==?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ("", "=?base64??="),
    ],
)
def test_text_that_a_header_would_not_carry_is_wrapped(text: str, value: str) -> None:
    assert header_value(text) == value


async def test_notifications_and_answers_of_the_client_end_here() -> None:
    with ScriptedServer() as server:
        talk = Conversation(server.url)
        assert not await talk.talk(
            b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}',
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}',
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
            answered=False,
        )
        assert not server.asked


@pytest.mark.parametrize("line", [b"{", b"[]", b'"x"', b'{"id":1,"method":2}', b"\xff", b"[" * 10_000])
async def test_what_makes_no_sense_is_left_to_the_server_to_refuse(line: bytes) -> None:
    refusal = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}'
    with ScriptedServer(answer(refusal, status="400 Bad Request")) as server:
        assert await Conversation(server.url).talk(line) == [json.loads(refusal)]
        assert server.asked[0].body == line


# -- from an answer to a line --------------------------------------------------------------------------------


async def test_an_answer_is_one_line_whatever_white_space_it_has() -> None:
    spread = b'\n\n{"jsonrpc":"2.0","id":1,\r\n"result":{"body": {\n"a": "x\\ny"}}}\n'
    with ScriptedServer(answer(spread)) as server:
        talk = Conversation(server.url)
        [told] = await talk.talk(message("ping"))
        assert told["result"]["body"] == {"a": "x\ny"}
        [line] = talk.written
        assert line.count(b"\n") == 1
        assert line.endswith(b"}\n")


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "404 Not Found"])
async def test_an_error_of_the_protocol_is_passed_on_with_any_status(status: str) -> None:
    told = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'
    with ScriptedServer(answer(told, status=status)) as server:
        assert await Conversation(server.url).talk(message("prompts/list")) == [json.loads(told)]


async def test_a_refusal_of_the_transport_becomes_an_error_of_the_same_call() -> None:
    revoked = error("unauthenticated", "The token is not valid.", "401 Unauthorized")
    with ScriptedServer(revoked) as server:
        [told] = await Conversation(server.url).talk(message("ping", "x"))
    assert told["id"] == "x"
    assert told["error"] == {
        "code": -32603,
        "message": "unauthenticated: The token is not valid.",
        "data": {"code": "unauthenticated"},
    }


async def test_a_message_that_is_too_large_is_the_callers_mistake_and_names_the_call() -> None:
    refused = error("payload_too_large", "The body is too large.", "413 Content Too Large")
    with ScriptedServer(refused) as server:
        [told] = await Conversation(server.url).talk(message("tools/call", "x", arguments="y" * 2_000_000))
    assert told["id"] == "x"
    assert (told["error"]["code"], told["error"]["data"]) == (-32600, {"code": "payload_too_large"})


@pytest.mark.parametrize(
    ("slowness", "ids", "told"),
    [(4, ["x"], []), (6, [], ["The server was too slow for the end of stdin: 1 calls were not answered."])],
)
async def test_a_call_is_answered_after_stdin_has_closed_unless_the_server_is_very_slow(
    slowness: float, ids: list[str], told: list[str], autojump_clock: trio.testing.MockClock
) -> None:
    talk = Conversation("http://127.0.0.1:9")

    async def slow(call: object, line: bytes) -> bytes:
        with trio.move_on_after(slowness):
            await trio.sleep_forever()
        return b'{"jsonrpc":"2.0","id":"x","result":{}}'

    talk.upstream.call = slow  # type: ignore[method-assign]  # a server that is slow on virtual time
    assert [one["id"] for one in await talk.talk(message("ping", "x"), answered=False)] == ids
    assert talk.said == told


@pytest.mark.parametrize(
    "scripted",
    [answer(b"<p>Hello", "text/html"), answer(b"{}"), answer(b"[1]"), answer(b"", status="202 Accepted")],
)
async def test_what_no_postroom_says_becomes_an_error(scripted: bytes) -> None:
    with ScriptedServer(scripted) as server:
        [told] = await Conversation(server.url).talk(message("ping"))
    assert "not as a Postroom server does" in told["error"]["message"]


# -- a server that goes and comes ----------------------------------------------------------------------------


async def test_a_call_is_tried_again_where_that_changes_nothing() -> None:
    for method, params in (
        ("ping", {}),
        ("tools/call", {"name": "looks"}),
        ("tools/call", {"name": "may_repeat"}),
    ):
        with ScriptedServer(result(0, tools=TOOLS), BROKEN, result(ok=True)) as server:
            talk = Conversation(server.url)
            await talk.upstream.check()
            [told] = await talk.talk(message(method, **params))
            assert told["result"] == {"ok": True}
            assert len(talk.said) == 2


async def test_a_call_that_may_have_been_carried_out_is_not_repeated() -> None:
    for name in ("acts", "says_nothing", "unknown"):
        with ScriptedServer(result(0, tools=TOOLS), BROKEN) as server:
            talk = Conversation(server.url)
            await talk.upstream.check()
            [told] = await talk.talk(message("tools/call", name=name))
            assert "broke" in told["error"]["message"]
            assert len(server.asked) == 2


async def test_a_server_that_shuts_down_is_asked_again() -> None:
    going = error("shutting_down", "The server is shutting down; try again.", "503 Service Unavailable")
    with ScriptedServer(going, going, result(ok=True)) as server:
        [told] = await Conversation(server.url).talk(message("tools/call", name="acts"))
    assert told["result"] == {"ok": True}


async def test_a_server_that_stays_away_is_an_error_after_a_while(
    autojump_clock: trio.testing.MockClock,
) -> None:
    began = trio.current_time()
    talk = Conversation(nowhere())
    line = message("tools/call", "x", name="acts")
    told = json.loads(await talk.upstream.call(parsed(line), line))
    assert told["id"] == "x"
    assert "answer" in told["error"]["message"]
    assert PATIENCE_SECONDS / 2 < trio.current_time() - began <= PATIENCE_SECONDS
    assert len(talk.said) == 1


async def test_the_start_fails_soon_without_a_server(autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()
    with pytest.raises(Unreachable):
        await serve_stdio(nowhere(), "", "prm_agent_secret", lambda sentence: None)
    assert trio.current_time() - began <= START_PATIENCE_SECONDS


async def test_the_start_fails_at_once_without_a_good_token() -> None:
    with (
        ScriptedServer(error("unauthenticated", "No.", "401 Unauthorized")) as server,
        pytest.raises(Refused),
    ):
        await serve_stdio(server.url, "", "prm_agent_secret", lambda sentence: None)


def nowhere() -> str:
    """Return a URL at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


# -- lines ---------------------------------------------------------------------------------------------------


async def read_all(data: bytes) -> list[bytes]:
    incoming, outgoing = os.pipe()
    reader = LineReader(incoming)
    read: list[bytes] = []

    def write() -> None:
        with open(outgoing, "wb") as pipe:
            pipe.write(data)

    try:
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, write)
                while (line := await reader.next_line()) is not None:
                    read.append(line)
    finally:
        os.close(incoming)
    return read


async def test_lines_come_whole_without_empty_ones_and_the_last_needs_no_end() -> None:
    assert await read_all(b"a\r\n\n  \nb\n" + b"c" * 100_000 + b"\nd") == [b"a", b"b", b"c" * 100_000, b"d"]
    assert await read_all(b"") == []
    assert await read_all(b"\n") == []


async def test_of_a_line_that_is_too_long_one_piece_is_read_and_the_rest_passed_over() -> None:
    first, *others = await read_all(b"x" * (3 * LINE_BYTES) + b"\nnext\n")
    assert len(first) == LINE_BYTES
    assert others == [b"next"]
