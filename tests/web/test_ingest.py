"""Ingest over the whole stack without sockets: what it stores, the order of its refusals, what its answers
say.
"""

import hashlib
import hmac
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.commands import PutSecret
from storage.errors import OutcomeUnknown, StorageDegraded, StorageFull
from storage.memory import MemoryStore
from storage.protocols import Unit
from storage.records import NewInbox, PageQuery, Response, Secret, StoredMessage, Verdict
from storage.secret import SecretBytes
from tests.wire.client import Reply, chunk, head
from tests.wire.harness import Wire, wire

SECRET = b"it is a secret to everybody"
SIGNED = {"verifier": "github"}


async def stored(served: Wire, slug: str = "demo") -> list[StoredMessage]:
    record = await served.service.find(slug)
    assert record is not None
    return (await served.service.page(PageQuery(record.inbox_id, 100, after=0, body_limit=1 << 20)))[0].rows


async def signed_inbox(served: Wire, slug: str = "demo", **settings: Any) -> None:
    record = await served.inbox(slug, **SIGNED, **settings)
    secret = Secret("default", SecretBytes(SECRET), 0)
    await served.service.change_inbox(record.inbox_id, PutSecret(secret, lambda record: None))


def github(body: bytes, delivery: str = "d-1") -> list[tuple[str, str]]:
    digest = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    return [
        ("X-Hub-Signature-256", f"sha256={digest}"),
        ("X-GitHub-Event", "push"),
        ("X-GitHub-Delivery", delivery),
    ]


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def post(served: Wire, target: str, body: Any = b"x", headers: Any = (), method: str = "POST") -> Reply:
    with trio.fail_after(5):
        async with served.connect() as client:
            return await client.request(method, target, headers, body)


async def test_a_message_is_stored_and_answered_with_its_place(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        first = await post(served, "/in/demo", b'{"n": 1}')
        second = await post(served, "/in/demo/x%2Fy//?a=&a=1", b"two", method="PUT")
        assert (first.status, first.json["seq"]) == (200, 1)
        assert second.json["seq"] == 2
        rows = await stored(served)
        assert [row.body for row in rows] == [b'{"n": 1}', b"two"]
        assert b'"path":"/x%2Fy//","query":"a=&a=1"' in rows[1].said
        assert b'"method":"PUT","source_ip":"192.0.2.7"' in rows[1].facts
        assert rows[0].verified == Verdict.NONE


async def test_header_order_and_duplicates_are_kept_and_credentials_are_not(tmp_path: Path) -> None:
    headers = [("X-B", "1"), ("X-A", "2"), ("x-b", "3"), ("Authorization", "Bearer secret")]
    async with wire(tmp_path) as served:
        await served.inbox()
        await post(served, "/in/demo", b"", headers)
        said = (await stored(served))[0].said
        assert b'["x-b","1"],["x-a","2"],["x-b","3"],["authorization","[redacted]"]' in said


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff\xfe", "grün ☃".encode()])
async def test_a_body_cut_at_every_byte_arrives_whole(tmp_path: Path, body: bytes) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        reply = await post(served, "/in/demo", pieces(*(body[i : i + 1] for i in range(len(body)))))
        assert reply.status == 200
        assert ((await stored(served))[0].body or b"") == body


async def test_a_large_body_is_staged_and_leaves_no_file(tmp_path: Path) -> None:
    body = bytes(range(256)) * 4_096
    async with wire(tmp_path) as served:
        await served.inbox()
        assert (await post(served, "/in/demo", body)).status == 200
        row = (await stored(served))[0]
        assert row.size == len(body)
        assert row.body_id is not None
        assert (await served.service.large_body(row.body_id, row.size))[0] == body
    assert os.listdir(tmp_path) == []


async def test_every_method_gets_the_same_404_where_no_webhook_inbox_is(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.service.create_inbox(NewInbox("topic", "topic", "", (await served.inbox()).settings))
        answers = set()
        for target in ("/in/absent", "/in/topic", "/in/", "/in/UPPER", "/in/a%2Fb"):
            for method in ("POST", "PUT", "GET", "DELETE", "PATCH", "OPTIONS"):
                reply = await post(served, target, method=method)
                answers.add((reply.status, reply.body))
            assert (await post(served, target, None, method="HEAD")).status == 404
        assert len(answers) == 1
        assert answers.pop()[0] == 404


async def test_head_and_get_are_alive_and_store_nothing(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        assert (await post(served, "/in/demo?hub=1", None, method="GET")).status == 200
        assert (await post(served, "/in/demo", None, method="HEAD")).status == 200
        assert await stored(served) == []


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "OPTIONS", "BREW"])
async def test_other_methods_are_refused_with_allow(tmp_path: Path, method: str) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        reply = await post(served, "/in/demo", None, method=method)
        assert (reply.status, reply.code) == (405, "method_not_allowed")
        assert reply.header("allow") == "POST, PUT, GET, HEAD"


async def test_every_answer_forbids_caching_and_sniffing(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        for target in ("/in/demo", "/in/absent", "/healthz", "/nothing", "/v1/inboxes"):
            reply = await post(served, target)
            assert reply.header("cache-control") == "no-store"
            assert reply.header("x-content-type-options") == "nosniff"
            assert reply.header("server") is None


async def test_a_valid_signature_is_remembered_with_its_delivery(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await signed_inbox(served)
        body = b'{"zen": "Keep it logically awesome."}'
        first = await post(served, "/in/demo", body, github(body))
        again = await post(served, "/in/demo", body, github(body))
        assert again.json == first.json
        assert (first.header("postroom-duplicate"), again.header("postroom-duplicate")) == (None, "true")
        (row,) = await stored(served)
        assert (row.verified, row.event_type) == (Verdict.VERIFIED, "push")


async def test_an_unverified_request_burns_no_delivery_id(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await signed_inbox(served)
        forged = await post(served, "/in/demo", b"evil", github(b"good"))
        honest = await post(served, "/in/demo", b"good", github(b"good"))
        assert (forged.json["seq"], honest.json["seq"]) == (1, 2)
        assert honest.header("postroom-duplicate") is None
        bad, good = await stored(served)
        assert (bad.verified, good.verified) == (Verdict.FAILED, Verdict.VERIFIED)
        assert b'"verify_error":"signature mismatch"' in bad.facts


async def test_reject_answers_401_and_stores_nothing(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await signed_inbox(served, on_unverified="reject")
        large = b"x" * 400_000
        for body, error in ((b"x", "missing signature"), (large, "missing signature")):
            reply = await post(served, "/in/demo", body)
            assert (reply.status, reply.code) == (401, "unauthenticated")
            assert error in reply.json["error"]["message"]
            assert (reply.header("www-authenticate") or "").startswith("Bearer")
        assert await stored(served) == []


async def test_a_large_duplicate_leaves_no_staged_body(tmp_path: Path) -> None:
    store = MemoryStore()
    units: list[str] = []

    def note(unit: Unit[Any]) -> None:
        units.append(type(unit).__name__)

    store.fault = note
    async with wire(tmp_path, store=store) as served:
        await signed_inbox(served)
        body = b"y" * 300_000
        await post(served, "/in/demo", body, github(body))
        assert "DiscardBody" not in units
        assert (await post(served, "/in/demo", body, github(body))).header("postroom-duplicate") == "true"
        assert units[-1] == "DiscardBody"


async def test_the_inbox_answers_in_its_own_words(tmp_path: Path) -> None:
    own = Response(202, "text/x-ack", "got it", {"X-Mine": "1"})
    async with wire(tmp_path) as served:
        await signed_inbox(served, response=own)
        for duplicate in (None, "true"):
            reply = await post(served, "/in/demo", b"b", github(b"b"))
            assert (reply.status, reply.body) == (202, b"got it")
            assert (reply.header("content-type"), reply.header("x-mine")) == ("text/x-ack", "1")
            assert reply.header("postroom-duplicate") == duplicate


async def test_the_rate_comes_before_everything_about_the_body(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(rate_per_minute=1, max_body_bytes=4)
        assert (await post(served, "/in/demo", b"1234")).status == 200
        both = [("Transfer-Encoding", "chunked")]
        for headers, body in (((), b"12345"), (both, b"1")):
            reply = await post(served, "/in/demo", body, headers)
            assert (reply.status, reply.code) == (429, "rate_limited")
            assert 1 <= int(reply.header("retry-after") or 0) <= 60
        assert (await post(served, "/in/demo", None, method="GET")).status == 200


@pytest.mark.parametrize("target", ["/in/demo", "/v1/inboxes"])
async def test_a_body_framed_twice_is_refused(tmp_path: Path, target: str) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        headers = [("Content-Length", "5"), ("Transfer-Encoding", "chunked"), await served.token()]
        with trio.fail_after(5):
            async with served.connect() as client:
                await client.send(head("POST", target, headers) + chunk(b"hello") + chunk(b""))
                reply = await client.reply()
                assert (reply.status, reply.code) == (400, "invalid_argument")
                await client.until_closed()
        assert await stored(served) == []


async def test_a_declared_body_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(max_body_bytes=100_000)
        with trio.fail_after(5):
            async with served.connect() as client:
                await client.send(head("POST", "/in/demo", [("Content-Length", "100001")]))
                reply = await client.reply()
        assert (reply.status, reply.code) == (413, "payload_too_large")
        assert reply.header("connection") == "close"


async def test_a_chunked_body_is_stopped_at_the_limit(tmp_path: Path) -> None:
    async with wire(tmp_path, max_body_bytes=1_000) as served:
        await served.inbox()
        with trio.fail_after(5):
            async with served.connect() as client:
                await client.send(head("POST", "/in/demo", [("Transfer-Encoding", "chunked")]))
                await client.send(chunk(b"x" * 1_000))
                await client.send(chunk(b"x"))
                reply = await client.reply()  # no last chunk was sent
        assert (reply.status, reply.code) == (413, "payload_too_large")
        async with served.connect() as client:
            assert (await client.request("POST", "/in/demo", body=pieces(b"x" * 1_000))).status == 200


async def test_a_small_rest_is_read_so_that_the_connection_is_kept(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        with trio.fail_after(5):
            async with served.connect() as client:
                for _ in range(3):
                    reply = await client.request("POST", "/in/absent", body=b"x" * 60_000)
                    assert (reply.status, reply.header("connection")) == (404, None)


async def test_a_truncated_body_stores_nothing(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        with trio.fail_after(5):
            async with served.connect() as client:
                await client.send(head("POST", "/in/demo", [("Content-Length", "10")]) + b"12345")
                await client.stream.send_eof()
                await client.until_closed()
            await served.connections.wait_until_none()
        assert await stored(served) == []
        assert (served.front.ingest.in_flight.small, served.front.ingest.in_flight.large) == (0, 0)


async def test_expect_100_continue_is_answered(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        with trio.fail_after(5):
            async with served.connect() as client:
                headers = [("Content-Length", "5"), ("Expect", "100-continue")]
                await client.send(head("POST", "/in/demo", headers))
                assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
                await client.send(b"hello")
                assert (await client.reply()).json["seq"] == 1


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (StorageFull("full"), 507, "insufficient_storage"),
        (StorageDegraded("a broken disk at /dev/sda"), 503, "busy"),
        (OutcomeUnknown("io"), 503, "busy"),
    ],
)
async def test_storage_faults_are_told_apart(
    tmp_path: Path, fault: Exception, status: int, code: str
) -> None:
    store = MemoryStore()
    async with wire(tmp_path, store=store) as served:
        await served.inbox()

        def fail(unit: Unit[Any]) -> None:
            raise fault

        store.fault = fail
        reply = await post(served, "/in/demo")
        assert (reply.status, reply.code) == (status, code)
        assert (reply.header("retry-after") is not None) == (status == 503)
        assert "/dev" not in reply.body.decode()
        unknown = isinstance(fault, OutcomeUnknown)
        assert ("delivery id" in reply.json["error"]["message"]) == unknown
        store.fault = None
        assert (await post(served, "/in/demo")).status == 200


async def test_a_change_of_the_verifier_is_in_force_for_the_next_request(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(verifier="github")
        await post(served, "/in/demo", b"b", github(b"b"))
        record = await served.service.find("demo")
        assert record is not None
        await served.service.change_inbox(
            record.inbox_id, PutSecret(Secret("default", SecretBytes(SECRET), 0), lambda record: None)
        )
        await post(served, "/in/demo", b"b", github(b"b"))
        assert [row.verified for row in await stored(served)] == [Verdict.FAILED, Verdict.VERIFIED]
