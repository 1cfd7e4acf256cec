"""Signed deliveries as GitHub sends them, complete on the wire: built before the clock starts."""

import hashlib
import hmac
import json

import msgspec

BODY_BYTES = 1024
"""The size of every body: a webhook of ordinary size."""

ORDINARY_EVENT = "pull_request"


class Deliveries(msgspec.Struct, frozen=True):
    """Which requests to build: `count` of them to `/in/{slug}`, with delivery ids that begin with `prefix`, all of
    the type `event`.
    """

    port: int
    slug: str
    secret: str
    prefix: str
    count: int
    event: str = ORDINARY_EVENT


def body_of(number: int) -> bytes:
    """Return a JSON body of exactly `BODY_BYTES` bytes; every number gives another one."""
    facts = {
        "action": "opened",
        "number": number,
        "repository": {"id": 186_853_002, "full_name": "octocat/hello-world", "private": False},
        "sender": {"login": "octocat", "id": 583_231, "type": "User"},
        "title": "",
    }
    empty = json.dumps(facts, separators=(",", ":")).encode()
    filling = "x" * (BODY_BYTES - len(empty))
    return json.dumps({**facts, "title": filling}, separators=(",", ":")).encode()


def signature(secret: str, body: bytes) -> str:
    """Return the value of `X-Hub-Signature-256`."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def delivery_id(prefix: str, number: int) -> str:
    """Return the delivery id of one request."""
    return f"{prefix}-{number:08d}"


def headers_of(wanted: Deliveries, number: int, body: bytes) -> list[tuple[str, str]]:
    """Return the headers of one delivery, without those of the connection."""
    return [
        ("User-Agent", "GitHub-Hookshot/044aadd"),
        ("Accept", "*/*"),
        ("Content-Type", "application/json"),
        ("X-GitHub-Event", wanted.event),
        ("X-GitHub-Delivery", delivery_id(wanted.prefix, number)),
        ("X-GitHub-Hook-ID", "292430182"),
        ("X-Hub-Signature-256", signature(wanted.secret, body)),
    ]


def request(wanted: Deliveries, number: int) -> bytes:
    """Return one delivery as the bytes of a request."""
    body = body_of(number)
    head = [
        f"POST /in/{wanted.slug} HTTP/1.1",
        f"Host: 127.0.0.1:{wanted.port}",
        *(f"{name}: {value}" for name, value in headers_of(wanted, number, body)),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def requests(wanted: Deliveries) -> list[bytes]:
    """Return all of them."""
    return [request(wanted, number) for number in range(wanted.count)]
