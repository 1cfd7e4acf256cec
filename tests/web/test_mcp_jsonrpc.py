"""Which bodies are messages; that a member that is there twice is found, however the JSON is written."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.mcp.jsonrpc import Malformed, kept_payload, parse

TEXTS = st.text(st.sampled_from('ab"\\\n/é\u0000'), max_size=4)
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(-5, 5), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
LARGE_SECONDS = 2.0
"""Ten times what the worst body of 1 MiB takes on a quiet machine."""


def message(params: str) -> bytes:
    return f'{{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {params}}}'.encode()


@given(value=VALUES, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_no_member_is_taken_for_a_repeated_one(value: Any, ascii_only: bool, indent: int | None) -> None:
    written = json.dumps({"x": value}, ensure_ascii=ascii_only, indent=indent)
    assert parse(message(written)).params == {"x": value}


@given(name=TEXTS, values=st.tuples(VALUES, VALUES), ascii_only=st.booleans(), depth=st.integers(0, 3))
def test_a_repeated_member_is_found(name: str, values: tuple[Any, Any], ascii_only: bool, depth: int) -> None:
    one, other = json.dumps(name), json.dumps(name, ensure_ascii=ascii_only)
    repeated = f"{{{one}: {json.dumps(values[0])}, {other}: {json.dumps(values[1])}}}"
    with pytest.raises(Malformed, match="twice"):
        parse(message('{"x": [' * depth + repeated + "]}" * depth))


CALL = '{"name": "agent_send", "arguments": %s}'


@pytest.mark.parametrize(
    ("payload", "kept"),
    [
        ('{"a": 1, "a": 2}', b'{"a": 1, "a": 2}'),
        ('[{"a": "x", "a": {"b": 1, "b": "\\""}}]', b'[{"a": "x", "a": {"b": 1, "b": "\\""}}]'),
        ("null", b"null"),
        ('"twice"', b'"twice"'),
    ],
)
def test_what_is_in_a_payload_is_kept_as_it_came(payload: str, kept: bytes) -> None:
    body = message(CALL % f'{{"msg_type": "note", "payload" : {payload} }}')
    assert parse(body).method == "m"
    assert kept_payload(body) == kept


@pytest.mark.parametrize(
    "arguments",
    [
        '{"payload": {"a": 1, "a": 2}, "payload": {"a": 1, "a": 2}}',
        '{"payload": {"a": "x", "a": "y"}, "payload": 1}',
        '{"payload": {"a": 1, "a": 2}, "to": "x", "to": "y"}',
        '{"payload": 1, "to": {"a": 1, "a": 2}}',
        '{"payload": {"a": 1, "a": 2}}, "arguments": {"payload": {"b": 1}}',
        '{"payload": 1}, "more": {"payload": {"a": 1, "a": 2}}',
        '{"data": {"payload": {"a": 1, "a": 2}}}',
    ],
)
def test_a_repeated_member_beside_a_payload_is_found(arguments: str) -> None:
    with pytest.raises(Malformed, match="twice"):
        parse(message(CALL % arguments))


def test_a_body_that_cannot_be_read_says_why() -> None:
    for body, reason in (
        (message("{"), "is not valid JSON"),
        (message('{"a": 1e999}'), "has a number that is beyond the range of a double"),
        (b"[" * 100_000, "is nested too deeply"),
    ):
        with pytest.raises(Malformed, match=reason):
            parse(body)


def test_however_deep_a_body_is_it_is_a_message_or_none() -> None:
    for depth in range(90, 1_100):
        payload = '{"a": 1, "a": %s}' % ("[" * depth + "]" * depth)
        try:
            parse(message(CALL % f'{{"payload": {payload}}}'))
        except Malformed:
            assert depth > 100


@pytest.mark.parametrize(
    "item", [b"{}", b"[]", b"1", b'"a"', b'{"a":1}', b'{"a":1,"a":1}', b'"\\\\"', b'"\\""']
)
def test_a_large_body_does_not_stop_the_server_for_long(item: bytes) -> None:
    items = b",".join([item] * (1024 * 1024 // (len(item) + 1)))
    began = time.perf_counter()
    if item == b'{"a":1,"a":1}':
        with pytest.raises(Malformed):
            parse(message(f"[{items.decode()}]"))
    else:
        parse(message(f"[{items.decode()}]"))
    assert time.perf_counter() - began < LARGE_SECONDS


def test_many_members_of_which_one_is_repeated_are_read_in_one_pass() -> None:
    members = ",".join(f'"k{number}":1' for number in range(70_000))
    began = time.perf_counter()
    with pytest.raises(Malformed, match="twice"):
        parse(message(f'{{{members},"k69999":2}}'))
    assert time.perf_counter() - began < LARGE_SECONDS
