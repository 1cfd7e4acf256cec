"""Signed requests through the whole of ingest: over HTTP, in pieces, from memory and from disk, and read back.

Each vector of `tests/web/verify/vectors.py` that brings a message comes in here, at the time at which it was received.
Two do not: HubSpot's `GET`, because a GET brings no message, is judged by the verifier alone (`tests/web/verify/`), and
Discord's is a PING, which is answered and not stored.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.verify.genuine import VERIFYING, Genuine, genuine
from tests.web.verify.judging import NOW_US, flipped
from tests.web.verify.vectors import VECTORS, Vector
from tests.wire.client import Reply
from tests.wire.harness import Wire, wire
from web.spool import MEMORY_BYTES

SECOND_US = 1_000_000
PUBLIC_URL = "https://example.org"
PING = "discord"
MESSAGES = [vector for vector in VECTORS if vector.through_ingest and vector.name != PING]


def named(vector: Vector) -> str:
    return vector.name


async def inbox_of(served: Wire, vector: Vector, **settings: Any) -> None:
    await served.inbox(
        secrets={"default": vector.secret},
        verifier=vector.preset,
        verifier_options=vector.options,
        signed_url=vector.url,
        **settings,
    )


async def bytewise(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 7):
        yield body[start : start + 7]


async def post(served: Wire, vector: Vector, body: bytes | None = None, *, cut: bool = False) -> Reply:
    sent = vector.body if body is None else body
    async with served.connect() as client:
        return await client.request(
            vector.method, "/in/demo", vector.headers.items(), bytewise(sent) if cut else sent
        )


async def stored(served: Wire) -> list[dict[str, Any]]:
    async with served.connect() as client:
        page = await client.request("GET", "/v1/inboxes/demo/messages?after=0", [await served.token()])
    messages: list[dict[str, Any]] = page.json["messages"]
    return messages


def test_two_vectors_are_no_messages() -> None:
    assert [vector.name for vector in VECTORS if vector not in MESSAGES] == ["hubspot v2, GET", PING]


@pytest.mark.parametrize("vector", MESSAGES, ids=named)
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "in pieces"])
async def test_a_vector_comes_in_verified(tmp_path: Path, vector: Vector, cut: bool) -> None:
    async with wire(tmp_path, reading=True, clock=lambda: vector.at * SECOND_US) as served:
        await inbox_of(served, vector, on_unverified="reject")
        assert (await post(served, vector, cut=cut)).status == 200
        [message] = await stored(served)
    assert (message["verified"], message["verify_error"]) == (True, None)
    assert message["verifier"] == vector.preset
    assert message["untrusted"]["delivery_id"] == vector.id
    assert message["untrusted"]["event_type"] == (vector.type or None)


@pytest.mark.parametrize("vector", MESSAGES, ids=named)
async def test_a_vector_with_one_bit_changed_is_stored_as_what_it_is_or_turned_away(
    tmp_path: Path, vector: Vector
) -> None:
    body = flipped(vector.body, 8)
    async with wire(tmp_path, reading=True, clock=lambda: vector.at * SECOND_US) as served:
        await inbox_of(served, vector)
        assert (await post(served, vector, body)).status == 200
        [message] = await stored(served)
        assert (message["verified"], message["verify_error"]) == (False, "signature mismatch")
    async with wire(tmp_path, reading=True, clock=lambda: vector.at * SECOND_US) as served:
        await inbox_of(served, vector, on_unverified="reject")
        refused = await post(served, vector, body)
        assert (refused.status, refused.code) == (401, "unauthenticated")
        assert refused.json["error"]["message"] == "Not accepted: signature mismatch."
        assert await stored(served) == []


@pytest.mark.parametrize(
    "vector", [v for v in MESSAGES if v.preset in ("slack", "stripe", "standard-webhooks")], ids=named
)
async def test_the_time_of_receipt_decides_about_a_timestamp(tmp_path: Path, vector: Vector) -> None:
    for late, error in (
        (300 * SECOND_US, None),
        (300 * SECOND_US + 1, "timestamp outside tolerance"),
        (-300 * SECOND_US - 1, "timestamp outside tolerance"),
    ):
        async with wire(tmp_path, reading=True, clock=lambda: vector.at * SECOND_US + late) as served:  # noqa: B023 - called within
            await inbox_of(served, vector)
            await post(served, vector)
            [message] = await stored(served)
            assert message["verify_error"] == error


async def test_discord_s_vector_is_a_ping_that_only_a_right_signature_answers(tmp_path: Path) -> None:
    [vector] = [vector for vector in VECTORS if vector.name == PING]
    async with wire(tmp_path, reading=True) as served:
        await inbox_of(served, vector, on_unverified="store")
        answer = await post(served, vector)
        assert (answer.status, answer.json) == (200, {"type": 1})
        assert (await post(served, vector, flipped(vector.body, 8))).status == 401
        assert await stored(served) == []


# -- every verifier ------------------------------------------------------------------------------------------------


async def take(served: Wire, request: Genuine) -> dict[str, Any]:
    """Send a request to an inbox of its verifier and return the message."""
    await served.inbox(
        secrets={"default": request.secret},
        verifier=request.verifier,
        verifier_options=dict(request.options),
        on_unverified="reject",
        signed_url=None if request.query else request.url,
    )
    target = f"/in/demo{request.path.decode()}" + (f"?{request.query.decode()}" if request.query else "")
    headers = [(name.decode(), value.decode("latin-1")) for name, value in request.headers]
    async with served.connect() as client:
        answer = await client.request("POST", target, headers, request.body)
    assert answer.status == 200, answer.body
    [message] = await stored(served)
    return message


@pytest.mark.parametrize("name", VERIFYING)
async def test_a_sample_of_every_verifier_comes_in_verified_and_leaves_no_secret(
    tmp_path: Path, name: str
) -> None:
    request = genuine(name)
    async with wire(tmp_path, reading=True, clock=lambda: NOW_US, public_url=PUBLIC_URL) as served:
        message = await take(served, request)
    assert message["verified"] is True
    assert message["verifier"] == name
    seen = str({**message, "untrusted": {**message["untrusted"], "body": None}})
    assert request.secret.decode() not in seen
    if name in ("basic", "header", "telegram", "gitlab"):
        assert "[redacted]" in [value for _, value in message["untrusted"]["headers"]]
    if request.path:
        assert message["untrusted"]["path"] == "/[redacted]"


@pytest.mark.parametrize("name", ["github", "discord", "sendgrid", "linear", "twilio", "msgraph", "trello"])
async def test_a_body_that_waits_on_disk_is_verified_all_the_same(tmp_path: Path, name: str) -> None:
    filling = b"x" * (MEMORY_BYTES + 1)
    body, kind = b'{"webhookTimestamp":1700000000000,"value":[{"more":"%b"}]}' % filling, "application/json"
    if name == "twilio":
        body, kind = b"field=" + filling, "application/x-www-form-urlencoded"
    request = genuine(name, body, kind)
    async with wire(tmp_path, reading=True, clock=lambda: NOW_US) as served:
        message = await take(served, request)
        assert (message["verified"], message["size"]) == (True, len(request.body))


async def test_twilio_s_body_hash_is_found_in_the_request_beside_the_inbox_s_own_url(tmp_path: Path) -> None:
    request = genuine("twilio", b'{"MessageStatus":"sent"}', "application/json")
    async with wire(tmp_path, reading=True) as served:
        await served.inbox(
            secrets={"default": request.secret}, verifier="twilio", signed_url=request.url.partition("?")[0]
        )
        headers = [(name.decode(), value.decode()) for name, value in request.headers]
        async with served.connect() as client:
            await client.request("POST", f"/in/demo?{request.query.decode()}", headers, request.body)
        [message] = await stored(served)
    assert (message["verified"], message["untrusted"]["event_type"]) == (True, "sent")
