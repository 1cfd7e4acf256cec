"""A client for the black-box tests: plain calls with a token, and webhooks as GitHub signs them.

It knows the surface (`/v1/…`, `/in/…`) and nothing of the server's code. Every call has a deadline of its own, so a
test cannot hang. One `Api` is one connection pool and one token; `as_` gives another token on the same server.
"""

import json
from collections.abc import Iterator
from itertools import count
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import httpx

from tests.live.signing import sha256_signature

CALL_SECONDS = 20.0
"""For one call. Nothing here takes a second; the rest is for a busy machine."""

SECRET = "a secret of the tests"

_numbers = count(1)


class Api:
    """One server as the bearer of one token sees it (`None`: as a stranger does)."""

    def __init__(self, url: str, token: str | None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.url = url
        self.token = token
        self._http = httpx.Client(base_url=url, headers=headers, timeout=CALL_SECONDS, trust_env=False)
        self._sender = httpx.Client(base_url=url, timeout=CALL_SECONDS, trust_env=False)
        self._others: list[Api] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close this client's connections and those of every client that `as_` made of it."""
        for other in self._others:
            other.close()
        self._http.close()
        self._sender.close()

    def as_(self, token: str | None) -> "Api":
        """Return a client with another token; it is closed together with this one."""
        other = Api(self.url, token)
        self._others.append(other)
        return other

    # -- plain calls ----------------------------------------------------------------------------------
    def call(self, method: str, path: str, body: object = None, **how: Any) -> httpx.Response:
        """Make one call below `/v1`, whatever its answer. A `body` is sent as JSON."""
        if body is not None:
            how["json"] = body
        return self._http.request(method, f"/v1{path}", **how)

    def get(self, path: str, **params: Any) -> Any:
        """GET a path that must answer 200; return the decoded JSON. Parameters may be lists and booleans."""
        return self.ok("GET", path, params=query(**params))

    def ok(self, method: str, path: str, body: object = None, *, status: int = 200, **how: Any) -> Any:
        """Make one call that must answer with `status`; return the decoded JSON, None without a body."""
        answer = self.call(method, path, body, **how)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return json.loads(answer.content) if answer.content else None

    def refused(self, method: str, path: str, body: object = None, **how: Any) -> tuple[int, str, str | None]:
        """Make one call that must be refused in the one error shape; return status, code and field."""
        return error_of(self.call(method, path, body, **how))

    # -- inboxes and messages ---------------------------------------------------------------------------
    def inbox(self, **settings: Any) -> str:
        """Create an inbox (with the name of a slug that no other test has, unless one is given); return its slug."""
        body = {"slug": new_slug(), **settings}
        return str(self.ok("POST", "/inboxes", body, status=201)["slug"])

    def github_inbox(self, **settings: Any) -> str:
        """Create an inbox whose messages are verified as GitHub's are, with `SECRET`."""
        return self.inbox(verifier="github", secret=SECRET, **settings)

    def agent(self, inboxes: list[str] | str, **fields: Any) -> str:
        """Issue an agent token for some inboxes (or `"all"`); return its text."""
        body = {"kind": "agent", "inboxes": inboxes, **fields}
        return str(self.ok("POST", "/tokens", body, status=201)["token"])

    def post(self, slug: str, body: bytes = b"{}", path: str = "", **how: Any) -> httpx.Response:
        """Send a webhook, without a token and unsigned, whatever the answer."""
        return self._sender.post(f"/in/{slug}{path}", content=body, **how)

    def send(self, slug: str, body: bytes = b"{}", **how: Any) -> int:
        """Send an unsigned webhook that must be stored; return its seq."""
        answer = self.post(slug, body, **how)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["seq"])

    def github(
        self, slug: str, event: str = "push", body: bytes = b"{}", *, delivery: str = "", secret: str = SECRET
    ) -> httpx.Response:
        """Send a webhook signed as GitHub signs it, whatever the answer. Without a `delivery` it gets a new id."""
        headers = github_headers(body, event, delivery or str(uuid4()), secret)
        return self.post(slug, body, headers=headers)

    def messages(self, slug: str, **params: Any) -> Any:
        """Return one page of an inbox."""
        return self.get(f"/inboxes/{slug}/messages", **params)

    def message(self, slug: str, seq: int, **params: Any) -> Any:
        """Return one whole message."""
        return self.get(f"/inboxes/{slug}/messages/{seq}", **params)

    def forward(self, slug: str, **params: Any) -> Iterator[Any]:
        """Follow `next_after` from the beginning; yield each page, the first empty one last."""
        after = 0
        while True:
            page = self.messages(slug, after=after, **params)
            yield page
            if not page["messages"]:
                return
            after = page["next_after"]

    def backward(self, slug: str, **params: Any) -> Iterator[Any]:
        """Follow `next_before` from the newest; yield each page, the one that says null last."""
        page = self.messages(slug, **params)
        yield page
        while page["next_before"] is not None:
            page = self.messages(slug, before=page["next_before"], **params)
            yield page


def new_slug() -> str:
    """Return a slug that nobody else in this run uses."""
    return f"inbox-{next(_numbers)}-{uuid4().hex[:8]}"


def query(**params: Any) -> list[tuple[str, str]]:
    """Return query parameters as the surface spells them: lists repeated, booleans as true and false."""
    pairs: list[tuple[str, str]] = []
    for name, value in params.items():
        values = value if isinstance(value, list) else [value]
        pairs += [(name, str(one).lower() if isinstance(one, bool) else str(one)) for one in values]
    return pairs


def github_headers(body: bytes, event: str, delivery: str, secret: str = SECRET) -> dict[str, str]:
    """Return the headers by which GitHub names and signs a delivery."""
    return {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": sha256_signature(secret.encode(), body).decode(),
    }


def error_of(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Return status, code and field of a refusal.

    Checks on the way that it has the one error shape, and tells nothing of the server's inside.
    """
    assert answer.status_code >= 400, f"expected a refusal, got {answer.status_code} {answer.text[:500]}"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    document = answer.json()
    assert document.keys() == {"error"}, document
    error = document["error"]
    assert {"code", "message"} <= error.keys() <= {"code", "message", "field", "details"}, error
    assert error["message"], error
    for inside in (
        "Traceback",
        'File "',
        ".py",
        "/home/",
        "/tmp/",
        "/usr/",
        "sqlite",
        "apsw",
        "msgspec",
        "0x7f",
    ):
        assert inside not in answer.text, f"{inside!r} leaves the server: {answer.text}"
    if answer.status_code in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
    return answer.status_code, error["code"], error.get("field")


def only(api: Api, slug: str) -> Any:
    """Return one inbox as the list shows it."""
    (listed,) = api.as_(api.agent([slug])).get("/inboxes")["inboxes"]
    return listed


def seqs(page: Any) -> list[int]:
    """Return the seqs of a page's messages, in its order."""
    return [message["seq"] for message in page["messages"]]
