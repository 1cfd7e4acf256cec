"""An inbox's verifier, its options and its secrets: checked when they are set, with a sentence that names the field."""

import base64
import re
from typing import Any

import pytest

from storage.records import InboxSettings, Secret
from storage.secret import Confidential, SecretBytes
from tests.web.verify.genuine import ED25519_PUBLIC, OPTIONS, P256, VERIFYING, WHPK, WHSEC, secret_of
from web.errors import ApiError
from web.verify.digest import Digest
from web.verify.presets import PRESETS
from web.verify.registry import (
    SCHEMES,
    canonical,
    check_secret,
    check_verifier,
    compile_verifier,
    described,
)
from web.verify.schemes import values_of

TABLE = """
    github gitea meta whatsapp bitbucket gitlab stripe slack standard-webhooks svix shopify twilio discord zoom linear
    square paddle hubspot sendgrid typeform x twitter pagerduty calendly sentry dropbox xero intercom vercel webflow
    woocommerce elevenlabs hookdeck telegram basic header hmac none msgraph eventgrid cloudevents sns okta websub
    mailchimp asana trello mandrill
"""
HMAC: dict[str, Any] = {"header": "X"}


def test_every_provider_of_the_table_can_be_typed() -> None:
    assert set(SCHEMES) == set(TABLE.split())
    for name, scheme in SCHEMES.items():
        assert (
            compile_verifier(InboxSettings(verifier=name, verifier_options=OPTIONS.get(name, {})), ()).name
            == name
        )
        assert name in (scheme.about.name, *scheme.about.aliases)
        assert canonical(name) == scheme.about.name
    assert {alias: canonical(alias) for preset in PRESETS.values() for alias in preset.aliases} == {
        "whatsapp": "meta",
        "svix": "standard-webhooks",
        "twitter": "x",
    }


def test_only_discord_and_xero_always_reject() -> None:
    always = {
        name
        for name in SCHEMES
        if compile_verifier(
            InboxSettings(verifier=name, verifier_options=OPTIONS.get(name, {})), ()
        ).always_reject
    }
    assert always == {"discord", "xero"}


def test_each_verifier_says_in_a_line_what_it_checks() -> None:
    lines = {verifier.name: verifier.checks for verifier in described()}
    assert list(lines) == sorted(lines)
    for line in lines.values():
        assert re.fullmatch(r"[^\n]{5,280}", line)
    assert lines["slack"] == "X-Slack-Signature: HMAC-SHA256, hex, over v0:{ts}:{body}, ±300 s"
    assert lines["intercom"] == "X-Hub-Signature: HMAC-SHA1, hex, over {body}"
    assert lines["discord"] == "X-Signature-Ed25519: ed25519, hex, over {ts}{body}"
    assert "(v2): SHA-256, hex, over the secret and {method}{url}{body}" in lines["hubspot"]
    assert "; with the option versions also X-HubSpot-Signature" in lines["hubspot"]


TOO_MANY = ["body:a"] * 7


@pytest.mark.parametrize(
    ("verifier", "options", "field"),
    [
        ("nobody", {}, "verifier"),
        ("", {}, "verifier"),
        ("GitHub", {}, "verifier"),
        ("github", {"header": "X"}, "verifier_options.header"),
        ("github", {"tolerance_seconds": 5}, "verifier_options.tolerance_seconds"),
        ("stripe", {"header": "X"}, "verifier_options.header"),
        ("stripe", {"tolerance_seconds": -1}, "verifier_options.tolerance_seconds"),
        ("stripe", {"tolerance_seconds": 86_401}, "verifier_options.tolerance_seconds"),
        ("stripe", {"tolerance_seconds": "5"}, "verifier_options.tolerance_seconds"),
        ("stripe", {"tolerance_seconds": None}, "verifier_options.tolerance_seconds"),
        ("gitlab", {"tolerance_seconds": True}, "verifier_options.tolerance_seconds"),
        ("stripe", {"event_type": "body:a"}, "verifier_options.event_type"),
        ("stripe", {"versions": ["v1"]}, "verifier_options.versions"),
        *(
            ("hubspot", {"versions": versions}, "verifier_options.versions")
            for versions in ([], "v3", ["v4"], [3], [["v3"]], None, {"v3": 1}, ["v3", None])
        ),
        ("twilio", {"event_type": "form:a"}, "verifier_options.event_type"),
        ("telegram", {"header": "X"}, "verifier_options.header"),
        ("msgraph", {"header": "X"}, "verifier_options.header"),
        ("basic", {"header": "X"}, "verifier_options.header"),
        ("basic", {"event_type": "pair:t"}, "verifier_options.event_type"),
        ("header", {}, "verifier_options.header"),
        ("header", {"header": "X Y"}, "verifier_options.header"),
        ("header", {"header": "X", "colour": "red"}, "verifier_options.colour"),
        ("header", {"header": "X", "event_type": "form:a b"}, "verifier_options.event_type"),
        ("sns", {"header": ""}, "verifier_options.header"),
        ("sns", {"header": 3}, "verifier_options.header"),
        ("sns", {"event_type": "body:Type"}, "verifier_options.event_type"),
        ("none", {"header": "X"}, "verifier_options.header"),
        ("none", {"event_type": "pair:t"}, "verifier_options.event_type"),
        ("hmac", {}, "verifier_options.header"),
        ("hmac", {"header": ""}, "verifier_options.header"),
        ("hmac", {"header": "X Y"}, "verifier_options.header"),
        ("hmac", {"header": 3}, "verifier_options.header"),
        ("hmac", HMAC | {"algorithm": "md5"}, "verifier_options.algorithm"),
        ("hmac", HMAC | {"method": "ed25519"}, "verifier_options.method"),
        ("hmac", HMAC | {"encoding": "HEX"}, "verifier_options.encoding"),
        ("hmac", HMAC | {"prefix": "\n"}, "verifier_options.prefix"),
        ("hmac", HMAC | {"separator": "::"}, "verifier_options.separator"),
        ("hmac", HMAC | {"pair": "v=1"}, "verifier_options.pair"),
        ("hmac", HMAC | {"signed": "{ts}"}, "verifier_options.signed"),
        ("hmac", HMAC | {"signed": "{body}{body}"}, "verifier_options.signed"),
        ("hmac", HMAC | {"signed": "{body}{nonce}"}, "verifier_options.signed"),
        ("hmac", HMAC | {"signed": "{body}\r\n"}, "verifier_options.signed"),
        ("hmac", HMAC | {"signed": "{ts}{body}"}, "verifier_options.timestamp"),
        ("hmac", HMAC | {"timestamp": "pair:t"}, "verifier_options.timestamp"),
        ("hmac", HMAC | {"timestamp": "t"}, "verifier_options.timestamp"),
        ("hmac", HMAC | {"timestamp": "form:t"}, "verifier_options.timestamp"),
        ("hmac", HMAC | {"signed": "{ts}{body}", "timestamp": "body:t"}, "verifier_options.timestamp"),
        ("hmac", HMAC | {"signed": "{id}{body}"}, "verifier_options.delivery_id"),
        ("hmac", HMAC | {"tolerance_seconds": -1}, "verifier_options.tolerance_seconds"),
        ("hmac", HMAC | {"tolerance_seconds": 1e9}, "verifier_options.tolerance_seconds"),
        ("hmac", HMAC | {"timestamp_unit": "s"}, "verifier_options.timestamp_unit"),
        ("hmac", HMAC | {"key": "rot13"}, "verifier_options.key"),
        ("hmac", HMAC | {"event_type": "body:a..b"}, "verifier_options.event_type"),
        ("hmac", HMAC | {"event_type": "body:[99]"}, "verifier_options.event_type"),
        ("hmac", HMAC | {"event_type": "body:[-1]"}, "verifier_options.event_type"),
        ("hmac", HMAC | {"event_type": "form:"}, "verifier_options.event_type"),
        ("hmac", HMAC | {"event_type": TOO_MANY}, "verifier_options.event_type"),
        ("hmac", HMAC | {"delivery_id": [1]}, "verifier_options.delivery_id"),
        ("hmac", HMAC | {"colour": "red"}, "verifier_options.colour"),
    ],
)
def test_a_bad_configuration_names_its_field(verifier: str, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_verifier(verifier, options)
    assert (refused.value.code, refused.value.field) == ("invalid_argument", field)
    assert refused.value.message.endswith(".")


@pytest.mark.parametrize(
    ("verifier", "options"),
    [
        *((name, {}) for name in SCHEMES if name not in ("hmac", "header")),
        ("hmac", {"header": "x-s", "timestamp": "body:[0].t", "encoding": "base64url"}),
        ("hmac", {"header": "x-s", "event_type": ["body:[2].a.b", "form:c", "header:d"]}),
        ("header", {"header": "X-Secret", "delivery_id": "body:[].id"}),
        ("basic", {"event_type": ["form:event", "body:event"]}),
        ("stripe", {"tolerance_seconds": 0}),
        ("linear", {"tolerance_seconds": 86_400}),
        ("hubspot", {"tolerance_seconds": 60, "versions": ["v1", "v3", "v2"]}),
        ("hubspot", {"versions": ["v2", "v2"]}),
        ("discord", {"tolerance_seconds": 60}),
        ("sns", {"header": "X-Secret"}),
    ],
)
def test_a_good_configuration_is_accepted(verifier: str, options: dict[str, Any]) -> None:
    check_verifier(verifier, options)


STANDARD = "standard-webhooks"


@pytest.mark.parametrize(
    ("verifier", "value"),
    [
        *((name, secret_of(name)) for name in VERIFYING),
        ("none", b""),
        ("gitlab", WHSEC),
        ("gitlab", b"whsec_ is no signing token"),
        (STANDARD, WHPK),
        (STANDARD, WHSEC.rstrip(b"=")),
        (STANDARD, WHSEC.removeprefix(b"whsec_")),
        (STANDARD, b"whsec_" + base64.b64encode(bytes(24))),
        (STANDARD, b"whsec_" + base64.b64encode(bytes(64))),
        ("discord", ED25519_PUBLIC.hex().upper().encode()),
        ("discord", (ED25519_PUBLIC.hex()[:32] + ED25519_PUBLIC.hex()[32:].upper()).encode()),
        ("basic", b":"),
    ],
)
def test_a_secret_that_its_scheme_can_use_is_kept(verifier: str, value: bytes) -> None:
    check_secret(verifier, OPTIONS.get(verifier, {}), value)


def compressed() -> bytes:
    """Return the DER of a public key whose point is written in short."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    point = P256.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    return bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + point


@pytest.mark.parametrize(
    ("verifier", "options", "value"),
    [
        ("hmac", {"header": "X", "key": "hex"}, b"xyz"),
        ("hmac", {"header": "X", "key": "hex"}, b"0"),
        ("hmac", {"header": "X", "key": "hex"}, b"aB"),
        ("hmac", {"header": "X", "key": "hex"}, b"00 ff"),
        ("hmac", {"header": "X", "key": "base64"}, b"AAA=AAA="),
        ("hmac", {"header": "X", "key": "base64"}, b"AB=="),
        ("hmac", {"header": "X", "key": "base64"}, "ä".encode()),
        ("hmac", {"header": "X"}, b""),
        (STANDARD, {}, b"whsec_"),
        (STANDARD, {}, b"whsec_" + base64.b64encode(bytes(23))),
        (STANDARD, {}, b"whsec_" + base64.b64encode(bytes(65))),
        (STANDARD, {}, b"whpk_" + base64.b64encode(bytes(31))),
        (STANDARD, {}, b"whsk_" + base64.b64encode(bytes(64))),
        ("discord", {}, b"not a key"),
        ("discord", {}, b"00" * 31),
        ("sendgrid", {}, b"not a key"),
        ("sendgrid", {}, base64.b64encode(b"not DER")),
        ("sendgrid", {}, base64.b64encode(ED25519_PUBLIC)),
        ("sendgrid", {}, base64.b64encode(compressed())),
        ("gitlab", {}, b""),
        ("gitlab", {}, "geheím".encode()),
        ("telegram", {}, b" s3cret"),
        ("telegram", {}, b"s3\ncret"),
        ("header", {"header": "X"}, b"\x7f"),
        ("basic", {}, b"user"),
        ("msgraph", {}, b""),
        ("sns", {}, b""),
        ("sns", {"header": "X"}, b"a\tb"),
        ("twilio", {}, b""),
    ],
)
def test_a_secret_that_its_scheme_cannot_use_is_refused(
    verifier: str, options: dict[str, Any], value: bytes
) -> None:
    with pytest.raises(ApiError) as refused:
        check_secret(verifier, options, value)
    assert refused.value.field == "value"
    assert refused.value.message.endswith(".")
    shown = value.decode("latin-1")
    assert len(shown) < 5 or shown not in refused.value.message


def test_the_token_of_a_handshake_may_be_any_text() -> None:
    for verifier in (STANDARD, "discord", "basic", "sns"):
        check_secret(verifier, {}, "né & blank ".encode(), "verify_token")


@pytest.mark.parametrize("kind", [SecretBytes, Digest])
def test_a_secret_and_a_digest_have_one_way_to_be_compared(kind: type[Confidential]) -> None:
    one = kind(b"abc")
    for other in (one, kind(b"abc"), b"abc", None):
        with pytest.raises(TypeError, match="matches"):
            assert one == other
        with pytest.raises(TypeError, match="matches"):
            assert one != other
        with pytest.raises(TypeError, match="matches"):
            assert other == one
    with pytest.raises(TypeError):
        hash(one)
    assert "abc" not in repr(one) + str(one)
    assert one.matches(b"abc")
    assert not one.matches(b"abd")
    assert kind.matches is Confidential.matches
    assert kind.__eq__ is Confidential.__eq__


def test_secrets_stay_secrets_until_something_is_keyed_with_them() -> None:
    held = (Secret("a", SecretBytes(b"abc"), 0), Secret("verify_token", SecretBytes(b"t"), 0))
    [value] = values_of(held)
    assert value is held[0].value
