"""Signatures under public keys: one text for one signature, and nothing but a verdict for what is none."""

import base64
from itertools import count

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tests.web.verify.genuine import ED25519, ED25519_PUBLIC, WHPK, genuine
from tests.web.verify.judging import BODY, Headers, judge

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493
SENDGRID = genuine("sendgrid", BODY)
DISCORD = genuine("discord", BODY)
SENDGRID_HEADER = b"x-twilio-email-event-webhook-signature"
DISCORD_HEADER = b"x-signature-ed25519"
DER = base64.b64decode(dict(SENDGRID.headers)[SENDGRID_HEADER])
R, S = decode_dss_signature(DER)
MALFORMED, MISMATCH = "malformed signature", "signature mismatch"


def replaced(headers: Headers, header: bytes, value: bytes) -> Headers:
    return [(name, value if name == header else old) for name, old in headers]


def integer(number: int, *, pad: bytes = b"") -> bytes:
    size = max(1, (number.bit_length() + 8) // 8)
    content = pad + number.to_bytes(size, "big", signed=True)
    return bytes([2, len(content)]) + content


def sequence(*parts: bytes) -> bytes:
    content = b"".join(parts)
    return bytes([0x30, len(content)]) + content


@pytest.mark.parametrize(
    ("der", "error"),
    [
        (sequence(integer(R), integer(S)), None),
        (sequence(integer(R), integer(S), b"\x05\x00"), MALFORMED),
        (sequence(integer(R), integer(S)) + b"\x00", MALFORMED),
        (sequence(integer(R, pad=b"\x00"), integer(S)), MALFORMED),
        (b"\x30\x81" + sequence(integer(R), integer(S))[1:], MALFORMED),
        (b"\x31" + sequence(integer(R), integer(S))[1:], MALFORMED),
        (sequence(integer(R)), MALFORMED),
        (sequence(), MALFORMED),
        (sequence(integer(-R), integer(S)), MALFORMED),
        (sequence(integer(R), integer(-S)), MALFORMED),
        (sequence(integer(0), integer(S)), MALFORMED),
        (sequence(integer(R), integer(0)), MALFORMED),
        (sequence(integer(1), integer(S)), MISMATCH),
        (sequence(integer(R), integer(1)), MISMATCH),
        (sequence(integer(S), integer(R)), MISMATCH),
        (sequence(integer(R), integer(S + 1)), MISMATCH),
        (sequence(integer(P256_ORDER), integer(S)), MISMATCH),
        (sequence(integer(R), integer(1 << 256)), MISMATCH),
        (sequence(integer(R), integer(1 << 300)), MALFORMED),  # longer than a signature can be
        (b"\xff" * 72, MALFORMED),
    ],
    ids=count(),  # the bytes differ from run to run
)
def test_a_signature_in_der_has_one_form(der: bytes, error: str | None) -> None:
    headers = replaced(SENDGRID.headers, SENDGRID_HEADER, base64.b64encode(der))
    assert SENDGRID.judged(headers=headers).error == error


def test_the_twin_of_an_ecdsa_signature_says_the_same_of_the_same_bytes() -> None:
    twin = base64.b64encode(encode_dss_signature(R, P256_ORDER - S))
    headers = replaced(SENDGRID.headers, SENDGRID_HEADER, twin)
    assert SENDGRID.judged(headers=headers).verified is True
    assert SENDGRID.judged(headers=headers, body=BODY + b" ").error == MISMATCH


def test_an_ed25519_signature_has_no_twin() -> None:
    right = bytes.fromhex(dict(DISCORD.headers)[DISCORD_HEADER].decode())
    larger = int.from_bytes(right[32:], "little") + ED25519_ORDER
    twin = right[:32] + larger.to_bytes(32, "little")
    headers = replaced(DISCORD.headers, DISCORD_HEADER, twin.hex().encode())
    assert DISCORD.judged(headers=headers).error == MISMATCH


def test_any_active_public_key_may_be_the_right_one() -> None:
    other = ED25519_PUBLIC[::-1].hex().encode()
    for secrets in ([other, DISCORD.secret], [DISCORD.secret, other]):
        assert DISCORD.judged(secrets=secrets).verified is True
    assert DISCORD.judged(secrets=[b"no key", other]).verified is False
    assert DISCORD.judged(secrets=[b"no key"]).error == "unknown key"
    assert DISCORD.judged(secrets=[]).error == "unknown key"


def test_a_key_of_standard_webhooks_says_by_its_prefix_what_it_is() -> None:
    text = b"msg_1.1700000000." + BODY
    headers = [
        (b"webhook-id", b"msg_1"),
        (b"webhook-timestamp", b"1700000000"),
        (b"webhook-signature", b"v1a," + base64.b64encode(ED25519.sign(text))),
    ]
    assert judge("standard-webhooks", {}, [WHPK], headers).verified is True
    for secret in (WHPK.removeprefix(b"whpk_"), WHPK.replace(b"whpk_", b"whsec_")):
        assert judge("standard-webhooks", {}, [secret], headers).error == "unknown key"


def test_a_public_key_is_no_key_of_an_hmac() -> None:
    """Whoever knows a public key, which is everybody, must not be able to sign with it."""
    forged = genuine("standard-webhooks", secret=WHPK.replace(b"whpk_", b"whsec_"))
    assert forged.judged().verified is True
    assert forged.judged(secrets=[WHPK]).error == "unknown key"
