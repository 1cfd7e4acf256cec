"""Twilio and Mandrill: signatures over a URL and the fields of a form."""

import base64
import hashlib
import hmac
from urllib.parse import urlencode

import pytest

from tests.web.verify.genuine import genuine
from tests.web.verify.judging import URL, Headers, judge
from web.errors import ApiError
from web.verify.forms import MAX_FIELDS

SECRET = b"12345"
FORM = b"application/x-www-form-urlencoded"
SETTINGS = b"x-twilio-webhooks-signature-settings"
MISMATCH, MALFORMED = "signature mismatch", "malformed signature"


def signature(text: str | bytes, algorithm: str = "sha1") -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return base64.b64encode(hmac.digest(SECRET, data, algorithm))


def headers(value: bytes, kind: bytes | None = FORM, header: bytes = b"x-twilio-signature") -> Headers:
    shown = [(header, value)]
    return shown if kind is None else [(b"content-type", kind), *shown]


def fault(
    body: bytes, text: str | bytes, kind: bytes | None = FORM, url: str = URL, query: bytes = b""
) -> str | None:
    return judge("twilio", {}, [SECRET], headers(signature(text), kind), body, url=url, query=query).error


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", URL),
        (b"a=1", URL + "a1"),
        (b"b=2&a=1", URL + "a1b2"),
        (b"B=1&a=2&A=3&_=4", URL + "A3B1_4a2"),
        (b"a=", URL + "a"),
        (b"a", URL + "a"),
        (b"&&a=1&", URL + "a1"),
        (b"a=b=c", URL + "ab=c"),
        (b"a=x+y%20z%2B", URL + "ax y z+"),
        ("ä=ö".encode(), URL + "äö"),
        (b"%C3%A4=%c3%b6", URL + "äö"),
        (b"a=%ff", URL.encode() + b"a\xff"),
        (b"a=%zz%", URL + "a%zz%"),
        (b"a=2&a=1&a=2", URL + "a1a2"),
    ],
)
def test_the_fields_are_signed_decoded_sorted_and_unique(body: bytes, text: str | bytes) -> None:
    for kind in (FORM, FORM + b"; charset=UTF-8", b"Application/X-WWW-Form-Urlencoded", None):
        assert fault(body, text, kind) is None
    assert fault(body + b"&z=1", text) == MISMATCH


def test_a_field_more_or_less_or_moved_is_a_mismatch() -> None:
    assert fault(b"a=1&b=2", URL + "a1") == MISMATCH
    assert fault(b"a=1", URL + "a1b2") == MISMATCH
    assert fault(b"a=1", URL + "?a1") == MISMATCH
    assert fault(b"b=1&a=2", URL + "b1a2") == MISMATCH


@pytest.mark.parametrize("preset", ["twilio", "mandrill"])
@pytest.mark.parametrize("body", [b"&", b"&&", b"=", b"=&=", b"&=&"])
def test_a_signature_of_the_url_alone_covers_no_form_without_a_text(preset: str, body: bytes) -> None:
    alone = genuine(preset, b"", FORM.decode())
    assert alone.judged().verified is True
    assert alone.judged(body=body).error == "signature mismatch"
    with pytest.raises(ApiError) as refused:
        genuine(preset, body, FORM.decode())
    assert refused.value.field == "body"


def test_a_form_of_too_many_fields_is_refused_without_being_sorted() -> None:
    fields = [(f"f{n:04}", "") for n in range(MAX_FIELDS + 1)]
    for count, error in ((MAX_FIELDS, None), (MAX_FIELDS + 1, MISMATCH)):
        text = URL + "".join(name for name, _ in fields[:count])
        assert fault(urlencode(fields[:count]).encode(), text) == error


HOST = "example.org/in/a?x=1"


@pytest.mark.parametrize(
    ("signed", "known"),
    [
        (f"https://{HOST}", f"https://{HOST}"),
        (f"https://{HOST}".replace("org", "org:443"), f"https://{HOST}"),
        (f"http://{HOST}".replace("org", "org:80"), f"http://{HOST}"),
        (f"https://{HOST}", f"https://{HOST}".replace("org", "org:443")),
        (f"https://{HOST}", f"https://{HOST}".replace("org", "org:8443")),
        ("https://[::1]:443/a", "https://[::1]/a"),
        ("https://[::1]/a", "https://[::1]:443/a"),
        ("https://example.org:443", "https://example.org"),
        ("https://u:p@example.org:443/a", "https://u:p@example.org/a"),
    ],
)
def test_the_url_is_tried_with_its_port_and_without(signed: str, known: str) -> None:
    assert fault(b"a=1", signed + "a1", url=known) is None


@pytest.mark.parametrize(
    ("signed", "known"),
    [
        (f"https://{HOST}".replace("org", "org:80"), f"https://{HOST}"),
        (f"https://{HOST}".replace("org", "org:8443"), f"https://{HOST}"),
        (f"http://{HOST}", f"https://{HOST}"),
        ("/in/a", "/in/b"),
    ],
)
def test_no_other_port_is_tried(signed: str, known: str) -> None:
    assert fault(b"a=1", signed + "a1", url=known) == MISMATCH


JSON = b"application/json"
BODY = b'{"a": 1}'
HASH = hashlib.sha256(BODY).hexdigest()
OTHER_HASH = hashlib.sha256(b"other").hexdigest()


def test_a_body_that_is_no_form_is_signed_by_its_hash_in_the_url() -> None:
    hashed = f"{URL}?bodySHA256={HASH}"
    for kind in (JSON, b"text/plain", None, FORM):
        assert fault(BODY, hashed, kind, url=hashed) is None
        assert fault(BODY + b" ", hashed, kind, url=hashed) == MISMATCH
        lying = f"{URL}?bodySHA256={OTHER_HASH}"
        assert fault(BODY, lying, kind, url=lying) == MISMATCH
    shouted = f"{URL}?bodySHA256={HASH.upper()}"
    assert fault(BODY, shouted, JSON, url=shouted) == MISMATCH
    assert fault(BODY, URL, JSON) == MISMATCH
    assert fault(b"", URL, JSON) is None


def test_the_hash_is_found_in_the_request_where_the_inbox_s_own_url_cannot_have_it() -> None:
    query = b"foo=1&bodySHA256=" + HASH.encode()
    assert fault(BODY, f"{URL}?bodySHA256={HASH}", JSON, query=query) is None
    assert fault(BODY, f"{URL}?k=v&bodySHA256={HASH}", JSON, url=f"{URL}?k=v", query=query) is None
    assert fault(BODY, URL, JSON, query=query) == MISMATCH


def test_a_form_s_fields_are_no_signature_for_another_kind_of_body() -> None:
    body = b'{"a":1}'
    assert fault(body, URL + body.decode(), JSON) == MISMATCH


@pytest.mark.parametrize(
    ("settings", "algorithm", "error"),
    [
        ([], "sha1", None),
        ([b""], "sha1", None),
        ([b"key=k1"], "sha1", None),
        ([b"key=k1,algorithm="], "sha1", None),
        ([b"key=k1,algorithm=HMAC_SHA1"], "sha1", None),
        ([b"key=k1,algorithm=HMAC_SHA256"], "sha256", None),
        ([b" algorithm = hmac_sha256 ,key=k1"], "sha256", None),
        ([b"key=k1,algorithm=HMAC_SHA256"], "sha1", MALFORMED),
        ([], "sha256", MALFORMED),
        ([b"algorithm=NONE"], "sha1", MALFORMED),
        ([b"\xff\xfe=,,="], "sha1", None),
        ([b"algorithm=HMAC_SHA1", b"algorithm=HMAC_SHA1"], "sha1", MALFORMED),
    ],
)
def test_twilio_may_name_another_algorithm(settings: list[bytes], algorithm: str, error: str | None) -> None:
    shown = headers(signature(URL + "a1", algorithm))
    request = [*shown, *((SETTINGS, value) for value in settings)]
    assert judge("twilio", {}, [SECRET], request, b"a=1").error == error


def test_mandrill_signs_one_url_and_the_fields_of_a_form() -> None:
    body = urlencode({"mandrill_events": '[{"event":"send"}]'}).encode()
    text = URL + 'mandrill_events[{"event":"send"}]'
    right = headers(signature(text), header=b"x-mandrill-signature")
    assert judge("mandrill", {}, [SECRET], right, body).verified is True
    assert judge("mandrill", {}, [SECRET], right, body, url=URL + "/").error == MISMATCH
    assert judge("mandrill", {}, [SECRET], right, body, url=URL.replace("org", "org:443")).error == MISMATCH
    assert judge("mandrill", {}, [b"other"], right, body).error == MISMATCH
    assert judge("mandrill", {}, [], right, body).error == "unknown key"


def test_the_first_of_twilio_s_statuses_is_the_event_type() -> None:
    for body, event_type in (
        (b"MessageStatus=delivered&SmsStatus=sent", "delivered"),
        (b"CallStatus=ringing", "ringing"),
        (b"SmsStatus=received", "received"),
        (b"EventType=onMessageAdded", "onMessageAdded"),
        (b"XMessageStatus=delivered", ""),
        (b"Body=&MessageStatus=in+transit%21", "in transit!"),
        (b"MessageStatus=%ff", ""),
        (b"MessageStatus=" + b"a" * 5_000, ""),
        (b'{"MessageStatus":"read"}', "read"),
    ):
        assert judge("twilio", {}, [SECRET], [], body).event_type == event_type, body
    assert genuine("twilio", event_type="failed").judged().event_type == "failed"
