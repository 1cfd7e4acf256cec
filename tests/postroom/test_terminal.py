"""Text that strangers wrote does nothing to a terminal, and JSON stays the same JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.cli.program import Failure
from postroom.cli.read import show
from postroom.cli.terminal import safe, safe_json, table, when

ACTING = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0x202E, 0x2066, 0x200F, 0xD800]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("naïve 📬 日本", "naïve 📬 日本"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b2J", "\\x9b2J"),
        ("a\u202eb", "a\\u202eb"),
        ("one\ntwo", "one\\x0atwo"),
        ("\ud800", "\\ud800"),
        ("so\u00adft\u200b", "so\\xadft\\u200b"),
        ("\u2062\u206a\ufff9\ufeff", "\\u2062\\u206a\\ufff9\\ufeff"),
        ("\U000e0049\U000e0101", "\\U000e0049\\U000e0101"),
        ("می\u200cخواهم 👩\u200d🚒 \u0600", "می\u200cخواهم 👩\u200d🚒 \u0600"),
    ],
)
def test_control_characters_are_shown_and_letters_left_alone(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_a_body_keeps_its_lines_and_nothing_else() -> None:
    assert safe("one\n\ttwo\r\x07", lines=True) == "one\n\ttwo\\x0d\\x07"


@given(st.text())
def test_nothing_that_acts_is_left(text: str) -> None:
    assert not set(safe(text)) & set(ACTING)


@given(
    st.recursive(
        st.text() | st.integers() | st.booleans() | st.none(),
        lambda j: st.lists(j) | st.dictionaries(st.text(), j),
    )
)
def test_a_safe_json_document_means_the_same(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False).encode(errors="replace")
    shown = safe_json(document)
    assert json.loads(shown) == json.loads(document)
    assert not set(shown) & set(ACTING)


def test_numbers_and_duplicate_keys_of_a_json_document_are_untouched() -> None:
    assert safe_json(b'{"a":1.10,\r\n"a":1e400}') == '{"a":1.10, \n"a":1e400}'


def test_a_table_draws_markup_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    table(("NAME",), [("[bold red]:boom:[/]\x1b[2J",)])
    assert "[bold red]:boom:[/]\\x1b[2J" in capsys.readouterr().out


def test_a_body_on_a_terminal_is_text_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    show(iter([b"caf\xc3", b"\xa9\x1b[2J\n"]))
    assert capsys.readouterr().out == "café\\x1b[2J\n"
    for pieces, hint in (([b"\xff"], "not text"), ([b"x" * 600_000] * 2, "too large")):
        with pytest.raises(Failure, match=hint):
            show(iter(pieces))


def test_a_time_is_shown_to_the_second() -> None:
    assert when("2026-03-01T12:00:00.123456Z") == "2026-03-01 12:00:00Z"
    assert when(None) == "–"
