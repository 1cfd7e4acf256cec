"""Which text of a message is matched: of webhooks the strings that say something, of published messages everything."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.rules.matching.texts import FORM_FIELDS, TEXT_LIMIT, fields, published_terms, webhook_terms
from actors.rules.matching.words import terms
from storage.records import BodyKind

PLAIN_FORM = "application/x-www-form-urlencoded"
FORM = f"{PLAIN_FORM}; charset=utf-8"
HOSTILE_SECONDS = 1.0
"""For ten megabytes of anything; 20 ms is the worst that was seen."""

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=15,
)


def of_json(text: str) -> frozenset[str]:
    return webhook_terms("", text.encode(), BodyKind.JSON, "application/json")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{}", ""),
        ('"alone"', "alone"),
        ('{"title": "Build broke", "labels": ["urgent"]}', "title build broke labels urgent"),
        ('{"count": 12, "draft": true, "ratio": 0.5}', "count draft ratio"),
        ('{"refund": null, "disputed": false, "amount": 0, "note": "", "lines": [ ], "meta": {\n}}', ""),
        ('{"e": -0.5, "f": 0e1, "g": 0.0}', "e f g"),
        ('{"outer": {"inner": null}, "after": 1}', "outer after"),
        ('{"text": "null", "other": "false"}', "text null other false"),
        ('{"spaced"  :\n  null, "kept" : \t 1}', "kept"),
        (r'{"t": "caf\u00e9 \"quoted\" a\\b\nc"}', "t café quoted a b c"),
        (r'{"t": "half \ud800 pair"}', "t half ud800 pair"),
        ('{"releases_url": "https://api.test/releases{/id}"}', ""),
        ('{"htmlUrl": "https://a.test/x", "next": "stays"}', "next stays"),
        ('{"href": "http://a.test/x", "target_uri": "https://a.test/y"}', ""),
        ('{"url": "https://shop.test/checkout"}', "url https shop test checkout"),
        ('{"aurl": "https://api.test/releases"}', ""),
        ('{"callback_url": "not configured"}', "callback url callback_url not configured"),
        ('{"status_url": "https://a.test see there"}', "status_url https a.test see there"),
        ('{"link": "https://shop.test/cart"}', "link https shop.test cart"),
    ],
)
def test_of_json_the_strings_and_the_names_that_say_something_are_read(body: str, expected: str) -> None:
    assert of_json(body) == terms(expected)


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ('{"title": "Build bro', "title build bro"),
        ('{"title": "Build bro\\', "title build bro"),
        ('{"title": "Build bro\\u00', "title build bro u00"),
        ('{"title": ', "title"),
        ('{"title', "title"),
        ('{"title": nul', "title"),
    ],
)
def test_json_that_was_cut_off_is_read_to_the_cut(cut: str, expected: str) -> None:
    assert of_json(cut) == terms(expected)


def test_the_event_type_is_read_with_the_body() -> None:
    assert webhook_terms("charge.failed", b"{}", BodyKind.JSON, None) == terms("charge failed")
    assert webhook_terms("push", b"", BodyKind.EMPTY, None) == {"push"}


@pytest.mark.parametrize(
    ("body", "kind", "content_type", "expected"),
    [
        (b"plain words", BodyKind.TEXT, "text/plain", "plain words"),
        (b"a=b+c&d=%C3%A9t%C3%A9", BodyKind.TEXT, "text/plain", "a b c d C3 A9t C3 A9"),
        (b"Body=parcel+is+late&Note=%C3%A9t%C3%A9&x=&y", BodyKind.TEXT, FORM, "body parcel is late note été"),
        (b'payload={"type":"button","x_url":null}', BodyKind.TEXT, FORM.upper(), "payload type button"),
        (b"payload=%5B%22one%22%5D", BodyKind.TEXT, FORM, "payload one"),
        (b'payload=+[{"gone":null}]', BodyKind.TEXT, PLAIN_FORM, "payload"),
        (b"Body=parcel%FF+late", BodyKind.TEXT, PLAIN_FORM, "body parcel late"),
        (b"words \xff\xfe", BodyKind.BYTES, "text/plain", ""),
        (b"", BodyKind.EMPTY, None, ""),
        (b' [{"name": "large", "gone": null', BodyKind.LARGE, None, "name large"),
        ("größer € ".encode() * 20, BodyKind.LARGE, None, "größer"),
        (b' {"name": "large", "gone": null', BodyKind.LARGE, None, "name large"),
        (b"\x00\xff" * 20, BodyKind.LARGE, None, ""),
        (b"words \xff1234", BodyKind.LARGE, None, ""),
    ],
)  # fmt: skip
def test_other_bodies_are_read_as_what_they_are(
    body: bytes, kind: int, content_type: str | None, expected: str
) -> None:
    assert webhook_terms("", body, kind, content_type) == terms(expected)


def test_a_body_is_read_to_its_limit() -> None:
    body = json.dumps({"first": "x " * TEXT_LIMIT, "second": "late"}).encode()
    assert webhook_terms("", body, BodyKind.LARGE, None) == {"first", "x"}
    form = b"a=b&" * FORM_FIELDS + b"late=late&later=later"
    assert webhook_terms("", form, BodyKind.TEXT, FORM) == {"a", "b"}


def test_a_form_is_read_in_the_encoding_that_is_asked_for() -> None:
    assert fields("a=%E9&b=x+y&c=%C3%A9", encoding="latin-1") == [("a", "é"), ("b", "x y"), ("c", "Ã©")]
    assert fields("a=%E9&c=%C3%A9") == [("a", "\ufffd"), ("c", "é")]


@pytest.mark.parametrize("limit", range(TEXT_LIMIT - 3, TEXT_LIMIT + 1))
def test_a_cut_through_a_character_harms_nothing(limit: int) -> None:
    body = b'["' + b" " * (limit - 2) + "é".encode() * 10 + b'"]'
    assert webhook_terms("push", body, BodyKind.LARGE, None) <= {"push", "é", "éé"}
    text = b"words" + b" " * (limit - 5) + "€".encode() * 10
    assert webhook_terms("push", text, BodyKind.LARGE, None) == {"push", "word"}


def test_of_a_published_message_everything_that_its_sender_wrote_is_read() -> None:
    found = published_terms("A subject", 'With a "text", {"json": null} too', ["tag-one", "two"], "decision")
    assert found == terms("a subject with text json null too tag one two decision")
    assert published_terms("", "x " * TEXT_LIMIT + "late", [], "") == {"x"}


@settings(deadline=None)
@given(JSON)
def test_of_any_json_all_strings_are_found(value: object) -> None:
    found = webhook_terms("", json.dumps(value).encode(), BodyKind.JSON, None)
    again = webhook_terms(
        "", json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"), BodyKind.JSON, None
    )
    for string in strings_of(value):
        if max(string, default="") < "\ud800" and not string.startswith("http"):
            assert terms(string) <= found
            assert terms(string) <= again


def strings_of(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [string for part in value for string in strings_of(part)] if isinstance(value, list) else []


@settings(deadline=None)
@given(st.text(alphabet='{}[]":,\\u0dntfr \n'))
def test_what_is_no_json_at_all_is_read_too(text: str) -> None:
    of_json(text)


@pytest.mark.parametrize(
    "piece",
    [
        '"', '\\"', "\\", '"\\', '":', '"a":', '"a" ', '"a":[', '"a": ', '"a":"https://', '"a_url":"https://x"',
        "{", "[[", "\\u", '"\\ud800', "%", "&", "=&", '{"', "null", '"a":0', "+", "\ud7ff",
    ],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("start", ["", '"', '{"a": ', "x="])
def test_ten_megabytes_of_anything_are_read_in_no_time(start: str, piece: str) -> None:
    body = (start + piece * (10_000_000 // len(piece))).encode()
    began = time.perf_counter()
    for kind, content_type in ((BodyKind.JSON, None), (BodyKind.TEXT, FORM), (BodyKind.LARGE, None)):
        webhook_terms("push", body, kind, content_type)
    assert time.perf_counter() - began < HOSTILE_SECONDS
