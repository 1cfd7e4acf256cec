"""The answer in an inbox's own words, whatever its verifier: to messages, to duplicates, and not to refusals."""

from pathlib import Path
from typing import Any

import pytest
import trio

from storage.records import Response
from tests.handshakes import DISCORD_SECRET, signed
from tests.wire.client import Reply
from tests.wire.harness import Wire, wire
from web.verify.registry import SCHEMES, described
from web.verify.signing import sample, sign

NOW_US = 1_700_000_000_000_000
URL = "https://hooks.example/in/demo"
OWN = Response(207, "application/vnd.own+json; v=1", '{"ok": true}', {"X-Own": "1", "X-Other": "two words"})

OPTIONS: dict[str, dict[str, Any]] = {
    "hmac": {"header": "X-S", "delivery_id": "body:id"},
    "header": {"header": "X-S"},
}
SECRETS = {
    "standard-webhooks": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "svix": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "basic": "user:password",
}
SIGNS = sorted(name for about in described() if about.signs for name in (about.name, *about.aliases))
"""Of the others, `none` needs no signature, discord is signed with a key of the tests, and sendgrid by its own SDK."""


async def send(served: Wire, verifier: str, secret: str, path: str = "") -> Reply:
    options = OPTIONS.get(verifier, {})
    body = sample(verifier, options, now_us=NOW_US, delivery_id="d-1")
    request = sign(
        verifier,
        options,
        secret.encode(),
        body=body.body,
        content_type=body.content_type,
        now_us=NOW_US,
        url=URL,
        delivery_id="d-1",
    )
    query = f"?{request.query}" if request.query else ""
    fields = [("Content-Type", body.content_type), *request.headers]
    return await post(served, f"/in/demo{request.path}{path}{query}", request.body, fields)


async def post(served: Wire, target: str, body: bytes, headers: Any) -> Reply:
    with trio.fail_after(5):
        async with served.connect() as client:
            return await client.request("POST", target, headers, body)


def assert_own(reply: Reply) -> None:
    assert (reply.status, reply.body) == (207, b'{"ok": true}')
    assert reply.header("content-type") == "application/vnd.own+json; v=1"
    assert (reply.header("x-own"), reply.header("x-other")) == ("1", "two words")
    assert (reply.header("cache-control"), reply.header("x-content-type-options")) == ("no-store", "nosniff")


@pytest.mark.parametrize("verifier", SIGNS)
async def test_every_verifier_s_senders_hear_the_inbox_s_own_words(tmp_path: Path, verifier: str) -> None:
    secret = SECRETS.get(verifier, "a-secret-of-the-tests")
    async with wire(tmp_path, clock=lambda: NOW_US) as served:
        record = await served.inbox(
            verifier=verifier,
            verifier_options=OPTIONS.get(verifier, {}),
            secrets={"key": secret.encode()},
            response=OWN,
            on_unverified="reject",
            signed_url=URL,
        )
        first, second = [await send(served, verifier, secret) for _ in range(2)]
        assert_own(first)
        assert_own(second)
        assert first.header("postroom-duplicate") is None
        listing = await served.service.show(record.slug)
        assert listing is not None
        stored_once = listing.head.latest_seq == 1
        assert (second.header("postroom-duplicate") == "true") == stored_once
        refused = await post(served, "/in/demo", b"{}", ())
        assert (refused.status, refused.code, refused.header("x-own")) == (401, "unauthenticated", None)


async def test_so_do_senders_without_a_signature_and_discord_s(tmp_path: Path) -> None:
    body = b'{"type":2,"id":"1"}'
    headers = [(name.decode(), value.decode()) for name, value in signed("discord", body)]
    async with wire(tmp_path) as served:
        await served.inbox(response=OWN)
        await served.inbox(
            "discord", verifier="discord", secrets={"key": DISCORD_SECRET.encode()}, response=OWN
        )
        assert_own(await post(served, "/in/demo", b"", ()))
        for duplicate in (None, "true"):
            reply = await post(served, "/in/discord", body, headers)
            assert_own(reply)
            assert reply.header("postroom-duplicate") == duplicate


def test_every_verifier_is_among_these() -> None:
    assert {*SIGNS, "none", "discord", "sendgrid"} == set(SCHEMES)


@pytest.mark.parametrize(("status", "length"), [(204, None), (205, "0")])
async def test_an_answer_without_a_body_has_no_type_and_ends_with_its_head(
    tmp_path: Path, status: int, length: str | None
) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(response=Response(status, "text/plain", "", {"X-Own": "1"}))
        for _ in range(2):
            reply = await post(served, "/in/demo", b"x", ())
            assert (reply.status, reply.body, reply.header("x-own")) == (status, b"", "1")
            assert (reply.header("content-length"), reply.header("content-type")) == (length, None)
            assert reply.header("transfer-encoding") is None


async def test_xero_is_answered_without_a_body_because_it_takes_one_for_a_failure(
    tmp_path: Path,
) -> None:
    async with wire(tmp_path, clock=lambda: NOW_US) as served:
        await served.inbox("demo", verifier="xero", secrets={"key": b"s"})
        reply = await send(served, "xero", "s")
        assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize(
    ("content_type", "confined"),
    [
        ("text/html", True),
        ("image/svg+xml", True),
        ("application/xhtml+xml; charset=utf-8", True),
        ("TEXT/HTML", True),
        ("text/plain; charset=utf-8", False),
        ("application/json", False),
    ],
)
async def test_a_browser_runs_nothing_of_an_own_answer(
    content_type: str, confined: bool, tmp_path: Path
) -> None:
    async with wire(tmp_path) as served, served.connect() as client:
        await served.inbox("demo", response=Response(200, content_type, "<script>1</script>", {}))
        reply = await client.request("POST", "/in/demo", body=b"{}")
        assert reply.header("x-content-type-options") == "nosniff"
        policy = reply.header("content-security-policy")
        assert policy == ("sandbox; default-src 'none'" if confined else None)
