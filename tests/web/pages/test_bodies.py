"""A part of a body as text or hex: no character is cut in two, nothing that strangers wrote acts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.pages.bodies import HEX_WINDOW, MARGIN, TEXT_WINDOW, Window, around, hexdump, is_text, window
from web.pages.rendering import visible


def test_hex_has_where_bytes_and_letters() -> None:
    assert hexdump(b"Hello, world\x00\xff<b>!", 0x20).splitlines() == [
        "00000020  48 65 6c 6c 6f 2c 20 77  6f 72 6c 64 00 ff 3c 62  Hello, world..<b",
        "00000030  3e 21                                             >!",
    ]


BROKEN = (b"\xc3", b"\xe2\x82", b"\xf0\x9d\x84", b"\x80", b"\xff")
FALSE = (b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80")
"""What looks like a character and is none: overlong ones, a surrogate, one beyond Unicode."""

NEARLY_UTF8 = st.lists(
    st.sampled_from([*(one.encode() for one in "aé€𝄞"), *BROKEN, *FALSE]), max_size=24
).map(b"".join)


def paged(body: bytes, length: int) -> list[Window]:
    """Return a body's windows of text of some length, from the first to the last."""
    starts = range(0, max(len(body), 1), length)
    return [window("text", at, length, body[slice(*around(at, length))], len(body)) for at in starts]


@given(st.text().map(str.encode) | st.binary(max_size=64) | NEARLY_UTF8, st.integers(1, 9))
def test_every_character_is_on_one_page_whatever_the_body_and_the_window(body: bytes, length: int) -> None:
    pages = paged(body, length)
    assert "".join(page.text for page in pages) == body.decode("utf-8", "replace")
    shown = [(page.first, page.last) for page in pages if page.first is not None]
    if shown:
        assert [first - 1 for first, _ in shown] == [0, *(last for _, last in shown[:-1])]
        assert shown[-1][1] == len(body)


@pytest.mark.parametrize("character", ["é", "€", "𝄞"])
@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_a_character_across_the_edge_of_a_window_is_on_the_page_that_it_begins_on(
    character: str, before: int
) -> None:
    body = b"x" * (TEXT_WINDOW - before) + character.encode() + b"yyyy"
    first, second = paged(body, TEXT_WINDOW)
    assert (character in first.text) == (before > 0)
    assert (character in second.text) == (before == 0)
    assert "\ufffd" not in first.text + second.text


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        (b"plain\n\ttext", True),
        ("né".encode(), True),
        (b"\x1b[31mred", True),
        (b"\x00\x01\x02\x03", False),
        (b"\x89PNG\r\n\x1a\n", False),
        (b"a" * 200 + b"\x00", True),
        ("né".encode()[:-1], True),
        ("né".encode()[:-1] + b"x", False),
        (b"\x80", False),
    ],
)
def test_what_reads_as_text(piece: bytes, expected: bool) -> None:
    assert is_text(piece) == expected


def test_a_whole_body_has_no_neighbours_and_a_part_has() -> None:
    assert window("text", 0, TEXT_WINDOW, b"abc", 3).first is None
    size = 3 * TEXT_WINDOW
    middle = window("text", TEXT_WINDOW, TEXT_WINDOW, b"x" * (TEXT_WINDOW + 2 * MARGIN), size)
    assert (middle.first, middle.last) == (TEXT_WINDOW + 1, 2 * TEXT_WINDOW)
    assert (middle.previous, middle.following) == (0, 2 * TEXT_WINDOW)
    last = window("hex", HEX_WINDOW, HEX_WINDOW, b"yyyx", HEX_WINDOW + 1)
    assert (last.previous, last.following) == (0, None)
    assert last.text.startswith("00001000  78  ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 😀", "plain é 😀"),
        ("\x1b[2J\x07", "␛[2J␇"),
        ("a\u202eb\u2066c", "a⟨U+202E⟩b⟨U+2066⟩c"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("\x7f\x85\u2028", "␡⟨U+0085⟩⟨U+2028⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("a\nb\tc", "a␊b␉c"),
    ],
)
def test_characters_that_act_or_hide_are_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_line_feeds_stay_where_there_are_lines() -> None:
    assert visible("a\nb\tc\r\x1b", lines=True) == "a\nb\tc␍␛"
