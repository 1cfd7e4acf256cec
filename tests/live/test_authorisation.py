"""Who may do what: every route for every kind of caller as one table, and what a refusal gives away, which is nothing.

Black-box: written from sections 5 and 9 of the surface and from the inlet contract, over real sockets. Time tells
too: an inbox that is absent and one that is forbidden take equally long to be refused. Long, because the table is one.
"""

import json
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import perf_counter_ns
from typing import NamedTuple, cast
from uuid import uuid4

import httpx
import pytest

from actors.service import Service
from tests.live.api import Api, error_of, new_slug
from tests.live.harness import Server
from tests.live.rawhttp import Line, Sender, head
from tests.wire.mesh_scene import OPERATIONS
from web.app import admin_routes, read_routes
from web.ingest import Ingest
from web.options import WebOptions
from web.pulse import Pulse
from web.samples import Samples
from web.slots import Slots

# -- the callers -----------------------------------------------------------------------------------

CALLERS = (
    "no token",
    "wrong token",
    "revoked token",
    "expired token",
    "another inbox's agent",
    "the inbox's agent",
    "all-inboxes agent",
    "bound agent",
    "admin",
)

EXPIRY_SECONDS = 0.3
"""From making the expiring token: long enough to be in the future when the server looks at it."""


@dataclass(frozen=True)
class Callers:
    """The tokens of all callers, the one inbox that `the inbox's agent` is for, and the agent of `bound agent`, whose
    token reads that inbox, too.
    """

    slug: str
    agent: str
    tokens: dict[str, str | None]

    def bearer(self, caller: str) -> bytes:
        """Return the value of a caller's Authorization header."""
        return f"Bearer {self.tokens[caller]}".encode()


@pytest.fixture(scope="module")
def callers(api: Api) -> Callers:
    """One token of each kind on the shared server; the expired one has expired when this returns."""
    slug, other, agent = api.inbox(), api.inbox(), new_agent(api)
    api.send(slug, b'{"n": 1}')
    expires_at = datetime.now(UTC) + timedelta(seconds=EXPIRY_SECONDS)
    expired = api.agent([slug], expires_at=expires_at.isoformat())
    revoked = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": [slug]}, status=201)
    api.call("DELETE", f"/tokens/{revoked['token_id']}").raise_for_status()
    tokens: dict[str, str | None] = {
        "no token": None,
        "wrong token": "prm_admin_" + "A" * 43,
        "revoked token": revoked["token"],
        "expired token": expired,
        "another inbox's agent": api.agent([other]),
        "the inbox's agent": api.agent([slug]),
        "all-inboxes agent": api.agent("all"),
        "bound agent": api.agent([slug], agent=agent),
        "admin": api.token,
    }
    client = api.as_(expired)
    while client.call("GET", "/me").status_code == 200:
        assert datetime.now(UTC) < expires_at + timedelta(seconds=5), "the token should have expired by now"
    return Callers(slug, agent, tokens)


def new_agent(api: Api) -> str:
    """Make an agent; return its id."""
    agent_id = f"agent-{uuid4().hex[:12]}"
    api.ok("POST", "/agents", {"agent_id": agent_id}, status=201)
    return agent_id


def new_machine(api: Api) -> str:
    """Make a machine; return its name."""
    name = f"machine-{uuid4().hex[:12]}"
    api.ok("POST", "/machines", {"name": name}, status=201)
    return name


# -- the table -------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """What one caller gets: a status, and the code of the error if it is one."""

    status: int
    code: str | None = None


OK, CREATED, GONE, PARTIAL = Cell(200), Cell(201), Cell(204), Cell(206)
STRANGER = Cell(401, "unauthenticated")
FORBIDDEN = Cell(403, "permission_denied")
HIDDEN = Cell(404, "not_found")
NOT_INDEXED = Cell(409, "conflict")
"""Search is off for the inbox: told to whoever reads it alone."""


class Route(NamedTuple):
    """One route. `{slug}` in its path is an inbox with one message (and one secret), `{token}` a token's id, `{agent}`
    an agent, `{machine}` a machine.

    `agents`: what an agent gets whatever its inboxes are, None where it depends on them; `admin`: what an admin gets;
    `bound`: what a token gets that is bound to an agent, where that makes a difference.
    `consumes`: the call changes its inbox or token, so each caller gets one of its own.
    """

    method: str
    path: str
    admin: Cell
    agents: Cell | None = FORBIDDEN
    body: object = None
    consumes: bool = False
    bound: Cell | None = None


INTEREST = {"about": "deployments"}
NOTE = {"type": "created", "kind": "note", "subject": "a", "text": "b"}

ROUTES = (
    Route("GET", "/me", OK, OK),
    Route("GET", "/inboxes", OK, OK),
    Route("GET", "/inboxes/{slug}/messages", OK, None),
    Route("GET", "/inboxes/{slug}/messages?after=0&bodies=true", OK, None),
    Route("GET", "/inboxes/{slug}/messages/1", OK, None),
    Route("GET", "/inboxes/{slug}/messages/1/raw", OK, None),
    Route("HEAD", "/inboxes/{slug}/messages/1/raw", OK, None),
    Route("GET", "/inboxes/{slug}/search?q=a", NOT_INDEXED, None),
    Route("GET", "/inboxes/{slug}/wait?after=0", OK, None),
    Route("HEAD", "/inboxes/{slug}/stream", OK, None),
    Route("GET", "/inboxes/{slug}/stream?after=0", OK, None),
    Route("GET", "/stream?inboxes={slug}", OK, None),
    Route("POST", "/inboxes", CREATED, body={}),
    Route("GET", "/inboxes/{slug}", OK),
    Route("PATCH", "/inboxes/{slug}", OK, body={"name": "changed"}, consumes=True),
    Route("DELETE", "/inboxes/{slug}", GONE, consumes=True),
    Route("POST", "/inboxes/{slug}:purge", OK, consumes=True),
    Route("POST", "/inboxes/{slug}:sample", OK, consumes=True),
    Route("POST", "/inboxes/{slug}/secrets", CREATED, body={"value": "x"}, consumes=True),
    Route("DELETE", "/inboxes/{slug}/secrets/default", GONE, consumes=True),
    Route("DELETE", "/inboxes/{slug}/messages/1", GONE, consumes=True),
    Route("POST", "/tokens", CREATED, body={"kind": "agent", "inboxes": "all"}),
    Route("GET", "/tokens", OK),
    Route("PATCH", "/tokens/{token}", OK, body={"name": "changed"}, consumes=True),
    Route("DELETE", "/tokens/{token}", GONE, consumes=True),
    Route("POST", "/agents", CREATED, body={"agent_id": f"agent-{uuid4().hex[:12]}"}),
    Route("GET", "/agents", OK),
    Route("GET", "/agents/{agent}", OK),
    Route("DELETE", "/agents/{agent}", GONE, consumes=True),
    Route("GET", "/inboxes/{slug}/readers", OK),
    Route("POST", "/machines", CREATED, body={"name": f"machine-{uuid4().hex[:12]}"}),
    Route("GET", "/machines", OK),
    Route("GET", "/machines/{machine}", OK),
    Route("DELETE", "/machines/{machine}", GONE, consumes=True),
    Route("POST", "/inbox:pull", FORBIDDEN, bound=OK),
    Route("POST", "/inbox:wait", FORBIDDEN, body={"timeout_seconds": 0}, bound=OK),
    Route("GET", "/inbox:stream", FORBIDDEN, bound=OK),
    Route("GET", "/inbox", FORBIDDEN, bound=OK),
    Route("POST", "/publish", FORBIDDEN, body=NOTE, bound=OK),
    Route("PUT", "/beacons", FORBIDDEN, body={"name": "all", **INTEREST}, bound=OK),
    Route("PUT", "/beacons/default", FORBIDDEN, body=INTEREST, bound=OK),
    Route("GET", "/beacons", FORBIDDEN, bound=OK),
    Route("GET", "/beacons/default", FORBIDDEN, bound=OK),
    Route("POST", "/beacons:test", FORBIDDEN, body=INTEREST, bound=OK),
    Route("DELETE", "/beacons/default", FORBIDDEN, bound=GONE),
)

ABSENT_ROUTES = tuple(route for route in ROUTES if "{slug}" in route.path)
ADMIN_ROUTES = tuple(route for route in ROUTES if route.agents == FORBIDDEN and route.bound is None)
READ_ROUTES = tuple(route for route in ROUTES if route.agents is None)


def expected(route: Route, caller: str) -> Cell:
    """Return the cell of the table."""
    if caller in ("no token", "wrong token", "revoked token", "expired token"):
        return STRANGER
    if caller == "admin":
        return route.admin
    if caller == "bound agent" and route.bound is not None:
        return route.bound
    if route.agents is not None:
        return route.agents
    return HIDDEN if caller == "another inbox's agent" else route.admin


def answer_of(client: Api, route: Route, path: str) -> httpx.Response:
    """Make the call. A stream has no end: of one that is granted only the head is read."""
    if "stream" not in path:
        return client.call(route.method, path, route.body)
    with client._http.stream(route.method, f"/v1{path}") as answer:
        if answer.status_code != 200:
            answer.read()
        return answer


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def clients(api: Api, callers: Callers) -> dict[str, Api]:
    """One client for each caller."""
    return {caller: api.as_(token) for caller, token in callers.tokens.items()}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_every_route_answers_every_caller_as_the_table_says(
    api: Api, callers: Callers, clients: dict[str, Api], route: Route, caller: str
) -> None:
    slug, token_id, agent_id = callers.slug, "", callers.agent
    if route.consumes and "{slug}" in route.path:
        slug = api.inbox(verifier="github", secret="x")
        api.send(slug)
    if "{token}" in route.path:
        token_id = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": "all"}, status=201)["token_id"]
    if route.consumes and "{agent}" in route.path:
        agent_id = new_agent(api)
    machine = new_machine(api) if "{machine}" in route.path else ""
    path = route.path.format(slug=slug, token=token_id, agent=agent_id, machine=machine)
    answer = answer_of(clients[caller], route, path)
    cell = expected(route, caller)
    assert answer.status_code == cell.status
    assert ("www-authenticate" in answer.headers) == (cell.status == 401)
    if cell.code is not None and route.method != "HEAD":
        assert error_of(answer)[1] == cell.code
    if cell == STRANGER:
        challenge = answer.headers["www-authenticate"]
        assert challenge.startswith("Bearer")
        assert ("invalid_token" in challenge) == (caller != "no token"), "RFC 6750, section 3"
    if cell in (STRANGER, FORBIDDEN, HIDDEN) and route.consumes and "{slug}" in route.path:
        assert api.get(f"/inboxes/{slug}")["name"] == ""
        assert api.message(slug, 1)["seq"] == 1


def test_the_table_has_every_route_of_the_server() -> None:
    no_service = cast(Service, None)  # a table of routes is made without asking anything
    options = WebOptions()
    tabled = {
        (
            route.method,
            "/v1"
            + route.path.partition("?")[0]
            .replace("/1", "/{seq}")
            .replace("/default", "/{name}")
            .replace("{machine}", "{name}"),
        )
        for route in ROUTES
    }
    served = {
        (route.method, route.template.replace("{token_id}", "{token}").replace("{agent_id}", "{agent}"))
        for route in (
            *read_routes(no_service, options, Slots(1, 1), Pulse()),
            *admin_routes(no_service, options),
            *Samples(no_service, cast(Ingest, None)).routes(),
        )
    }
    of_the_mesh = set(OPERATIONS.values())  # tests/wire/test_mesh_authorisation.py
    assert served == tabled - {route for route in tabled if route[0] == "HEAD"} | of_the_mesh


def test_the_list_shows_each_caller_its_own_inboxes(callers: Callers, clients: dict[str, Api]) -> None:
    mine = [inbox["slug"] for inbox in clients["the inbox's agent"].get("/inboxes")["inboxes"]]
    others = [inbox["slug"] for inbox in clients["another inbox's agent"].get("/inboxes")["inboxes"]]
    assert mine == [callers.slug]
    assert len(others) == 1
    assert callers.slug not in others


# -- what a refusal gives away ---------------------------------------------------------------------


@pytest.mark.parametrize("route", READ_ROUTES, ids=name_of)
def test_absent_and_forbidden_inboxes_are_the_same_bytes(
    server: Server, callers: Callers, route: Route
) -> None:
    sender = Sender(server.url)
    replies = []
    for slug in (callers.slug, new_slug()):
        target = f"/v1{route.path.format(slug=slug)}".encode()
        bearer = callers.bearer("another inbox's agent")
        replies.append(sender.request(route.method.encode(), target, [(b"Authorization", bearer)]).undated)
    assert replies[0] == replies[1]
    assert replies[0][0] == 404


@pytest.mark.parametrize("caller", ["another inbox's agent", "the inbox's agent", "all-inboxes agent"])
@pytest.mark.parametrize("route", ADMIN_ROUTES, ids=name_of)
def test_administration_refuses_an_agent_before_it_looks_anything_up(
    clients: dict[str, Api], callers: Callers, route: Route, caller: str
) -> None:
    answers = [
        clients[caller].call(
            route.method, route.path.format(slug=slug, token=token, agent=token, machine=token), body
        )
        for slug, token in ((callers.slug, "x"), (new_slug(), "y"), ("NO-SLUG", "%00"))
        for body in (route.body, {"nonsense": 1})
    ]
    assert {error_of(answer)[:2] for answer in answers} == {(403, "permission_denied")}
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize("route", ABSENT_ROUTES, ids=name_of)
def test_an_admin_is_told_that_an_inbox_is_absent(clients: dict[str, Api], route: Route) -> None:
    answer = clients["admin"].call(route.method, route.path.format(slug=new_slug()), route.body)
    assert answer.status_code == 404


@pytest.mark.parametrize("caller", ["no token", "wrong token", "revoked token", "expired token"])
def test_a_stranger_cannot_tell_addresses_apart(
    clients: dict[str, Api], callers: Callers, caller: str
) -> None:
    paths = (
        "/me",
        "/nothing",
        "/inboxes",
        f"/inboxes/{callers.slug}/messages?limit=x",
        "/inboxes/absent/messages",
    )
    answers = [clients[caller].call(method, path) for path in paths for method in ("GET", "POST", "BREW")]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize(
    "lines",
    [
        ["Basic {}"],
        ["{}"],
        ["Bearer"],
        ["Bearer "],
        ["Bearer {}x"],
        ["Bearer {} x"],
        ["Bearer {}", "Bearer {}"],
        ["Bearer wrong", "Bearer {}"],
        ['Bearer "{}"'],
        ["Bearer " + "A" * 5000],
        ["Bearer \xff\xfe"],
    ],
    ids=repr,
)
def test_only_one_bearer_token_in_one_header_is_a_token(server: Server, lines: list[str]) -> None:
    headers = [(b"Authorization", line.format(server.token).encode("latin-1")) for line in lines]
    reply = Sender(server.url).request(b"GET", b"/v1/me", headers)
    assert (reply.status, reply.json()["error"]["code"]) == (401, "unauthenticated")


def test_the_scheme_is_written_in_any_case(server: Server) -> None:
    for scheme in ("bearer", "BEARER"):
        headers = [(b"authorization", f"{scheme} {server.token}".encode())]
        assert Sender(server.url).request(b"GET", b"/v1/me", headers).status == 200


def test_a_token_in_the_url_is_no_token(api: Api) -> None:
    for name in ("access_token", "token", "authorization"):
        status, code, _ = api.as_(None).refused("GET", f"/me?{name}={api.token}")
        assert (status, code) == (401, "unauthenticated")


def test_ingest_asks_for_no_token_and_gains_nothing_from_one(api: Api, callers: Callers) -> None:
    slug = api.inbox()
    for token in callers.tokens.values():
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        assert api.post(slug, headers=headers).status_code == 200
    page = api.call("GET", f"/inboxes/{slug}/messages?after=0&bodies=true")
    assert not any(token in page.text for token in callers.tokens.values() if token is not None)


def test_a_private_inboxs_slug_is_hidden_from_a_token_for_all_inboxes(clients: dict[str, Api]) -> None:
    absent = clients["another inbox's agent"].call("GET", f"/inboxes/{new_slug()}/messages")
    for slug in ("agent.someone", "machine.m1"):
        answer = clients["all-inboxes agent"].call("GET", f"/inboxes/{slug}/messages")
        assert (answer.status_code, answer.content) == (404, absent.content)


# -- how long a refusal takes ----------------------------------------------------------------------

TIMED_CALLS = 500
"""Of each kind, one after another in random order on one connection."""

MOST_APART = 1.2
ATTEMPTS = 3
"""A pause of the machine in one series moves a median; it does not do so three times. A real difference does."""

TIMED = [route for route in READ_ROUTES if route.method == "GET" and "?" not in route.path]


@pytest.fixture
def line(server: Server) -> Iterator[Line]:
    """One connection that stays open."""
    with Sender(server.url).line() as connection:
        yield connection


@pytest.mark.parametrize("route", TIMED, ids=name_of)
def test_absent_and_forbidden_inboxes_take_equally_long(line: Line, callers: Callers, route: Route) -> None:
    token = callers.bearer("another inbox's agent")

    def request(slug: str) -> bytes:
        return head(b"GET", f"/v1{route.path.format(slug=slug)}".encode(), [(b"Authorization", token)])

    absent = new_slug().ljust(len(callers.slug), "x")[: len(callers.slug)]
    takes_equally_long(
        line, name_of(route), {"absent": request(absent), "forbidden": request(callers.slug)}, 404
    )


@pytest.mark.parametrize("tool", ["query_messages", "get_message", "wait_for_messages"])
def test_a_tool_takes_equally_long_for_absent_and_forbidden_inboxes(
    line: Line, callers: Callers, tool: str
) -> None:
    token = callers.bearer("another inbox's agent")
    more = {"get_message": {"seq": 1}, "wait_for_messages": {"after": 0}}.get(tool, {})

    def request(slug: str) -> bytes:
        params = {"name": tool, "arguments": {"inbox": slug, **more}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = [(b"Authorization", token), (b"Content-Type", b"application/json")]
        # The Host of a loopback server's endpoint is a loopback name.
        start = head(b"POST", b"/mcp", [*headers, (b"Content-Length", b"%d" % len(body))])
        return start.replace(b"Host: postroom.test", b"Host: localhost") + body

    absent = new_slug().ljust(len(callers.slug), "x")[: len(callers.slug)]
    takes_equally_long(line, tool, {"absent": request(absent), "forbidden": request(callers.slug)}, 200)


def takes_equally_long(line: Line, name: str, requests: dict[str, bytes], status: int) -> None:
    apart = []
    for _ in range(ATTEMPTS):
        medians = timed(line, requests, status)
        apart.append(max(medians) / min(medians))
        print(f"{name}: {apart[-1]:.3f} times apart")
        if apart[-1] <= MOST_APART:
            return
    pytest.fail(f"the medians are {', '.join(f'{ratio:.2f}' for ratio in apart)} times apart")


def timed(line: Line, requests: dict[str, bytes], status: int) -> list[float]:
    """Return the median duration of each request, in ns."""
    taken: dict[str, list[int]] = {kind: [] for kind in requests}
    order = list(requests) * TIMED_CALLS
    random.shuffle(order)
    for kind in order:
        start = perf_counter_ns()
        line.send(requests[kind])
        reply = line.reply("GET")
        taken[kind].append(perf_counter_ns() - start)
        assert reply.status == status
    return [statistics.median(durations) for durations in taken.values()]
