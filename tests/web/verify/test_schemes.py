"""What schemes say of themselves, what they sign, and what they refuse: each refusal is a sentence about its field."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from storage.records import InboxSettings
from storage.secret import SecretBytes
from tests.web.verify.genuine import ED25519_PUBLIC, OPTIONS, P256, PUBLIC, VERIFYING, secret_of
from tests.web.verify.judging import BODY, NOW_US, SECRET, URL, held, judge, raw, refused, signed
from web.errors import ApiError
from web.verify.forms import MAX_FIELDS, MAX_VALUE_BYTES, FieldReader
from web.verify.keys import make_key
from web.verify.model import MALFORMED, MISMATCH
from web.verify.registry import (
    SCHEMES,
    check_secret,
    compile_verifier,
)
from web.verify.signing import sample
from web.verify.template import BadTemplate, PresetTemplate, Template

FORM = "application/x-www-form-urlencoded"
HMAC: dict[str, Any] = {"header": "X-Signature"}
SENDING = [name for name in VERIFYING if name not in PUBLIC]


# -- refusals ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"event_type": "form:"}, "Expected the name of a form's field, such as form:event."),
        ({"event_type": "body:a..b"}, "Expected "),
        ({"event_type": "query:a"}, "Expected header:… or body:… or form:…."),
        ({"timestamp": "query:a"}, "Expected header:… or pair:… or body:…."),
        ({"timestamp": "pair:a b"}, "Expected the key of a pair, such as pair:t."),
        ({"timestamp": "pair:t"}, "A pair needs a signature header of pairs: set pair as well."),
        ({"delivery_id": "header:x y"}, "Expected the name of a header."),
        ({"prefix": "é"}, "Expected at most 100 visible ASCII characters."),
        ({"key_prefix": "\n"}, "Expected at most 100 visible ASCII characters."),
        ({"pair": ""}, "Expected the key of a pair, such as v1."),
        ({"separator": "/"}, "Expected one of "),
        ({"signed": "{ts}"}, "The signed text needs {body} exactly once."),
        ({"signed": "{body}{"}, "Expected visible ASCII and {body}, {ts}, {id}, {url}, {method}."),
        ({"signed": "{body}}"}, "Expected visible ASCII and {body}, {ts}, {id}, {url}, {method}."),
        ({"tolerance_seconds": -1}, "Expected 0 (off) to 86400 seconds."),
        ({"delivery_id": ["body:a"] * 7}, "At most 6 places can be named."),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_with_what_would(options: dict[str, Any], told: str) -> None:
    found = refused("hmac", HMAC | options)
    assert found.field == f"verifier_options.{next(iter(options))}"
    assert found.message.startswith(told)


@pytest.mark.parametrize(
    ("options", "field", "told"),
    [
        ({"signed": "{ts}{body}"}, "timestamp", "{ts} is signed: name the header or the pair that holds it."),
        ({"signed": "{id}{body}"}, "delivery_id", "{id} is signed: name the header that holds it first."),
    ],
)
def test_what_is_signed_must_have_a_place(options: dict[str, Any], field: str, told: str) -> None:
    found = refused("hmac", HMAC | options)
    assert (found.field, found.message) == (f"verifier_options.{field}", told)


def test_a_bad_template_tells_its_field_and_a_sentence() -> None:
    with pytest.raises(BadTemplate) as found:
        Template(header="x y")
    assert (found.value.field, found.value.message) == ("header", str(found.value))
    assert found.value.message == "Expected the name of a header"


@pytest.mark.parametrize("name", ["github", "telegram", "basic", "okta", "twilio", "mandrill", "stripe", "x"])
def test_an_option_that_a_verifier_does_not_take_is_refused_with_its_name(name: str) -> None:
    options = {"header": 3} if name == "basic" else {"colour": "red"}
    if name == "basic":
        assert refused(name, options).field == "verifier_options.header"
    else:
        assert f"The verifier {name} takes " in refused(name, options).message


def test_versions_are_refused_with_those_that_there_are() -> None:
    assert refused("hubspot", {"versions": []}).message == "Expected a list of one or several of v3, v2, v1."


@pytest.mark.parametrize(
    ("verifier", "options", "value", "told"),
    [
        ("hmac", HMAC, b"", "The secret is empty."),
        ("hmac", HMAC | {"key": "hex"}, b"xyz", "This verifier's secrets are hex text, and this is not."),
        (
            "standard-webhooks",
            {},
            b"whsec_" + b"A" * 4,
            "This verifier's keys have 24 to 64 bytes, and this one",
        ),
        ("discord", {}, b"00" * 31, "This verifier's secrets are ed25519 public keys, and this is none."),
        ("discord", {}, b"not a key", "This verifier's secrets are hex text, and this is not."),
        ("sendgrid", {}, b"AAAA", "This verifier's secrets are public keys on P-256 (base64 of DER)"),
        ("basic", {}, b"user", "Expected user:password."),
        ("okta", {}, b"", "The secret is empty."),
        ("telegram", {}, b" s3cret", "A secret that is a header's value is visible ASCII"),
    ],
)
def test_a_secret_is_refused_with_what_it_should_be(
    verifier: str, options: dict[str, Any], value: bytes, told: str
) -> None:
    with pytest.raises(ApiError) as found:
        check_secret(verifier, options, value)
    assert found.value.field == "value"
    assert found.value.message.startswith(told)


@pytest.mark.parametrize(
    ("verifier", "options", "secret", "more", "field", "told"),
    [
        ("none", {}, b"k", {}, "verifier", "The verifier none has no signature to make."),
        ("discord", {}, secret_of("discord"), {}, "verifier", "This inbox holds the provider's public key"),
        ("msgraph", {}, b"k", {"body": b"[]"}, "body", "A body of Microsoft Graph is "),
        ("mandrill", {}, b"k", {}, "content_type", "The verifier mandrill signs forms only."),
        ("twilio", {}, b"k", {"body": b"&", "content_type": FORM}, "body", "The form has no text"),
        (
            "twilio",
            {},
            b"k",
            {"body": b"a=1&" * MAX_FIELDS, "content_type": FORM},
            "body",
            "The form has too many fields.",
        ),
        (
            "hmac",
            HMAC | {"signed": "{ts}.{id}.{body}", "timestamp": "header:x-t", "delivery_id": "header:x-id"},
            b"k",
            {"delivery_id": ""},
            "delivery_id",
            "This scheme signs the delivery id: give one.",
        ),
    ],
)
def test_what_cannot_be_signed_is_refused_with_the_reason(
    verifier: str, options: dict[str, Any], secret: bytes, more: dict[str, Any], field: str, told: str
) -> None:
    with pytest.raises(ApiError) as found:
        signed(verifier, options, secret, **more)
    assert found.value.field == field
    assert found.value.message.startswith(told)


@pytest.mark.parametrize("name", ["telegram", "sns", "none", "twitter", "mandrill", "okta", "dropbox"])
def test_a_sample_of_an_event_type_that_a_verifier_has_none_of_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(ApiError, match=rf"\b{name}\b"):
        sample(name, {}, now_us=NOW_US, event_type="x")


# -- what a scheme says of itself ---------------------------------------------------------------------------------
def test_the_url_is_signed_by_those_that_sign_it() -> None:
    signing = {name for name, scheme in SCHEMES.items() if scheme.signs_url(OPTIONS.get(name, {}))}
    assert signing == {"hubspot", "mandrill", "square", "trello", "twilio"}
    assert SCHEMES["hmac"].signs_url(HMAC | {"signed": "{url}{body}"})
    assert not SCHEMES["hmac"].signs_url(HMAC)


@pytest.mark.parametrize(
    ("verifier", "options", "headers", "path"),
    [
        ("telegram", {}, {b"x-telegram-bot-api-secret-token"}, False),
        ("gitlab", {}, {b"x-gitlab-token"}, False),
        ("basic", {}, {b"authorization"}, False),
        ("header", {"header": "X-Mine"}, {b"x-mine"}, False),
        ("sns", {"header": "X-Mine"}, {b"x-mine"}, False),
        ("sns", {}, set(), True),
        ("msgraph", {}, set(), False),
        ("github", {}, set(), False),
    ],
)
def test_a_verifier_says_where_secrets_are_shown(
    verifier: str, options: dict[str, Any], headers: set[bytes], path: bool
) -> None:
    compiled = compile_verifier(InboxSettings(verifier=verifier, verifier_options=options), held([SECRET]))
    assert (compiled.secret_headers, compiled.secret_path) == (headers, path)


@pytest.mark.parametrize("name", SENDING)
def test_headers_are_signed_in_lower_case_and_only_a_secret_in_the_path_has_one(name: str) -> None:
    more = {"body": b'{"value":[]}'} if name == "msgraph" else {"body": b"a=1", "content_type": FORM}
    made = signed(name, OPTIONS.get(name, {}), secret_of(name), delivery_id="1", **more)
    assert all(header == header.lower() for header, _ in made.headers)
    compiled = compile_verifier(InboxSettings(verifier=name, verifier_options=OPTIONS.get(name, {})), ())
    assert bool(made.path) is compiled.secret_path


# -- signing ---------------------------------------------------------------------------------------------------
def test_a_version_that_a_header_names_is_signed_with_it() -> None:
    made = signed("hubspot", {"versions": ["v1"]})
    assert ("x-hubspot-signature-version", "v1") in made.headers


def test_a_key_in_hexadecimal_may_be_written_in_either_case() -> None:
    options = HMAC | {"key": "hex"}
    check_secret("hmac", options, b"AB12")
    assert signed("hmac", options, b"AB12") == signed("hmac", options, b"ab12")


@pytest.mark.parametrize(
    ("verifier", "options"),
    [
        (
            "hmac",
            HMAC | {"signed": "{url}{method}{id}{body}", "delivery_id": "header:x-id"},
        ),
        ("twilio", {}),
    ],
)
def test_what_no_request_can_hold_is_signed_without_a_failure(verifier: str, options: dict[str, Any]) -> None:
    more = {"url": "https://example.org/€", "method": "P€ST", "delivery_id": "€", "content_type": "text/€"}
    assert signed(verifier, options, **more).headers


def test_a_colon_may_be_in_the_name_of_a_member() -> None:
    found = judge("none", {"event_type": "body:a:b"}, [], [], b'{"a:b":"told"}')
    assert found.event_type == "told"


def test_a_key_has_the_length_that_its_template_says() -> None:
    template = PresetTemplate(header="x", key="hex", key_bytes=(32, 32))
    assert template.decode_key(b"00" * 32) == bytes(32)
    for size in (31, 33):
        with pytest.raises(ValueError, match=f"keys have 32 bytes, and this one has {size}$"):
            template.decode_key(b"00" * size)


def test_a_key_may_have_to_have_a_prefix() -> None:
    template = PresetTemplate(header="x", key_prefix="key_", key_prefix_required=True)
    assert template.decode_key(b"key_abc") == b"abc"
    with pytest.raises(ValueError, match=r"secrets begin with key_, and this one does not$"):
        template.decode_key(b"abc")


# -- judging -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("verifier", "header"),
    [("telegram", b"x-telegram-bot-api-secret-token"), ("gitlab", b"x-gitlab-token")],
)
def test_a_secret_that_no_header_can_hold_opens_nothing(verifier: str, header: bytes) -> None:
    for secret in (b" s3cret", "geheím".encode()):
        assert judge(verifier, {}, [secret], [(header, secret)]).verified is False


def test_a_basic_secret_without_a_colon_opens_nothing() -> None:
    shown = raw([("authorization", "Basic dXNlcg==")])
    assert judge("basic", {}, [b"user"], shown).verified is False


def test_a_text_that_encodes_nothing_is_no_signature_under_a_public_key() -> None:
    der = P256.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for template, key in (
        (PresetTemplate(header="x", method="ecdsa", encoding="base64", key="base64"), der),
        (PresetTemplate(header="x", method="ed25519", key="hex"), ED25519_PUBLIC),
    ):
        text = key.hex() if template.key == "hex" else base64.b64encode(key).decode()
        run = make_key(template, SecretBytes(text.encode())).start()
        run.update(BODY)
        assert run.matches([b"!", b"=", b""], lambda: BODY) is False


def test_a_field_that_is_not_utf_8_hides_no_other() -> None:
    options = {"event_type": ["form:a", "form:b"]}
    assert judge("none", options, [], [], b"a=%ff&b=told").event_type == "told"


def test_a_field_as_long_as_may_be_is_read() -> None:
    reader = FieldReader(("a",))
    longest = "x" * MAX_VALUE_BYTES
    assert reader.read(f"a={longest}".encode()) == {"a": longest}
    assert reader.read(f"a={longest}x".encode()) == {}


def test_a_hash_in_the_url_says_something_only_where_the_scheme_has_it() -> None:
    made = signed("twilio", {}, body=BODY, url=URL)
    assert made.query.startswith("bodySHA256=")
    for verifier, error in (("twilio", None), ("mandrill", MISMATCH)):
        url = f"{URL}?{made.query}"
        value = dict(made.headers)["x-twilio-signature"]
        headers = raw([(f"x-{verifier}-signature", value), ("content-type", "application/json")])
        assert judge(verifier, {}, [SECRET], headers, url=url).error == error
    headers = raw([*made.headers, ("content-type", "application/json")])
    assert judge("twilio", {}, [SECRET], headers, query=made.query.encode()).error is None
    assert judge("twilio", {}, [SECRET], headers, url=f"{URL}?bodySHA256=€").error == MISMATCH


def test_what_follows_a_second_equals_sign_belongs_to_the_algorithm() -> None:
    made = signed("twilio", {}, body=b"a=1", content_type=FORM, url=URL)
    settings = ("x-twilio-webhooks-signature-settings", "algorithm=HMAC_SHA1=x")
    headers = raw([*made.headers, ("content-type", FORM)])
    assert judge("twilio", {}, [SECRET], headers, b"a=1").error is None
    assert judge("twilio", {}, [SECRET], headers, b"a=1", url="https://example.org/€").error == MISMATCH
    assert judge("twilio", {}, [SECRET], [*headers, *raw([settings])], b"a=1").error == MALFORMED
