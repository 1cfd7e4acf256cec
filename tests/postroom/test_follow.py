"""`wait` and `tail` against a real server: what they print, and that nothing is lost or shown twice."""

import json
from pathlib import Path

import pytest

from tests.postroom.commandproc import CommandProcess
from tests.postroom.conftest import Command, run
from tests.postroom.serverproc import ServerProcess
from tests.postroom.test_cli import fine, sentence
from tests.postroom.test_stats import until_open


def new_inbox(command: Command, slug: str, *bodies: str) -> str:
    """Create an inbox with these messages, whose type is the member `type` of a JSON body."""
    option = 'event_type=["body:type"]'
    fine(command("inbox", "create", slug, "--no-token", "--verifier-option", option))
    for body in bodies:
        fine(command("send", slug, "--data", body))
    return slug


def seqs(lines: list[str]) -> list[int]:
    return [int(line.split()[0]) for line in lines]


# -- wait ----------------------------------------------------------------------------------------------------


def test_wait_returns_at_once_with_what_is_there(command: Command) -> None:
    slug = new_inbox(command, "wait-there", "1", "2", "3")
    result = command("wait", slug, "--after", "1")
    assert seqs(fine(result).splitlines()) == [2, 3]
    assert "--after 3" in result.stderr
    answer = json.loads(fine(command("wait", slug, "--after", "1", "--limit", "1", "--bodies", "--json")))
    assert [one["untrusted"]["body"] for one in answer["messages"]] == [2]
    assert answer["next_after"] == 2


def test_wait_says_by_its_exit_code_that_nothing_came(command: Command) -> None:
    slug = new_inbox(command, "wait-empty", '{"type": "a"}')
    result = command("wait", slug, "--after", "0", "--type", "b", "--timeout", "0")
    assert (result.exit_code, result.stdout) == (8, "")
    assert "Nothing came in time. Next: --after 1" in result.stderr
    document = command("wait", slug, "--after", "1", "--timeout", "0", "--json")
    assert document.exit_code == 8
    assert json.loads(document.stdout)["next_after"] == 1


def test_wait_wakes_up_with_the_message_that_comes(server: ServerProcess, command: Command) -> None:
    slug = new_inbox(command, "wait-comes")
    asked = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    with CommandProcess("wait", slug, "--after", "0", "--timeout", "20", **asked) as waiting:
        fine(command("send", slug, "--data", "x"))
        assert waiting.line().split()[0] == "1"
        assert waiting.wait() == 0


def test_wait_refuses_a_cursor_of_another_life(command: Command) -> None:
    slug = new_inbox(command, "wait-epoch", "1")
    assert "epoch_changed" in sentence(command("wait", slug, "--after", "0", "--epoch", "old"), 6)


def test_wait_in_an_inbox_that_is_not_there_is_exit_5(command: Command) -> None:
    sentence(command("wait", "nowhere", "--after", "0"), 5)


def test_a_wait_that_a_stopping_server_ends_early_does_not_say_that_time_was_up(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        client = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
        with CommandProcess("wait", "demo", "--after", "0", "--timeout", "50", **client) as waiting:
            until_open(server, 1)
            server.stop()
            assert waiting.wait() in (3, 7)
            assert waiting.rest("stdout") == []


# -- tail ----------------------------------------------------------------------------------------------------


def test_tail_prints_the_last_messages_oldest_first(command: Command) -> None:
    slug = new_inbox(command, "tail-last", "1", "2", "3")
    assert seqs(fine(command("tail", slug, "-n", "2")).splitlines()) == [2, 3]
    assert fine(command("tail", slug, "-n", "0")) == ""
    lines = fine(command("tail", slug, "--json", "--bodies")).splitlines()
    assert [json.loads(line)["untrusted"]["body"] for line in lines] == [1, 2, 3]


def test_tail_shows_a_body_on_its_line_as_it_was_received(command: Command) -> None:
    slug = new_inbox(command, "tail-bodies", '{"n": 1.10,\n "a": "é"}', "null", "x\x1b[2J\u202e", "")
    lines = fine(command("tail", slug, "--bodies")).splitlines()
    assert [line.split("  ")[-1] for line in lines[1:3]] == ["null", "x\\x1b[2J\\u202e"]
    assert lines[0].endswith('{"n": 1.10,\\x0a "a": "é"}')
    whole = fine(command("tail", slug, "--bodies", "--json"))
    assert '"body":{"n": 1.10,  "a": "é"}' in whole
    assert "\x1b" not in whole
    assert len(whole.splitlines()) == 4


def test_tail_can_be_limited_to_some_types(command: Command) -> None:
    slug = new_inbox(command, "tail-types", '{"type": "a"}', '{"type": "b"}', '{"type": "c"}')
    assert seqs(fine(command("tail", slug, "--type", "a", "--type", "c")).splitlines()) == [1, 3]


@pytest.mark.parametrize("words", [["--after", "1"], ["-f", "--epoch", "x"]], ids=" ".join)
def test_options_that_make_no_sense_together_are_refused(command: Command, words: list[str]) -> None:
    sentence(command("tail", "demo", *words), 2)


def test_a_follower_sees_each_message_once_through_a_restart(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with ServerProcess(data_dir) as first:
        client = {"POSTROOM_URL": first.url, "POSTROOM_TOKEN": first.token}
        bind = first.url.removeprefix("http://")
        send(client, "one")
        following = CommandProcess("tail", "-f", "demo", "--bodies", **client)
        with following:
            assert following.line().endswith("one")
            send(client, "two")
            assert following.line().endswith("two")
            first.stop()
            assert "Trying again" in following.line("stderr")
            with ServerProcess(data_dir, "--bind", bind) as second:
                assert second.url == client["POSTROOM_URL"]
                send(client, "three")
                send(client, "four")
                assert following.line().endswith("three")
                assert following.line().endswith("four")
                assert following.interrupt() == 130
                assert following.rest("stdout") == []


def test_a_follower_is_told_of_gaps_and_goes_on_behind_them(server: ServerProcess, command: Command) -> None:
    slug = new_inbox(command, "tail-gap", "1", "2", "3", "4")
    fine(command("inbox", "set", slug, "--max-messages", "1"))
    fine(command("send", slug, "--data", "5"))
    client = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    with CommandProcess("tail", "-f", slug, "--after", "1", **client) as following:
        assert following.line() == "-- messages 2 to 4 are no longer kept --"
        assert following.line().split()[0] == "5"
    with CommandProcess("tail", "-f", slug, "--after", "1", "--json", **client) as following:
        assert json.loads(following.line()) == {"gap": {"after": 1, "first_seq": 5}}
        assert json.loads(following.line())["seq"] == 5


def test_a_follower_with_a_cursor_of_another_life_is_told_and_begins_anew(
    server: ServerProcess, command: Command
) -> None:
    slug = new_inbox(command, "tail-life", "1")
    client = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    with CommandProcess("tail", "-f", slug, "--after", "9", "--epoch", "old", **client) as following:
        assert "begun a new life" in following.line()
        assert following.line().split()[0] == "1"


def test_following_ends_with_the_inbox(server: ServerProcess, command: Command) -> None:
    slug = new_inbox(command, "tail-deleted", "1")
    client = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    with CommandProcess("tail", "-f", slug, **client) as following:
        following.line()
        fine(command("inbox", "delete", slug, "--yes"))
        assert following.wait() == 5
        assert following.rest("stderr")[-1].startswith("postroom: ")


def send(client: dict[str, str], text: str) -> None:
    fine(run("send", "demo", "--data", text, **client))
