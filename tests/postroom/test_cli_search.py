"""`postroom search` against a real server: what it finds, what it says besides, how it ends."""

import json

import pytest

from tests.postroom.conftest import Command
from tests.postroom.test_cli import fine, sentence

LOOKS = 500
"""Most looks at an index until it has come to the end of its inbox: some seconds."""


@pytest.fixture
def searched(command: Command) -> str:
    """An inbox with five messages, of which all are indexed."""
    if command("inbox", "show", "searched").exit_code:
        fine(command("inbox", "create", "searched", "--no-token", "--search"))
        for body in (
            "red apple",
            "green apple tree",
            "red pear",
            "\x1b[2Jwild tree",
            '{"pay_ment": "pears"}',
        ):
            fine(command("send", "searched", "--data", body))
    for _ in range(LOOKS):
        page = json.loads(fine(command("search", "searched", "nothing", "--json")))
        if page["indexed_seq"] == 5:
            return "searched"
    raise AssertionError(f"not indexed yet: {page}")


def found(command: Command, *words: str) -> list[int]:
    page = json.loads(fine(command("search", "searched", *words, "--json")))
    return [message["seq"] for message in page["messages"]]


@pytest.mark.parametrize(
    ("words", "seqs"),
    [
        (["apple"], [2, 1]),
        (["red", "apple"], [1]),
        (["red apple"], [1]),
        (['"apple tree"'], [2]),
        (["tree", "-apple"], [4]),
        (["-apple", "tree"], [4]),
        (["tree", "-h", "-house"], [4, 2]),
        (["pear*"], [5, 3]),
        (["pay_ment"], [5]),
        (["--limit", "1", "apple"], [2]),
        (["apple", "--before", "2"], [1]),
    ],
)
def test_words_are_looked_for_as_they_are_written(
    command: Command, searched: str, words: list[str], seqs: list[int]
) -> None:
    assert found(command, *words) == seqs


def test_what_is_found_is_listed_and_where_it_goes_on(command: Command, searched: str) -> None:
    result = command("search", "searched", "apple", "--limit", "1")
    head, line = fine(result).splitlines()
    assert head.split() == ["SEQ", "RECEIVED", "TYPE", "VERIFIED", "SIZE", "ID"]
    assert line.split()[0] == "2"
    assert result.stderr == "Older ones: --before 2\n"
    result = command("search", "searched", "nothing")
    assert (fine(result), result.stderr) == ("No messages.\n", "")


def test_wrong_usage_is_one_sentence(command: Command, searched: str) -> None:
    assert "there is no option --limt here" in sentence(command("search", "searched", "a", "--limt"), 2)
    assert "at least one word" in sentence(command("search", "searched", "-a"), 1)
    assert command("search", "searched").exit_code == 2
    fine(command("inbox", "create", "unsearched", "--no-token"))
    assert "Search is off for this inbox" in sentence(command("search", "unsearched", "a"), 6)
    assert "not_found" in sentence(command("search", "no-such-inbox", "a"), 5)


def test_search_is_switched_on_and_off_with_the_settings(command: Command) -> None:
    fine(command("inbox", "create", "switched", "--no-token"))
    for flag, on in (("--search", True), ("--no-search", False)):
        assert json.loads(fine(command("inbox", "set", "switched", flag, "--json")))["search"] is on
        assert json.loads(fine(command("inbox", "set", "switched", "--name", "x", "--json")))["search"] is on
