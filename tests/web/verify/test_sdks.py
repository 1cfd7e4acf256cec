"""The providers' own libraries sign, and Postroom accepts; what they reject, Postroom rejects, or the difference is
named here.

They share no line with the server. Their clocks are the real one, so requests are judged by it, too.
"""

import base64
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import nacl.signing
import pytest
import standardwebhooks
import stripe
import svix.webhooks
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.signature import SignatureVerifier
from twilio.request_validator import RequestValidator

from tests.web.verify.genuine import WHSEC
from tests.web.verify.judging import URL, judge
from web.errors import ApiError
from web.verify.model import Judgement
from web.verify.registry import check_secret

SECRET = "correct-horse"
FIELDS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=6).filter(
    lambda fields: fields != {"": ""}
)
"""A form that is `=` adds no text to the URL: its signature is that of an empty body, and counts for that alone."""
TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)
"""The libraries take bodies as text, so theirs is always UTF-8."""


def now() -> int:
    return int(time.time())


def judged(preset: str, secret: str | bytes, headers: dict[str, str], body: str, **more: Any) -> Judgement:
    key = secret.encode() if isinstance(secret, str) else secret
    shown = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return judge(preset, {}, [key], shown, body.encode(), at_us=time.time_ns() // 1_000, **more)


def accepts(preset: str, secret: str | bytes, headers: dict[str, str], body: str, **more: Any) -> bool:
    return judged(preset, secret, headers, body, **more).verified is True


def agrees(check: Callable[[], Any]) -> bool:
    """Whether a library that raises, or returns false, takes a request for genuine."""
    try:
        return check() is not False
    except Exception:  # some crash on strange input, which is a rejection, too
        return False


# -- they sign, Postroom accepts -------------------------------------------------------------------------------


@given(TEXTS)
def test_stripe_s_library_signs(body: str) -> None:
    header = stripe.WebhookSignature.generate_signature_header(body, SECRET)
    assert accepts("stripe", SECRET, {"Stripe-Signature": header}, body)
    event = json.dumps({"id": "evt_1", "body": body})
    header_of_event = stripe.WebhookSignature.generate_signature_header(event, SECRET)
    assert judged("stripe", SECRET, {"Stripe-Signature": header_of_event}, event).delivery_id == "evt_1"
    assert not accepts("stripe", SECRET, {"Stripe-Signature": header}, body + "x")
    assert not accepts("stripe", SECRET + "x", {"Stripe-Signature": header}, body)


@given(TEXTS)
def test_slack_s_library_signs(body: str) -> None:
    stamp = str(now())
    signature = SignatureVerifier(SECRET).generate_signature(timestamp=stamp, body=body)
    assert signature is not None
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature}
    assert accepts("slack", SECRET, headers, body)
    assert not accepts("slack", SECRET, headers, body + "x")


@pytest.mark.parametrize(
    ("library", "brand"), [(standardwebhooks.Webhook, "webhook"), (svix.webhooks.Webhook, "svix")]
)
@given(body=TEXTS, message_id=st.from_regex(r"msg_[A-Za-z0-9]{1,40}", fullmatch=True))
def test_the_libraries_of_standard_webhooks_and_svix_sign(
    library: Any, brand: str, body: str, message_id: str
) -> None:
    at = datetime.fromtimestamp(now(), UTC)
    signature = library(WHSEC.decode()).sign(message_id, at, body)
    headers = {
        f"{brand}-id": message_id,
        f"{brand}-timestamp": str(int(at.timestamp())),
        f"{brand}-signature": signature,
    }
    for name in ("standard-webhooks", "svix"):
        unsigned = {"webhook-id": "unsigned", "svix-id": "unsigned", "Idempotency-Key": "unsigned"}
        judgement = judged(name, WHSEC, {**unsigned, **headers}, body)
        assert (judgement.verified, judgement.delivery_id) == (True, message_id)
    assert not accepts("standard-webhooks", WHSEC, headers, body + "x")
    assert not accepts("standard-webhooks", WHSEC, {**headers, f"{brand}-id": message_id + "x"}, body)


@given(FIELDS, st.sampled_from(["HMAC_SHA1", "HMAC_SHA256"]))
def test_twilio_s_library_signs_forms(fields: dict[str, str], algorithm: str) -> None:
    signature = RequestValidator(SECRET).compute_signature(URL, fields, algorithm)
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Twilio-Signature": signature,
        "X-Twilio-Webhooks-Signature-Settings": f"key=k,algorithm={algorithm}",
    }
    assert accepts("twilio", SECRET, headers, urlencode(fields), url=URL)
    assert not accepts("twilio", SECRET, headers, urlencode({**fields, "z": "more"}), url=URL)


@given(TEXTS)
def test_twilio_s_library_signs_other_bodies(body: str) -> None:
    validator = RequestValidator(SECRET)
    url = f"{URL}?bodySHA256={validator.compute_hash(body)}"
    signature = validator.compute_signature(url, {})
    headers = {"Content-Type": "application/json", "X-Twilio-Signature": signature}
    assert validator.validate(url, body, signature)
    assert accepts("twilio", SECRET, headers, body, url=url)
    assert not accepts("twilio", SECRET, headers, body + "x", url=url)


@given(TEXTS)
def test_another_ed25519_signs_for_discord_and_standard_webhooks(body: str) -> None:
    key = nacl.signing.SigningKey(bytes(range(32)))
    stamp = str(now())
    signature = key.sign(stamp.encode() + body.encode()).signature.hex()
    headers = {"X-Signature-Timestamp": stamp, "X-Signature-Ed25519": signature}
    assert accepts("discord", bytes(key.verify_key).hex(), headers, body)
    assert not accepts("discord", bytes(key.verify_key).hex(), headers, body + "x")
    signed = base64.b64encode(key.sign(f"msg_1.{stamp}.{body}".encode()).signature).decode()
    headers = {"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": f"v1a,{signed}"}
    public = b"whpk_" + base64.b64encode(bytes(key.verify_key))
    judgement = judged("standard-webhooks", public, {"svix-id": "unsigned", **headers}, body)
    assert (judgement.verified, judgement.delivery_id) == (True, "msg_1")


# -- what they reject ----------------------------------------------------------------------------------------------

BODY = '{"id":"evt_1"}'


def stripe_headers(change: Callable[[str, int], str]) -> str:
    at = now()
    signature = stripe.WebhookSignature._compute_signature(f"{at}.{BODY}", SECRET)
    return change(signature, at)


def stripe_old(at: int) -> str:
    return stripe.WebhookSignature.generate_signature_header(BODY, SECRET, at)


@pytest.mark.parametrize(
    ("change", "theirs", "ours"),
    [
        (lambda s, at: f"t={at},v1={s}", True, True),
        (lambda s, at: f"v1={s},t={at}", True, True),
        (lambda s, at: f"t={at},v1={'0' * 64},v1={s}", True, True),
        (lambda s, at: f"t={at},v0={s}", False, False),
        (lambda s, at: f"t={at}", False, False),
        (lambda s, at: f"v1={s}", False, False),
        (lambda s, at: "", False, False),
        (lambda s, at: f"t={at},v1={s.upper()}", False, False),
        (lambda s, at: f"t={at},v1={s[:-1]}", False, False),
        (lambda s, at: f"t={at + 1},v1={s}", False, False),
        (lambda s, at: f"t={at}.0,v1={s}", False, False),
        (lambda s, at: stripe_old(at - 301), False, False),
        # Timestamps are strict here, and may not lie in the future.
        (lambda s, at: f"t=+{at},v1={s}", True, False),
        (lambda s, at: f"t=0{at},v1={s}", True, False),
        (lambda s, at: f"t= {at},v1={s}", True, False),
        (lambda s, at: f"t={at},t={at},v1={s}", True, False),
        (lambda s, at: stripe_old(at + 400), True, False),
        # Theirs takes only what stands before a second equals sign.
        (lambda s, at: f"t={at},v1={s}=", True, False),
    ],
)
def test_stripe_s_library_and_postroom(change: Callable[[str, int], str], theirs: bool, ours: bool) -> None:
    header = stripe_headers(change)
    verify = stripe.WebhookSignature.verify_header
    assert agrees(lambda: verify(BODY, header, SECRET, 300)) is theirs
    assert accepts("stripe", SECRET, {"Stripe-Signature": header}, BODY) is ours


@pytest.mark.parametrize(
    ("change", "theirs", "ours"),
    [
        (lambda s, at: (str(at), s), True, True),
        (lambda s, at: (str(at), s.upper()), False, False),
        (lambda s, at: (str(at), s[:-1]), False, False),
        (lambda s, at: (str(at), s.removeprefix("v0=")), False, False),
        (lambda s, at: (str(at), ""), False, False),
        (lambda s, at: (str(at), "é" * 67), False, False),
        (lambda s, at: (str(at + 1), s), False, False),
        (lambda s, at: (f"{at}.0", s), False, False),
        (lambda s, at: ("", s), False, False),
        (lambda s, at: slack_at(at - 301), False, False),
        (lambda s, at: slack_at(at + 302), False, False),
        # Timestamps are strict here.
        (lambda s, at: slack_at(at, "+"), True, False),
        (lambda s, at: slack_at(at, "0"), True, False),
    ],
)
def test_slack_s_library_and_postroom(
    change: Callable[[str, int], tuple[str, str]], theirs: bool, ours: bool
) -> None:
    at = now()
    stamp, signature = change(slack_at(at)[1], at)
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature}
    assert agrees(lambda: SignatureVerifier(SECRET).is_valid_request(BODY, headers)) is theirs
    assert accepts("slack", SECRET, headers, BODY) is ours


def slack_at(at: int, sign: str = "") -> tuple[str, str]:
    stamp = f"{sign}{at}"
    signature = SignatureVerifier(SECRET).generate_signature(timestamp=stamp, body=BODY)
    assert signature is not None
    return stamp, signature


def standard_at(at: int) -> tuple[str, str, str]:
    library = standardwebhooks.Webhook(WHSEC.decode())
    return "msg_1", str(at), library.sign("msg_1", datetime.fromtimestamp(at, UTC), BODY)


def twin(signature: str) -> str:
    """Return base64 of the same bytes, with other unused last bits."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return signature[:-2] + letters[letters.index(signature[-2]) ^ 1] + "="


@pytest.mark.parametrize(
    ("change", "theirs", "ours"),
    [
        (lambda i, t, s: (i, t, s), True, True),
        (lambda i, t, s: (i, t, f"v2,x {s}"), True, True),
        (lambda i, t, s: (i, t, f"v1,{'A' * 43}= {s}"), True, True),
        (lambda i, t, s: (i, t, s.replace("v1,", "v2,")), False, False),
        (lambda i, t, s: (i, t, s.replace("v1,", "")), False, False),
        (lambda i, t, s: (i, t, s.removesuffix("=")), False, False),
        (lambda i, t, s: (i, t, ""), False, False),
        (lambda i, t, s: ("msg_2", t, s), False, False),
        (lambda i, t, s: ("", t, s), False, False),
        (lambda i, t, s: (i, str(int(t) + 1), s), False, False),
        (lambda i, t, s: (i, "", s), False, False),
        (lambda i, t, s: (i, "now", s), False, False),
        (lambda i, t, s: standard_at(int(t) - 301), False, False),
        (lambda i, t, s: standard_at(int(t) + 302), False, False),
        # Timestamps are strict here, and signatures exact text.
        (lambda i, t, s: (i, f"{t}.0", s), True, False),
        (lambda i, t, s: (i, f"+{t}", s), True, False),
        (lambda i, t, s: (i, t, twin(s)), True, False),
        (lambda i, t, s: (i, t, s.replace("v1,", "v1,\n")), True, False),
    ],
)
def test_the_library_of_standard_webhooks_and_postroom(
    change: Callable[[str, str, str], tuple[str, str, str]], theirs: bool, ours: bool
) -> None:
    message_id, stamp, signature = change(*standard_at(now()))
    headers = {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": signature}
    as_svix = {name.replace("webhook", "svix"): value for name, value in headers.items()}
    library = standardwebhooks.Webhook(WHSEC.decode())
    assert agrees(lambda: library.verify(BODY, headers, json_parse=False)) is theirs
    assert agrees(lambda: svix.webhooks.Webhook(WHSEC.decode()).verify(BODY, as_svix)) is theirs
    assert accepts("standard-webhooks", WHSEC, headers, BODY) is ours
    assert accepts("svix", WHSEC, as_svix, BODY) is ours


TWILIO_URL = "https://example.org/in/a?b=1"


@pytest.mark.parametrize(
    ("url", "fields", "change", "theirs"),
    [
        (TWILIO_URL, {"a": "1"}, lambda s: s, True),
        (TWILIO_URL.replace("org", "org:443"), {"a": "1"}, lambda s: s, True),
        (TWILIO_URL.replace("org", "org:8443"), {"a": "1"}, lambda s: s, True),
        (TWILIO_URL.replace("https", "http"), {"a": "1"}, lambda s: s, False),
        (TWILIO_URL + "2", {"a": "1"}, lambda s: s, False),
        (TWILIO_URL, {"a": "2"}, lambda s: s, False),
        (TWILIO_URL, {"a": "1", "b": ""}, lambda s: s, False),
        (TWILIO_URL, {}, lambda s: s, False),
        (TWILIO_URL, {"a": "1"}, lambda s: s.removesuffix("="), False),
        (TWILIO_URL, {"a": "1"}, lambda s: s + "=", False),
        (TWILIO_URL, {"a": "1"}, lambda s: s.swapcase(), False),
        (TWILIO_URL, {"a": "1"}, twin, False),
        (TWILIO_URL, {"a": "1"}, lambda s: "", False),
        (TWILIO_URL, {"a": "1"}, lambda s: "é" * 28, False),
    ],
)
def test_twilio_s_library_and_postroom(
    url: str, fields: dict[str, str], change: Callable[[str], str], theirs: bool
) -> None:
    validator = RequestValidator(SECRET)
    signature = change(validator.compute_signature(TWILIO_URL, {"a": "1"}))
    headers = {"Content-Type": "application/x-www-form-urlencoded", "X-Twilio-Signature": signature}
    assert agrees(lambda: validator.validate(url, fields, signature)) is theirs
    assert accepts("twilio", SECRET, headers, urlencode(fields), url=url) is theirs


def test_a_secret_that_standard_webhooks_libraries_take_may_be_too_short_here() -> None:
    short = base64.b64encode(bytes(23)).decode()
    assert standardwebhooks.Webhook(f"whsec_{short}")
    with pytest.raises(ApiError, match="24 to 64 bytes"):
        check_secret("standard-webhooks", {}, f"whsec_{short}".encode())
