"""Presets of several templates: which of them applies, and what is said when none is satisfied."""

import base64
import hashlib
import hmac

import pytest

from tests.web.verify.genuine import ED25519, WHPK, WHSEC, genuine
from tests.web.verify.judging import BODY, NOW_US, URL, Headers, judge

ID, STAMP = b"msg_1", b"1700000000"
TEXT = ID + b"." + STAMP + b"." + BODY
V1 = b"v1," + base64.b64encode(hmac.digest(bytes(range(32)), TEXT, "sha256"))
V1A = b"v1a," + base64.b64encode(ED25519.sign(TEXT))
OTHER_V1 = b"v1," + base64.b64encode(bytes(32))
OTHER_V1A = b"v1a," + base64.b64encode(bytes(64))
WHSEC_2 = b"whsec_" + base64.b64encode(bytes(24))


def standard(signature: bytes, brand: bytes = b"webhook") -> Headers:
    return [(brand + b"-id", ID), (brand + b"-timestamp", STAMP), (brand + b"-signature", signature)]


@pytest.mark.parametrize("name", ["standard-webhooks", "svix"])
@pytest.mark.parametrize("brand", [b"webhook", b"svix"])
@pytest.mark.parametrize(
    ("secrets", "signature", "error"),
    [
        ([WHSEC], V1, None),
        ([WHSEC.removeprefix(b"whsec_")], V1, None),
        ([WHSEC.rstrip(b"=")], V1, None),
        ([WHPK], V1A, None),
        ([WHSEC_2, WHSEC], V1, None),
        ([WHSEC, WHPK], V1, None),
        ([WHSEC, WHPK], V1A, None),
        ([WHSEC, WHPK], OTHER_V1 + b" " + V1A, None),
        ([WHSEC, WHPK], OTHER_V1A + b" " + V1, None),
        ([WHSEC], V1A, "unknown key"),
        ([WHSEC], OTHER_V1A + b" " + OTHER_V1, "signature mismatch"),
        ([WHPK], V1, "unknown key"),
        ([], V1, "unknown key"),
        ([], V1A, "unknown key"),
        ([WHSEC, WHPK], OTHER_V1, "signature mismatch"),
        ([WHSEC, WHPK], OTHER_V1A, "signature mismatch"),
        ([WHSEC_2], V1, "signature mismatch"),
        ([WHSEC], b"v2,x", "malformed signature"),
        ([WHSEC], b"", "malformed signature"),
    ],
)
def test_standard_webhooks_takes_either_signature_with_a_key_of_its_kind(
    name: str, brand: bytes, secrets: list[bytes], signature: bytes, error: str | None
) -> None:
    judgement = judge(name, {}, secrets, standard(signature, brand))
    assert judgement.error == error
    assert judgement.verified is (error is None)


def test_the_headers_of_one_brand_do_not_complete_those_of_the_other() -> None:
    mixed = [*standard(V1)[:2], (b"svix-signature", V1)]
    assert judge("svix", {}, [WHSEC], mixed).error == "missing signature"


def test_the_brand_whose_signature_is_there_first_in_the_table_is_judged() -> None:
    both = [*standard(OTHER_V1), *standard(V1, b"svix")]
    assert judge("svix", {}, [WHSEC], both).error == "signature mismatch"
    assert judge("svix", {}, [WHSEC], [*standard(V1), *standard(OTHER_V1, b"svix")]).verified is True


def test_the_timestamp_of_standard_webhooks_is_told_before_the_key() -> None:
    late = judge("standard-webhooks", {}, [WHPK], standard(V1), at_us=NOW_US + 301_000_000)
    assert late.error == "timestamp outside tolerance"


# -- HubSpot's versions -------------------------------------------------------------------------------------------

SECRET = b"yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy"
VERSION, OLD = b"x-hubspot-signature-version", b"x-hubspot-signature"
V1_HEX = hashlib.sha256(SECRET + BODY).hexdigest().encode()
V2_HEX = hashlib.sha256(SECRET + b"POST" + URL.encode() + BODY).hexdigest().encode()


def v3(url: str, body: bytes = BODY) -> Headers:
    stamp = b"1700000000000"
    digest = hmac.digest(SECRET, b"POST" + url.encode() + body + stamp, "sha256")
    return [
        (b"x-hubspot-signature-v3", base64.b64encode(digest)),
        (b"x-hubspot-request-timestamp", stamp),
    ]


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ([(OLD, V1_HEX), (VERSION, b"v1")], None),
        ([(OLD, V2_HEX), (VERSION, b"v2")], None),
        ([(OLD, V1_HEX), (VERSION, b"v2")], "signature mismatch"),
        ([(OLD, V2_HEX), (VERSION, b"v1")], "signature mismatch"),
        ([(OLD, V1_HEX)], "malformed signature"),
        ([(OLD, V1_HEX), (VERSION, b"v3")], "malformed signature"),
        ([(OLD, V1_HEX), (VERSION, b"v1"), (VERSION, b"v1")], "malformed signature"),
        ([(OLD, V1_HEX), (OLD, V1_HEX), (VERSION, b"v1")], "malformed signature"),
        ([(VERSION, b"v1")], "missing signature"),
        ([*v3(URL), (OLD, b"0" * 64), (VERSION, b"v1")], None),
        ([*v3(URL + "x"), (OLD, V1_HEX), (VERSION, b"v1")], "signature mismatch"),
        ([v3(URL)[0], (OLD, V1_HEX), (VERSION, b"v1")], "missing signature"),
    ],
)
def test_hubspot_s_newest_signature_is_the_one_that_counts(headers: Headers, error: str | None) -> None:
    assert judge("hubspot", {}, [SECRET], headers).error == error


def test_hubspot_signs_some_characters_of_a_url_as_they_are() -> None:
    plain = "https://example.org/in/a?to=me@example.org,you&at=1:2"
    encoded = "https://example.org/in/a?to=me%40example.org%2cyou&at=1%3A2"
    for asked in (plain, encoded):
        assert judge("hubspot", {}, [SECRET], v3(plain), url=asked).verified is True
    assert judge("hubspot", {}, [SECRET], v3(encoded), url=encoded).verified is True
    assert judge("hubspot", {}, [SECRET], v3(encoded), url=plain).error == "signature mismatch"
    assert judge("hubspot", {}, [SECRET], v3(URL + "?a b"), url=URL + "?a%20b").error == "signature mismatch"


# -- GitLab's token and its signature --------------------------------------------------------------------------------

TOKEN = (b"x-gitlab-token", b"a-token")


@pytest.mark.parametrize(
    ("secrets", "headers", "error"),
    [
        ([b"a-token"], [TOKEN], None),
        ([b"old", b"a-token"], [TOKEN], None),
        ([b"other"], [TOKEN], "bad credentials"),
        ([b"a-token"], [TOKEN, TOKEN], "bad credentials"),
        ([b"a-token"], [(TOKEN[0], b"")], "bad credentials"),
        ([b"a-token"], [(TOKEN[0], b"a-tokeN")], "bad credentials"),
        ([], [TOKEN], "bad credentials"),
        ([b"a-token"], [], "missing credentials"),
        ([WHSEC], [], "missing credentials"),
        ([WHSEC], standard(V1), None),
        ([WHSEC], standard(OTHER_V1), "signature mismatch"),
        ([WHSEC], standard(b"v1,"), "malformed signature"),
        ([WHSEC], standard(V1)[1:], "missing signature"),
        ([WHSEC], [TOKEN], "bad credentials"),
        ([WHSEC, b"a-token"], [TOKEN], None),
        ([WHSEC, b"a-token"], [*standard(V1), TOKEN], None),
        ([WHSEC, b"a-token"], [*standard(OTHER_V1), TOKEN], "signature mismatch"),
        ([b"a-token"], [*standard(OTHER_V1), TOKEN], None),
        ([b"a-token"], standard(V1), "missing credentials"),
    ],
)
def test_gitlab_shows_a_token_or_signs(secrets: list[bytes], headers: Headers, error: str | None) -> None:
    judgement = judge("gitlab", {}, secrets, headers)
    assert judgement.error == error
    assert judgement.verified is (error is None)


def test_a_right_token_does_not_undo_an_old_timestamp() -> None:
    late = judge("gitlab", {}, [WHSEC, b"a-token"], [*standard(V1), TOKEN], at_us=NOW_US + 301_000_000)
    assert late.error == "timestamp outside tolerance"


def test_gitlab_s_ids() -> None:
    key, uuid = (b"idempotency-key", b"k-1"), (b"x-gitlab-event-uuid", b"u-1")
    event = (b"x-gitlab-event", b"Push Hook")
    assert judge("gitlab", {}, [b"a-token"], [TOKEN, key, uuid, event]).delivery_id == "k-1"
    assert judge("gitlab", {}, [b"a-token"], [TOKEN, event]).event_type == "Push Hook"
    assert judge("gitlab", {}, [b"a-token"], [TOKEN, uuid]).delivery_id is None
    assert judge("gitlab", {}, [WHSEC], standard(V1)).delivery_id == "msg_1"
    assert genuine("gitlab", secret=WHSEC).judged().delivery_id == "d-1"
