"""Which id a repeated delivery is known by, through ingest: the signed one, whatever else stands in the request."""

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from tests.wire.client import Reply
from tests.wire.harness import Wire, wire

NOW_SECONDS = 1_700_000_000
KEY = bytes(range(24))
WHSEC = b"whsec_" + base64.b64encode(KEY)
SIGNERS = [
    *((verifier, brand) for verifier in ("standard-webhooks", "svix") for brand in ("webhook", "svix")),
    ("gitlab", "webhook"),
]

Fields = list[tuple[str, str]]


def signed(brand: str, body: bytes, message_id: str) -> Fields:
    """Return the headers of Standard Webhooks under one of its brands."""
    text = f"{message_id}.{NOW_SECONDS}.".encode() + body
    signature = base64.b64encode(hmac.digest(KEY, text, hashlib.sha256)).decode()
    return [
        (f"{brand}-id", message_id),
        (f"{brand}-timestamp", str(NOW_SECONDS)),
        (f"{brand}-signature", f"v1,{signature}"),
    ]


async def post(served: Wire, body: bytes, fields: Fields) -> Reply:
    async with served.connect() as client:
        reply = await client.request("POST", "/in/demo", fields, body)
    assert reply.status == 200
    return reply


def outcome(reply: Reply) -> tuple[int, bool]:
    return reply.json["seq"], reply.header("postroom-duplicate") == "true"


async def delivery_ids(served: Wire) -> list[Any]:
    async with served.connect() as client:
        page = await client.request("GET", "/v1/inboxes/demo/messages?after=0", [await served.token()])
    return [message["untrusted"]["delivery_id"] for message in page.json["messages"]]


@pytest.mark.parametrize(("verifier", "brand"), SIGNERS)
async def test_a_retry_is_known_by_the_id_that_was_signed(tmp_path: Path, verifier: str, brand: str) -> None:
    async with wire(tmp_path, reading=True, clock=lambda: NOW_SECONDS * 1_000_000) as served:
        await served.inbox(secrets={"default": WHSEC}, verifier=verifier, on_unverified="reject")
        assert outcome(await post(served, b"{}", signed(brand, b"{}", "msg_1"))) == (1, False)
        assert outcome(await post(served, b"{}", signed(brand, b"{}", "msg_1"))) == (1, True)
        assert outcome(await post(served, b"{}", signed(brand, b"{}", "msg_2"))) == (2, False)
        assert await delivery_ids(served) == ["msg_1", "msg_2"]


@pytest.mark.parametrize(("verifier", "brand"), SIGNERS)
async def test_an_id_that_was_not_signed_suppresses_nothing(
    tmp_path: Path, verifier: str, brand: str
) -> None:
    unsigned = [(name, "same") for name in ("webhook-id", "svix-id", "Idempotency-Key") if brand not in name]
    async with wire(tmp_path, reading=True, clock=lambda: NOW_SECONDS * 1_000_000) as served:
        await served.inbox(secrets={"default": WHSEC}, verifier=verifier, on_unverified="reject")
        for seq, body in enumerate((b"1", b"2"), 1):
            first = signed(brand, body, f"msg_{seq}")
            assert outcome(await post(served, body, [*unsigned, *first])) == (seq, False)
            assert outcome(await post(served, body, [*first, *unsigned])) == (seq, True)
        assert await delivery_ids(served) == ["msg_1", "msg_2"]


async def test_an_id_that_is_there_several_times_suppresses_nothing(tmp_path: Path) -> None:
    signature = "sha256=" + hmac.new(b"k", b"{}", hashlib.sha256).hexdigest()
    headers = [("X-Hub-Signature-256", signature)]
    async with wire(tmp_path, reading=True) as served:
        await served.inbox(secrets={"default": b"k"}, verifier="github", on_unverified="reject")
        once = [*headers, ("X-GitHub-Delivery", "d-1")]
        assert outcome(await post(served, b"{}", once)) == (1, False)
        for seq, second in ((2, "d-2"), (3, "d-1")):
            assert outcome(await post(served, b"{}", [*once, ("X-GitHub-Delivery", second)])) == (seq, False)
        assert outcome(await post(served, b"{}", once)) == (1, True)
        assert await delivery_ids(served) == ["d-1", None, None]
