"""JSON bodies that cannot be read: the true reason, and the member that is to blame where that can be told."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from web.decoding import from_object, from_query, json_object, raw_members, time_argument
from web.errors import ApiError

NUMBER = "has a number that is beyond the range of a double."
INVALID = "is not valid JSON."
DEEP = "is nested too deeply."


@pytest.mark.parametrize("reading", [json_object, raw_members])
@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (b'{"a": 1e999}', "a", f"This {NUMBER}"),
        (b'{"b": 1, "a": {"c": [-1e400]}}', "a", f"This {NUMBER}"),
        (b'{"a": %b}' % (b"9" * 5_000), "a", f"This {NUMBER}"),
        (b"1e999", None, f"The body {NUMBER}"),
        (b'{"a": "\xff"}', "a", f"This {INVALID}"),
        (b'{"\xff": 1}', None, f"The body {INVALID}"),
        (b"{", None, f"The body {INVALID}"),
        (b"[1e9]", None, "The body must be a JSON object."),
        (b"[" * 100_000, None, f"The body {DEEP}"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else None,
)
def test_a_body_that_cannot_be_read_says_why(
    reading: Callable[[bytes], Any], body: bytes, field: str | None, message: str
) -> None:
    with pytest.raises(ApiError) as found:
        reading(body)
    assert (found.value.field, found.value.message) == (field, message)


@pytest.mark.parametrize("before", [b"", b'"a": 1, '], ids=["once", "twice"])
def test_however_deep_a_body_is_it_is_read_or_refused(before: bytes) -> None:
    for depth in range(90, 1_100):
        body = b'{%b"a": %b}' % (before, b"[" * depth + b"]" * depth)
        if depth <= 100 and not before:
            assert raw_members(body) == {"a": b"[" * depth + b"]" * depth}
        else:
            with pytest.raises(ApiError) as refused:
                raw_members(body)
            assert refused.value.code == "invalid_argument"
            assert refused.value.message.endswith((DEEP, "there twice.") if before else DEEP)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", "nested too deeply."),
        (b'{"b": 1, "a": ' + b"[" * 500 + b"]" * 500 + b"}", "nested too deeply."),
        (b'{"a": 1, "a": ' + b"[" * 990 + b"]" * 990 + b"}", "nested too deeply."),
        (b'{"a": 1, "a": 2}', "This member is there twice."),
        (b'{"b": {"a": 1, "a": 2}}', "This member is there twice."),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else None,
)
def test_what_readers_would_not_agree_about_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        json_object(body)
    assert refused.value.code == "invalid_argument"
    assert refused.value.message.endswith(message)


def test_a_name_and_a_value_of_a_query_have_spaces_for_plus_signs() -> None:
    asked = from_query(Query, b"text=a+b%20c%2Bd", {})
    assert asked.text == "a b c+d"
    with pytest.raises(ApiError) as refused:
        from_query(Query, b"te+xt=1", {})
    assert refused.value.field == "te xt"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"flags": {"ab": 1}}, "Expected text of at most 1 characters."),
        ({"flags": {"a": "x"}}, "Expected a whole number."),
        ({"flags": [1]}, "Expected an object."),
    ],
)
def test_what_is_said_is_about_the_name_or_about_the_value(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError) as refused:
        from_object(Flags, values)
    assert (refused.value.field, refused.value.message) == ("flags", message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("now", "Expected an RFC 3339 time, such as 2026-01-31T09:30:00Z."),
        ("2024-13-01T00:00:00Z", "No such day or time of day."),
    ],
)
def test_a_time_that_is_none_is_refused_in_a_sentence(text: str, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        time_argument("since", text)
    assert (refused.value.field, refused.value.message) == ("since", message)


class Flags(Struct):
    """Names of one letter, with numbers."""

    flags: dict[Annotated[str, Meta(max_length=1)], int] = {}


class Query(Struct, forbid_unknown_fields=True):
    """One parameter."""

    text: str = ""
