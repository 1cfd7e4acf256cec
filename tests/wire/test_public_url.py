"""Which URL a signature is held to: the one that the administrator has set, never one that a request claims."""

import hashlib
import hmac
from pathlib import Path

import pytest

from tests.wire.harness import PEER, wire

SECRET = b"a secret of the tests"
TARGET = "/in/demo/a%2Fb?x=1&x=%20"
BODY = b'{"n": 1}'
PUBLIC, OWN = "https://hooks.example.org/post", "https://old.example.org/hook"

CLAIMS = [
    ("Host", "hooks.example.org"),
    ("X-Forwarded-Host", "hooks.example.org"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Prefix", "/post"),
    ("X-Forwarded-For", "203.0.113.9"),
    ("Forwarded", "for=203.0.113.9;host=hooks.example.org;proto=https"),
]
"""What a request can say of the URL that it was sent to, also through a trusted proxy."""


@pytest.mark.parametrize(
    ("public_url", "signed_url", "sent_to", "verified"),
    [
        (PUBLIC, None, PUBLIC + TARGET, True),
        (PUBLIC + "/", None, PUBLIC + TARGET, True),
        (PUBLIC, OWN, OWN, True),
        (None, OWN, OWN, True),
        (PUBLIC, OWN, PUBLIC + TARGET, False),
        (PUBLIC, None, "https://hooks.example.org" + TARGET, False),
        (PUBLIC, None, "http://hooks.example.org/post" + TARGET, False),
        (None, None, PUBLIC + TARGET, False),
        (None, None, "http://hooks.example.org" + TARGET, False),
        (None, None, "https://hooks.example.org" + TARGET, False),
    ],
)
@pytest.mark.parametrize("asked", [TARGET, f"http://hooks.example.org{TARGET}"], ids=["origin", "absolute"])
async def test_a_signed_url_is_the_one_that_was_set(
    tmp_path: Path, public_url: str | None, signed_url: str | None, sent_to: str, verified: bool, asked: str
) -> None:
    options = {"header": "signature", "signed": "{url} {body}"}
    proxies = (f"{PEER[0]}/32",)
    async with wire(tmp_path, public_url=public_url, trusted_proxies=proxies, reading=True) as served:
        await served.inbox(
            secrets={"default": SECRET}, verifier="hmac", verifier_options=options, signed_url=signed_url
        )
        signature = hmac.new(SECRET, sent_to.encode() + b" " + BODY, hashlib.sha256).hexdigest()
        async with served.connect() as client:
            reply = await client.request("POST", asked, [*CLAIMS, ("Signature", signature)], BODY)
            assert reply.status == 200
            page = await client.request("GET", "/v1/inboxes/demo/messages?after=0", [await served.token()])
        [message] = page.json["messages"]
        assert (message["verified"], message["source_ip"]) == (verified, "203.0.113.9")
        assert message["verify_error"] == (None if verified else "signature mismatch")
