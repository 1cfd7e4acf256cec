"""Whatever is posted to `/mcp`, the answer is well-formed, never a 500, and nothing worse than a warning is logged."""

import json
from pathlib import Path
from typing import Any

import msgspec
import trio.testing
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.wire.client import Reply
from tests.wire.mcp_calls import CAPABILITIES_KEY, MODERN, VERSION_KEY, post
from tests.wire.scene import scene

BODIES = 12
"""In one example: a server without sockets starts in a few milliseconds, a request takes one."""

NOISY = ("error", "critical", "exception")

METHODS = st.sampled_from(
    [
        "initialize",
        "ping",
        "tools/list",
        "tools/call",
        "server/discover",
        "resources/list",
        "notifications/x",
        "nope",
    ]
)
TOOLS = st.sampled_from(["list_inboxes", "query_messages", "get_message", "wait_for_messages", "nope"])
NAMES = st.sampled_from(
    "inbox after before limit types since until verified bodies epoch seq timeout_seconds name arguments _meta cursor "
    f"protocolVersion {VERSION_KEY} {CAPABILITIES_KEY}".split()
)
NUMBERS = st.one_of(
    st.integers(-2, 101),
    st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40, 1e308, -0.0, 1.5]),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.text(max_size=20),
    st.sampled_from(["demo", "absent", "2026-01-01T00:00:00Z", MODERN, "2025-06-18"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(NAMES, st.text(max_size=8)), inner, max_size=4)
    ),
    max_leaves=12,
)
ARGUMENTS = st.one_of(
    VALUES, st.dictionaries(NAMES, SCALARS, max_size=6).map(lambda given: {"inbox": "demo", **given})
)
PARAMS = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {}, optional={"name": TOOLS, "arguments": ARGUMENTS, "_meta": VALUES, "cursor": VALUES}
    ),
    st.fixed_dictionaries(
        {"_meta": st.just({VERSION_KEY: MODERN, CAPABILITIES_KEY: {}})},
        optional={"name": TOOLS, "arguments": ARGUMENTS},
    ),
)
IDS = st.one_of(SCALARS, st.just(1))
REQUESTS = st.fixed_dictionaries(
    {"jsonrpc": st.one_of(st.just("2.0"), SCALARS), "method": st.one_of(METHODS, METHODS, SCALARS)},
    optional={"id": IDS, "params": PARAMS, "result": VALUES},
)


def encoded(value: Any) -> bytes:
    """Encode as the standard library does: it writes what stricter ones refuse to."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A request with something cut off, overwritten, repeated or put in."""
    body = encoded(draw(REQUESTS))
    at = draw(st.integers(0, len(body)))
    kind = draw(st.sampled_from(["cut", "overwrite", "insert", "repeat"]))
    if kind == "cut":
        return body[:at]
    if kind == "overwrite":
        return body[:at] + draw(st.binary(min_size=1, max_size=3)) + body[at + 1 :]
    if kind == "insert":
        odd = [
            b"\xff",
            b"\x00",
            b"\\ud800",
            b"1e999",
            b"9" * 5000,
            b"[" * 3000,
            b"\xef\xbb\xbf",
            b"NaN",
            b"//",
        ]
        return body[:at] + draw(st.sampled_from(odd)) + body[at:]
    return body[:-1] + b"," + body[1:]


POSTED = st.one_of(REQUESTS.map(encoded), damaged(), VALUES.map(encoded), st.binary(max_size=60))
HEADERS = st.lists(
    st.sampled_from(
        [
            ("MCP-Protocol-Version", MODERN),
            ("MCP-Protocol-Version", "2025-06-18"),
            ("MCP-Protocol-Version", "\xff"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Method", "tools/list"),
            ("Mcp-Name", "query_messages"),
            ("Mcp-Name", "=?base64?!!?="),
        ]
    ),
    max_size=3,
)


def check(reply: Reply) -> None:
    """Check that an answer is one that a client can read."""
    assert reply.status in (200, 202, 400, 404), (reply.status, reply.body)
    assert reply.header("cache-control") == "no-store"
    if reply.status == 202:
        assert (reply.body, reply.header("content-type")) == (b"", None)
        return
    assert reply.header("content-type") == "application/json"
    answer = msgspec.json.decode(reply.body)
    assert answer["jsonrpc"] == "2.0"
    assert isinstance(answer["id"], (str, int, type(None))) or answer["id"] % 1 == 0
    if "error" in answer:
        assert answer.keys() == {"jsonrpc", "id", "error"}
        assert answer["error"]["code"] in (-32700, -32600, -32601, -32602, -32020, -32022)
        assert answer["error"]["message"]
        assert "data" in answer["error"]
    else:
        assert reply.status == 200
        assert answer.keys() == {"jsonrpc", "id", "result"}
        assert answer["id"] is not None
        if answer["result"].get("isError"):
            assert "structuredContent" not in answer["result"]
    for inside in (b"Traceback", b"msgspec", b'File "', b".py"):
        assert inside not in reply.body


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(posted=st.lists(st.tuples(POSTED, HEADERS), min_size=1, max_size=BODIES))
@example(posted=[(b"", []), (b"[" * 500_000, []), (b'{"a":' * 150_000, []), (b"9" * 900_000, [])])
@example(posted=[(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', []), (b'"\xed\xa0\x80"', [])])
async def test_every_answer_is_well_formed_and_the_log_stays_quiet(
    tmp_path: Path, posted: list[tuple[bytes, list[tuple[str, str]]]]
) -> None:
    with capture_logs() as logs:
        async with scene(tmp_path, mcp_wait_cap_seconds=0.01) as at:
            await at.send()
            for body, headers in posted:
                check(await post(at, body, *headers))
            await trio.testing.wait_all_tasks_blocked()
            assert at.served.slots.taken == 0
    assert not [line for line in logs if line["log_level"] in NOISY]
