"""The command that sends a message again: a shell makes of it what the sender sent, whatever that was."""

import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from web.pages.curl import INLINE_BYTES, REDACTED, Command, command

RAW = "http://127.0.0.1:8025/v1/inboxes/demo/messages/1/raw"
URL = "http://127.0.0.1:8025/in/demo"

SHELL = """curl() { for word in "$@"; do printf '%s\\0' "$word"; done; }
"""


def made(**how: Any) -> Command:
    return command(**{"method": "POST", "url": URL, "headers": [], "body": b"", "raw_url": RAW, **how})


def words(text: str) -> list[str]:
    """Return the words that a shell gives to curl."""
    shell = subprocess.run(["bash", "-c", SHELL + text], capture_output=True, check=True, timeout=10)
    assert shell.stderr == b""
    return shell.stdout.decode().split("\0")[:-1]


def test_it_is_the_request_without_what_belongs_to_its_connection() -> None:
    headers = [
        ("host", "x"),
        ("x-one", "1"),
        ("content-type", "a/b"),
        ("connection", "close"),
        ("x-one", "2"),
    ]
    given_words = words(made(headers=headers, body=b'{"n": 1}', url=f"{URL}/a?b=c&d").text)
    assert given_words == [
        "-X",
        "POST",
        f"{URL}/a?b=c&d",
        "-H",
        "x-one: 1",
        "-H",
        "content-type: a/b",
        "-H",
        "x-one: 2",
        "--data-binary",
        '{"n": 1}',
    ]


@pytest.mark.parametrize(
    ("value", "header"),
    [("", "x;"), ("it's", "x: it's"), ("$(id) `id` \\ !!", "x: $(id) `id` \\ !!"), ("--x", "x: --x")],
)
def test_a_value_is_one_word(value: str, header: str) -> None:
    assert words(made(headers=[("x", value)]).text)[3:] == ["-H", header]


@pytest.mark.parametrize("value", [REDACTED, "\x1b[2J", "caf\xc3\xa9", "a\tb"])
def test_a_value_that_is_not_plain_is_left_out_and_named(value: str) -> None:
    told = made(headers=[("x-odd", value), ("x-fine", "1")])
    assert told.left_out == ("x-odd",)
    assert "x-odd" not in told.text
    assert "x-fine" in told.text


@pytest.mark.parametrize(
    "body",
    [b"\x1b[201~\nrm -rf ~\n", "a\u202eb".encode(), b"\xff\x00", b"a\r\nb", b"x" * (INLINE_BYTES + 1), None],
)
def test_a_body_that_could_act_or_is_long_is_read_from_the_server(body: bytes | None) -> None:
    text = made(body=body).text
    assert text.startswith(f"curl -fsS {RAW} -H ")
    assert text.endswith("--data-binary @-")
    assert text.isascii()
    assert text.replace("\n", "").isprintable()


def test_a_body_that_looks_like_a_file_s_name_is_none() -> None:
    assert words(made(body=b"@/etc/passwd").text)[-2:] == ["--data-raw", "@/etc/passwd"]


@pytest.mark.parametrize("path", ["/../demo", "/a/..", "/./x", "/..?q=1", "/../../v1/inboxes/demo:purge"])
def test_a_path_that_leads_elsewhere_is_sent_as_it_is(path: str) -> None:
    assert "--path-as-is" in words(made(url=f"{URL}{path}", body=b"x").text)


@pytest.mark.parametrize("path", ["", "/a.b", "/...", "/.well-known/x", "/a?to=/../b.c"])
def test_other_paths_need_no_word_about_it(path: str) -> None:
    told = words(made(url=f"{URL}{path}", body=b"x").text)
    assert ("--path-as-is" in told) is ("/../" in path)


def test_brackets_are_no_patterns_and_a_missing_type_stays_missing() -> None:
    told = words(made(url=f"{URL}/[redacted]", body=b"x").text)
    assert told[0] == "-g"
    assert "content-type:" in told
    assert "content-type:" not in words(made(body=b"").text)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=8), st.text(max_size=12)), max_size=4),
    st.binary(max_size=60) | st.text(alphabet=st.characters(codec="ascii"), max_size=60).map(str.encode),
)
def test_nothing_in_a_message_becomes_a_command(headers: list[tuple[str, str]], body: bytes) -> None:
    text = made(headers=headers, body=body).text
    assert text.replace("\n", "").isprintable()
    if text.startswith("curl -fsS"):  # the second half reads the first one's output
        text = text.partition("|")[2]
    told = words(text)
    assert told[:3] == ["-X", "POST", URL]
    options = told[3::2]
    assert set(options) <= {"-H", "--data-binary", "--data-raw"}
    if options and options[-1].startswith("--data") and told[-1] != "@-":
        assert told[-1].encode() == body
