"""Handshakes on their way through ingest: when they are answered, what they leave behind, and what they never do."""

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from actors.units import Reading
from storage.errors import OutcomeUnknown, StorageDegraded, StorageFull
from storage.memory import MemoryStore
from storage.protocols import Unit
from storage.records import PageQuery, StoredMessage, Verdict
from tests.handshakes import DISCORD_SECRET, HOOK_SECRET, SLACK, ZOOM, signed
from tests.wire.client import Reply
from tests.wire.harness import Wire, wire

ASANA = [("X-Hook-Secret", HOOK_SECRET.decode())]


async def stored(served: Wire, slug: str = "demo") -> list[StoredMessage]:
    record = await served.service.find(slug)
    assert record is not None
    return (await served.service.page(PageQuery(record.inbox_id, 100, after=0)))[0].rows


async def post(
    served: Wire, target: str, body: bytes = b"{}", headers: Any = (), method: str = "POST"
) -> Reply:
    with trio.fail_after(5):
        async with served.connect() as client:
            fields = [(_text(name), _text(value)) for name, value in headers]
            return await client.request(method, target, fields, body)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


async def secrets_of(served: Wire) -> list[bytes]:
    record = await served.service.find("demo")
    assert record is not None
    return [secret.value.reveal() for secret in record.secrets]


async def test_asana_s_secret_is_kept_and_verifies_the_next_event(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(verifier="asana")
        reply = await post(served, "/in/demo", headers=ASANA)
        assert (reply.status, reply.body, reply.header("x-hook-secret")) == (200, b"", HOOK_SECRET.decode())
        assert await secrets_of(served) == [HOOK_SECRET]
        signature = hmac.new(HOOK_SECRET, b'{"events":[]}', hashlib.sha256).hexdigest()
        await post(served, "/in/demo", b'{"events":[]}', [("X-Hook-Signature", signature)])
        assert [row.verified for row in await stored(served)] == [Verdict.VERIFIED]


async def test_a_later_handshake_of_asana_is_answered_and_changes_nothing(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(verifier="asana", secrets={"mine": b"first"})
        commits = served.world.store.health.commits
        reply = await post(served, "/in/demo", headers=ASANA)
        assert (reply.status, reply.header("x-hook-secret")) == (200, HOOK_SECRET.decode())
        assert await secrets_of(served) == [b"first"]
        assert served.world.store.health.commits == commits


async def test_of_handshakes_at_the_same_time_the_first_secret_stays(tmp_path: Path) -> None:
    all_are_here = trio.Event()
    kept: set[bytes] = set()
    store = MemoryStore()

    async def gate() -> None:
        await all_are_here.wait()

    async def acknowledge() -> None:
        listing = await store.read(Reading(lambda snapshot: snapshot.inbox_by_slug("demo")))
        assert listing is not None
        kept.update(secret.value.reveal() for secret in listing.record.secrets)

    async with wire(tmp_path, store=store) as served:
        await served.inbox(verifier="asana")
        store.gate, store.acknowledge = gate, acknowledge
        echoed: list[str | None] = []

        async def shake(n: int) -> None:
            reply = await post(served, "/in/demo", headers=[("X-Hook-Secret", f"secret-{n}")])
            echoed.append(reply.header("x-hook-secret"))

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                for n in range(8):
                    nursery.start_soon(shake, n)
                await trio.testing.wait_all_tasks_blocked()
                all_are_here.set()
        assert sorted(map(str, echoed)) == [f"secret-{n}" for n in range(8)]
        assert len(kept) == 1
        assert await secrets_of(served) == list(kept)


@pytest.mark.parametrize(
    ("fault", "status"),
    [(StorageFull("full"), 507), (StorageDegraded("broken"), 503), (OutcomeUnknown("io"), 503)],
)
async def test_a_secret_that_is_not_durable_is_not_echoed(
    tmp_path: Path, fault: Exception, status: int
) -> None:
    store = MemoryStore()
    async with wire(tmp_path, store=store) as served:
        await served.inbox(verifier="asana")

        def fail(unit: Unit[Any]) -> None:
            raise fault

        store.fault = fail
        reply = await post(served, "/in/demo", headers=ASANA)
        assert (reply.status, reply.header("x-hook-secret")) == (status, None)
        store.fault = None
        assert await secrets_of(served) == []


async def test_a_hook_secret_that_is_no_handshake_is_redacted(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(verifier="asana")
        await post(served, "/in/demo", headers=[*ASANA, *ASANA])
        (row,) = await stored(served)
        assert HOOK_SECRET not in row.said
        assert row.said.count(b'["x-hook-secret","[redacted]"]') == 2


async def test_a_ping_that_discord_did_not_sign_is_refused_whatever_the_inbox_says(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(
            verifier="discord", secrets={"key": DISCORD_SECRET.encode()}, on_unverified="store"
        )
        for body in (b'{"type":1}', b'{"type":0}', b'{"type":1,"event":{}}', b"x"):
            reply = await post(served, "/in/demo", body, signed("discord", b"another"))
            assert (reply.status, reply.code) == (401, "unauthenticated")
        assert await stored(served) == []
        await post(served, "/in/demo", b'{"type":1,"event":{}}', signed("discord", b'{"type":1,"event":{}}'))
        assert [row.verified for row in await stored(served)] == [Verdict.VERIFIED]


async def test_what_x_had_signed_for_a_stranger_does_not_verify(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(verifier="x", secrets={"key": b"x-secret"})
        token = (await post(served, "/in/demo?crc_token=12345", method="GET")).json["response_token"]
        await post(served, "/in/demo", b"12345", [("X-Twitter-Webhooks-Signature", token)])
        genuine = base64.b64encode(hmac.digest(b"x-secret", b'{"n":1}', "sha256")).decode()
        await post(served, "/in/demo", b'{"n":1}', [("X-Twitter-Webhooks-Signature", f"sha256={genuine}")])
        forged, right = await stored(served)
        assert (forged.verified, right.verified) == (Verdict.FAILED, Verdict.VERIFIED)
        assert json.loads(forged.facts)["verify_error"] == "signature mismatch"


async def test_a_handshake_is_counted_by_the_rate_and_held_to_the_size(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(verifier="slack", rate_per_minute=2, max_body_bytes=200)
        assert (await post(served, "/in/demo", SLACK + b" " * 200)).status == 413
        assert (await post(served, "/in/demo", SLACK)).status == 200
        assert (await post(served, "/in/demo", SLACK)).status == 429
        assert await stored(served) == []


async def test_a_handshake_is_answered_where_unverified_messages_are_refused(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox("slack", verifier="slack", on_unverified="reject")
        await served.inbox("zoom", verifier="zoom", on_unverified="reject", secrets={"key": b"zoom-secret"})
        assert (await post(served, "/in/slack", SLACK)).status == 200
        assert (await post(served, "/in/zoom", ZOOM)).status == 200
        assert (await post(served, "/in/slack", b"{}")).status == 401
        assert (await post(served, "/in/zoom", b"{}")).status == 401


async def test_a_handshake_burns_no_delivery_id(tmp_path: Path) -> None:
    now = 1_700_000_000
    async with wire(tmp_path, clock=lambda: now * 1_000_000) as served:
        await served.inbox(verifier="slack", secrets={"key": b"k"})

        async def send(body: bytes) -> Reply:
            text = b"v0:%d:%b" % (now, body)
            signature = "v0=" + hmac.new(b"k", text, hashlib.sha256).hexdigest()
            headers = [("X-Slack-Request-Timestamp", str(now)), ("X-Slack-Signature", signature)]
            return await post(served, "/in/demo", body, headers)

        asked = await send(b'{"type":"url_verification","challenge":"c","event_id":"Ev1"}')
        assert asked.body == b'{"challenge":"c"}'
        told = await send(b'{"type":"event_callback","event_id":"Ev1"}')
        assert (told.json["seq"], told.header("postroom-duplicate")) == (1, None)
        again = await send(b'{"type":"event_callback","event_id":"Ev1"}')
        assert (again.json["seq"], again.header("postroom-duplicate")) == (1, "true")


async def test_timestamps_are_judged_by_the_clock_of_receipt(tmp_path: Path) -> None:
    now = 1_400_000_000
    options = {"header": "x-s", "timestamp": "header:x-t", "signed": "{ts}.{body}"}
    signature = hmac.new(b"k", b"%d.x" % now, hashlib.sha256).hexdigest()
    headers = [("x-s", signature), ("x-t", str(now))]
    for clock_s, verdict in ((now + 300, Verdict.VERIFIED), (now + 301, Verdict.FAILED)):

        def clock(seconds: int = clock_s) -> int:
            return seconds * 1_000_000

        async with wire(tmp_path, clock=clock) as served:
            await served.inbox(verifier="hmac", verifier_options=options, secrets={"key": b"k"})
            await post(served, "/in/demo", b"x", headers)
            assert [row.verified for row in await stored(served)] == [verdict]


@pytest.mark.parametrize("preset", ["eventgrid", "cloudevents", "sns", "okta", "websub", "mailchimp"])
async def test_a_secret_in_the_path_verifies_and_is_not_stored(tmp_path: Path, preset: str) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(verifier=preset, secrets={"key": b"s3cret"})
        for target in ("/in/demo/s3cret/more", "/in/demo/wr0ng", "/in/demo//s3cret", "/in/demo"):
            await post(served, target)
        rows = await stored(served)
        paths = [json.loads(row.said)["path"] for row in rows]
        assert paths == ["/[redacted]/more", "/[redacted]", "//[redacted]", ""]
        assert [row.verified for row in rows] == [1, 0, 0, 0]


async def test_a_path_is_stored_where_it_is_no_secret(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox(
            verifier="mailchimp", verifier_options={"header": "X-Key"}, secrets={"key": b"s3cret"}
        )
        await post(served, "/in/demo/list/7", headers=[("X-Key", "s3cret")])
        (row,) = await stored(served)
        assert b'"path":"/list/7"' in row.said
        assert b"s3cret" not in row.said
        assert row.verified == Verdict.VERIFIED
