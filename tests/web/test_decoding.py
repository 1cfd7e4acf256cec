"""JSON bodies that cannot be read: the true reason, and the member that is to blame where that can be told."""

from collections.abc import Callable
from typing import Any

import pytest

from web.decoding import json_object, raw_members
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
            with pytest.raises(ApiError):
                raw_members(body)
