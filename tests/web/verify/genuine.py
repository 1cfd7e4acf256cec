"""A genuine request for every verifier: signed by us, or where the inbox holds a public key by the private one."""

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.web.verify.judging import NOW_US, URL, judge, raw
from web.verify.model import Judgement
from web.verify.registry import SCHEMES
from web.verify.schemes import Signed
from web.verify.signing import sample, sign

ED25519 = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
P256 = derive_private_key(0x1234_5678_9ABC_DEF0, SECP256R1())
ED25519_PUBLIC = ED25519.public_key().public_bytes_raw()
P256_PUBLIC = P256.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
WHSEC = b"whsec_" + base64.b64encode(bytes(range(32)))
WHPK = b"whpk_" + base64.b64encode(ED25519_PUBLIC)

DEFAULT_SECRET = b"correct-horse"
SECRETS = {
    "standard-webhooks": WHSEC,
    "svix": WHSEC,
    "basic": b"user:correct:horse",
    "discord": ED25519_PUBLIC.hex().encode(),
    "sendgrid": base64.b64encode(P256_PUBLIC),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "hmac": {"header": "X-Signature", "delivery_id": "header:X-Id", "event_type": "header:X-Type"},
    "header": {"header": "X-Secret", "delivery_id": "header:X-Id", "event_type": "body:type"},
    "basic": {"delivery_id": "header:X-Id", "event_type": "body:type"},
}
PUBLIC = ("discord", "sendgrid")
VERIFYING = tuple(sorted(name for name in SCHEMES if name != "none"))
"""Every name of a verifier that verifies, aliases included."""


class Genuine(NamedTuple):
    """One request: `headers` as they arrive, in lower case; `path` and `query` of its own target."""

    verifier: str
    options: Mapping[str, Any]
    secret: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    url: str = URL
    path: bytes = b""
    query: bytes = b""

    def judged(self, **changed: Any) -> Judgement:
        """Return the verdict, of the request or of one that differs in something."""
        request = self._replace(**{name: changed.pop(name) for name in self._fields if name in changed})
        return judge(
            request.verifier,
            request.options,
            changed.pop("secrets", [request.secret]),
            request.headers,
            request.body,
            url=request.url,
            path=request.path,
            query=request.query,
            **changed,
        )


def secret_of(name: str) -> bytes:
    return SECRETS.get(name, DEFAULT_SECRET)


def genuine(
    name: str,
    body: bytes | None = None,
    content_type: str | None = None,
    *,
    event_type: str | None = None,
    delivery_id: str | None = "d-1",
    secret: bytes | None = None,
    options: Mapping[str, Any] | None = None,
) -> Genuine:
    """Return a request that verifies. Without a body it is the verifier's own sample."""
    own = OPTIONS.get(name, {}) if options is None else options
    key = secret_of(name) if secret is None else secret
    if body is None:
        made = sample(name, own, now_us=NOW_US, event_type=event_type, delivery_id=delivery_id)
        body, content_type = made.body, made.content_type
    kind = content_type or "application/json"
    if name in PUBLIC:
        signed = publicly_signed(name, body)
    else:
        signed = sign(
            name,
            own,
            key,
            body=body,
            content_type=kind,
            now_us=NOW_US,
            url=URL,
            delivery_id=delivery_id,
            event_type=event_type,
        )
    headers = [(b"content-type", kind.encode()), *raw(signed.headers)]
    return Genuine(
        name,
        own,
        key,
        headers,
        signed.body,
        f"{URL}?{signed.query}" if signed.query else URL,
        signed.path.encode(),
        signed.query.encode(),
    )


def publicly_signed(name: str, body: bytes) -> Signed:
    """Return what Discord and SendGrid would send."""
    stamp = str(NOW_US // 1_000_000)
    text = stamp.encode() + body
    if name == "discord":
        signature, at, key = ED25519.sign(text).hex(), "X-Signature-Timestamp", "X-Signature-Ed25519"
    else:
        signature = base64.b64encode(P256.sign(text, ECDSA(SHA256()))).decode()
        at = "X-Twilio-Email-Event-Webhook-Timestamp"
        key = "X-Twilio-Email-Event-Webhook-Signature"
    return Signed(body=body, headers=((at, stamp), (key, signature)))
