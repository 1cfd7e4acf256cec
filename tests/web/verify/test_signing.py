"""The other side: what we sign verifies, for every verifier, and a sample shows the type and id it was made with."""

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.verify.genuine import OPTIONS, PUBLIC, VERIFYING, WHPK, WHSEC, genuine, secret_of
from tests.web.verify.judging import BODY, NOW_US, URL
from web.errors import ApiError
from web.verify.registry import SCHEMES, described
from web.verify.signing import sample, sign

FORMS = ("twilio", "mandrill")
FORM = "application/x-www-form-urlencoded"
STAMPED_BODY = b'{"webhookTimestamp":1700000000000,"more":"%b"}'
MISMATCHING = [name for name in VERIFYING if SCHEMES[name].about.checks.count("HMAC-") and name != "gitlab"]


def body_for(name: str, body: bytes) -> tuple[bytes, str]:
    """Return bytes as a body that the verifier's provider could send, and its type."""
    if name in FORMS:
        return urlencode({"field": body}).encode(), FORM
    if name == "linear":
        return STAMPED_BODY % body.hex().encode(), "application/json"
    if name == "msgraph":
        return json.dumps({"value": [{"id": body.hex()}]}).encode(), "application/json"
    return body, "application/octet-stream"


@pytest.mark.parametrize("name", VERIFYING)
@given(body=st.binary(max_size=300))
def test_what_we_sign_verifies_whatever_the_body(name: str, body: bytes) -> None:
    request = genuine(name, *body_for(name, body))
    assert request.judged().verified is True
    assert request.judged(secrets=[b"other:one"]).verified is False
    if name in MISMATCHING:
        changed = request.body[:-1] + b" " + request.body[-1:]  # JSON stays JSON
        assert request.judged(body=changed).error == "signature mismatch"


@pytest.mark.parametrize("name", ["twilio"])
@given(body=st.binary(max_size=300))
def test_a_body_that_is_no_form_is_signed_by_a_hash_in_the_query(name: str, body: bytes) -> None:
    request = genuine(name, body, "application/json")
    assert request.judged().verified is True
    assert request.query == (b"bodySHA256=" + hashlib.sha256(body).hexdigest().encode() if body else b"")


@pytest.mark.parametrize("secret", [b"s3cret", b"a/b?c#d%e", "gehéim".encode(), b" "])
def test_a_secret_in_the_path_is_percent_encoded(secret: bytes) -> None:
    request = genuine("okta", secret=secret)
    assert request.path.count(b"/") == 1
    assert not set(request.path) & set(b"?# ")
    assert request.judged().verified is True


# -- samples -----------------------------------------------------------------------------------------------------


NO_EVENT_TYPE = {
    "x",
    "twitter",
    "dropbox",
    "xero",
    "hookdeck",
    "telegram",
    "sns",
    "okta",
    "websub",
    "mailchimp",
    "mandrill",
    "none",
}
NO_DELIVERY_ID = {
    "meta",
    "whatsapp",
    "zoom",
    "hubspot",
    "x",
    "twitter",
    "calendly",
    "dropbox",
    "xero",
    "webflow",
    "woocommerce",
    "elevenlabs",
    "msgraph",
    "okta",
    "websub",
    "mailchimp",
    "asana",
    "mandrill",
}
"""The rows of the providers that have none."""


@pytest.mark.parametrize("name", sorted(NO_EVENT_TYPE))
def test_a_verifier_without_event_types_refuses_to_make_a_sample_of_one(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        sample(name, {}, now_us=NOW_US, event_type="x")
    assert refused.value.field == "event_type"


@pytest.mark.parametrize("name", VERIFYING)
def test_a_sample_verifies_and_shows_its_event_type_and_delivery_id(name: str) -> None:
    event_type = None if name in NO_EVENT_TYPE else "7"
    judgement = genuine(name, event_type=event_type, delivery_id="42").judged()
    assert judgement.verified is True
    assert judgement.delivery_id == (None if name in NO_DELIVERY_ID else "42")
    assert judgement.event_type == (event_type or "")


@pytest.mark.parametrize("name", VERIFYING)
def test_a_sample_without_a_delivery_id_has_none_that_could_be_a_duplicate(name: str) -> None:
    if name in ("standard-webhooks", "svix"):
        with pytest.raises(ApiError, match="signs the delivery id"):
            genuine(name, delivery_id=None)
    elif name != "telegram":  # an update's number is its id
        assert genuine(name, delivery_id=None).judged().delivery_id is None


def test_a_sample_keeps_numbers_numbers_and_the_rest_of_the_body() -> None:
    def body(name: str, **wanted: Any) -> Any:
        return json.loads(sample(name, {}, now_us=NOW_US, **wanted).body)

    assert body("discord", event_type="5")["type"] == 5
    assert body("discord", event_type="APPLICATION_AUTHORIZED")["type"] == "APPLICATION_AUTHORIZED"
    assert body("telegram", delivery_id="9")["update_id"] == 9
    assert body("stripe", delivery_id="9")["id"] == "9"
    assert body("linear")["webhookTimestamp"] == NOW_US // 1_000
    slack = body("slack", event_type="message", delivery_id="Ev1")
    assert slack == {
        "type": "event_callback",
        "event": {"type": "message", "text": "Hello"},
        "event_id": "Ev1",
    }
    [notification] = body("msgraph", event_type="updated")["value"]
    assert (notification["changeType"], notification["resource"]) == ("updated", "me/messages")


def test_a_sample_of_the_generic_verifiers_puts_things_where_the_inbox_looks_for_them() -> None:
    options = {
        "header": "X-S",
        "timestamp": "body:meta.at",
        "delivery_id": ["body:[1].id", "header:x-id"],
        "event_type": "body:[1].of.kind",
    }
    made = sample("hmac", {**options, "timestamp": None}, now_us=NOW_US, event_type="e", delivery_id="d")
    assert json.loads(made.body)[1] == {"id": "d", "of": {"kind": "e"}}
    form = sample("none", {"event_type": "form:kind"}, now_us=NOW_US, event_type="e & f")
    assert (form.content_type, form.body) == (FORM, b"message=A+sample+from+Postroom&kind=e+%26+f")
    request = genuine("basic", options={"event_type": "form:kind"}, event_type="e & f")
    assert request.judged().event_type == "e & f"


@pytest.mark.parametrize("name", VERIFYING)
def test_a_sample_is_small_and_of_the_type_it_says(name: str) -> None:
    made = sample(name, OPTIONS.get(name, {}), now_us=NOW_US)
    assert len(made.body) < 300
    if made.content_type == "application/json":
        msgspec.json.decode(made.body)


# -- what cannot be signed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verifier", "options", "secret", "field"),
    [
        ("none", {}, b"k", "verifier"),
        ("nobody", {}, b"k", "verifier"),
        ("discord", {}, secret_of("discord"), "verifier"),
        ("sendgrid", {}, secret_of("sendgrid"), "verifier"),
        ("standard-webhooks", {}, WHPK, "verifier"),
        ("hmac", {}, b"k", "verifier_options.header"),
        ("standard-webhooks", {}, b"whsec_!", "value"),
        ("standard-webhooks", {}, WHSEC, "delivery_id"),
        ("gitlab", {}, WHSEC, "delivery_id"),
        ("header", {}, b"k", "verifier_options.header"),
        ("header", {"header": "X"}, b"a\nb", "value"),
        ("basic", {}, b"user", "value"),
        ("mandrill", {}, b"k", "content_type"),
        ("msgraph", {}, b"k", "body"),
        ("github", {}, b"", "value"),
        ("okta", {}, b"", "value"),
        ("twilio", {}, b"", "value"),
    ],
)
def test_a_refusal_names_what_is_wrong(
    verifier: str, options: dict[str, Any], secret: bytes, field: str
) -> None:
    with pytest.raises(ApiError) as refused:
        sign(verifier, options, secret, body=b"", now_us=NOW_US)
    assert (refused.value.code, refused.value.field) == ("invalid_argument", field)


def test_the_table_says_which_verifiers_can_sign() -> None:
    assert {verifier.name for verifier in described() if not verifier.signs} == {"none", *PUBLIC}


def test_microsoft_graph_s_state_is_put_into_every_notification() -> None:
    body = b'{"value":[{"id":1,"clientState":"old"},{"id":2}]}'
    signed = sign("msgraph", {}, b"s3cret", body=body, now_us=NOW_US)
    states = [one["clientState"] for one in json.loads(signed.body)["value"]]
    assert states == ["s3cret", "s3cret"]


# -- an independent computation ------------------------------------------------------------------------------------


def test_an_independent_computation_agrees_with_what_we_sign() -> None:
    given_ids: dict[str, Any] = {"delivery_id": "d-1", "event_type": "push"}
    github = sign("github", {}, b"k", body=BODY, now_us=NOW_US, **given_ids)
    assert dict(github.headers) == {
        "x-github-delivery": "d-1",
        "x-github-event": "push",
        "x-hub-signature-256": "sha256=" + hmac.new(b"k", BODY, hashlib.sha256).hexdigest(),
    }
    stamped = b"1700000000." + BODY
    expected = "t=1700000000,v1=" + hmac.new(b"k", stamped, hashlib.sha256).hexdigest()
    stripe = sign("stripe", {}, b"k", body=BODY, now_us=NOW_US)
    assert stripe.headers == (("stripe-signature", expected),)
    assert (stripe.path, stripe.query, stripe.body) == ("", "", BODY)


def test_a_gitlab_secret_is_shown_or_signs_by_what_it_is() -> None:
    shown = dict(sign("gitlab", {}, b"a-token", body=BODY, now_us=NOW_US, event_type="Push Hook").headers)
    assert shown == {"x-gitlab-token": "a-token", "x-gitlab-event": "Push Hook"}
    signed = dict(sign("gitlab", {}, WHSEC, body=BODY, now_us=NOW_US, url=URL, delivery_id="d-1").headers)
    assert signed.keys() == {"webhook-id", "webhook-timestamp", "webhook-signature"}
