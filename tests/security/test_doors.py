"""Every door of the server, tried by tokens that may read something else: nobody reads what is not theirs.

Marks stand in everything that others have: bodies, headers, paths, mail, payloads, beacons, names. Whoever may not
read them tries each route of the OpenAPI document, each tool, streams, waits, gRPC and the web page for it. Routes and
tools that are added later are tried by themselves.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any, NamedTuple

import grpc
import httpx
import pytest

from tests.live.api import Api
from tests.live.harness import Server
from web.grpc.inbox import PULL_INBOX
from web.grpc.postroom.v1.inbox_pb2 import PullInboxRequest

IN_INBOXES, IN_MAIL = "zanzibar", "timbuktu"
"""Words that nothing else has in it: of webhooks and their inbox, and of what only an agent or a machine reads."""

OPEN = {"/healthz", "/readyz", "/openapi.json"}
"""What anybody may have, and what is the same for all."""

SECONDS = 20.0

FIRST_SECONDS = 0.5
"""For the first event of a stream that has one: what is there already comes at once."""

BY_CALLER = ("/agent/", "/v1/inbox:", "/v1/publish", "/v1/beacons")
"""Routes whose bodies name inboxes, agents and messages; those of administration do not get as far as their bodies."""


class Others(NamedTuple):
    """What belongs to others, and for each thing one that there is not."""

    slugs: tuple[tuple[str, str], ...]
    agent: str
    machine: str
    message_id: str


@pytest.fixture(scope="module")
def others(api: Api) -> Others:
    slug = api.inbox(
        slug="theirs",
        name=IN_INBOXES,
        search=True,
        verifier="github",
        secret=f"{IN_INBOXES}-secret-of-theirs",
    )
    for _ in range(2):
        api.send(
            slug,
            f'{{"text": "{IN_INBOXES}"}}'.encode(),
            path=f"/{IN_INBOXES}",
            headers={"X-Said": IN_INBOXES},
        )
    api.ok("POST", "/machines", {"name": "their-machine"}, status=201)
    made = api.ok(
        "POST", "/agents", {"agent_id": "them", "machine": "their-machine", "issue_token": True}, status=201
    )
    them = api.as_(made["token"])
    them.ok("PUT", "/beacons/wanted", {"about": IN_MAIL})
    them.ok(
        "POST",
        "/publish",
        {"type": "created", "kind": "note", "subject": IN_MAIL, "text": IN_MAIL, "to": {"agents": ["them"]}},
    )
    mesh = httpx.Client(
        base_url=api.url, headers={"Authorization": f"Bearer {made['token']}"}, timeout=SECONDS
    )
    with mesh:
        mesh.post(
            "/agent/checkin", json={"agent_id": "them", "status": IN_MAIL, "role": IN_MAIL}
        ).raise_for_status()
        sent = mesh.post("/agent/send", json={"to_agent": "them", "msg_type": "note", "payload": IN_MAIL})
        sent.raise_for_status()
    return Others(
        (("theirs", "nowhere"), ("agent.them", "agent.nobody"), ("machine.their-machine", "machine.none")),
        "them",
        "their-machine",
        sent.json()["id"],
    )


@pytest.fixture(scope="module", params=["named inbox", "agent", "machine", "all inboxes"])
def stranger(request: pytest.FixtureRequest, api: Api, others: Others) -> str:
    """A valid token that may read an inbox of its own; the last kind reads every webhook and topic inbox."""
    mine = api.inbox(search=True)
    api.send(mine, b'{"text": "mine"}')
    if request.param == "named inbox":
        return api.agent([mine])
    if request.param == "all inboxes":
        return api.agent("all")
    name = f"we-{mine}"
    if request.param == "machine":
        api.ok("POST", "/machines", {"name": name}, status=201)
        return str(api.ok("POST", "/tokens", {"kind": "machine", "machine": name}, status=201)["token"])
    body = {"agent_id": name, "issue_token": True, "inboxes": [mine]}
    return str(api.ok("POST", "/agents", body, status=201)["token"])


@pytest.fixture
def marks(request: pytest.FixtureRequest) -> re.Pattern[str]:
    """What the stranger must not see."""
    return re.compile(IN_MAIL if reads_all(request) else f"{IN_INBOXES}|{IN_MAIL}")


@pytest.fixture
def pairs(request: pytest.FixtureRequest, others: Others) -> tuple[tuple[str, str], ...]:
    """The inboxes that the stranger must not read, each with one that there is not."""
    return others.slugs[1:] if reads_all(request) else others.slugs


def reads_all(request: pytest.FixtureRequest) -> bool:
    return "all inboxes" in request.node.callspec.id


Pairs = tuple[tuple[str, str], ...]


class Tried(NamedTuple):
    """One call and what came of it."""

    call: str
    status: int
    text: str


def routes(client: httpx.Client) -> Iterator[tuple[str, str, list[str]]]:
    """Give method, template and the names of parameters in the query of each route."""
    document = client.get("/openapi.json").json()
    for template, methods in document["paths"].items():
        for method, operation in methods.items():
            if template not in OPEN and not template.startswith("/in/"):
                asked = [one["name"] for one in operation.get("parameters", []) if one.get("in") == "query"]
                yield method.upper(), template, asked


def tries(api: Api, token: str, slug: str, others: Others, agent: str, *, whole: bool) -> Iterator[Tried]:
    """Try each route for an inbox and an agent; not `whole`: those that name an inbox."""
    in_path = {
        "slug": slug,
        "seq": "1",
        "name": others.machine if agent == others.agent else "none",
        "agent_id": agent,
        "token_id": "01" + "A" * 24,
        "backup_id": "x",
    }
    in_query: dict[str, Any] = {
        "q": "text",
        "inboxes": slug,
        "agent_id": agent,
        "after": "0",
        "timeout_seconds": "0",
        "bodies": "true",
        "include_stale": "true",
        "peek": "true",
    }
    bodies: list[dict[str, Any]] = [
        {},
        {"agent_id": agent},
        {"agent_id": agent, "message_ids": [others.message_id]},
        {"to_agent": agent, "to": in_path["name"], "msg_type": "ping"},
        {"about": "a word", "inboxes": [slug]},
        {"type": "created", "kind": "note", "subject": "s", "text": "t", "to": {"inbox": slug}},
        {"kind": "agent", "inboxes": [slug]},
    ]
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=api.url, headers=headers, timeout=SECONDS, trust_env=False) as client:
        for method, template, asked in routes(client):
            if not whole and "{slug}" not in template and "inboxes" not in asked:
                continue
            path = re.sub(r"\{(\w+)\}", lambda found: in_path[found[1]], template)
            query = {name: in_query[name] for name in asked if name in in_query}
            sent: list[Any] = bodies if template.startswith(BY_CALLER) else [{}]
            if template.endswith(":wait"):
                sent = [{"timeout_seconds": 0}]
            for body in [None] if method == "GET" else sent:
                yield tried(client, method, path, query, body)


def tried(client: httpx.Client, method: str, path: str, query: dict[str, Any], body: Any) -> Tried:
    seconds = httpx.Timeout(SECONDS, read=FIRST_SECONDS if path.endswith("stream") else SECONDS)
    with client.stream(method, path, params=query, json=body, timeout=seconds) as answer:
        try:
            streamed = "event-stream" in answer.headers.get("content-type", "")
            text = next(answer.iter_text(), "") if streamed else answer.read().decode("utf-8", "replace")
        except httpx.ReadTimeout:  # a stream that has nothing to tell
            text = ""
    own = ("date", "postroom-request-id", "content-length")  # the last for the names that were asked for
    told = " ".join(f"{key}: {value}" for key, value in answer.headers.items() if key not in own)
    return Tried(f"{method} {path} {body}", answer.status_code, told + text)


def test_no_route_shows_what_others_have_nor_that_they_have_it(
    api: Api, others: Others, stranger: str, pairs: Pairs, marks: re.Pattern[str]
) -> None:
    for there, absent in pairs:
        whole = there == pairs[0][0]  # what names no inbox is tried once
        both = zip(
            tries(api, stranger, there, others, others.agent, whole=whole),
            tries(api, stranger, absent, others, "nobody", whole=whole),
            strict=True,
        )
        for one, other in both:
            assert not marks.search(one.text), one.call
            assert one.status == other.status, (one.call, other.call)
            if one.status != 200:  # else it is about the caller's own
                same = one.text.replace(there, absent).replace(others.agent, "nobody")
                assert same == other.text, (one.call, other.call)


def test_no_tool_shows_what_others_have(
    api: Api, others: Others, stranger: str, pairs: Pairs, marks: re.Pattern[str]
) -> None:
    headers = {"Authorization": f"Bearer {stranger}"}
    given = {
        "seq": 1,
        "message_ids": [others.message_id],
        "timeout_seconds": 0,
        "after": 0,
        "bodies": True,
        "agent_id": others.agent,
        "to_agent": others.agent,
        "to": others.machine,
        "include_stale": True,
        "msg_type": "ping",
    }
    with httpx.Client(base_url=api.url, headers=headers, timeout=SECONDS, trust_env=False) as client:

        def ask(method: str, params: dict[str, Any]) -> httpx.Response:
            return client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

        tools = ask("tools/list", {}).json()["result"]["tools"]
        assert {"query_messages", "list_inboxes"} <= {tool["name"] for tool in tools}
        for tool, (slug, _) in product(tools, pairs):
            known = tool["inputSchema"].get("properties", {})
            arguments = {name: value for name, value in (given | {"inbox": slug}).items() if name in known}
            for less in ("", "after", "agent_id", "to"):
                called = {name: value for name, value in arguments.items() if name != less}
                answer = ask("tools/call", {"name": tool["name"], "arguments": called})
                assert not marks.search(answer.text), (tool["name"], called)


def test_grpc_pulls_a_callers_own_inbox_alone(
    grpc_port: int, others: Others, stranger: str, marks: re.Pattern[str]
) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        call = channel.unary_unary(PULL_INBOX, PullInboxRequest.SerializeToString, lambda data: data)
        for more in ((), (("agent", others.agent), ("x-agent-id", others.agent))):
            metadata = (("authorization", f"Bearer {stranger}"), *more)
            told = b""
            with suppress(grpc.RpcError):
                told = call(PullInboxRequest(since=0), metadata=metadata, timeout=SECONDS)
            assert not marks.search(told.decode("latin-1"))


def test_the_page_shows_no_more_than_the_token_that_signed_in(
    api: Api, others: Others, stranger: str, pairs: Pairs, marks: re.Pattern[str]
) -> None:
    browser = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}
    ends = ("", "/messages/1", "/messages/1/raw", "/settings", "/set-up", "?q=text", "/stream")
    with httpx.Client(base_url=api.url, headers=browser, timeout=SECONDS, trust_env=False) as client:
        assert client.post("/ui/sign-in", data={"token": stranger}).status_code == 303
        paths = [f"/ui/inboxes/{slug}{end}" for (slug, _), end in product(pairs, ends)]
        paths += ["/ui/inboxes", "/ui/agents", f"/ui/agents/{others.agent}", "/ui/tokens", "/ui/server"]
        for path in paths:
            shown = client.get(path)
            assert shown.status_code in (200, 403, 404), path
            assert not marks.search(shown.text), path


def test_figures_need_an_administrator_and_name_nobody(
    api: Api, server: Server, others: Others, stranger: str
) -> None:
    found = re.search(r"metrics ready.*(127\.0\.0\.1:\d+)", server.output)
    assert found is not None
    headers = {"Authorization": f"Bearer {stranger}"}
    with httpx.Client(base_url=api.url, headers=headers, timeout=SECONDS, trust_env=False) as client:
        for path in ("/metrics", "/v1/stats", "/v1/backups/x", "/v1/backups/x/file"):
            assert client.get(path).status_code == 403, path
        figures = client.get(f"http://{found[1]}/metrics").text
    labels = " ".join(re.findall(r"^\w+\{(.*)\}", figures, re.M))
    assert 'verifier="github"' in labels
    for name in (IN_INBOXES, "theirs", "them", others.machine):
        assert not re.search(rf"\b{name}\b", labels), name
