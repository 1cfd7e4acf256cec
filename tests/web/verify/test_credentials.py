"""Presets whose sender shows a secret: where it is looked for, and the two things that can be wrong with it."""

import base64
import json
from typing import Any

import pytest

from storage.records import InboxSettings, Secret
from storage.secret import SecretBytes
from tests.web.verify.genuine import genuine
from tests.web.verify.judging import NOW_US, Headers, Whole, held, judge
from web.verify.model import SignedHead
from web.verify.registry import compile_verifier

PATH_PRESETS = ("eventgrid", "cloudevents", "sns", "okta", "websub", "mailchimp")
BAD, MISSING = "bad credentials", "missing credentials"


def fault(verifier: str, options: dict[str, Any], secrets: list[bytes], **request: Any) -> str | None:
    judgement = judge(verifier, options, secrets, request.pop("headers", []), **request)
    assert judgement.verified is (judgement.error is None)
    return judgement.error


@pytest.mark.parametrize(
    ("verifier", "options", "header"),
    [
        ("telegram", {}, b"x-telegram-bot-api-secret-token"),
        ("header", {"header": "X-Secret"}, b"x-secret"),
        ("header", {"header": "authorization"}, b"authorization"),
        *((preset, {"header": "X-Secret"}, b"x-secret") for preset in PATH_PRESETS),
    ],
)
def test_a_secret_in_a_header(verifier: str, options: dict[str, Any], header: bytes) -> None:
    right: Headers = [(header, b"Bearer s3cret")]
    for secrets, headers, error in (
        ([b"Bearer s3cret"], right, None),
        ([b"other", b"Bearer s3cret"], right, None),
        ([b"other"], right, BAD),
        ([], right, BAD),
        ([b"Bearer s3cret"], [], MISSING),
        ([b"Bearer s3cret"], [*right, *right], BAD),
        ([b"Bearer s3cret"], [(header, b"")], BAD),
        ([b"Bearer s3cret"], [(header, b"Bearer s3cret ")], BAD),
        ([b"Bearer s3cret"], [(header, b"bearer s3cret")], BAD),
        ([b"Bearer s3cret"], [(header, b"Bearer s3cret\xff")], BAD),
        ([b"Bearer s3cret"], [(header, b"x" * 32_768)], BAD),
    ):
        assert fault(verifier, options, secrets, headers=headers) == error
    settings = InboxSettings(verifier=verifier, verifier_options=options)
    compiled = compile_verifier(settings, held([b"Bearer s3cret"]))
    assert compiled.secret_headers == {header}
    assert not compiled.secret_path


@pytest.mark.parametrize("preset", PATH_PRESETS)
def test_a_secret_in_the_path(preset: str) -> None:
    for secret, path, error in (
        (b"s3cret", b"/s3cret", None),
        (b"s3cret", b"/s3cret/", None),
        (b"s3cret", b"/s3cret/any/path", None),
        (b"s3cret", b"/s3cre%74", None),
        (b"a/b+c=", b"/a%2Fb+c%3D", None),
        (b"a%2Fb", b"/a%2Fb", None),
        ("gehéim".encode(), b"/geh%C3%A9im", None),
        (b"s3cret", b"", MISSING),
        (b"s3cret", b"/", MISSING),
        (b"s3cret", b"//s3cret", MISSING),
        (b"s3cret", b"/s3crets", BAD),
        (b"s3cret", b"/S3cret", BAD),
        (b"s3cret", b"/s3cret%00", BAD),
        (b"s3cret", b"/x/s3cret", BAD),
        (b"a+b", b"/a b", BAD),
        (b"s3cret", b"/\xff%ff%", BAD),
    ):
        assert fault(preset, {}, [b"other", secret], path=path) == error, path
    assert fault(preset, {}, [], path=b"/s3cret") == BAD
    compiled = compile_verifier(InboxSettings(verifier=preset), held([b"s3cret"]))
    assert compiled.secret_path
    assert not compiled.secret_headers


def basic(text: bytes) -> Headers:
    return [(b"authorization", text)]


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        (basic(b"Basic " + base64.b64encode(b"user:pass:word")), None),
        (basic(b"basic  " + base64.b64encode(b"user:pass:word")), None),
        (basic(b"Basic " + base64.b64encode(b"user:pass:wore")), BAD),
        (basic(b"Basic " + base64.b64encode(b"User:pass:word")), BAD),
        (basic(b"Basic " + base64.b64encode(b"user:pass:word").rstrip(b"=")), BAD),
        (basic(b"Basic dXNlcjpwYXNzOndvcmR="), BAD),
        (basic(b"Basic"), BAD),
        (basic(b"Basic "), BAD),
        (basic(b"Bearer " + base64.b64encode(b"user:pass:word")), BAD),
        (basic(b"Basic\xff\xfe"), BAD),
        (basic(b"Basic " + b"A" * 32_768), BAD),
        ([*basic(b"Basic " + base64.b64encode(b"user:pass:word"))] * 2, BAD),
        ([], MISSING),
    ],
)
def test_basic_credentials_are_the_exact_text(headers: Headers, error: str | None) -> None:
    assert fault("basic", {}, [b"a:b", b"user:pass:word"], headers=headers) == error


def notifications(*states: Any) -> bytes:
    items = [{"changeType": "created"} | ({} if state is ... else {"clientState": state}) for state in states]
    return json.dumps({"value": items}).encode()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (notifications("s3cret"), None),
        (notifications("s3cret", "s3cret"), None),
        (notifications("s3cret", "old"), None),
        (notifications("s3cret", "other"), BAD),
        (notifications("s3cret", ...), BAD),
        (notifications("s3cret", None), BAD),
        (notifications("other"), BAD),
        (notifications(""), BAD),
        (notifications("s3cret\u0000"), BAD),
        (notifications(...), MISSING),
        (notifications(None), MISSING),
        (notifications(), MISSING),
        (notifications(7), MISSING),
        (b'{"value":{"clientState":"s3cret"}}', MISSING),
        (b'{"clientState":"s3cret"}', MISSING),
        (b'[{"clientState":"s3cret"}]', MISSING),
        (b'{"value":[{"clientState":"s3cret"}]', MISSING),
        (b"s3cret", MISSING),
        (b"\xff", MISSING),
        (b"", MISSING),
        (b'{"value":' + b"[" * 50_000, MISSING),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_every_notification_of_microsoft_graph_shows_the_client_state(body: bytes, error: str | None) -> None:
    assert fault("msgraph", {}, [b"old", b"s3cret"], body=body) == error


@pytest.mark.parametrize("verifier", ["websub", "meta", "header", "basic", "msgraph", "twilio", "gitlab"])
def test_a_secret_named_verify_token_belongs_to_a_handshake(verifier: str) -> None:
    request = genuine(verifier)
    settings = InboxSettings(verifier=verifier, verifier_options=dict(request.options))
    head = SignedHead("POST", request.url, request.headers, NOW_US, request.path, request.query)
    for name, verified in (("default", True), ("verify_token", False)):
        compiled = compile_verifier(settings, (Secret(name, SecretBytes(request.secret), 0),))
        check = compiled.begin(head)
        check.update(request.body)
        assert check.finish(Whole(request.body)).verified is verified
