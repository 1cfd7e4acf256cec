"""A part of a body as text or hex: no character is cut in two, nothing that strangers wrote acts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.pages.bodies import HEX_WINDOW, TEXT_WINDOW, as_text, hexdump, is_text, window
from web.pages.rendering import visible


def test_hex_has_where_bytes_and_letters() -> None:
    assert hexdump(b"Hello, world\x00\xff<b>!", 0x20).splitlines() == [
        "00000020  48 65 6c 6c 6f 2c 20 77  6f 72 6c 64 00 ff 3c 62  Hello, world..<b",
        "00000030  3e 21                                             >!",
    ]


@given(st.text(alphabet="aé€𝄞", min_size=8, max_size=40), st.data())
def test_a_piece_of_text_leaves_out_what_is_cut_in_two(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    shown = as_text(whole[start:stop])
    assert "\ufffd" not in shown
    assert shown in text
    assert len(shown.encode()) > stop - start - 7


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        (b"plain\n\ttext", True),
        ("né".encode(), True),
        (b"\x1b[31mred", True),
        (b"\x00\x01\x02\x03", False),
        (b"\x89PNG\r\n\x1a\n", False),
        (b"a" * 200 + b"\x00", True),
    ],
)
def test_what_reads_as_text(piece: bytes, expected: bool) -> None:
    assert is_text(piece) == expected


def test_a_whole_body_has_no_neighbours_and_a_part_has() -> None:
    assert window("text", 0, b"abc", 3).first is None
    size = 3 * TEXT_WINDOW
    middle = window("text", TEXT_WINDOW, b"x" * TEXT_WINDOW, size)
    assert (middle.first, middle.last) == (TEXT_WINDOW + 1, 2 * TEXT_WINDOW)
    assert (middle.previous, middle.following) == (0, 2 * TEXT_WINDOW)
    last = window("hex", HEX_WINDOW, b"x", HEX_WINDOW + 1)
    assert (last.previous, last.following) == (0, None)


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
