"""What is told of verifiers, what samples look like, and what a path in a body means."""

import json
import re
from typing import Any

import pytest

from tests.web.verify.judging import NOW_US, refused, signed
from web.verify.describing import checks_of
from web.verify.paths import MAX_INDEX, MAX_STEPS, PathReader, parse_path
from web.verify.registry import (
    SCHEMES,
    described,
    signs_url,
)
from web.verify.signing import sample
from web.verify.template import PresetTemplate

FORM = "application/x-www-form-urlencoded"
HMAC: dict[str, Any] = {"header": "X-Signature"}


# -- what is told of them ------------------------------------------------------------------------------------------
def test_the_table_says_what_each_verifier_looks_at() -> None:
    table = {verifier.name: verifier for verifier in described()}
    assert table["standard-webhooks"].aliases == ("svix",)
    for name, checks in (
        (
            "sendgrid",
            "X-Twilio-Email-Event-Webhook-Signature: ECDSA on P-256, base64 of DER, over {ts}{body}",
        ),
        ("hookdeck", "x-hookdeck-signature or x-hookdeck-signature-2: HMAC-SHA256, base64, over {body}"),
        ("telegram", "X-Telegram-Bot-Api-Secret-Token equals a secret"),
        ("mandrill", "X-Mandrill-Signature: HMAC-SHA1, base64, over the URL and the form's sorted fields"),
    ):
        assert table[name].checks == checks
    both = [PresetTemplate(header="X-A"), PresetTemplate(header="X-B")]
    assert (
        checks_of(tuple(both)) == "X-A: HMAC-SHA256, hex, over {body}; or X-B: HMAC-SHA256, hex, over {body}"
    )


def test_the_options_of_an_inbox_say_whether_its_url_is_signed() -> None:
    assert signs_url("twilio", {})
    assert not signs_url("github", {})
    assert signs_url("hmac", HMAC | {"signed": "{url}{body}"})


def test_a_body_that_shows_a_secret_is_known_to_do_so() -> None:
    assert [name for name, scheme in SCHEMES.items() if scheme.about.in_body] == ["msgraph"]


def test_a_sample_has_the_type_of_its_body_and_is_made_around_what_the_inbox_looks_for() -> None:
    assert sample("github", {}, now_us=NOW_US).content_type == "application/json"
    assert sample("twilio", {}, now_us=NOW_US).content_type == FORM
    made = sample("hmac", HMAC | {"event_type": "body:[1].kind"}, now_us=NOW_US, event_type="e")
    assert json.loads(made.body) == [{}, {"kind": "e"}]


def test_other_options_are_refused_with_those_that_a_verifier_takes() -> None:
    tail = 'drop those of an earlier one with "verifier_options": null.'
    assert refused("github", {"a": 1}).message == f"The verifier github takes no options; {tail}"
    assert refused("stripe", {"a": 1}).message == f"The verifier stripe takes only tolerance_seconds; {tail}"
    assert refused("hubspot", {"a": 1}).message == (
        f"The verifier hubspot takes only tolerance_seconds, versions; {tail}"
    )
    assert refused("hmac", HMAC | {"algorithm": "md5"}).message == "Expected sha1, sha256 or sha512."


def test_a_url_that_is_not_given_is_empty() -> None:
    assert signed("twilio", {}, body=b"a=1", content_type=FORM) == signed(
        "twilio", {}, body=b"a=1", content_type=FORM, url=""
    )


# -- paths -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("path", "body", "found"),
    [
        ("[2].a", '[1,2,{"a":"x"}]', "x"),
        ("a[3]", '{"a":[1,2,3,"x"]}', "x"),
        ("[0]", '["x"]', "x"),
        ("[]", '["x"]', "x"),
        ("[]", '["x","y"]', None),
        ("[]", "[]", None),
        ("a", '["x"]', None),
        ("[0]", '{"a":"x"}', None),
        ("a", "x", None),
    ],
)
def test_a_path_finds_what_stands_there_and_nothing_else(path: str, body: str, found: str | None) -> None:
    steps = parse_path(path)
    assert PathReader((steps,)).read(body.encode()).get(steps) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a..b", "expected a path such as type, event.type or [0].id"),
        (".".join("a" * (MAX_STEPS + 1)), f"a path has at most {MAX_STEPS} steps"),
        (f"[{MAX_INDEX + 1}]", f"an index is at most {MAX_INDEX}"),
    ],
)
def test_what_is_no_path_is_refused_in_a_sentence(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        parse_path(text)


def test_a_path_may_be_as_long_and_an_index_as_high_as_the_limits_say() -> None:
    assert len(parse_path(".".join("a" * MAX_STEPS))) == MAX_STEPS
    assert parse_path(f"[{MAX_INDEX}]") == (MAX_INDEX,)
