"""The generic template and the presets that are values of it: the verdicts, their order, and the signed text."""

import base64
import hmac
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.verify.genuine import genuine
from tests.web.verify.judging import BODY, NOW_US, Headers, judge, raw
from web.verify.model import Judgement
from web.verify.signing import sign

GOOD_HEX = b"a" * 64
GOOD_BASE64 = base64.b64encode(bytes(32))
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def signed(verifier: str, options: dict[str, Any], secret: bytes, body: bytes = BODY, **more: Any) -> Headers:
    return raw(sign(verifier, options, secret, body=body, now_us=NOW_US, **more).headers)


def github(signature: bytes) -> Headers:
    return [(b"x-hub-signature-256", signature)]


def stripe(value: bytes) -> Headers:
    return [(b"stripe-signature", value)]


# -- the order of the verdicts ---------------------------------------------------------------------------------


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
        (list(github(b"sha256=" + GOOD_HEX)) * 2, "malformed signature"),
        (github(b"sha256=" + GOOD_HEX), "signature mismatch"),
    ],
)
def test_the_shape_of_the_signature_decides_between_missing_malformed_and_mismatch(
    headers: Headers, error: str
) -> None:
    judgement = judge("github", {}, [b"k"], headers)
    assert (judgement.verified, judgement.error) == (False, error)


def test_without_an_active_secret_the_key_is_unknown() -> None:
    assert judge("github", {}, [], github(b"sha256=" + GOOD_HEX)).error == "unknown key"
    assert judge("github", {}, [], []).error == "missing signature"


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
    assert judge("stripe", {}, [b"k"], stripe(value)).error == error


def test_a_signature_without_its_timestamp_is_malformed_in_pairs_and_missing_in_headers() -> None:
    assert judge("stripe", {}, [b"k"], stripe(b"v1=" + GOOD_HEX)).error == "malformed signature"
    assert judge("stripe", {}, [b"k"], stripe(b"t=1700000000")).error == "malformed signature"
    headers = [(b"x-slack-signature", b"v0=" + GOOD_HEX)]
    assert judge("slack", {}, [b"k"], headers).error == "missing signature"
    stamp = (b"x-slack-request-timestamp", b"1700000000")
    assert judge("slack", {}, [b"k"], [*headers, stamp, stamp]).error == "malformed signature"


def test_the_timestamp_is_judged_before_the_key_and_the_key_before_the_signature() -> None:
    old = stripe(b"t=1,v1=" + GOOD_HEX)
    assert judge("stripe", {}, [], old).error == "timestamp outside tolerance"
    fresh = stripe(b"t=1700000000,v1=" + GOOD_HEX)
    assert judge("stripe", {}, [], fresh).error == "unknown key"
    assert judge("stripe", {}, [b"k"], fresh).error == "signature mismatch"


@pytest.mark.parametrize(
    ("preset", "tolerance_seconds"),
    [
        ("stripe", 300),
        ("slack", 300),
        ("standard-webhooks", 300),
        ("zoom", 300),
        ("linear", 60),
        ("paddle", 5),
        ("hubspot", 300),
        ("calendly", 180),
        ("webflow", 300),
        ("elevenlabs", 1_800),
    ],
)
def test_a_preset_has_the_tolerance_of_its_provider_to_the_microsecond(
    preset: str, tolerance_seconds: int
) -> None:
    request = genuine(preset)
    for sign_ in (-1, 1):
        edge = NOW_US + sign_ * tolerance_seconds * 1_000_000
        assert request.judged(at_us=edge).verified is True
        assert request.judged(at_us=edge + sign_).error == "timestamp outside tolerance"
    wider = {"tolerance_seconds": tolerance_seconds + 1}
    assert request.judged(options=wider, at_us=NOW_US + tolerance_seconds * 1_000_000 + 1).verified is True
    assert request.judged(options={"tolerance_seconds": 0}, at_us=0).verified is True


@pytest.mark.parametrize("preset", ["discord", "sendgrid"])
def test_a_timestamp_without_tolerance_may_be_of_any_age_unless_the_inbox_limits_it(preset: str) -> None:
    request = genuine(preset)
    assert request.judged(at_us=0).verified is True
    limited = request.judged(options={"tolerance_seconds": 300}, at_us=NOW_US + 300_000_001)
    assert limited.error == "timestamp outside tolerance"


# -- lists, pairs and candidates -------------------------------------------------------------------------------


def value_of(headers: Headers, name: bytes) -> bytes:
    return dict(headers)[name]


@pytest.mark.parametrize(
    "value",
    [
        b"t=1700000000,v1=%b",
        b"v1=%b,t=1700000000",
        b"t=1700000000,v1=" + b"0" * 64 + b",v0=x,v1=%b",
        b"t=1700000000,v1=%b,v1=" + b"0" * 64,
        b"t=1700000000,v1=short,,v1=%b,=",
    ],
)
def test_stripe_may_send_several_signatures_and_other_schemes(value: bytes) -> None:
    right = value_of(signed("stripe", {}, b"k"), b"stripe-signature").rpartition(b"=")[2]
    assert judge("stripe", {}, [b"k"], stripe(value % right)).verified is True


def test_stripe_s_old_scheme_alone_is_no_signature() -> None:
    right = value_of(signed("stripe", {}, b"k"), b"stripe-signature").rpartition(b"=")[2]
    assert judge("stripe", {}, [b"k"], stripe(b"t=1700000000,v0=" + right)).error == "malformed signature"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_pagerduty_and_standard_webhooks_send_lists(place: int) -> None:
    for preset, header, separator, other in (
        ("pagerduty", b"x-pagerduty-signature", b",", b"v1=" + b"0" * 64),
        ("standard-webhooks", b"webhook-signature", b" ", b"v1," + GOOD_BASE64),
        ("paddle", b"paddle-signature", b";", b"h1=" + b"0" * 64),
    ):
        request = genuine(preset, BODY)
        items = [other, other]
        items.insert(place, value_of(request.headers, header))
        listed = [(name, separator.join(items) if name == header else v) for name, v in request.headers]
        assert request.judged(headers=listed).verified is True, preset


def test_hookdeck_signs_with_two_keys_while_one_replaces_the_other() -> None:
    [(name, new)] = [h for h in signed("hookdeck", {}, b"new") if h[0] == b"x-hookdeck-signature"]
    [(_, old)] = [h for h in signed("hookdeck", {}, b"old") if h[0] == b"x-hookdeck-signature"]
    second = (b"x-hookdeck-signature-2", old)
    both = [(name, new), second]
    for secret in (b"new", b"old"):
        assert judge("hookdeck", {}, [secret], both).verified is True
    assert judge("hookdeck", {}, [b"third"], both).error == "signature mismatch"
    assert judge("hookdeck", {}, [b"old"], [second]).error == "missing signature"
    assert judge("hookdeck", {}, [b"old"], [*both, second]).error == "malformed signature"
    assert judge("hookdeck", {}, [b"new"], [(name, new), (second[0], b"?")]).verified is True


# -- exact text --------------------------------------------------------------------------------------------------


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
    twin = right[:-2] + LETTERS[LETTERS.index(right[-2]) ^ 1 :][:1] + b"="
    assert base64.b64decode(twin) == base64.b64decode(right)
    options = {"header": "X-S", "encoding": "base64"}
    assert judge("hmac", options, [b"k"], [(b"x-s", right)]).verified is True
    assert judge("hmac", options, [b"k"], [(b"x-s", twin)]).error == "signature mismatch"


def test_base64url_may_be_padded_or_not() -> None:
    right = base64.urlsafe_b64encode(hmac.digest(b"k", BODY, "sha256"))
    options = {"header": "X-S", "encoding": "base64url"}
    for value in (right, right.rstrip(b"=")):
        assert judge("hmac", options, [b"k"], [(b"x-s", value)]).verified is True


# -- secrets and streaming -----------------------------------------------------------------------------------------


def test_any_active_secret_may_have_signed() -> None:
    headers = signed("github", {}, b"new")
    assert judge("github", {}, [b"old", b"new"], headers).verified is True
    assert judge("github", {}, [b"old"], headers).error == "signature mismatch"


def test_a_secret_that_is_no_key_of_this_scheme_is_passed_over() -> None:
    options = {"header": "X-S", "key": "hex"}
    headers = signed("hmac", options, b"00ff")
    assert judge("hmac", options, [b"not hex", b"00ff"], headers).verified is True
    assert judge("hmac", options, [b"not hex", b""], headers).error == "unknown key"


@given(st.binary(max_size=200), st.integers(1, 20))
def test_the_verdict_does_not_depend_on_how_the_body_is_cut(body: bytes, pieces: int) -> None:
    for preset in ("github", "hubspot", "sendgrid", "discord", "trello", "twilio"):
        request = genuine(preset, body)
        assert request.judged(pieces=pieces).verified is True, preset


SIGNED_TEXTS: Sequence[str] = (
    "{body}",
    "{ts}.{body}",
    "v0:{ts}:{body}",
    "{id}.{ts}.{body}",
    "{url}{body}",
    "{method}{url}{body}{ts}",
    "{ts}body{body}ts",
)


@pytest.mark.parametrize("text", SIGNED_TEXTS)
def test_parts_of_the_head_may_stand_before_and_after_the_body(text: str) -> None:
    options = {
        "header": "X-S",
        "signed": text,
        "timestamp": "header:X-T",
        "timestamp_unit": "milliseconds",
        "delivery_id": "header:X-Id",
    }
    url = "https://example.org/in/a?b=\xe9"
    headers = signed("hmac", options, b"k", method="PUT", url=url, delivery_id="d")
    same = {"method": "PUT", "url": url}
    assert judge("hmac", options, [b"k"], headers, pieces=7, **same) == Judgement(True, None, "", "d")
    for part, header in {"{ts}": b"x-t", "{id}": b"x-id"}.items():
        if part in text:
            other = [(name, b"1700000000001" if name == header else v) for name, v in headers]
            assert judge("hmac", options, [b"k"], other, **same).error == "signature mismatch"
    if "{url}" in text:
        assert judge("hmac", options, [b"k"], headers, method="PUT").error == "signature mismatch"
    if "{method}" in text:
        assert judge("hmac", options, [b"k"], headers, url=url).error == "signature mismatch"


def test_an_empty_signed_id_is_malformed() -> None:
    request = genuine("standard-webhooks")
    headers = [(name, b"" if name == b"webhook-id" else value) for name, value in request.headers]
    assert request.judged(headers=headers).error == "malformed signature"
    options = {"header": "X-S", "signed": "{id}.{body}", "delivery_id": "header:x-id"}
    right = hmac.digest(b"k", b"." + BODY, "sha256").hex()
    headers = raw([("x-s", right), ("x-id", "")])
    assert judge("hmac", options, [b"k"], headers).error == "malformed signature"


@pytest.mark.parametrize("preset", ["linear", "hmac"])
def test_a_timestamp_in_the_body_is_judged_after_the_comparison_but_told_first(preset: str) -> None:
    options = {"header": "X-S", "timestamp": "body:webhookTimestamp", "timestamp_unit": "milliseconds"}
    own = options if preset == "hmac" else {}

    def verdict(body: bytes, secret: bytes = b"k") -> str | None:
        return judge(preset, own, [b"k"], signed(preset, own, secret, body), body).error

    assert verdict(b'{"webhookTimestamp":1700000000000}') is None
    assert verdict(b'{"webhookTimestamp":1600000000000}') == "timestamp outside tolerance"
    assert verdict(b'{"webhookTimestamp":1600000000000}', b"other") == "timestamp outside tolerance"
    assert verdict(b'{"webhookTimestamp":1700000000000}', b"other") == "signature mismatch"
    for stamp in (
        b"1700000000000.0",
        b"null",
        b"-1",
        b'"+1"',
        b'"+1700000000000"',
        b'""',
        b"[]",
        b"true",
        b"1e12",
    ):
        for secret in (b"k", b"other"):
            assert verdict(b'{"webhookTimestamp":%b}' % stamp, secret) == "malformed signature", stamp
    for body in (b"{}", b"[]", b"", b"not JSON"):
        for secret in (b"k", b"other"):
            assert verdict(body, secret) == "malformed signature", body
