"""Presets of several templates: which of them applies, and what is said when none is satisfied."""

import base64
import hashlib
import hmac

import pytest

from tests.web.verify.extending import extended
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


def test_of_two_brands_the_one_of_the_verifier_s_name_is_judged() -> None:
    for name, own, other in (("standard-webhooks", b"webhook", b"svix"), ("svix", b"svix", b"webhook")):
        right, wrong = standard(V1, own), standard(OTHER_V1, other)
        assert judge(name, {}, [WHSEC], [*wrong, *right]).verified is True
        right, wrong = standard(V1, other), standard(OTHER_V1, own)
        assert judge(name, {}, [WHSEC], [*right, *wrong]).error == "signature mismatch"
        assert judge(name, {}, [WHSEC], right).verified is True


@pytest.mark.parametrize("name", ["standard-webhooks", "svix"])
@pytest.mark.parametrize(("secret", "signature"), [(WHSEC, V1), (WHPK, V1A)])
@pytest.mark.parametrize("brand", [b"webhook", b"svix"])
def test_the_delivery_id_is_the_one_that_was_signed(
    name: str, secret: bytes, signature: bytes, brand: bytes
) -> None:
    unsigned = [
        (other, b"evil")
        for other in (b"webhook-id", b"svix-id", b"idempotency-key")
        if other[:4] != brand[:4]
    ]
    for headers in ([*unsigned, *standard(signature, brand)], [*standard(signature, brand), *unsigned]):
        judgement = judge(name, {}, [WHSEC, WHPK] if secret == WHSEC else [secret], headers)
        assert (judgement.verified, judgement.delivery_id) == (True, "msg_1")


def test_an_unverified_message_shows_the_id_of_the_brand_that_it_was_judged_by() -> None:
    headers = [*standard(OTHER_V1, b"svix"), (b"webhook-id", b"evil")]
    assert judge("standard-webhooks", {}, [WHSEC], headers).delivery_id == "msg_1"


def test_the_timestamp_of_standard_webhooks_is_told_before_the_key() -> None:
    late = judge("standard-webhooks", {}, [WHPK], standard(V1), at_us=NOW_US + 301_000_000)
    assert late.error == "timestamp outside tolerance"


# -- HubSpot's versions -------------------------------------------------------------------------------------------

SECRET = b"yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy"
VERSION, OLD = b"x-hubspot-signature-version", b"x-hubspot-signature"
EVERY_VERSION = {"versions": ["v3", "v2", "v1"]}
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
    assert judge("hubspot", EVERY_VERSION, [SECRET], headers).error == error


@pytest.mark.parametrize(
    ("versions", "accepted"),
    [
        (None, "3"),
        (["v3"], "3"),
        (["v2"], "2"),
        (["v1"], "1"),
        (["v1", "v2"], "12"),
        (["v2", "v3"], "23"),
        (["v1", "v2", "v3"], "123"),
    ],
)
def test_hubspot_s_older_versions_count_only_where_the_inbox_says_so(
    versions: list[str] | None, accepted: str
) -> None:
    options = {} if versions is None else {"versions": versions}
    requests = {
        "1": [(OLD, V1_HEX), (VERSION, b"v1")],
        "2": [(OLD, V2_HEX), (VERSION, b"v2")],
        "3": v3(URL),
    }
    found = {n: judge("hubspot", options, [SECRET], headers) for n, headers in requests.items()}
    assert "".join(n for n, judgement in found.items() if judgement.verified) == accepted


def test_a_body_that_somebody_has_added_to_does_not_pass_for_hubspot_s() -> None:
    forged = extended(V1_HEX.decode(), len(SECRET) + len(BODY), b',{"forged":true}')
    headers = [(OLD, forged.digest.encode()), (VERSION, b"v1")]
    assert judge("hubspot", {}, [SECRET], headers, BODY + forged.added).verified is False
    # What the option warns of: the hash of secret and body can be carried on without the secret.
    assert judge("hubspot", {"versions": ["v1"]}, [SECRET], headers, BODY + forged.added).verified is True


def test_hubspot_s_event_type_is_found_whatever_the_version() -> None:
    body = b'[{"subscriptionType":"deal.creation"}]'
    signature = hashlib.sha256(SECRET + body).hexdigest().encode()
    judgement = judge("hubspot", EVERY_VERSION, [SECRET], [(OLD, signature), (VERSION, b"v1")], body)
    assert (judgement.verified, judgement.event_type) == (True, "deal.creation")


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
    for secrets in ([WHSEC], [WHSEC, b"a-token"]):
        signed = judge("gitlab", {}, secrets, [key, event, *standard(V1)])
        assert (signed.verified, signed.delivery_id, signed.event_type) == (True, "msg_1", "Push Hook"), (
            "what is signed, not what stands beside it"
        )


@pytest.mark.parametrize(
    "token",
    [
        WHSEC.removeprefix(b"whsec_"),
        WHSEC.removeprefix(b"whsec_").rstrip(b"="),
        WHPK,
        b"whsec_ is no signing token",
        b"a" * 32,
        b"abcd" * 12,
    ],
)
def test_only_what_begins_as_gitlab_s_signing_tokens_do_is_one(token: bytes) -> None:
    shown = genuine("gitlab", secret=token)
    assert dict(shown.headers)[b"x-gitlab-token"] == token
    assert b"webhook-signature" not in dict(shown.headers)
    assert shown.judged().verified is True
    # A signature of a signing token that was not entered here does not stand in the way of the token.
    assert judge("gitlab", {}, [token], [*standard(OTHER_V1), (b"x-gitlab-token", token)]).verified is True
