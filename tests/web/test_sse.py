"""Server-sent events as bytes: what a reader by the standard makes of them, and what is no id of ours."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.events import EventParser
from web import sse

SPACES = st.sampled_from(["", " ", "\n", "\r", "\r\n", "\n\n", "\t", "\r\n\r\n"])
EPOCHS = st.from_regex(r"[0-9a-f]{16}", fullmatch=True)
SEQS = st.integers(0, 2**63 - 1)
SLUGS = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?", fullmatch=True)


@given(st.lists(SPACES, min_size=6, max_size=6), st.text(), st.integers(1, 7))
def test_json_survives_whatever_stands_between_its_tokens(spaces: list[str], text: str, cut: int) -> None:
    a, b, c, d, e, f = spaces
    document = f"{a}{{{b}{json.dumps(text, ensure_ascii=False)}{c}:{d}[1.50]{e}}}{f}"
    stream = sse.id_line("x:1") + sse.event("message", b"{" + b'"m":' + document.encode() + b"}")
    parser = EventParser()
    events = [event for at in range(0, len(stream), cut) for event in parser.feed(stream[at : at + cut])]
    assert [(event.name, event.last_event_id) for event in events] == [("message", "x:1")]
    assert events[0].json == {"m": {text: [1.5]}}


def test_an_id_alone_moves_the_cursor_and_is_no_event() -> None:
    parser = EventParser()
    assert list(parser.feed(sse.OPENING + sse.id_line("x:4") + sse.END)) == []
    assert (parser.last_event_id, parser.retry_ms) == ("x:4", 2000)
    assert list(parser.feed(sse.COMMENT + sse.id_line("x:5") + sse.END)) == []
    assert (parser.last_event_id, parser.comments) == ("x:5", 1)


@given(EPOCHS, SEQS)
def test_an_id_of_one_inbox_reads_back(epoch: str, seq: int) -> None:
    assert sse.parse_single_id(sse.single_id(epoch, seq)) == (epoch, seq)


@given(st.dictionaries(SLUGS, st.tuples(EPOCHS, SEQS), max_size=32))
def test_an_id_of_several_inboxes_reads_back_and_fits_a_header(places: dict[str, sse.Place]) -> None:
    event_id = sse.vector_id(places)
    assert sse.parse_vector_id(event_id) == places
    assert len(event_id) < 8 * 1024
    assert set(event_id) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("text", ["", "x", "x:", ":1", "x:-1", "x:1.0", "x:9223372036854775808", "x:١"])
def test_what_is_no_id_of_one_inbox_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an? "):
        sse.parse_single_id(text)


def test_the_last_colon_ends_an_epoch() -> None:
    assert sse.parse_single_id("a:b:7") == ("a:b", 7)


def test_an_id_has_no_padding_and_reads_back_whatever_its_length() -> None:
    for length in range(1, 9):
        places = {"a" * length: ("e", 1)}
        assert not sse.vector_id(places).endswith("=")
        assert sse.parse_vector_id(sse.vector_id(places)) == places


def test_an_id_as_long_as_may_be_is_read_and_a_longer_one_is_not() -> None:
    longest = sse.vector_id({"a": ("e" * (sse.MAX_ID_BYTES * 3 // 4 - len('{"a":["",1]}')), 1)})
    assert len(longest) == sse.MAX_ID_BYTES
    assert sse.parse_vector_id(longest)["a"][1] == 1
    with pytest.raises(ValueError, match="not an id"):
        sse.parse_vector_id(longest + "A")


def test_a_line_break_of_two_characters_is_one() -> None:
    assert sse.event("message", b"{\r\n}") == b"event: message\ndata: {\ndata: }\n\n"


@pytest.mark.parametrize(
    "text",
    ["", "x", "e30=x", "bnVsbA", "WzFd", "eyJhIjpbMV19", "eyJhIjpbImUiLC0xXX0", "é", "A" * 20_000],
)
def test_what_is_no_id_of_several_inboxes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an? "):
        sse.parse_vector_id(text)


@pytest.mark.parametrize(
    ("values", "accepted"),
    [
        ([], True),
        ([b""], True),
        ([b"text/event-stream"], True),
        ([b"Text/Event-Stream; charset=utf-8"], True),
        ([b"application/json", b"text/*;q=0.3"], True),
        ([b"*/*;q=0"], False),
        ([b"*/*;q=0.000"], False),
        ([b"*/*;q=0, text/event-stream"], True),
        ([b"text/html"], False),
        ([b"text/event-stream ; q=0.0, text/*"], False),
        ([b"*/*"], True),
        ([b"*/*;q=1"], True),
        ([b"*/*;q=0.001"], True),
        ([b"text/html;q=0.9, */*;q=0.1"], True),
        ([b"text/event-stream;level=1;q=0"], False),
    ],
)
def test_accept_is_read_as_the_standard_says(values: list[bytes], accepted: bool) -> None:
    assert sse.accepts(values) is accepted
