"""One flipped bit anywhere in a genuine request: refused, and in the right words.

Short texts are flipped bit by bit, long ones by Hypothesis. What is right is decided here a second time, in another way
than the verifiers decide it.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.verify.judging import flipped
from tests.web.verify.test_vectors import verdict
from tests.web.verify.vectors import VECTORS, Vector

EXHAUSTIVE_BYTES = 100
"""Every bit of a text of up to so many bytes is flipped."""

MALFORMED = "malformed signature"
MISMATCH = "signature mismatch"
OUTSIDE = "timestamp outside tolerance"
UNKNOWN = "unknown key"

SHAPES = {
    "github": r"sha256=[0-9a-f]{64}",
    "bitbucket": r"sha256=[0-9a-f]{64}",
    "slack": r"v0=[0-9a-f]{64}",
    "stripe": r"t=1700000000,v1=[0-9a-f]{64}",
    "standard-webhooks v1": r"v1,[A-Za-z0-9+/]{43}=",
    "standard-webhooks v1a": r"v1a,[A-Za-z0-9+/]{86}==",
    "shopify": r"[A-Za-z0-9+/]{43}=",
    "square": r"[A-Za-z0-9+/]{43}=",
    "twilio": r"[A-Za-z0-9+/]{27}=",
    "hubspot": r"[0-9a-f]{64}",
    "discord": r"[0-9a-f]{128}",
    "sendgrid": r"[A-Za-z0-9+/]*={0,2}",
    "hmac": r"[0-9a-f]{128}",
}
"""What a well-formed value of the signature's header is, by the beginning of a vector's name."""

SHORT = [v for v in VECTORS if len(v.body) <= EXHAUSTIVE_BYTES]
LONG = [v for v in VECTORS if len(v.body) > EXHAUSTIVE_BYTES]
STAMPED = [v for v in VECTORS if v.stamp_in is not None]
UNLIMITED = ("discord", "sendgrid")
"""Their timestamps are signed, and may be of any age."""


def bits(data: bytes) -> Iterator[bytes]:
    for bit in range(8 * len(data)):
        yield flipped(data, bit)


def named(vector: Vector) -> str:
    return vector.name


def with_header(vector: Vector, name: str, value: bytes) -> dict[str, str]:
    return {**vector.headers, name: value.decode("latin-1")}


# -- the signed bytes ------------------------------------------------------------------------------------------


def signs_the_same(vector: Vector, body: bytes) -> bool:
    """Whether another form is the same set of fields: `%2B` and `%2b` are."""
    if vector.preset != "twilio" or vector.headers["Content-Type"] == "application/json":
        return False

    def fields(form: bytes) -> list[tuple[str, str]]:
        pairs = parse_qsl(form.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
        return sorted(set(pairs))

    return fields(vector.body) == fields(body)


def judge_body(vector: Vector, body: bytes) -> None:
    judgement = verdict(vector, body=body)
    if signs_the_same(vector, body):
        assert judgement.verified is True
    else:
        assert (judgement.verified, judgement.error) == (False, MISMATCH)


@pytest.mark.parametrize("vector", [v for v in SHORT if v.body], ids=named)
def test_every_bit_of_a_short_body(vector: Vector) -> None:
    for body in bits(vector.body):
        judge_body(vector, body)


@given(st.sampled_from(LONG), st.data())
def test_bits_of_a_long_body(vector: Vector, data: st.DataObject) -> None:
    judge_body(vector, flipped(vector.body, data.draw(st.integers(0, 8 * len(vector.body) - 1))))


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.preset == "standard-webhooks"], ids=named)
def test_every_bit_of_a_signed_id(vector: Vector) -> None:
    for changed in bits(vector.headers["webhook-id"].encode()):
        assert verdict(vector, headers=with_header(vector, "webhook-id", changed)).error == MISMATCH


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.url and "v1" not in v.name], ids=named)
def test_another_url_or_method(vector: Vector) -> None:
    for n in range(len(vector.url)):
        url = vector.url[:n] + chr(ord(vector.url[n]) ^ 1) + vector.url[n + 1 :]
        if re.sub(r":[0-9]*/", "/", url) != re.sub(r":[0-9]*/", "/", vector.url):
            assert verdict(vector, url=url).error == MISMATCH
    if vector.preset == "hubspot":
        assert verdict(vector, method="PUT").error == MISMATCH


# -- the signature's value ---------------------------------------------------------------------------------------


def is_der(text: bytes) -> bool:
    """Whether base64 text is a sequence of two positive integers, each as short as can be."""
    try:
        der = base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    if base64.b64encode(der) != text or len(der) < 8 or der[0] != 0x30 or der[1] != len(der) - 2:
        return False
    rest = der[2:]
    for _ in range(2):
        if len(rest) < 3 or rest[0] != 2 or not 0 < rest[1] <= len(rest) - 2:
            return False
        number, rest = rest[2 : 2 + rest[1]], rest[2 + rest[1] :]
        if number[0] >= 0x80 or (number[0] == 0 and (len(number) == 1 or number[1] < 0x80)):
            return False
    return not rest


def fault_of(vector: Vector, value: bytes) -> set[str]:
    """Return what may be said of a signature header that is not the right one."""
    shape = next(shape for name, shape in SHAPES.items() if vector.name.startswith(name))
    if vector.name == "standard-webhooks v1a":
        shape = SHAPES["standard-webhooks v1a"]
    if re.fullmatch(shape.encode(), value) is None:
        return {MALFORMED}
    if vector.preset == "sendgrid":
        return {MISMATCH if is_der(value) else MALFORMED}
    if vector.name == "standard-webhooks v1a":
        text = value.removeprefix(b"v1a,")
        return {MISMATCH if base64.b64encode(base64.b64decode(text)) == text else MALFORMED}
    return {MISMATCH}


@pytest.mark.parametrize("vector", VECTORS, ids=named)
def test_every_bit_of_the_signature(vector: Vector) -> None:
    right = vector.headers[vector.signed_in].encode()
    start = 13 if vector.preset == "stripe" else 0  # its timestamp stands before
    for bit in range(8 * start, 8 * len(right)):
        value = flipped(right, bit)
        judgement = verdict(vector, headers=with_header(vector, vector.signed_in, value))
        assert judgement.verified is False
        assert judgement.error in fault_of(vector, value), value


# -- the timestamp -----------------------------------------------------------------------------------------------


def fault_of_stamp(vector: Vector, stamps: list[bytes]) -> str:
    if len(stamps) != 1 or re.fullmatch(rb"0|[1-9][0-9]*", stamps[0]) is None:
        return MALFORMED
    if vector.preset not in UNLIMITED and abs(int(stamps[0]) - vector.at) > 300:
        return OUTSIDE
    return MISMATCH


@pytest.mark.parametrize("vector", STAMPED, ids=named)
def test_every_bit_of_the_timestamp(vector: Vector) -> None:
    right = vector.headers[vector.stamp_in].encode()
    for bit in range(8 * (12 if vector.preset == "stripe" else len(right))):
        value = flipped(right, bit)
        pairs = [item[2:] for item in value.split(b",") if item[:2] == b"t="]
        stamps = pairs if vector.preset == "stripe" else [value]
        judgement = verdict(vector, headers=with_header(vector, vector.stamp_in, value))
        assert judgement.error == fault_of_stamp(vector, stamps), value


# -- the secret --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=named)
def test_every_bit_of_the_secret(vector: Vector) -> None:
    is_coded = vector.preset in ("standard-webhooks", "discord", "sendgrid")
    for secret in bits(vector.secret):
        if vector.preset == "discord" and secret.lower() == vector.secret:
            assert verdict(vector, secret=secret).verified is True  # the same public key in another case
            continue
        judgement = verdict(vector, secret=secret)
        assert judgement.verified is False, secret
        assert judgement.error in ({MISMATCH, UNKNOWN} if is_coded else {MISMATCH}), secret
