"""Slugs, names, times and ids, as they are spelled on the wire."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from web import grammar

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_1 = -62_135_596_800_000_000
YEAR_9999_END = 253_402_300_799_999_999


@pytest.mark.parametrize("slug", ["a", "0", "demo", "a.b", "a-b_c.d", "a" * 64, "x--y", "agent.bob"])
def test_a_well_formed_slug_is_one(slug: str) -> None:
    assert grammar.is_slug(slug)


@pytest.mark.parametrize(
    "text", ["", "A", "-a", "a-", ".a", "a.", "_", "a" * 65, "a b", "a/b", "ä", "a\n", "a%2f", "１"]
)
def test_anything_else_is_no_slug(text: str) -> None:
    assert not grammar.is_slug(text)


def test_a_name_may_end_with_punctuation_but_not_begin_with_it() -> None:
    assert grammar.is_name("ci-")
    assert grammar.is_name("a" * 64)
    for text in ("", "-ci", "A", "a" * 65, "a\n"):
        assert not grammar.is_name(text)


def test_slugs_of_private_inboxes_are_reserved() -> None:
    assert grammar.is_reserved_slug("agent.bob")
    assert grammar.is_reserved_slug("machine.m1")
    assert not grammar.is_reserved_slug("agents")


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:01z", 1_000_000),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00.5Z", 500_000),
        ("1970-01-01T00:00:00.0000001Z", 1),
        ("1970-01-01T00:00:00.0000000Z", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T19:30:00-04:30", 0),
        ("1970-01-01T00:00:00-00:00", 0),
        ("2024-02-29T12:00:00.123456Z", 1_709_208_000_123_456),
        ("1970-01-01T00:00:00.9999999Z", 1_000_000),
        ("1970-01-01T23:59:00+23:59", 0),
    ],
)
def test_rfc_3339_times_are_read_to_the_microsecond(text: str, time_us: int) -> None:
    assert grammar.parse_time(text) == time_us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00:00Z",
        "2024-13-01T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2016-12-31T23:59:60Z",
        "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00+24:00",
        "2024-01-01T00:00:00+0200",
        "2024-01-01T00:00:00 02:00",
        "0000-01-01T00:00:00Z",
        "２024-01-01T00:00:00Z",
        "2024-01-01T00:00:00Z\n",
    ],
)
def test_other_spellings_of_time_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|no such"):
        grammar.parse_time(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("now", "expected an RFC 3339 time, such as 2026-01-31T09:30:00Z$"),
        ("2024-01-01T00:00:00 02:00", "in a query string \\+ is %2B"),
        ("2024-13-01T00:00:00Z", "no such day or time of day$"),
        ("2024-01-01T00:00:00+24:00", "no such offset from UTC$"),
        ("2024-01-01T00:00:00+00:60", "no such offset from UTC$"),
    ],
)
def test_it_is_said_what_is_wrong_with_a_time(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        grammar.parse_time(text)
    assert ("%2B" in str(refused.value)) == (" " in text)
    assert isinstance(grammar.parse_time("1970-01-01T02:00:00+02:00"), int)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-00:01", "0001-01-01T00:00:00+00:01"])
def test_a_time_that_utc_cannot_write_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        grammar.parse_time(text)


@given(st.integers(YEAR_1, YEAR_9999_END))
def test_a_time_survives_being_written_and_read(time_us: int) -> None:
    text = grammar.format_time(time_us)
    assert len(text) == len("2026-01-31T09:30:00.000000Z")
    assert grammar.parse_time(text) == time_us
    assert datetime.fromisoformat(text) == EPOCH + timedelta(microseconds=time_us)


@given(st.binary(min_size=16, max_size=16))
def test_a_ulid_is_written_as_the_library_writes_it(raw: bytes) -> None:
    assert grammar.ulid_text(raw) == str(ULID(raw))
