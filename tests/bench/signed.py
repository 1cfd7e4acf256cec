"""Signed deliveries, complete on the wire: built before the clock starts. As GitHub sends them, and signed with an HMAC
as GitHub does unless another scheme is asked for.
"""

import base64
import hashlib
import hmac
import json
import secrets
from typing import Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)

Scheme = Literal["hmac", "ed25519", "ecdsa"]

STAMP = "1700000000"
"""What the public-key schemes sign together with the body; neither preset has a tolerance."""

BODY_BYTES = 1024
"""The size of every body: a webhook of ordinary size."""

ORDINARY_EVENT = "pull_request"


class Deliveries(msgspec.Struct, frozen=True):
    """Which requests to build: `count` of them to `/in/{slug}`, with delivery ids that begin with `prefix`, all of
    the type `event`. `secret` is what their sender signs with, see `make_keys`. With `inboxes` they go in turn to
    `/in/{slug}-0` and so on, beginning at `first`.
    """

    port: int
    slug: str
    secret: str
    prefix: str
    count: int
    event: str = ORDINARY_EVENT
    scheme: Scheme = "hmac"
    inboxes: int = 0
    first: int = 0

    def named(self, prefix: str) -> "Deliveries":
        """Return as many with other delivery ids."""
        return msgspec.structs.replace(self, prefix=prefix)


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


def make_keys(scheme: Scheme) -> tuple[str, str]:
    """Return what a sender signs with, and what its receiver verifies with."""
    if scheme == "hmac":
        secret = secrets.token_urlsafe(32)
        return secret, secret
    key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey
    if scheme == "ed25519":
        key = Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes_raw().hex()
    else:
        key = ec.generate_private_key(ec.SECP256R1())
        spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        public = base64.b64encode(spki).decode()
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return base64.b64encode(private).decode(), public


def signature_headers(wanted: Deliveries, body: bytes) -> list[tuple[str, str]]:
    """Return the headers that sign a body."""
    if wanted.scheme == "hmac":
        return [("X-Hub-Signature-256", signature(wanted.secret, body))]
    key = load_der_private_key(base64.b64decode(wanted.secret), None)
    text = STAMP.encode() + body
    if isinstance(key, Ed25519PrivateKey):
        signed = key.sign(text).hex()
        return [("X-Signature-Ed25519", signed), ("X-Signature-Timestamp", STAMP)]
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    signed = base64.b64encode(key.sign(text, ec.ECDSA(SHA256()))).decode()
    prefix = "X-Twilio-Email-Event-Webhook-"
    return [(f"{prefix}Signature", signed), (f"{prefix}Timestamp", STAMP)]


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
        *signature_headers(wanted, body),
    ]


def request(wanted: Deliveries, number: int) -> bytes:
    """Return one delivery as the bytes of a request."""
    body = body_of(number)
    slug = f"{wanted.slug}-{number % wanted.inboxes}" if wanted.inboxes else wanted.slug
    head = [
        f"POST /in/{slug} HTTP/1.1",
        f"Host: 127.0.0.1:{wanted.port}",
        *(f"{name}: {value}" for name, value in headers_of(wanted, number, body)),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def requests(wanted: Deliveries) -> list[bytes]:
    """Return all of them."""
    return [request(wanted, number) for number in range(wanted.first, wanted.first + wanted.count)]
