"""Verification of one request: the verdicts, their order, and that no input can be anything but a verdict."""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.records import InboxSettings, Secret
from storage.secret import SecretBytes
from web.errors import ApiError
from web.verify.digest import Digest
from web.verify.model import Judgement, SignedHead
from web.verify.presets import PRESETS
from web.verify.registry import SCHEMES, check_secret, check_verifier, compile_verifier
from web.verify.signing import sign

NOW_US = 1_700_000_000_000_000
BODY = b'{"id":"evt_1","type":"paid","event":{"type":"inner"}}'
Headers = Sequence[tuple[bytes, bytes]]


class Whole:
    """A body in memory that counts how often it is asked for."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.size = len(body)
        self.reads = 0

    def whole(self) -> bytes:
        self.reads += 1
        return self.body


def judge(
    verifier: str,
    options: Mapping[str, Any],
    secrets: Sequence[bytes],
    headers: Headers,
    body: bytes = BODY,
    *,
    at_us: int = NOW_US,
    pieces: int = 1,
    method: str = "POST",
    url: str = "https://example.org/in/a",
) -> Judgement:
    settings = InboxSettings(verifier=verifier, verifier_options=dict(options))
    held = tuple(Secret(f"s{n}", SecretBytes(value), 0) for n, value in enumerate(secrets))
    check = compile_verifier(settings, held).begin(SignedHead(method, url, headers, at_us))
    step = max(1, -(-len(body) // pieces))
    for start in range(0, len(body), step):
        check.update(body[start : start + step])
    return check.finish(Whole(body))


def raw(headers: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers]


def github(signature: bytes) -> Headers:
    return [(b"x-hub-signature-256", signature)]


# -- the provider's own vectors -------------------------------------------------------------------------------

# GitHub's documentation, "Validating webhook deliveries", section "Testing the webhook payload validation".
GITHUB_SECRET = b"It's a Secret to Everybody"
GITHUB_BODY = b"Hello, World!"
GITHUB_SIGNATURE = b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

# Convoy's documentation of its generic HMAC scheme: SHA-512, hex, over the body.
CONVOY_SIGNATURE = (
    b"83306382f5361d35351d6de45998f23b52f40bcf96befe4e92f137c0f1bf4a7119388b238d8f9d502ac77e6f1a8849a4"
    b"778272667ed88d530cac8050bd1fee2d"
)

SLACK = {
    "header": "X-Slack-Signature",
    "prefix": "v0=",
    "signed": "v0:{ts}:{body}",
    "timestamp": "header:X-Slack-Request-Timestamp",
    "delivery_id": "body:event_id",
    "event_type": ["body:event.type", "body:type"],
}
# Slack's documentation, "Verifying requests from Slack".
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
    b"96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)

STANDARD = {
    "header": "webhook-signature",
    "prefix": "v1,",
    "separator": " ",
    "encoding": "base64",
    "signed": "{id}.{ts}.{body}",
    "timestamp": "header:webhook-timestamp",
    "key": "base64",
    "key_prefix": "whsec_",
    "delivery_id": "header:webhook-id",
    "event_type": "body:type",
}

STRIPE = {
    "header": "Stripe-Signature",
    "pair": "v1",
    "signed": "{ts}.{body}",
    "timestamp": "pair:t",
    "delivery_id": "body:id",
    "event_type": "body:type",
}


def test_the_vector_of_github_s_documentation_verifies() -> None:
    headers = [*github(GITHUB_SIGNATURE), (b"x-github-event", b"push"), (b"x-github-delivery", b"72d3162e")]
    judgement = judge("github", {}, [GITHUB_SECRET], headers, GITHUB_BODY)
    assert judgement == Judgement(True, None, "push", "72d3162e")


def test_the_generic_template_verifies_a_sha512_vector() -> None:
    options = {"header": "X-Signature", "algorithm": "sha512"}
    headers = [(b"x-signature", CONVOY_SIGNATURE)]
    assert judge("hmac", options, [b"Convoy"], headers, b"Test Payload Body").verified is True


def test_slack_s_vector_is_a_value_of_the_template() -> None:
    headers = [
        (b"x-slack-request-timestamp", b"1531420618"),
        (b"x-slack-signature", b"v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
    ]
    secret = b"8f742231b10e8888abcd99yyyzzz85a5"
    at = 1_531_420_618_000_000
    assert judge("hmac", SLACK, [secret], headers, SLACK_BODY, at_us=at) == Judgement(True, None, "", None)
    late = judge("hmac", SLACK, [secret], headers, SLACK_BODY, at_us=at + 301_000_000)
    assert late.error == "timestamp outside tolerance"


@pytest.mark.parametrize(
    ("secret", "sent_at", "body", "delivery_id", "signature"),
    [
        # The Standard Webhooks specification's reference libraries, their own tests.
        (
            b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            1_614_265_330,
            b'{"test": 2432232314}',
            b"msg_p5jXN8AQM9LWM0D4loKWxJek",
            b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        # Svix's documentation, "Verifying webhooks manually".
        (
            b"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            1_649_367_553,
            b'{"email":"test@example.com","username":"test_user"}',
            b"msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            b"v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
    ],
)
def test_standard_webhooks_vectors_are_values_of_the_template(
    secret: bytes, sent_at: int, body: bytes, delivery_id: bytes, signature: bytes
) -> None:
    headers = [
        (b"webhook-id", delivery_id),
        (b"webhook-timestamp", b"%d" % sent_at),
        (b"webhook-signature", b"v1a,AAAA " + signature + b" v2,x"),
    ]
    judgement = judge("hmac", STANDARD, [secret], headers, body, at_us=sent_at * 1_000_000)
    assert judgement == Judgement(True, None, "", delivery_id.decode())


def test_a_vector_computed_as_stripe_documents_it_is_a_value_of_the_template() -> None:
    body = b'{"id":"evt_test_webhook","object":"event"}'
    signature = b"d95c6b7477fbd7e9f90b1b0ef5f9c7ac25abca5382460e0d988c2b2a5b71b990"
    for value in (
        b"t=1700000000,v1=" + signature,
        b"t=1700000000,v1=" + b"0" * 64 + b",v0=x,v1=" + signature,
    ):
        judgement = judge("hmac", STRIPE, [b"whsec_test_secret"], [(b"stripe-signature", value)], body)
        assert judgement == Judgement(True, None, "", "evt_test_webhook")


# -- one flipped bit ------------------------------------------------------------------------------------------


def test_every_flipped_bit_of_the_body_or_the_secret_is_a_mismatch() -> None:
    for n in range(len(GITHUB_BODY) * 8):
        body = bytearray(GITHUB_BODY)
        body[n // 8] ^= 1 << n % 8
        judgement = judge("github", {}, [GITHUB_SECRET], github(GITHUB_SIGNATURE), bytes(body))
        assert (judgement.verified, judgement.error) == (False, "signature mismatch")
    for n in range(len(GITHUB_SECRET) * 8):
        secret = bytearray(GITHUB_SECRET)
        secret[n // 8] ^= 1 << n % 8
        judgement = judge("github", {}, [bytes(secret)], github(GITHUB_SIGNATURE), GITHUB_BODY)
        assert judgement.error == "signature mismatch"


def test_every_flipped_bit_of_the_signature_is_a_mismatch_or_malformed() -> None:
    for n in range(len(GITHUB_SIGNATURE) * 8):
        signature = bytearray(GITHUB_SIGNATURE)
        signature[n // 8] ^= 1 << n % 8
        judgement = judge("github", {}, [GITHUB_SECRET], github(bytes(signature)), GITHUB_BODY)
        hex_still = signature.startswith(b"sha256=") and set(signature[7:]) <= set(b"0123456789abcdef")
        assert judgement.error == ("signature mismatch" if hex_still else "malformed signature")


# -- the order of the verdicts --------------------------------------------------------------------------------

GOOD_HEX = b"a" * 64
GOOD_BASE64 = base64.b64encode(bytes(32))


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ([], "missing signature"),
        ([(b"x-hub-signature", b"sha1=aa")], "missing signature"),
        (github(b""), "malformed signature"),
        (github(b"sha256="), "malformed signature"),
        (github(GOOD_HEX), "malformed signature"),
        (github(b"sha1=" + b"a" * 40), "malformed signature"),
        (github(b"sha256=" + b"A" * 64), "malformed signature"),
        (github(b"SHA256=" + GOOD_HEX), "malformed signature"),
        (github(b"sha256=" + GOOD_HEX[:-1]), "malformed signature"),
        (github(b"sha256=" + GOOD_HEX + b"0"), "malformed signature"),
        (github(b"sha256=" + b"\xe9" * 64), "malformed signature"),
        (github(b"sha256= " + GOOD_HEX), "malformed signature"),
        (github(b"sha256=" + GOOD_HEX + b"\n"), "malformed signature"),
        (github(b"sha256=" + b"a" * 32_768), "malformed signature"),
        (github(b"sha256=" + GOOD_HEX) * 2, "malformed signature"),
        (github(b"sha256=" + GOOD_HEX), "signature mismatch"),
    ],
)
def test_the_shape_of_the_signature_decides_between_missing_malformed_and_mismatch(
    headers: Headers, error: str
) -> None:
    judgement = judge("github", {}, [b"k"], headers)
    assert (judgement.verified, judgement.error) == (False, error)


def test_a_right_signature_given_twice_is_malformed() -> None:
    headers = [*github(GITHUB_SIGNATURE), *github(GITHUB_SIGNATURE)]
    assert judge("github", {}, [GITHUB_SECRET], headers, GITHUB_BODY).error == "malformed signature"


def test_without_an_active_secret_the_key_is_unknown() -> None:
    assert judge("github", {}, [], github(b"sha256=" + GOOD_HEX)).error == "unknown key"
    assert judge("github", {}, [], []).error == "missing signature"


def stripe(value: bytes) -> Headers:
    return [(b"stripe-signature", value)]


@pytest.mark.parametrize(
    ("stamp", "error"),
    [
        (b"1700000000", "signature mismatch"),
        (b"1699999700", "signature mismatch"),
        (b"1700000300", "signature mismatch"),
        (b"1699999699", "timestamp outside tolerance"),
        (b"1700000301", "timestamp outside tolerance"),
        (b"0", "timestamp outside tolerance"),
        (b"9999999999999999999", "timestamp outside tolerance"),
        (b"99999999999999999999", "malformed signature"),
        (b"1700000000.0", "malformed signature"),
        (b"+1700000000", "malformed signature"),
        (b"-1700000000", "malformed signature"),
        (b"01700000000", "malformed signature"),
        (b" 1700000000", "malformed signature"),
        (b"1_700_000_000", "malformed signature"),
        ("１７００００００００".encode(), "malformed signature"),
        (b"", "malformed signature"),
        (b"1700000000,t=1700000000", "malformed signature"),
    ],
)
def test_timestamps_are_strict_integers_within_the_tolerance_both_ways(stamp: bytes, error: str) -> None:
    value = b"t=" + stamp + b",v1=" + GOOD_HEX
    assert judge("hmac", STRIPE, [b"k"], stripe(value)).error == error


def test_a_signature_without_its_timestamp_is_malformed_in_pairs_and_missing_in_headers() -> None:
    assert judge("hmac", STRIPE, [b"k"], stripe(b"v1=" + GOOD_HEX)).error == "malformed signature"
    assert judge("hmac", STRIPE, [b"k"], stripe(b"t=1700000000")).error == "malformed signature"
    headers = [(b"x-slack-signature", b"v0=" + GOOD_HEX)]
    assert judge("hmac", SLACK, [b"k"], headers).error == "missing signature"
    stamp = (b"x-slack-request-timestamp", b"1700000000")
    assert judge("hmac", SLACK, [b"k"], [*headers, stamp, stamp]).error == "malformed signature"


def test_the_timestamp_is_judged_before_the_key_and_the_key_before_the_signature() -> None:
    old = stripe(b"t=1,v1=" + GOOD_HEX)
    assert judge("hmac", STRIPE, [], old).error == "timestamp outside tolerance"
    fresh = stripe(b"t=1700000000,v1=" + GOOD_HEX)
    assert judge("hmac", STRIPE, [], fresh).error == "unknown key"


def test_a_tolerance_of_zero_checks_no_timestamp() -> None:
    options = {**STRIPE, "tolerance_seconds": 0}
    assert judge("hmac", options, [b"k"], stripe(b"t=1,v1=" + GOOD_HEX)).error == "signature mismatch"


@pytest.mark.parametrize(
    ("encoding", "value", "error"),
    [
        ("base64", GOOD_BASE64, "signature mismatch"),
        ("base64", GOOD_BASE64.rstrip(b"="), "malformed signature"),
        ("base64", GOOD_BASE64[:-2] + b"B=", "signature mismatch"),
        ("base64", GOOD_BASE64[:-2] + b"-=", "malformed signature"),
        ("base64", b"\xff" * 44, "malformed signature"),
        ("base64url", GOOD_BASE64.rstrip(b"="), "signature mismatch"),
        ("base64url", GOOD_BASE64, "signature mismatch"),
        ("base64url", b"+" * 43, "malformed signature"),
    ],
)
def test_base64_is_exact_text(encoding: str, value: bytes, error: str) -> None:
    options = {"header": "X-S", "encoding": encoding}
    assert judge("hmac", options, [b"k"], [(b"x-s", value)]).error == error


def test_base64_with_other_unused_last_bits_does_not_verify() -> None:
    right = base64.b64encode(hmac.digest(b"k", BODY, "sha256"))
    assert right.endswith(b"=")
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    twin = right[:-2] + letters[letters.index(right[-2]) ^ 1 :][:1] + b"="
    assert base64.b64decode(twin) == base64.b64decode(right)
    options = {"header": "X-S", "encoding": "base64"}
    assert judge("hmac", options, [b"k"], [(b"x-s", right)]).verified is True
    assert judge("hmac", options, [b"k"], [(b"x-s", twin)]).error == "signature mismatch"


def test_base64url_may_be_padded_or_not() -> None:
    right = base64.urlsafe_b64encode(hmac.digest(b"k", BODY, "sha256"))
    options = {"header": "X-S", "encoding": "base64url"}
    for value in (right, right.rstrip(b"=")):
        assert judge("hmac", options, [b"k"], [(b"x-s", value)]).verified is True


# -- secrets and streaming --------------------------------------------------------------------------------------


def test_any_active_secret_may_have_signed() -> None:
    headers = raw(sign("github", {}, b"new", body=BODY, now_us=NOW_US))
    assert judge("github", {}, [b"old", b"new"], headers).verified is True
    assert judge("github", {}, [b"old"], headers).error == "signature mismatch"


def test_a_secret_that_is_no_key_of_this_scheme_is_passed_over() -> None:
    options = {"header": "X-S", "key": "hex"}
    headers = raw(sign("hmac", options, b"00ff", body=BODY, now_us=NOW_US))
    assert judge("hmac", options, [b"not hex", b"00ff"], headers).verified is True
    assert judge("hmac", options, [b"not hex", b""], headers).error == "unknown key"


@given(st.binary(max_size=200), st.integers(1, 20))
def test_the_verdict_does_not_depend_on_how_the_body_is_cut(body: bytes, pieces: int) -> None:
    headers = raw(sign("github", {}, b"k", body=body, now_us=NOW_US))
    assert judge("github", {}, [b"k"], headers, body, pieces=pieces).verified is True


@pytest.mark.parametrize(
    "signed",
    [
        "{body}",
        "{ts}.{body}",
        "v0:{ts}:{body}",
        "{id}.{ts}.{body}",
        "{url}{body}",
        "{method}{url}{body}{ts}",
        "{ts}body{body}ts",
    ],
)
def test_parts_of_the_head_may_stand_before_and_after_the_body(signed: str) -> None:
    options = {
        "header": "X-S",
        "signed": signed,
        "timestamp": "header:X-T",
        "timestamp_unit": "milliseconds",
        "delivery_id": "header:X-Id",
    }
    url = "https://example.org/in/a?b=\xe9"
    headers = raw(
        sign("hmac", options, b"k", body=BODY, now_us=NOW_US, method="PUT", url=url, delivery_id="d")
    )
    same = {"method": "PUT", "url": url}
    assert judge("hmac", options, [b"k"], headers, pieces=7, **same) == Judgement(True, None, "", "d")
    parts = {"{ts}": "x-t", "{id}": "x-id"}
    for part, header in parts.items():
        if part in signed:
            other = [(name, b"1700000000001" if name == header.encode() else v) for name, v in headers]
            assert judge("hmac", options, [b"k"], other, **same).error == "signature mismatch"
    if "{url}" in signed:
        assert judge("hmac", options, [b"k"], headers, method="PUT").error == "signature mismatch"
    if "{method}" in signed:
        assert judge("hmac", options, [b"k"], headers, url=url).error == "signature mismatch"


def test_a_timestamp_in_the_body_is_judged_after_the_comparison_but_told_first() -> None:
    options = {"header": "X-S", "timestamp": "body:at", "timestamp_unit": "milliseconds"}

    def verdict(body: bytes, secret: bytes = b"k") -> str | None:
        headers = raw(sign("hmac", options, secret, body=body, now_us=NOW_US))
        return judge("hmac", options, [b"k"], headers, body).error

    assert verdict(b'{"at":1700000000000}') is None
    assert verdict(b'{"at":1600000000000}') == "timestamp outside tolerance"
    assert verdict(b'{"at":1600000000000}', b"other") == "timestamp outside tolerance"
    assert verdict(b'{"at":1700000000000}', b"other") == "signature mismatch"
    assert verdict(b"{}") == "timestamp outside tolerance"
    assert verdict(b"{}", b"other") == "signature mismatch"


# -- what the sender claims -------------------------------------------------------------------------------------


def test_an_unverified_message_still_says_what_it_claims_to_be() -> None:
    headers = [(b"x-github-event", b"push"), (b"x-github-delivery", b"d-1"), (b"x-github-delivery", b"d-2")]
    assert judge("github", {}, [b"k"], headers) == Judgement(False, "missing signature", "push", "d-1")


@pytest.mark.parametrize(
    ("source", "body", "event_type"),
    [
        ("body:type", BODY, "paid"),
        ("body:event.type", BODY, "inner"),
        (["body:event.kind", "body:type"], BODY, "paid"),
        (["header:x-kind", "body:type"], BODY, "from-header"),
        (["header:x-none", "body:type"], BODY, "paid"),
        ("body:[0].event", b' [{"event":"open"},{"event":3},7]', "open"),
        ("body:[1].event", b'[{"event":"open"},{"event":3},7]', "3"),
        ("body:[3].event", b'[{"event":"open"}]', ""),
        ("body:value[0].changeType", b'{"value":[{"changeType":"created"}]}', "created"),
        ("body:type", b'{"type":null}', ""),
        ("body:type", b'{"type":["a"]}', ""),
        ("body:type", b'{"type":1.5}', ""),
        ("body:type", b'{"type":"a"', ""),
        ("body:type", b"type=a", ""),
        ("body:type", b"", ""),
        ("body:type", b"[]", ""),
        ("body:event.type", b'{"event":"x"}', ""),
        ("body:type", b'{"type":"' + b"a" * 200 + b'"}', "a" * 200),
        ("body:type", b'{"type":"' + b"a" * 201 + b'"}', ""),
        ("body:type", b'{"deep":' + b"[" * 9_000 + b"]" * 9_000 + b',"type":"a"}', ""),
        ("header:x-caf\xe9"[:8], BODY, ""),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_event_type_is_found_where_the_inbox_says(source: Any, body: bytes, event_type: str) -> None:
    headers = [(b"x-kind", b"from-header")]
    assert judge("none", {"event_type": source}, [], headers, body).event_type == event_type


def test_a_body_is_read_again_only_when_a_path_asks_for_it() -> None:
    for options, reads in (({}, 0), ({"event_type": "header:x-e"}, 0), ({"event_type": "body:type"}, 1)):
        body = Whole(BODY)
        verifier = compile_verifier(InboxSettings(verifier="none", verifier_options=dict(options)), ())
        verifier.begin(SignedHead("POST", "", [], NOW_US)).finish(body)
        assert body.reads == reads


def test_an_overlong_delivery_id_counts_as_none() -> None:
    options = {"delivery_id": "header:x-id"}
    assert judge("none", options, [], [(b"x-id", b"d" * 1_024)]).delivery_id == "d" * 1_024
    assert judge("none", options, [], [(b"x-id", b"d" * 1_025)]).delivery_id is None
    assert judge("none", options, [], [(b"x-id", b"")]).delivery_id is None


def test_an_inbox_without_verifier_gives_no_verdict() -> None:
    assert judge("none", {}, [b"k"], github(GITHUB_SIGNATURE)) == Judgement(None, None, "", None)


# -- never anything but a verdict -----------------------------------------------------------------------------------

WORDINGS = {
    None,
    "missing signature",
    "malformed signature",
    "timestamp outside tolerance",
    "unknown key",
    "signature mismatch",
}
SCHEME_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("github", {}),
    ("hmac", SLACK),
    ("hmac", STANDARD),
    ("hmac", STRIPE),
    ("hmac", {"header": "x-s", "timestamp": "body:[0].t", "encoding": "base64url"}),
    ("none", {"event_type": ["body:[2].a.b", "header:x-s"], "delivery_id": "body:id"}),
]
NAMES = [
    b"x-hub-signature-256",
    b"x-slack-signature",
    b"x-slack-request-timestamp",
    b"webhook-signature",
    b"webhook-timestamp",
    b"webhook-id",
    b"stripe-signature",
    b"x-s",
]


@given(
    st.sampled_from(SCHEME_OPTIONS),
    st.lists(st.tuples(st.sampled_from(NAMES), st.binary(max_size=120)), max_size=8),
    st.binary(max_size=60),
    st.integers(-(2**62), 2**62),
)
def test_whatever_arrives_gets_a_verdict(
    scheme: tuple[str, dict[str, Any]], headers: Headers, body: bytes, at_us: int
) -> None:
    judgement = judge(*scheme, [b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], headers, body, at_us=at_us)
    assert judgement.error in WORDINGS
    assert judgement.verified is (None if scheme[0] == "none" else False)


@given(st.sampled_from(SCHEME_OPTIONS[:4]), st.binary(max_size=300), st.binary(min_size=24, max_size=64))
def test_what_we_sign_we_verify(scheme: tuple[str, dict[str, Any]], body: bytes, key: bytes) -> None:
    secret = b"whsec_" + base64.b64encode(key)
    headers = raw(sign(*scheme, secret, body=body, now_us=NOW_US, delivery_id="d-1", event_type="e"))
    assert judge(*scheme, [secret], headers, body).verified is True
    assert judge(*scheme, [secret], headers, body + b"x").error == "signature mismatch"


def test_an_independent_computation_agrees_with_what_we_sign() -> None:
    headers = dict(sign("github", {}, b"k", body=BODY, now_us=NOW_US, delivery_id="d-1", event_type="push"))
    assert headers == {
        "x-github-delivery": "d-1",
        "x-github-event": "push",
        "x-hub-signature-256": "sha256=" + hmac.new(b"k", BODY, hashlib.sha256).hexdigest(),
    }
    stamped = b"1700000000." + BODY
    expected = "t=1700000000,v1=" + hmac.new(b"k", stamped, hashlib.sha256).hexdigest()
    assert sign("hmac", STRIPE, b"k", body=BODY, now_us=NOW_US) == [("stripe-signature", expected)]


def test_signing_needs_a_scheme_a_key_and_sometimes_an_id() -> None:
    for verifier, options, secret, field in (
        ("none", {}, b"k", "verifier"),
        ("nobody", {}, b"k", "verifier"),
        ("hmac", {}, b"k", "verifier_options.header"),
        ("hmac", STANDARD, b"whsec_!", "value"),
        ("hmac", STANDARD, b"whsec_" + base64.b64encode(bytes(32)), "delivery_id"),
    ):
        with pytest.raises(ApiError) as refused:
            sign(verifier, options, secret, body=b"", now_us=NOW_US)
        assert refused.value.field == field


# -- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verifier", "options", "field"),
    [
        ("nobody", {}, "verifier"),
        ("", {}, "verifier"),
        ("github", {"header": "X"}, "verifier_options.header"),
        ("none", {"header": "X"}, "verifier_options.header"),
        ("none", {"event_type": "pair:t"}, "verifier_options.event_type"),
        ("hmac", {}, "verifier_options.header"),
        ("hmac", {"header": ""}, "verifier_options.header"),
        ("hmac", {"header": "X Y"}, "verifier_options.header"),
        ("hmac", {"header": 3}, "verifier_options.header"),
        ("hmac", {"header": "X", "algorithm": "md5"}, "verifier_options.algorithm"),
        ("hmac", {"header": "X", "encoding": "HEX"}, "verifier_options.encoding"),
        ("hmac", {"header": "X", "prefix": "\n"}, "verifier_options.prefix"),
        ("hmac", {"header": "X", "separator": "::"}, "verifier_options.separator"),
        ("hmac", {"header": "X", "pair": "v=1"}, "verifier_options.pair"),
        ("hmac", {"header": "X", "signed": "{ts}"}, "verifier_options.signed"),
        ("hmac", {"header": "X", "signed": "{body}{body}"}, "verifier_options.signed"),
        ("hmac", {"header": "X", "signed": "{body}{nonce}"}, "verifier_options.signed"),
        ("hmac", {"header": "X", "signed": "{body}\r\n"}, "verifier_options.signed"),
        ("hmac", {"header": "X", "signed": "{ts}{body}"}, "verifier_options.timestamp"),
        ("hmac", {"header": "X", "timestamp": "pair:t"}, "verifier_options.timestamp"),
        ("hmac", {"header": "X", "timestamp": "t"}, "verifier_options.timestamp"),
        (
            "hmac",
            {"header": "X", "signed": "{ts}{body}", "timestamp": "body:t"},
            "verifier_options.timestamp",
        ),
        ("hmac", {"header": "X", "signed": "{id}{body}"}, "verifier_options.delivery_id"),
        ("hmac", {"header": "X", "tolerance_seconds": -1}, "verifier_options.tolerance_seconds"),
        ("hmac", {"header": "X", "tolerance_seconds": 1e9}, "verifier_options.tolerance_seconds"),
        ("hmac", {"header": "X", "timestamp_unit": "s"}, "verifier_options.timestamp_unit"),
        ("hmac", {"header": "X", "key": "rot13"}, "verifier_options.key"),
        ("hmac", {"header": "X", "event_type": "body:a..b"}, "verifier_options.event_type"),
        ("hmac", {"header": "X", "event_type": "body:[99]"}, "verifier_options.event_type"),
        ("hmac", {"header": "X", "event_type": ["body:a"] * 5}, "verifier_options.event_type"),
        ("hmac", {"header": "X", "delivery_id": [1]}, "verifier_options.delivery_id"),
        ("hmac", {"header": "X", "colour": "red"}, "verifier_options.colour"),
    ],
)
def test_a_bad_configuration_names_its_field(verifier: str, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_verifier(verifier, options)
    assert (refused.value.code, refused.value.field) == ("invalid_argument", field)


@pytest.mark.parametrize("scheme", SCHEME_OPTIONS, ids=lambda scheme: scheme[0])
def test_a_good_configuration_is_accepted(scheme: tuple[str, dict[str, Any]]) -> None:
    check_verifier(*scheme)


def test_a_secret_is_checked_against_its_scheme_before_it_is_kept() -> None:
    check_secret("github", {}, b"anything")
    check_secret("none", {}, b"")
    for options, value in (
        ({"header": "X", "key": "hex"}, b"xyz"),
        (STANDARD, b"whsec_"),
        ({"header": "X"}, b""),
    ):
        with pytest.raises(ApiError) as refused:
            check_secret("hmac", options, value)
        assert refused.value.field == "value"


def test_every_preset_is_a_scheme_under_its_own_name() -> None:
    assert set(SCHEMES) == {"none", "hmac", *PRESETS}
    for name in PRESETS:
        assert PRESETS[name].name == name
        assert compile_verifier(InboxSettings(verifier=name), ()).name == name


def test_digests_and_secrets_have_no_equality() -> None:
    for hidden in (Digest(b"abc"), SecretBytes(b"abc")):
        with pytest.raises(TypeError, match="matches"):
            assert hidden == hidden
        with pytest.raises(TypeError):
            hash(hidden)
        assert "abc" not in repr(hidden)
        assert hidden.matches(b"abc")
        assert not hidden.matches(b"abd")
