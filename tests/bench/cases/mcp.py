"""MCP: `tools/call` of `query_messages`, 20 messages of together about 20 KiB, against the official Python SDK, and
against a plain ASGI application that answers with the bytes of such a page.

The same tool over the same messages, served by the SDK's low-level server in stateless JSON mode: under the Hypercorn
that serves Postroom, and under uvicorn, its usual host. The pages begin everywhere among the newest messages, where
agents read; the SDK's server has all of them in memory and asks nobody (`servers/sdk_tools.py`), Postroom has these in
memory, and checks the caller's token on every call. Those further back, which it reads from its database, are a figure
of their own.
"""

import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec

from actors.tail import TAIL_ENTRIES
from tests.bench.calls import Calls, Job
from tests.bench.client import Line
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import CLIENT_NEAR_LIMIT, Bench, run_client
from tests.bench.processes import Server, running
from tests.bench.servers.seeded import Seeded
from tests.bench.subject import NotWhatItSays, Subject, postroom
from web.params import MAX_LIMIT

NAME = "mcp"

ASGI_GOAL = 0.7
"""Of the plain ASGI application's requests a second, with an answer of the same size."""

HYPERCORN_GOAL = 4.0
UVICORN_GOAL = 1.3
"""Of the SDK's calls a second."""

SAME_SIZE = 0.02
"""By how much the sizes of the bare answer and of Postroom's may differ: seqs and times have more or fewer digits."""

CONNECTIONS = 8
"""Agents that call at the same time. One alone would measure latency, many more only the length of a queue."""

LIMIT = 20
MESSAGES = 200
NEWEST = range(MESSAGES - TAIL_ENTRIES, MESSAGES - LIMIT + 1)
"""Cursors of agents that keep up: after each there is a whole page, and all of it is in the inbox's tail."""
FURTHER_BACK = range(MESSAGES - TAIL_ENTRIES)
"""Those of agents that catch up: these pages are read from the database, none from the tail."""
FILLING_BYTES = 300
"""Of each body, which makes a message about 1 KiB and 20 of them about 20 KiB."""

SHARE_OF_REQUESTS = 4
"""A round has the effort's requests divided by this: an answer is twenty times as long as one of ingest."""

SLUG = "bench"
VERSION = "2025-11-25"
"""The version that most clients speak; the SDK is as fast with the newest one."""

POSTROOM = "Postroom"
CATCHING_UP = "Postroom, further back"
HYPERCORN = "SDK on Hypercorn"
UVICORN = "SDK on uvicorn"
ASGI = "bare ASGI"


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory)
        directory = Path(stack.enter_context(made))
        subject = stack.enter_context(postroom(directory))
        _fill(subject)
        token = subject.call("POST", "/v1/tokens", {"kind": "agent", "inboxes": [SLUG]})["token"]
        credentials = ("Authorization", f"Bearer {token}")
        seeded = directory / "seeded.json"
        seeded.write_bytes(msgspec.json.encode(_seeded(subject.server, credentials)))
        servers = {
            POSTROOM: subject.server,
            HYPERCORN: stack.enter_context(_sdk("sdk_hypercorn", seeded, directory)),
            UVICORN: stack.enter_context(_sdk("sdk_uvicorn", seeded, directory)),
        }
        size = _compare_answers(servers, credentials)
        bare = stack.enter_context(_bare(subject.server, credentials, directory))
        contenders = {
            name: _contender(bench, server, credentials, NEWEST)
            for name, server in ({ASGI: bare} | servers).items()
        }
        contenders[CATCHING_UP] = _contender(bench, subject.server, credentials, FURTHER_BACK)
        measured = bench.rounds(NAME, contenders)
    bench.note(f"{NAME}: {LIMIT} messages, {size:,} bytes of structured content; {CONNECTIONS} connections.")
    for name, of in measured.items():
        _note_medians(bench, name, of)
    _compare_sizes(measured)
    speeds = {name: [calls.per_second for calls in of] for name, of in measured.items()}
    figures = []
    for figure, own, goals in (
        ("calls", POSTROOM, (ASGI_GOAL, HYPERCORN_GOAL, UVICORN_GOAL)),
        ("calls_further_back", CATCHING_UP, (None, None, None)),
    ):
        for name, goal in zip((ASGI, HYPERCORN, UVICORN), goals, strict=True):
            figures.append(
                compare(
                    f"{NAME}.{figure}",
                    speeds[own],
                    name,
                    speeds[name],
                    unit="/s",
                    better="higher",
                    goal=goal,
                )
            )
    return figures


def _fill(subject: Subject) -> None:
    subject.call("POST", "/v1/inboxes", {"slug": SLUG})
    headers = [("Content-Type", "application/json"), ("X-GitHub-Event", "pull_request")]
    for number in range(MESSAGES):
        body = json.dumps({"action": "opened", "number": number, "title": "x" * FILLING_BYTES}).encode()
        subject.post(SLUG, headers, body)


def _seeded(server: Server, credentials: tuple[str, str]) -> Seeded:
    """Return the tool and the messages as Postroom gives them."""
    tools = call_once(server, "tools/list", {}, credentials)["tools"]
    [tool] = [tool for tool in tools if tool["name"] == "query_messages"]
    messages: list[Any] = []
    while len(messages) < MESSAGES:
        page = _page(server, len(messages), MAX_LIMIT, credentials)
        messages += page["messages"]
    return Seeded(tool, messages, page["epoch"])


def _sdk(module: str, seeded: Path, directory: Path) -> Any:
    return running(module.replace("_", "-"), ("-m", f"tests.bench.servers.{module}", str(seeded)), directory)


def _bare(server: Server, credentials: tuple[str, str], directory: Path) -> Any:
    """Return the plain application that answers with the bytes that Postroom gave for one page."""
    line = Line(server.port)
    try:
        line.send(request(server, "tools/call", _arguments(NEWEST[0], LIMIT), credentials))
        while (answer := line.receive()) is None:
            pass
    finally:
        line.socket.close()
    page = directory / "page.json"
    page.write_bytes(answer)
    return running("bare-asgi-page", ("-m", "tests.bench.servers.bare_asgi_page", str(page)), directory)


def _compare_sizes(measured: dict[str, list[Calls]]) -> None:
    """Raise `NotWhatItSays` unless the plain application's answers are as large as Postroom's."""
    own = quantile([length for calls in measured[POSTROOM] for length in calls.lengths], 0.5)
    bare = measured[ASGI][0].lengths[0]
    if abs(bare - own) > SAME_SIZE * own:
        raise NotWhatItSays(f"{ASGI} answers with {bare} bytes, {POSTROOM} with {own:.0f}")


def _contender(
    bench: Bench, server: Server, credentials: tuple[str, str], cursors: range
) -> Callable[[int], Calls]:
    """Return what measures one server for a round: pages after each of these cursors in turn."""
    requests = [request(server, "tools/call", _arguments(after, LIMIT), credentials) for after in cursors]
    count = bench.effort.requests // SHARE_OF_REQUESTS

    def of_round(number: int) -> Calls:
        calls = run_client("tests.bench.calls", Job(server.port, requests, count, CONNECTIONS), Calls)
        if calls.answers != count + CONNECTIONS or calls.lengths[0] < LIMIT * FILLING_BYTES * 2:
            raise NotWhatItSays(f"{server.name}: {calls.answers} answers of {calls.lengths} bytes")
        return calls

    return of_round


def _compare_answers(servers: dict[str, Server], credentials: tuple[str, str]) -> int:
    """Return the size of a page, when all servers give the same one. Raises `NotWhatItSays`."""
    pages = {name: _page(server, 7, LIMIT, credentials) for name, server in servers.items()}
    if any(page != pages[POSTROOM] for page in pages.values()) or len(pages[POSTROOM]["messages"]) != LIMIT:
        raise NotWhatItSays("the servers do not answer alike")
    return len(msgspec.json.encode(pages[POSTROOM]))


def _page(server: Server, after: int, limit: int, credentials: tuple[str, str]) -> Any:
    result = call_once(server, "tools/call", _arguments(after, limit), credentials)
    [block] = result["content"]
    if json.loads(block["text"]) != result["structuredContent"]:
        raise NotWhatItSays(f"{server.name}: the text is not the structured content")
    return result["structuredContent"]


def _arguments(after: int, limit: int) -> dict[str, Any]:
    arguments = {"inbox": SLUG, "after": after, "limit": limit, "bodies": True}
    return {"name": "query_messages", "arguments": arguments}


def call_once(server: Server, method: str, params: dict[str, Any], credentials: tuple[str, str]) -> Any:
    """Make one call and return its result. Raises `NotWhatItSays`."""
    answer = httpx.post(
        f"{server.url}/mcp", content=_message(method, params), headers=_headers(credentials), trust_env=False
    )
    document = answer.json() if answer.status_code == httpx.codes.OK else {}
    if "result" not in document or document["result"].get("isError"):
        raise NotWhatItSays(f"{server.name}, {method}: {answer.status_code} {answer.text[:500]}")
    return document["result"]


def request(server: Server, method: str, params: dict[str, Any], credentials: tuple[str, str]) -> bytes:
    """Return a call as the bytes of a request."""
    body = _message(method, params)
    head = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        *(f"{name}: {value}" for name, value in _headers(credentials).items()),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def _message(method: str, params: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def _headers(credentials: tuple[str, str]) -> dict[str, str]:
    """Return the headers of the official clients."""
    return {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": VERSION,
        credentials[0]: credentials[1],
    }


def _note_medians(bench: Bench, name: str, of: list[Calls]) -> None:
    """Say what a server and the client did, in absolute terms."""
    rate = quantile([calls.per_second for calls in of], 0.5)
    p50 = quantile([calls.p50_ms for calls in of], 0.5)
    client = quantile([calls.cpu_seconds / calls.seconds for calls in of], 0.5)
    warning = " – too busy, the figures are the client's" if client > CLIENT_NEAR_LIMIT else ""
    bench.note(
        f"  {name}: {rate:,.0f} calls/s, p50 {p50:.1f} ms; the client used {client:.0%} of a core{warning}"
    )
