"""`wait` and `tail` against a real server: what they print, and that nothing is lost or shown twice."""

import json
import re
from pathlib import Path

import pytest

from tests.postroom.commandproc import CommandProcess, ShellProcess
from tests.postroom.conftest import Command, run
from tests.postroom.scriptedserver import ScriptedServer, answer
from tests.postroom.serverproc import ServerProcess
from tests.postroom.test_cli import fine, sentence
from tests.postroom.test_stats import until_open

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

EMPTY = answer(b'{"messages": [], "epoch": "e", "next_after": 7, "gap": false}')
FULL = answer(b'{"messages": [], "epoch": "e", "next_after": 9, "gap": true}')
BUSY = answer(b'{"error": {"code": "busy", "message": "."}}', status="503 Service Unavailable")
BROKEN = b""


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


def test_a_wait_goes_on_through_a_restart(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with ServerProcess(data_dir) as first:
        client = {"POSTROOM_URL": first.url, "POSTROOM_TOKEN": first.token}
        with CommandProcess("wait", "demo", "--after", "0", "--timeout", "50", **client) as waiting:
            until_open(first, 1)
            first.stop()
            assert "Trying again" in waiting.line("stderr")
            with ServerProcess(data_dir, "--bind", first.url.removeprefix("http://")):
                send(client, "one")
                assert waiting.line().split()[0] == "1"
                assert waiting.wait() == 0


def test_a_wait_whose_server_stays_away_ends_with_the_empty_answer_when_its_time_is_up(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        client = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
        with CommandProcess("wait", "demo", "--after", "0", "--timeout", "4", "--json", **client) as waiting:
            until_open(server, 1)
            server.stop()
            assert waiting.wait() == 8
            assert json.loads("".join(waiting.rest("stdout")))["next_after"] == 0


def test_a_wait_that_finds_nobody_at_first_ends_at_once(tmp_path: Path) -> None:
    with ScriptedServer() as nobody:
        url = nobody.url
    result = run("wait", "demo", "--after", "0", "--timeout", "60", "--url", url, POSTROOM_TOKEN="x")
    assert "No server answers" in sentence(result, 3)


@pytest.mark.parametrize("first", [BUSY, BROKEN], ids=["busy", "broken off"])
def test_a_server_that_is_busy_or_dies_is_asked_again_from_the_same_cursor(
    monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("postroom.cli.follow.time.sleep", slept.append)
    with ScriptedServer(first, EMPTY, first, first, FULL) as server:
        words = ["wait", "demo", "--after", "5", "--timeout", "60", "--json", "--url", server.url]
        result = run(*words, POSTROOM_TOKEN="x")
    assert (result.exit_code, json.loads(result.stdout)["next_after"]) == (0, 9)
    assert [asked.params["after"] for asked in server.asked] == [["5"], ["5"], ["7"], ["7"], ["7"]]
    assert len(slept) == 3
    assert slept[2] > slept[1]


def test_a_busy_server_that_is_only_looked_at_is_not_asked_again() -> None:
    with ScriptedServer(BUSY) as server:
        words = ["wait", "demo", "--after", "5", "--timeout", "0", "--url", server.url]
        sentence(run(*words, POSTROOM_TOKEN="x"), 7)


@pytest.mark.parametrize("seconds", ["nan", "inf", "0.2", "-1", "9" * 400])
def test_wait_takes_whole_seconds(command: Command, seconds: str) -> None:
    result = command("wait", "demo", "--after", "0", "--timeout", seconds)
    assert result.exit_code == 2
    assert "'--timeout'" in result.stderr


def test_the_loop_of_the_documentation_survives_a_restart(tmp_path: Path) -> None:
    [loop] = re.findall(r"<!-- loop -->\n```sh\n(AFTER=0\n.*?)```", PAGE.read_text(), re.DOTALL)
    data_dir = tmp_path / "data"
    with ServerProcess(data_dir) as first:
        client = {"POSTROOM_URL": first.url, "POSTROOM_TOKEN": first.token}
        fine(run("inbox", "create", "orders", "--no-token", **client))
        fine(run("send", "orders", "--data", '"one"', **client))
        with ShellProcess('handle() { echo "$1" | jq -c .untrusted.body; }\n' + loop, **client) as looping:
            assert looping.line() == '"one"'
            until_open(first, 1)
            first.stop()
            assert "Trying again" in looping.line("stderr")
            with ServerProcess(data_dir, "--bind", first.url.removeprefix("http://")):
                fine(run("send", "orders", "--data", '"two"', **client))
                assert looping.line() == '"two"'
                fine(run("inbox", "delete", "orders", "--yes", **client))
                assert looping.wait() == 5
                assert looping.rest("stdout") == []


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
