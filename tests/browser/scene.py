"""A server with something to look at on every screen, and the screens by name: for pictures, and for what all of them
are held to.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from time import time
from typing import Any

import httpx

from tests.live.api import SECRET, Api, github_headers

PUSH: dict[str, Any] = {
    "ref": "refs/heads/main",
    "forced": False,
    "repository": {"id": 1296269, "full_name": "octocat/hello-world", "private": False, "language": None},
    "pusher": {"name": "octocat"},
    "commits": [
        {
            "id": "7fd1a60b01f9",
            "message": "Fix the memory leak in the invoice worker",
            "modified": ["worker.py"],
        },
        {
            "id": "c3d0be41ecbe",
            "message": "Retry the payment after a timeout",
            "modified": ["pay.py", "retry.py"],
        },
    ],
    "head_commit": {"id": "c3d0be41ecbe", "timestamp": "2026-11-30T19:50:26Z", "distinct": True},
}

EVENTS = ("ping", "push", "push", "issues", "pull_request", "push", "release", "push")

STRIPE_SECRET = "whsec_" + "x" * 32


def furnish(api: Api) -> Mapping[str, str]:
    """Fill a new server, and return the screens: paths by name."""
    api.github_inbox(slug="deploys", name="Deploys of the shop", search=True)
    for n, event in enumerate(EVENTS):
        body = json.dumps({**PUSH, "number": n}).encode()
        secret = "another one" if event == "issues" else SECRET
        api.post("deploys", body, headers=github_headers(body, event, f"delivery-{n}", secret))
    api.inbox(slug="payments", name="Payments", verifier="stripe", secret=STRIPE_SECRET)
    for n, kind in enumerate(("payment_intent.succeeded", "invoice.paid", "charge.refunded")):
        body = json.dumps({"id": f"evt_{n}", "object": "event", "type": kind}).encode()
        api.post("payments", body, headers={"Stripe-Signature": _stripe(body)})
    api.inbox(slug="sensors")
    api.post("sensors", bytes(range(256)) * 3, path="/kitchen/3?unit=c")
    api.ok("POST", "/machines", {"name": "laptop"}, status=201)
    for agent_id, role, status in (
        ("builder", "builds and tests", "compiling release 4.2"),
        ("reviewer", "reviews changes", "waiting for the builder"),
    ):
        api.ok("POST", "/agents", {"agent_id": agent_id, "machine": "laptop"}, status=201)
        token = api.ok(
            "POST", "/tokens", {"kind": "agent", "agent": agent_id, "inboxes": ["deploys"]}, status=201
        )["token"]
        agent = api.as_(token)
        card = {"agent_id": agent_id, "role": role, "repo": "octocat/hello-world", "status": status}
        meet(agent, "/agent/checkin", card)
    agent.ok("PUT", "/beacons/leaks", {"about": "memory leaks in workers", "inboxes": ["deploys"]})
    meet(
        agent, "/agent/send", {"to_agent": "builder", "msg_type": "note", "payload": {"text": "Is it green?"}}
    )
    api.ok("POST", "/tokens", {"kind": "agent", "inboxes": ["deploys", "payments"], "name": "ci"}, status=201)
    return SCREENS


@contextmanager
def company(api: Api) -> Iterator[None]:
    """Have somebody listen to two of the inboxes, for as long as the block lasts."""
    with ExitStack() as open_streams:
        for name, inboxes in (("dashboard", ["deploys", "payments"]), ("ledger", ["payments"])):
            headers = {"Authorization": f"Bearer {api.agent(inboxes, name=name)}"}
            asked = httpx.stream(
                "GET", f"{api.url}/v1/stream", params={"inboxes": inboxes}, headers=headers, trust_env=False
            )
            open_streams.enter_context(asked).raise_for_status()
        yield


def meet(api: Api, path: str, body: Mapping[str, Any]) -> None:
    """Call what agents on machines call, which is not below `/v1`."""
    headers = {"Authorization": f"Bearer {api.token}"}
    httpx.post(f"{api.url}{path}", json=body, headers=headers, trust_env=False).raise_for_status()


SCREENS: Mapping[str, str] = {
    "inboxes": "/ui/inboxes",
    "inbox": "/ui/inboxes/deploys",
    "search": "/ui/inboxes/deploys?q=leak",
    "message": "/ui/inboxes/deploys/messages/8",
    "forged": "/ui/inboxes/deploys/messages/4",
    "bytes": "/ui/inboxes/sensors/messages/1",
    "mail": "/ui/inboxes/agent.builder",
    "new-inbox": "/ui/new-inbox",
    "setup": "/ui/inboxes/payments/setup",
    "settings": "/ui/inboxes/deploys/settings",
    "agents": "/ui/agents",
    "agent": "/ui/agents/reviewer",
    "waiting": "/ui/waiting",
    "tokens": "/ui/tokens",
    "token": "/ui/token",
    "server": "/ui/server",
}
"""By name: every screen for who is signed in."""


def _stripe(body: bytes) -> str:
    at = int(time())
    signature = hmac.new(STRIPE_SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={signature}"
