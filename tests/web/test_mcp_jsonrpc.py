"""Which bodies are messages; that a member that is there twice is found, however the JSON is written."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.decoding import SAFE_INTEGER
from web.mcp.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Malformed,
    Message,
    RpcError,
    kept_payload,
    parse,
    shown,
)

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
        '{"payload": {"a": "x", "b": "y"}, "to": "x", "to": "y"}',
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


# -- what is a message -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"jsonrpc":"2.0","id":"a","method":"m"}', Message("m", None, b'"a"')),
        ('{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}', Message("m", [1], b"7")),
        ('{"jsonrpc":"2.0","id":3.0,"method":"m"}', Message("m", None, b"3.0")),
        (
            f'{{"jsonrpc":"2.0","id":{SAFE_INTEGER}.0,"method":"m"}}',
            Message("m", None, b"9007199254740991.0"),
        ),
        ('{"jsonrpc":"2.0","method":"notifications/x","params":{}}', Message("notifications/x", {}, None)),
        ('{"jsonrpc":"2.0","id":1,"method":"notifications/x"}', Message("notifications/x", None, b"1")),
    ],
)
def test_a_request_has_an_id_as_it_came_and_a_notification_none(body: str, expected: Message) -> None:
    assert parse(body.encode()) == expected


@pytest.mark.parametrize(
    ("body", "code", "field", "told", "id_json"),
    [
        ("{", PARSE_ERROR, None, "The body is not valid JSON", "null"),
        ('[{"jsonrpc":"2.0","id":1,"method":"m"}]', INVALID_REQUEST, None, "Batches are not taken", "null"),
        ('"m"', INVALID_REQUEST, None, "which is an object", "null"),
        ('{"jsonrpc":"2.0","id":null,"method":"m"}', INVALID_REQUEST, "id", "a string or a whole", "null"),
        ('{"jsonrpc":"2.0","id":true,"method":"m"}', INVALID_REQUEST, "id", "a string or a whole", "null"),
        ('{"jsonrpc":"2.0","id":1.5,"method":"m"}', INVALID_REQUEST, "id", "a string or a whole", "null"),
        ('{"jsonrpc":"2.0","id":1e300,"method":"m"}', INVALID_REQUEST, "id", "a string or a whole", "null"),
        ('{"jsonrpc":"2.0","id":[1],"method":"m"}', INVALID_REQUEST, "id", "a string or a whole", "null"),
        ('{"jsonrpc":"1.0","id":1,"method":"m"}', INVALID_REQUEST, "jsonrpc", 'must be "2.0"', "1"),
        ('{"jsonrpc":"2.0","id":"a","method":7}', INVALID_REQUEST, "method", "name of a method", '"a"'),
        ('{"jsonrpc":"2.0","method":"ping"}', INVALID_REQUEST, "id", "ping needs an id", "null"),
        ('{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}', INVALID_REQUEST, None, "twice", "null"),
    ],
)
def test_what_is_no_message_is_answered_with_what_is_wrong_and_the_id_if_it_has_one(
    body: str, code: int, field: str | None, told: str, id_json: str
) -> None:
    with pytest.raises(Malformed, match=re.escape(told)) as refused:
        parse(body.encode())
    answer = refused.value.answer()
    assert answer.status == 400
    named = {} if field is None else {"field": field}
    error = {
        "code": code,
        "message": refused.value.error.message,
        "data": {"code": "invalid_argument", **named},
    }
    assert json.loads(answer.body) == {"jsonrpc": "2.0", "id": json.loads(id_json), "error": error}
    assert told in error["message"]


def test_an_error_with_data_of_its_own_has_those_and_no_code_of_ours() -> None:
    error = RpcError(UNSUPPORTED_VERSION, "No.", field="x", data={"supported": ["a"]})
    assert json.loads(error.body(b"7", "unused"))["error"]["data"] == {"supported": ["a"]}
    assert str(error) == f"{UNSUPPORTED_VERSION}: No."
    assert str(Malformed(error)) == str(error)
    assert Malformed(error).id_json == b"null"


def test_of_a_long_text_of_the_client_a_hundred_characters_are_shown() -> None:
    assert shown("é" * 100) == "é" * 100
    assert shown("é" * 101) == "é" * 99 + "…"


@pytest.mark.parametrize("text", ['"', "\\", '\\"', '"\\', '\\\\"', '\\"\\"', 'a"b"c"', "\\\\"])
def test_quotes_and_backslashes_in_a_text_are_no_strings_of_their_own(text: str) -> None:
    payload = json.dumps({"t": text})
    assert parse(message(CALL % f'{{"payload": {payload}}}')).method == "m"
    with pytest.raises(Malformed, match="twice"):
        parse(message(f'{{"t": {json.dumps(text)}, "t": 1}}'))
    with pytest.raises(Malformed, match="twice"):
        parse(message(f'{{"t": 1, "t": 2, "u": {json.dumps(text)}}}'))


@pytest.mark.parametrize("escape", [r"\u005c", r"\u0022"])
def test_what_a_decoder_would_have_written_otherwise_neither_makes_nor_hides_a_repeated_member(
    escape: str,
) -> None:
    assert parse(message(f'{{"t": "{escape}"}}')).params == {"t": json.loads(f'"{escape}"')}
    with pytest.raises(Malformed, match="twice"):
        parse(message(f'{{"u": "{escape * 8}", "t": 1, "t": 2}}'))
