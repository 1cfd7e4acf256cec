"""Real input: every payload of `@octokit/webhooks-examples`, signed independently, sent with GitHub's headers.

726 bodies: github.com's and those of five versions of GitHub Enterprise Server, written as GitHub writes them (compact
JSON in UTF-8). They go in over several connections at once and are read back in every shape that the surface has.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote_plus
from uuid import uuid4

import httpx
import pytest

from tests.live.api import SECRET, Api
from tests.live.rawhttp import Reply, Sender, ingest
from tests.live.signing import HOOKSHOT, Delivery, sha256_signature

EXAMPLES = Path(__file__).parents[1] / "node_modules" / "@octokit" / "webhooks-examples"
EXPECTED_PAYLOADS = 726
"""In version 7.6.1: the test must not pass because the package has become empty."""

CONNECTIONS = 8
INLINE_BYTES = 16 * 1024
HOOK_ID = 292_430_182
APP_ID = 79_929_171
KEY = SECRET.encode()


class Stored(NamedTuple):
    """A delivery, what GitHub would have meant by it, and what the server answered."""

    sent: Delivery
    payload: Any
    seq: int
    id: str


class Received(NamedTuple):
    """The inbox that has all of them."""

    slug: str
    deliveries: list[Stored]


def deliveries() -> Iterator[tuple[Delivery, Any]]:
    """Yield each example of the package as the delivery that GitHub would make of it, with its decoded payload."""
    for index in sorted(EXAMPLES.glob("*/index.json")):
        _, ghes, version = index.parent.name.partition("ghes-")
        for event in json.loads(index.read_text(encoding="utf-8")):
            for payload in event["examples"]:
                kind, target = _target(payload)
                body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
                yield (
                    Delivery(
                        event["name"], str(uuid4()), body, HOOK_ID, kind, target, version if ghes else None
                    ),
                    payload,
                )


def _target(payload: Any) -> tuple[str, int]:
    for kind in ("repository", "organization"):
        if isinstance(payload.get(kind), dict) and "id" in payload[kind]:
            return kind, payload[kind]["id"]
    return "integration", APP_ID


def send(sender: Sender, slug: str, delivery: Delivery, body: bytes | None = None) -> Reply:
    """Send a delivery, perhaps with another body than the one that was signed."""
    sent = delivery.body if body is None else body
    return sender.request(b"POST", ingest(slug), delivery.headers(KEY), sent)


@pytest.fixture(scope="module")
def received(api: Api, sender: Sender) -> Received:
    """An inbox to which everything has been sent, a few at a time, in no particular order."""
    slug = api.github_inbox()
    wanted = list(deliveries())
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        replies = list(pool.map(lambda one: send(sender, slug, one[0]), wanted))
    assert {reply.status for reply in replies} == {200}
    answers = [reply.json() for reply in replies]
    return Received(
        slug, [Stored(*one, answer["seq"], answer["id"]) for one, answer in zip(wanted, answers, strict=True)]
    )


def all_of(api: Api, received: Received, suffix: str = "") -> list[httpx.Response]:
    """GET every message, or what `suffix` names of it, over a few connections."""
    paths = [f"/inboxes/{received.slug}/messages/{one.seq}{suffix}" for one in received.deliveries]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return list(pool.map(partial(api.call, "GET"), paths))


def test_the_signer_agrees_with_the_vector_that_github_prints() -> None:
    signature = sha256_signature(b"It's a Secret to Everybody", b"Hello, World!")
    assert signature == b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def test_every_payload_of_the_package_is_sent_and_numbered_without_a_hole(received: Received) -> None:
    count = len(received.deliveries)
    assert count == EXPECTED_PAYLOADS
    assert sorted(one.seq for one in received.deliveries) == list(range(1, count + 1))
    assert len({one.id for one in received.deliveries}) == count


def test_every_payload_comes_back_byte_for_byte(api: Api, received: Received) -> None:
    for one, answer in zip(received.deliveries, all_of(api, received, "/raw"), strict=True):
        assert answer.status_code == 200
        assert answer.content == one.sent.body
        assert answer.headers["content-type"] == "application/json"


def test_every_payload_is_verified_and_structurally_equal(api: Api, received: Received) -> None:
    for one, answer in zip(received.deliveries, all_of(api, received), strict=True):
        message = answer.json()
        facts = {name: message[name] for name in ("id", "seq", "inbox", "method", "size")}
        assert facts == {
            "id": one.id,
            "seq": one.seq,
            "inbox": received.slug,
            "method": "POST",
            "size": len(one.sent.body),
        }
        assert (message["verified"], message["verifier"], message["verify_error"]) == (True, "github", None)
        claims = message["untrusted"]
        assert (claims["event_type"], claims["delivery_id"]) == (one.sent.event, one.sent.delivery_id)
        assert claims["body"] == one.payload
        assert (claims["path"], claims["query"]) == ("", "")


def test_every_header_of_github_is_kept_in_its_order(api: Api, received: Received) -> None:
    for one, answer in zip(received.deliveries, all_of(api, received), strict=True):
        claims = answer.json()["untrusted"]
        sent = [[name.decode().lower(), value.decode()] for name, value in one.sent.headers(KEY)]
        length = [["content-length", str(len(one.sent.body))]]
        assert claims["headers"] == [["host", "postroom.test"], *sent, *length]
        assert claims["content_type"] == "application/json"


@pytest.mark.parametrize("limit", [7, 100])
def test_pages_with_bodies_contain_every_payload_exactly_once(
    api: Api, received: Received, limit: int
) -> None:
    by_seq = {one.seq: one for one in received.deliveries}
    seen: list[int] = []
    truncated = 0
    for page in api.forward(received.slug, limit=limit, bodies=True):
        for message in page["messages"]:
            one = by_seq[message["seq"]]
            seen.append(message["seq"])
            if len(one.sent.body) > INLINE_BYTES:
                truncated += 1
                assert message["body_truncated"] is True
                assert not {"body", "body_text", "body_base64"} & message["untrusted"].keys()
            else:
                assert "body_truncated" not in message
                assert message["untrusted"]["body"] == one.payload
    assert seen == list(range(1, EXPECTED_PAYLOADS + 1))
    assert truncated == sum(len(one.sent.body) > INLINE_BYTES for one in received.deliveries) > 0


def test_a_page_of_one_event_type_has_all_of_that_type_and_no_other(api: Api, received: Received) -> None:
    wanted = sorted(one.seq for one in received.deliveries if one.sent.event == "pull_request")
    pages = api.forward(received.slug, limit=10, types=["pull_request"])
    assert [message["seq"] for page in pages for message in page["messages"]] == wanted != []


def test_a_redelivery_is_answered_with_the_place_of_the_first(
    api: Api, sender: Sender, received: Received
) -> None:
    again = received.deliveries[::40]
    for one in again:
        reply = send(sender, received.slug, one.sent)
        assert (reply.status, reply.json()) == (200, {"id": one.id, "seq": one.seq})
        assert reply.header(b"postroom-duplicate") == b"true"
    assert api.messages(received.slug, limit=1)["latest_seq"] == EXPECTED_PAYLOADS


def test_one_flipped_byte_anywhere_is_a_signature_mismatch(api: Api, sender: Sender) -> None:
    slug = api.github_inbox()
    delivery, _ = next(deliveries())
    places = [0, 1, len(delivery.body) // 2, len(delivery.body) - 1]
    for place in places:
        flipped = bytearray(delivery.body)
        flipped[place] ^= 1
        seq = send(sender, slug, delivery, bytes(flipped)).json()["seq"]
        message = api.message(slug, seq)
        assert (message["verified"], message["verify_error"]) == (False, "signature mismatch")
        assert message["verifier"] == "github"
        assert api.call("GET", f"/inboxes/{slug}/messages/{seq}/raw").content == flipped
    # None of them has burnt the delivery id: the real one is stored as the first of its kind.
    reply = send(sender, slug, delivery)
    assert reply.header(b"postroom-duplicate") is None
    assert reply.json()["seq"] == len(places) + 1
    assert api.message(slug, len(places) + 1)["verified"] is True


def test_every_payload_with_one_flipped_byte_is_a_signature_mismatch(api: Api, sender: Sender) -> None:
    slug = api.github_inbox()
    wanted = [delivery for delivery, _ in deliveries()]

    def send_flipped(numbered: tuple[int, Delivery]) -> int:
        n, delivery = numbered
        flipped = bytearray(delivery.body)
        flipped[n * 37 % len(flipped)] ^= 1 << n % 8
        return int(send(sender, slug, delivery, bytes(flipped)).json()["seq"])

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        seqs = list(pool.map(send_flipped, enumerate(wanted)))
    verdicts = {
        (message["seq"], message["verified"], message["verify_error"])
        for page in api.forward(slug, limit=100)
        for message in page["messages"]
    }
    assert verdicts == {(seq, False, "signature mismatch") for seq in seqs}
    assert len(verdicts) == EXPECTED_PAYLOADS


def test_a_hook_of_content_type_form_is_verified_and_kept_as_it_was_signed(api: Api, sender: Sender) -> None:
    slug = api.github_inbox()
    original, _ = next(deliveries())
    form = b"payload=" + quote_plus(original.body).encode()
    content_type = b"application/x-www-form-urlencoded"
    delivery = Delivery(
        original.event, str(uuid4()), form, HOOK_ID, "repository", 1, content_type=content_type
    )
    seq = send(sender, slug, delivery).json()["seq"]
    message = api.message(slug, seq)
    assert message["verified"] is True
    assert message["untrusted"]["body_text"] == form.decode()
    assert message["untrusted"]["content_type"] == content_type.decode()
    assert [b"User-Agent", HOOKSHOT] in [list(line) for line in delivery.headers(KEY)]


@pytest.mark.parametrize(
    ("drop", "change", "error"),
    [
        (b"X-Hub-Signature-256", None, "missing signature"),
        (b"X-Hub-Signature-256", b"sha256=nothex", "malformed signature"),
        (b"X-Hub-Signature-256", b"sha1=" + b"0" * 40, "malformed signature"),
        (b"X-Hub-Signature-256", b"sha256=" + b"0" * 64, "signature mismatch"),
    ],
)
def test_a_spoilt_signature_is_told_apart(
    api: Api, sender: Sender, drop: bytes, change: bytes | None, error: str
) -> None:
    slug = api.github_inbox()
    delivery, _ = next(deliveries())
    headers = [line for line in delivery.headers(KEY) if line[0] != drop]
    if change is not None:
        headers.append((drop, change))
    seq = sender.request(b"POST", ingest(slug), headers, delivery.body).json()["seq"]
    message = api.message(slug, seq)
    assert (message["verified"], message["verify_error"]) == (False, error)


def test_an_inbox_that_rejects_stores_nothing_of_a_forgery(api: Api, sender: Sender) -> None:
    slug = api.github_inbox(on_unverified="reject")
    delivery, _ = next(deliveries())
    refused = send(sender, slug, delivery, delivery.body[:-1] + b" ")
    assert (refused.status, refused.json()["error"]["code"]) == (401, "unauthenticated")
    assert api.messages(slug)["latest_seq"] == 0
    assert send(sender, slug, delivery).json()["seq"] == 1


def test_a_rotation_of_secrets_accepts_both_until_the_old_one_goes(api: Api, sender: Sender) -> None:
    slug = api.github_inbox()
    api.ok("POST", f"/inboxes/{slug}/secrets", {"name": "next", "value": "the next secret"}, status=201)
    delivery, _ = next(deliveries())

    def verdict(secret: bytes) -> bool:
        fresh = Delivery(delivery.event, str(uuid4()), delivery.body, HOOK_ID, "repository", 1)
        reply = sender.request(b"POST", ingest(slug), fresh.headers(secret), fresh.body)
        return bool(api.message(slug, reply.json()["seq"])["verified"])

    assert (verdict(KEY), verdict(b"the next secret")) == (True, True)
    assert api.call("DELETE", f"/inboxes/{slug}/secrets/default").status_code in (200, 204)
    assert (verdict(KEY), verdict(b"the next secret")) == (False, True)
