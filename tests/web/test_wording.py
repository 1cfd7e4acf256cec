"""What a person is told about a bad parameter: what would be right, in plain words, from the annotations themselves."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec
import pytest

from storage.records import Retention
from tests.postroom.parameters import FORMS
from web import params
from web.decoding import from_object
from web.errors import ApiError

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**18,
    1.5,
    "",
    "No Such Thing",
    "x" * 70_000,
    [],
    [None],
    ["No Such Thing"] * 1_001,
    {},
    {"x": None},
    {"none of ours": 1},
)
PROGRAMMERS_WORDS = (
    "`",
    "enum",
    "regex",
    "null",
    "None",
    "int ",
    "str ",
    "bool",
    "$.",
    "length",
    "array",
    "field",
)


def said(call: Any, *arguments: Any) -> tuple[str | None, str]:
    """Return the field and the message of a refusal."""
    with pytest.raises(ApiError) as refused:
        call(*arguments)
    assert refused.value.code == "invalid_argument"
    return refused.value.field, refused.value.message


def create(body: bytes) -> None:
    params.decode_create(body, Retention())


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("limit=1000", "limit", "Expected a whole number from 1 to 100."),
        ("limit=many", "limit", "Expected a whole number from 1 to 100."),
        ("limit=99999999999999999999", "limit", "Expected a whole number from 1 to 100."),
        ("after=-1", "after", "Expected a whole number from 0 to 9,223,372,036,854,775,807."),
        ("bodies=yes", "bodies", "Expected true or false."),
        ("types=" + "x" * 201, "types", "Expected text of at most 200 characters."),
        (
            "types=x&" * 21,
            "types",
            "Expected a list of at most 20 items, each text of at most 200 characters.",
        ),
    ],
)
def test_a_query_is_told_what_would_be_right(query: str, field: str, message: str) -> None:
    decode = (params.from_query, params.QueryMessages, query.encode(), {"inbox": "demo"})
    assert said(*decode) == (field, message)


HEX = b'{"verifier": "hmac", "verifier_options": {"header": "X", "encoding": "hexx"}}'
SLUG = "Expected 1 to 64 characters of a-z 0-9 . _ -, the first and the last a letter or digit."
SAFE = "Expected a whole number from 1 to 9,007,199,254,740,991."
EMPTY = b'{"secrets": [{"name": "a", "value": ""}]}'


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (b'{"kind": "hexx"}', "kind", "Expected topic or webhook."),
        (b'{"name": 5}', "name", "Expected text of at most 200 characters."),
        (b'{"slug": "A"}', "slug", SLUG),
        (b'{"retention": {"max_messages": 0}}', "retention.max_messages", SAFE),
        (b'{"retention": 7}', "retention", "Expected an object."),
        (b'{"response": {"headers": {"X-A": 5}}}', "response.headers", "Expected text."),
        (b'{"secrets": [{"name": "a"}]}', "secrets[0].value", "This is required."),
        (EMPTY, "secrets[0].value", "Expected text of 1 to 4,096 characters."),
        (b'{"unheard-of": 1}', "unheard-of", "There is no member of this name here."),
        (HEX, "verifier_options.encoding", "Expected base64, base64url or hex."),
        (b'{"slug": "a", "slug": "b"}', "slug", "This member is there twice."),
        (b'{"retention": {"max_bytes": 1, "max_bytes": 2}}', "max_bytes", "This member is there twice."),
    ],
    ids=lambda value: value.decode()[:40] if isinstance(value, bytes) else "",
)
def test_a_body_is_told_what_would_be_right(body: bytes, field: str, message: str) -> None:
    assert said(create, body) == (field, message)


def test_a_choice_of_a_word_and_a_list_names_the_word_first() -> None:
    body = b'{"kind": "agent", "inboxes": "every"}'
    assert said(params.from_json, params.CreateToken, body)[1].startswith(
        'Expected "all" or a list of at most 1,000'
    )


@pytest.mark.parametrize("number", ["9223372036854775807", "1"])
def test_every_seq_that_an_inbox_can_have_can_be_erased(number: str) -> None:
    assert params.from_query(params.EraseMessage, b"", {"seq": number}).seq == int(number)


def complaints(name: str, value: Any) -> Iterator[str]:
    """Give what is said about this value in each field of a form."""
    form = FORMS[name]
    for field in msgspec.structs.fields(form):
        try:
            from_object(form, {field.encode_name: value})
        except ApiError as refused:
            yield refused.message


@pytest.mark.parametrize(("name", "value"), [*product(FORMS, VALUES)], ids=lambda value: str(value)[:20])
def test_no_complaint_speaks_a_programmer_s_language(name: str, value: Any) -> None:
    for message in complaints(name, value):
        assert message.endswith(".")
        assert not [word for word in PROGRAMMERS_WORDS if word in message], message
