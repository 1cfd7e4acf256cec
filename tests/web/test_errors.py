"""The error that clients are told."""

import msgspec
import pytest

from storage.records import TokenRecord
from web.errors import MAX_FIELD_CHARS, ApiError, invalid
from web.params import patch_token


def test_a_field_is_named_at_no_more_than_its_length() -> None:
    told = msgspec.json.decode(invalid("a" * MAX_FIELD_CHARS, "No.").answer().body)
    assert told["error"]["field"] == "a" * MAX_FIELD_CHARS


def test_of_a_name_as_long_as_a_body_a_beginning_is_sent_back() -> None:
    """The one member that was named in full: one that is not known, put back to its default."""
    token = TokenRecord("01ARZ3NDEKTSV4RRFFQ69G5FAV", bytes(32), "agent", ("demo",))
    with pytest.raises(ApiError) as refused:
        patch_token(token, {"ä" * 100_000: None})
    assert refused.value.field == "ä" * MAX_FIELD_CHARS


def test_an_error_that_concerns_no_field_names_none() -> None:
    assert "field" not in msgspec.json.decode(ApiError("not_found", "No.").answer().body)["error"]
