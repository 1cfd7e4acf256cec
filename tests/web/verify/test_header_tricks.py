"""Whatever is done to the headers of a genuine request, or arrives in its place: a verdict, never an exception."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.verify.genuine import OPTIONS, VERIFYING, WHPK, WHSEC, Genuine, genuine
from tests.web.verify.judging import CREDENTIAL_FAULTS, SIGNATURE_FAULTS, Headers, judge

LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
LONG = 32 * 1024

CREDENTIALS = {
    "x-gitlab-token",
    "x-telegram-bot-api-secret-token",
    "authorization",
    "x-secret",
}
STAMPS = {
    "x-slack-request-timestamp",
    "x-signature-timestamp",
    "x-zm-request-timestamp",
    "x-hubspot-request-timestamp",
    "x-twilio-email-event-webhook-timestamp",
    "x-webflow-timestamp",
    "webhook-timestamp",
    "svix-timestamp",
}
PAIRS = {"stripe-signature": b"t", "calendly-webhook-signature": b"t", "elevenlabs-signature": b"t"} | {
    "paddle-signature": b"ts"
}


def proof(request: Genuine) -> str | None:
    """Return the header in which a request shows that it is genuine; None where that is not a header."""
    for name, _ in request.headers:
        text = name.decode()
        is_proof = re.search("signature|hmac|x-trello-webhook", text) and "timestamp" not in text
        if text in CREDENTIALS or is_proof:
            return text
    return None


REQUESTS = [
    *(genuine(name) for name in VERIFYING),
    genuine("gitlab", secret=WHSEC),
    genuine("eventgrid", options={"header": "X-Secret"}),
]
SHOWING = [request for request in REQUESTS if proof(request) is not None]


def label(request: Genuine) -> str:
    return f"{request.verifier}-{proof(request)}"


def replaced(request: Genuine, header: str, *values: bytes) -> Headers:
    """Return the request's headers with other values of one."""
    name = header.encode()
    others = [(n, v) for n, v in request.headers if n != name]
    return [*others, *((name, value) for value in values)]


def right(request: Genuine, header: str) -> bytes:
    return dict(request.headers)[header.encode()]


def faults(header: str) -> set[str]:
    return CREDENTIAL_FAULTS if header in CREDENTIALS else SIGNATURE_FAULTS


def test_every_verifier_shows_its_proof_where_these_tests_look() -> None:
    without = {request.verifier for request in REQUESTS if proof(request) is None}
    assert without == {"msgraph", "eventgrid", "cloudevents", "sns", "okta", "websub", "mailchimp"}
    shown = {request.verifier: proof(request) for request in SHOWING}
    assert shown["hubspot"] == "x-hubspot-signature-v3"
    assert shown["sendgrid"] == "x-twilio-email-event-webhook-signature"
    assert shown["discord"] == "x-signature-ed25519"
    assert shown["shopify"] == "x-shopify-hmac-sha256"


@pytest.mark.parametrize("request_", REQUESTS, ids=label)
def test_an_untouched_request_verifies_and_one_without_its_proof_is_missing_it(request_: Genuine) -> None:
    assert request_.judged().verified is True
    header = proof(request_)
    if header is None:
        nothing = request_.judged(path=b"", body=b"{}")
        assert nothing.error == "missing credentials"
    else:
        kind = "credentials" if header in CREDENTIALS else "signature"
        if request_.secret == WHSEC and request_.verifier == "gitlab":
            kind = "credentials"  # without a signature it is a token that is missing
        assert request_.judged(headers=replaced(request_, header)).error == f"missing {kind}"


@pytest.mark.parametrize("request_", SHOWING, ids=label)
def test_a_proof_that_is_there_twice_is_malformed(request_: Genuine) -> None:
    header = proof(request_)
    assert header is not None
    value = right(request_, header)
    word = "bad credentials" if header in CREDENTIALS else "malformed signature"
    for other in (value, b"", b"x"):
        assert request_.judged(headers=replaced(request_, header, value, other)).error == word
        assert request_.judged(headers=replaced(request_, header, other, value)).error == word


def mangled(value: bytes) -> dict[str, bytes]:
    """Return what senders, proxies and attackers make of a header's value."""
    swapped = bytearray(value)
    last = len(value.rstrip(b"=")) - 1
    if value.endswith(b"=") and value[last] in LETTERS:
        swapped[last] = LETTERS[LETTERS.index(value[last]) ^ 1]
    return {
        "empty": b"",
        "a space": b" ",
        "space before": b" " + value,
        "space after": value + b" ",
        "tab after": value + b"\t",
        "a line more": value + b"\n",
        "a NUL more": value + b"\0",
        "not ASCII": value[:-1] + b"\xe9",
        "UTF-8": "“".encode() + value + "”".encode(),
        "quoted": b'"' + value + b'"',
        "huge": value + b"a" * LONG,
        "huge and not ASCII": b"\xff" * LONG,
        "many commas": b"," * LONG,
        "many pairs": b"t=1,v1=a,v0=,h1=;ts=1;" * 1_500,
        "upper case": value.upper(),
        "lower case": value.lower(),
        "swapped case": value.swapcase(),
        "unpadded": value.rstrip(b"="),
        "overpadded": value + b"=",
        "other last bits": bytes(swapped),
        "url-safe": value.replace(b"+", b"-").replace(b"/", b"_"),
        "cut": value[:-1],
        "without its prefix": value.rpartition(b"=")[2],
        "doubled": value + value,
        "listed": value + b", " + value,
    }


@pytest.mark.parametrize("request_", SHOWING, ids=label)
def test_a_mangled_proof_is_refused(request_: Genuine) -> None:
    header = proof(request_)
    assert header is not None
    value = right(request_, header)
    for trick, other in mangled(value).items():
        judgement = request_.judged(headers=replaced(request_, header, other))
        if judgement.verified is True:
            assert still_the_same(header, value, other), trick
        else:
            assert judgement.verified is False, trick
            assert judgement.error in faults(header), trick


def still_the_same(header: str, value: bytes, other: bytes) -> bool:
    """Whether a trick left a header that names the very text of the signature."""
    if other == value:
        return True
    if header in ("webhook-signature", "svix-signature"):  # a list, separated by spaces
        return value in other.split(b" ")
    if header in ("x-pagerduty-signature", *PAIRS):  # lists, too
        separator = b";" if header == "paddle-signature" else b","
        return value.split(separator)[-1] in other.split(separator)
    return False


STRANGE_STAMPS = [
    b"",
    b"0",
    b"1700000000.0",
    b"1.7e9",
    b"+1700000000",
    b"-1700000000",
    b" 1700000000",
    b"1700000000 ",
    b"01700000000",
    b"1_700_000_000",
    b"0x6553f100",
    "１７００００００００".encode(),
    b"4102444800",
    b"9999999999999999999",
    b"9" * LONG,
    b"now",
    b"\xff",
    b"NaN",
    b"1700000001",
]


def stamped() -> list[tuple[Genuine, str]]:
    found = []
    for request in SHOWING:
        for name, _ in request.headers:
            if name.decode() in STAMPS or name.decode() in PAIRS:
                found.append((request, name.decode()))
    return found


def with_stamp(request: Genuine, header: str, stamp: bytes) -> Headers:
    key = PAIRS.get(header)
    if key is None:
        return replaced(request, header, stamp)
    return replaced(
        request, header, re.sub(b"^" + key + b"=[0-9]+", key + b"=" + stamp, right(request, header))
    )


@pytest.mark.parametrize(
    ("request_", "header"), stamped(), ids=lambda v: v if isinstance(v, str) else v.verifier
)
def test_a_strange_timestamp_is_refused(request_: Genuine, header: str) -> None:
    assert request_.judged(headers=with_stamp(request_, header, b"%d" % 1)).verified is False
    for stamp in STRANGE_STAMPS:
        judgement = request_.judged(headers=with_stamp(request_, header, stamp))
        assert judgement.verified is False, stamp
        if re.fullmatch(rb"0|[1-9][0-9]{0,18}", stamp) is None:
            assert judgement.error == "malformed signature", stamp
        elif request_.verifier in ("discord", "sendgrid"):
            assert judgement.error == "signature mismatch", stamp
        else:
            far = stamp != b"1700000001" or header in ("x-hubspot-request-timestamp", "x-webflow-timestamp")
            assert judgement.error == ("timestamp outside tolerance" if far else "signature mismatch"), stamp


@pytest.mark.parametrize(
    ("request_", "header"), stamped(), ids=lambda v: v if isinstance(v, str) else v.verifier
)
def test_a_timestamp_that_is_there_twice_is_malformed(request_: Genuine, header: str) -> None:
    if header in STAMPS:
        value = right(request_, header)
        twice = replaced(request_, header, value, value)
        assert request_.judged(headers=twice).error == "malformed signature"
        assert request_.judged(headers=replaced(request_, header)).error == "missing signature"


HEADER_NAMES = sorted(
    {name for request in REQUESTS for name, _ in request.headers} | {b"x-secret", b"svix-id"}
)


@given(
    st.sampled_from(VERIFYING),
    st.lists(st.tuples(st.sampled_from(HEADER_NAMES), st.binary(max_size=120)), max_size=8),
    st.binary(max_size=60),
    st.integers(-(2**62), 2**62),
    st.text(max_size=30),
    st.binary(max_size=20),
)
def test_whatever_arrives_gets_a_verdict(
    verifier: str, headers: Headers, body: bytes, at_us: int, url: str, path: bytes
) -> None:
    secrets = [WHSEC, WHPK, b"user:password", b"00ff", b"\xff"]
    judgement = judge(
        verifier,
        OPTIONS.get(verifier, {}),
        secrets,
        headers,
        body,
        at_us=at_us,
        url=url,
        path=b"/" + path,
        query=path,
    )
    assert judgement.verified is False
    assert judgement.error in SIGNATURE_FAULTS | CREDENTIAL_FAULTS


@given(st.data())
def test_a_genuine_request_with_anything_replaced_gets_a_verdict(data: st.DataObject) -> None:
    request = data.draw(st.sampled_from(REQUESTS))
    changed: dict[str, Any] = {}
    name = data.draw(st.sampled_from([name for name, _ in request.headers]))
    changed["headers"] = replaced(
        request, name.decode(), *data.draw(st.lists(st.binary(max_size=90), max_size=3))
    )
    if data.draw(st.booleans()):
        changed["body"] = data.draw(st.binary(max_size=200))
    judgement = request.judged(**changed)
    assert judgement.verified in (True, False)
    assert (judgement.error is None) is judgement.verified
