"""Templates in combinations that no provider has, but an inbox's owner may write; and what is told of several."""

import hmac
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from storage.records import InboxSettings
from storage.secret import SecretBytes
from tests.web.verify.judging import BODY, NOW_US, URL, Headers, Whole, held, judge, raw
from web.verify.keys import make_key
from web.verify.model import MALFORMED, MISMATCH, UNKNOWN_KEY, Failed, SignedHead
from web.verify.registry import compile_verifier
from web.verify.signatures import Joint, TemplateMethod
from web.verify.signing import sign
from web.verify.template import PresetTemplate

SECRET = b"a secret of a webhook"
NOW = NOW_US // 1_000_000
STAMPED = b'{"sent":"%d"}'


def mac(*parts: bytes) -> str:
    return hmac.new(SECRET, b"".join(parts), "sha256").hexdigest()


def error(options: dict[str, Any], headers: Headers, body: bytes = BODY, **more: Any) -> str | None:
    return judge("hmac", {"header": "X-Signature", **options}, [SECRET], headers, body, **more).error


@pytest.mark.parametrize(
    "text", ["{id}.{ts}.{body}", "{ts}.{id}.{body}", "{body}.{ts}.{method}.{id}", "{url}{ts}{body}{id}"]
)
def test_an_id_is_signed_wherever_it_stands(text: str) -> None:
    options = {"signed": text, "timestamp": "header:x-time", "delivery_id": "header:x-id"}
    parts = {"body": BODY.decode(), "id": "d-1", "ts": str(NOW), "url": URL, "method": "POST"}
    right = mac(text.format_map(parts).encode())
    headers = raw([("X-Signature", right), ("X-Time", str(NOW)), ("X-Id", "d-1")])
    assert error(options, headers) is None
    assert error(options, raw([("X-Signature", right), ("X-Time", str(NOW)), ("X-Id", "d-2")])) == MISMATCH


def test_a_signature_in_a_pair_may_end_with_equals_signs() -> None:
    options = {"header": "X-Signature", "pair": "v1", "encoding": "base64"}
    headers = sign("hmac", options, SECRET, body=BODY, now_us=NOW_US).headers
    ((_, value),) = headers
    assert value.endswith("=")
    assert error({"pair": "v1", "encoding": "base64"}, raw(headers)) is None


@pytest.mark.parametrize("text", ["{body}", "{method}{body}"])
@pytest.mark.parametrize(
    ("seconds", "fault"), [(0, None), (300, None), (-300, None), (301, "timestamp outside tolerance")]
)
def test_a_time_in_the_body_is_compared_with_the_moment_of_receipt(
    text: str, seconds: int, fault: str | None
) -> None:
    body = STAMPED % (NOW + seconds)
    signature = mac(b"POST", body) if "method" in text else mac(body)
    options = {"signed": text, "timestamp": "body:sent"}
    assert error(options, raw([("X-Signature", signature)]), body) == fault


def test_without_a_key_a_time_in_the_body_is_told_first() -> None:
    for body, fault in ((STAMPED % NOW, UNKNOWN_KEY), (b"{}", MALFORMED)):
        options = {"header": "X-Signature", "timestamp": "body:sent"}
        assert judge("hmac", options, [], raw([("X-Signature", mac(body))]), body).error == fault


def test_a_url_and_a_method_that_no_request_has_are_a_mismatch_and_no_failure() -> None:
    options = {"signed": "{url}{method}{body}"}
    headers = raw([("X-Signature", mac(BODY))])
    assert error(options, headers, url="https://example.org/€", method="P€ST") == MISMATCH


def test_a_body_alone_is_what_a_public_key_signs() -> None:
    private = Ed25519PrivateKey.generate()
    template = PresetTemplate(header="X-Signature", method="ed25519", key="hex")
    key = make_key(template, SecretBytes(private.public_key().public_bytes_raw().hex().encode()))
    head = SignedHead("POST", URL, [], NOW_US)
    for signed, fault in ((BODY, None), (b"XXXX" + BODY, MISMATCH)):
        method = TemplateMethod(template, [key])
        trial = method.begin(head, {b"x-signature": [private.sign(signed).hex().encode()]})
        trial.update(BODY)
        assert trial.fault(Whole(BODY)) == fault


def test_whatever_the_fault_it_is_told_of_which_template() -> None:
    method = TemplateMethod(PresetTemplate(header="X-Signature"), [], which=3)
    head = SignedHead("POST", URL, [], NOW_US)
    for values in ({}, {b"x-signature": [b"a" * 64]}):
        assert method.begin(head, values).which == 3


@pytest.mark.parametrize(
    ("faults", "told", "which"),
    [
        ([], MALFORMED, 0),
        ([MALFORMED, MALFORMED], MALFORMED, 1),
        ([MALFORMED, MISMATCH, UNKNOWN_KEY], MISMATCH, 2),
        ([MISMATCH, None, MISMATCH], None, 2),
    ],
)
def test_of_several_faults_the_first_of_those_that_got_furthest_is_told(
    faults: list[str | None], told: str | None, which: int
) -> None:
    joint = Joint([Failed(fault, place) for place, fault in enumerate(faults, 1)])
    assert (joint.fault(Whole(b"")), joint.which) == (told, which)


@pytest.mark.parametrize("verifier", ["github", "stripe"])
def test_where_a_provider_signs_no_header_and_no_path_is_a_secret(verifier: str) -> None:
    compiled = compile_verifier(InboxSettings(verifier=verifier), held([SECRET]))
    assert (compiled.name, compiled.secret_path, compiled.secret_headers) == (verifier, False, frozenset())
    assert compiled.always_reject is False
