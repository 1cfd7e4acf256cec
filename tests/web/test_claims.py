"""Facts and claims of a webhook, and the decision how its body is shown."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.memory_read import MemorySnapshot
from storage.memory_state import MemoryState
from storage.records import INLINE_BODY_BYTES, BodyKind
from storage.secret import SecretBytes
from web import claims
from web.verify.model import Judgement

NONE = Judgement(None, None, "", None)


def test_claims_keep_order_duplicates_and_every_byte() -> None:
    judgement = Judgement(True, None, "push", "d-1")
    headers = [
        (b"Host", b"example.org"),
        (b"X-A", b"1"),
        (b"content-type", b"application/json"),
        (b"x-a", b"\xff\xfe\x80"),
        (b"content-type", b"text/plain"),
    ]
    said = claims.said(b"/a%2Fb//..\xe9", b"q=1&q=&\xff", headers, judgement)
    assert json.loads(said) == {
        "path": "/a%2Fb//..\xe9",
        "query": "q=1&q=&\xff",
        "headers": [
            ["host", "example.org"],
            ["x-a", "1"],
            ["content-type", "application/json"],
            ["x-a", "\xff\xfe\x80"],
            ["content-type", "text/plain"],
        ],
        "content_type": "application/json",
        "delivery_id": "d-1",
        "event_type": "push",
    }


def test_claims_that_were_not_made_are_null_and_an_absent_path_is_empty() -> None:
    assert claims.said(b"", b"", [], NONE) == (
        b'{"path":"","query":"","headers":[],"content_type":null,"delivery_id":null,"event_type":null}'
    )


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=200))
def test_raw_bytes_come_back_by_latin_1(path: bytes, query: bytes, value: bytes) -> None:
    said = json.loads(claims.said(path, query, [(b"x", value)], NONE))
    assert said["path"].encode("latin-1") == path
    assert said["query"].encode("latin-1") == query
    assert said["headers"][0][1].encode("latin-1") == value


@pytest.mark.parametrize(
    "name",
    [
        b"Authorization",
        b"proxy-authorization",
        b"COOKIE",
        b"Set-Cookie",
        b"x-api-key",
        b"X-Gitlab-Token",
        b"X-Telegram-Bot-Api-Secret-Token",
        b"X-My-Secret",
    ],
)
def test_credentials_are_redacted_wherever_they_stand(name: bytes) -> None:
    headers = [(name, b"s3cret"), (b"x-b", b"2"), (name, b"s3cret again")]
    said = claims.said(b"", b"", headers, NONE, frozenset({b"x-my-secret"}))
    assert b"s3cret" not in said
    lowered = name.lower().decode()
    assert json.loads(said)["headers"] == [[lowered, "[redacted]"], ["x-b", "2"], [lowered, "[redacted]"]]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"", b""),
        (b"/", b"/"),
        (b"//", b"//"),
        (b"/s3cret", b"/[redacted]"),
        (b"/s3cret/", b"/[redacted]/"),
        (b"/X", b"/[redacted]"),
        (b"/s3cret/a//b", b"/[redacted]/a//b"),
        (b"//s3cret/a", b"//[redacted]/a"),
        (b"/%2Fs3cret\xff/a", b"/[redacted]/a"),
    ],
)
def test_a_credential_in_the_path_is_taken_out_of_it(path: bytes, shown: bytes) -> None:
    assert claims.redacted_path(path) == shown


def test_a_held_secret_is_known_in_the_first_segment_alone() -> None:
    held = claims.Held([SecretBytes(b"Xab"), SecretBytes(b"")])
    for path in (b"/Xab", b"//Xab/", b"Xab/c", b"/%58ab/c"):
        assert held.in_path(path)
    for path in (b"", b"/", b"/c/Xab", b"/Xab%", b"/XXab", b"/ab"):
        assert not held.in_path(path)


def test_facts_stand_in_the_order_of_the_surface() -> None:
    judgement = Judgement(False, "signature mismatch", "push", "d-1")
    assert claims.facts("PUT", "::1", 7, judgement, "github") == (
        b'{"method":"PUT","source_ip":"::1","size":7,"verified":false,"verifier":"github",'
        b'"verify_error":"signature mismatch","sender":null}'
    )


def test_an_inbox_without_verifier_states_null() -> None:
    facts = json.loads(claims.facts("POST", None, 0, NONE, "none"))
    assert facts["verified"] is None
    assert facts["verifier"] is None
    assert facts["source_ip"] is None


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    return (opening * depth + closing * depth).encode()


KINDS = [
    (b"", BodyKind.EMPTY),
    (b"{}", BodyKind.JSON),
    (b' {"a": 1, "a": 2} \n', BodyKind.JSON),
    (b"0", BodyKind.JSON),
    (b"1e308", BodyKind.JSON),
    (b"1e-999", BodyKind.JSON),
    (b"9" * 60, BodyKind.JSON),
    (b'"\\ud83d\\ude00"', BodyKind.JSON),
    ('"é"'.encode(), BodyKind.JSON),
    (nested(100), BodyKind.JSON),
    (b'["' + b"[" * 200 + b'"]', BodyKind.JSON),
    (b'["\\\\","' + b'\\"[' * 200 + b'"]', BodyKind.JSON),
    (b"1e999", BodyKind.TEXT),
    (b"-1e999", BodyKind.TEXT),
    (b"9" * 400 + b".5", BodyKind.TEXT),
    (b"9" * 5_000, BodyKind.TEXT),
    (b"9" * 400, BodyKind.TEXT),
    (b'{"a":[1,-' + b"9" * 309 + b"]}", BodyKind.TEXT),
    (b'["' + b"9" * 400 + b'",1]', BodyKind.JSON),
    (b"1" + b"0" * 308, BodyKind.JSON),
    (nested(101), BodyKind.TEXT),
    (b'{"a":' * 101 + b"1" + b"}" * 101, BodyKind.TEXT),
    (nested(20_000), BodyKind.TEXT),
    (b'"\\ud800"', BodyKind.TEXT),
    (b'"\\udc00 and more text"', BodyKind.TEXT),
    (b'"\\ud83d\\\\\\ude00"', BodyKind.TEXT),
    (b"{", BodyKind.TEXT),
    (b"{}x", BodyKind.TEXT),
    (b"[1,]", BodyKind.TEXT),
    (b"NaN", BodyKind.TEXT),
    (b"01", BodyKind.TEXT),
    (b"\xef\xbb\xbf{}", BodyKind.TEXT),
    (b" ", BodyKind.TEXT),
    (b"\x00", BodyKind.TEXT),
    (b"a=1&b=2", BodyKind.TEXT),
    (b'"\xff"', BodyKind.BYTES),
    (b'{"a":"\xed\xa0\x80"}', BodyKind.BYTES),
    (b"\x1f\x8b\x08\x00", BodyKind.BYTES),
    (b"b" * INLINE_BODY_BYTES, BodyKind.TEXT),
    (b"b" * (INLINE_BODY_BYTES + 1), BodyKind.LARGE),
]


@pytest.mark.parametrize(("body", "kind"), KINDS, ids=lambda value: repr(value)[:40])
def test_a_body_is_json_only_if_every_reader_can_read_it(body: bytes, kind: int) -> None:
    assert claims.body_kind(body) == kind


is_json = MemorySnapshot(MemoryState()).is_json  # the contract suite holds both stores to one verdict


@pytest.mark.parametrize(
    ("body", "kind"),
    [row for row in KINDS if row[1] in (BodyKind.JSON, BodyKind.TEXT, BodyKind.BYTES)],
    ids=lambda value: repr(value)[:40],
)
def test_a_large_body_is_judged_like_a_small_one(body: bytes, kind: int) -> None:
    assert claims.large_kind(body, is_json(body)) == kind


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


@given(json_values, st.booleans())
def test_both_ways_of_judging_agree_on_generated_json(value: object, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert claims.large_kind(body, is_json(body)) == claims.body_kind(body)


@given(st.binary(max_size=300))
def test_any_bytes_get_a_kind_that_can_be_shown(body: bytes) -> None:
    kind = claims.body_kind(body)
    if kind == BodyKind.JSON:
        assert json.loads(body) is not NotImplemented
    elif kind == BodyKind.TEXT:
        assert body.decode()
    else:
        assert kind == (BodyKind.BYTES if body else BodyKind.EMPTY)


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


@given(
    json_values,
    st.integers(90, 105),
    st.text('[]{}"\\', max_size=200),
)
def test_nesting_is_counted_outside_strings_only(value: object, levels: int, noise: str) -> None:
    wrapped: object = [value, noise]
    for _ in range(levels):
        wrapped = [noise, wrapped]
    body = json.dumps(wrapped).encode()
    assert claims.nests_too_deep(body) == (depth(wrapped) > claims.MAX_NESTING)
