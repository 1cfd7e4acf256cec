"""The commands against a real server: what they print, what they answer to scripts, how they end."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from postroom.cli.inbox import PAGE_ITEMS
from postroom.client import Client
from tests.postroom.conftest import Command, run
from tests.postroom.oddserver import OddServer
from tests.postroom.serverproc import ServerProcess


def fine(result: Result) -> str:
    """Return the output of a command that succeeded."""
    assert result.exit_code == 0, result.output
    return result.stdout


def sentence(result: Result, code: int) -> str:
    """Return the one sentence of a command that ended with this code."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("postroom: ")
    return line


# -- sending and reading -------------------------------------------------------------------------------------


def test_what_is_sent_can_be_listed_shown_and_had_back_byte_for_byte(
    command: Command, tmp_path: Path
) -> None:
    fine(command("inbox", "create", "roundtrip", "--no-token"))
    body = b'{"n": 1.10,\r\n "text": "\xe2\x80\xae"}'
    assert fine(command("send", "roundtrip", stdin=body)).startswith("Stored in roundtrip as message 1 (")
    assert "–" in fine(command("messages", "roundtrip"))
    shown = fine(command("message", "roundtrip", "1"))
    assert "application/json" in shown
    assert "\\u202e" in shown
    out = tmp_path / "body"
    fine(command("raw", "roundtrip", "1", "--output", str(out)))
    assert out.read_bytes() == body
    assert command("raw", "roundtrip", "1").stdout_bytes == body
    document = fine(command("message", "roundtrip", "1", "--json"))
    assert "1.10" in document
    assert "\u202e" not in document
    assert json.loads(document)["untrusted"]["body"] == json.loads(body)


def test_a_file_is_sent_with_path_headers_and_put(command: Command, tmp_path: Path) -> None:
    fine(command("inbox", "create", "options", "--no-token"))
    file = tmp_path / "note.txt"
    file.write_text("hello")
    words = ["--put", "--path", "/a%2Fb//../c?x=1&x=", "--header", "X-One: 1", "-H", "X-One: 2"]
    sent = json.loads(fine(command("send", "options", str(file), *words, "--json")))
    assert sent == {"inbox": "options", "status": 200, "id": sent["id"], "seq": 1, "duplicate": False}
    message = json.loads(fine(command("message", "options", "1", "--json")))
    assert message["method"] == "PUT"
    untrusted = message["untrusted"]
    assert (untrusted["path"], untrusted["query"]) == ("/a%2Fb//../c", "x=1&x=")
    assert [value for name, value in untrusted["headers"] if name == "x-one"] == ["1", "2"]
    assert untrusted["content_type"] == "text/plain; charset=utf-8"
    assert untrusted["body_text"] == "hello"


def test_a_signed_message_is_verified_and_its_repeat_is_a_duplicate(command: Command) -> None:
    create = ["inbox", "create", "signed", "--verifier", "github", "--secret-env", "HOOK", "--no-token"]
    fine(command(*create, HOOK="s3cret"))
    words = ["send", "signed", "--data", "{}", "--sign", "github", "--event", "push", "--delivery-id", "d-1"]
    assert "as message 1 (" in fine(command(*words, "--secret-env", "HOOK", HOOK="s3cret"))
    assert "has this delivery already, as message 1" in fine(command(*words, "--secret", "s3cret"))
    assert "as message 2 (" in fine(command(*words, "--secret", "wrong"))
    listed = fine(command("messages", "signed", "--type", "push"))
    assert "no: signature mismatch" in listed
    assert "yes" in listed
    verified = json.loads(fine(command("messages", "signed", "--verified", "--json")))
    assert [message["seq"] for message in verified["messages"]] == [1]


def test_the_generic_template_signs_with_the_inbox_s_own_options(command: Command) -> None:
    options = ["header=x-sig", "timestamp=header:x-ts", "signed={ts}.{body}", "encoding=base64"]
    verifier = [word for option in options for word in ("--verifier-option", option)]
    fine(
        command("inbox", "create", "template", "--verifier", "hmac", *verifier, "--secret", "k", "--no-token")
    )
    signing = [word for option in options for word in ("--sign-option", option)]
    fine(command("send", "template", "--data", "x", "--sign", "hmac", *signing, "--secret", "k"))
    assert json.loads(fine(command("message", "template", "1", "--json")))["verified"] is True


def test_messages_are_paged_in_both_directions(command: Command) -> None:
    fine(command("inbox", "create", "paged", "--no-token"))
    for n in range(5):
        fine(command("send", "paged", "--data", str(n)))
    newest = command("messages", "paged", "--limit", "2")
    assert "Older ones: --before 4" in newest.stderr
    oldest = command("messages", "paged", "--after", "0", "--limit", "2")
    assert "More: --after 2" in oldest.stderr
    page = json.loads(
        fine(command("messages", "paged", "--after", "0", "--limit", "2", "--bodies", "--json"))
    )
    assert [message["untrusted"]["body"] for message in page["messages"]] == [0, 1]


def test_an_inbox_with_its_own_answer_is_reported_as_such(command: Command) -> None:
    response = [
        "--response-status",
        "202",
        "--response-body",
        "thanks\x1b[2J",
        "--response-type",
        "text/plain",
    ]
    fine(command("inbox", "create", "polite", "--no-token", *response))
    shown = fine(command("send", "polite", "--data", "x"))
    assert "answered 202" in shown
    assert "thanks\\x1b[2J" in shown
    assert json.loads(fine(command("send", "polite", "--data", "x", "--json")))["seq"] is None


# -- inboxes -------------------------------------------------------------------------------------------------


def test_a_new_inbox_comes_with_a_token_that_reads_it_alone(command: Command) -> None:
    created = json.loads(fine(command("inbox", "create", "mine", "--json")))
    fine(command("inbox", "create", "theirs", "--no-token"))
    token = created["token"]
    assert created["ingest_url"].endswith("/in/mine")
    assert "No messages." in fine(command("messages", "mine", POSTROOM_TOKEN=token))
    assert "not_found" in sentence(command("messages", "theirs", POSTROOM_TOKEN=token), 5)
    assert "permission_denied" in sentence(command("inbox", "show", "mine", POSTROOM_TOKEN=token), 4)


def test_an_inbox_without_a_slug_gets_an_unguessable_one(command: Command) -> None:
    created = json.loads(fine(command("inbox", "create", "--json", "--no-token")))
    assert len(created["slug"]) >= 16
    assert "token" not in created


def test_settings_are_changed_and_limits_taken_away(command: Command) -> None:
    fine(command("inbox", "create", "changing", "--no-token", "--max-messages", "10", "--max-bytes", "2MiB"))
    words = ["--name", "Changed", "--max-messages", "none", "--when-full", "refuse", "--rate-per-minute", "5"]
    shown = json.loads(fine(command("inbox", "set", "changing", *words, "--json")))
    assert shown["name"] == "Changed"
    assert shown["retention"]["max_messages"] is None
    assert shown["retention"]["max_bytes"] == 2 * 1024 * 1024
    assert shown["retention"]["policy"] == "refuse"
    assert "Changed" in fine(command("inbox", "show", "changing"))
    assert "name at least one setting" in sentence(command("inbox", "set", "changing"), 2)


def test_a_secret_is_added_and_retired_without_being_shown(command: Command, tmp_path: Path) -> None:
    fine(command("inbox", "create", "secrets", "--verifier", "github", "--no-token"))
    file = tmp_path / "secret"
    file.write_text("t0psecret\n")
    fine(command("inbox", "secret", "add", "secrets", "--name", "new", "--secret-file", str(file)))
    shown = fine(command("inbox", "show", "secrets", "--json"))
    assert "t0psecret" not in shown
    assert [secret["name"] for secret in json.loads(shown)["secrets"]] == ["new"]
    fine(command("send", "secrets", "--data", "x", "--sign", "github", "--secret", "t0psecret"))
    assert json.loads(fine(command("message", "secrets", "1", "--json")))["verified"] is True
    fine(command("inbox", "secret", "retire", "secrets", "new"))
    assert "not_found" in sentence(command("inbox", "secret", "retire", "secrets", "new"), 5)


def test_purge_empties_an_inbox_and_delete_removes_it(command: Command) -> None:
    fine(command("inbox", "create", "doomed", "--no-token"))
    fine(command("send", "doomed", "--data", "x"))
    assert "--yes" in sentence(command("inbox", "purge", "doomed"), 2)
    fine(command("inbox", "purge", "doomed", "--yes"))
    assert "No messages." in fine(command("messages", "doomed"))
    assert "--yes" in sentence(command("inbox", "delete", "doomed"), 2)
    fine(command("inbox", "delete", "doomed", "--yes"))
    assert "not_found" in sentence(command("inbox", "show", "doomed"), 5)


def test_the_list_names_every_inbox(command: Command) -> None:
    fine(command("inbox", "create", "listed", "--no-token"))
    listed = json.loads(fine(command("inbox", "list", "--json")))
    assert {"demo", "listed"} <= {inbox["slug"] for inbox in listed["inboxes"]}
    assert "listed" in fine(command("inbox", "list"))


def test_lists_are_complete_beyond_one_page(server: ServerProcess, command: Command) -> None:
    slugs = {f"many-{n:03}" for n in range(PAGE_ITEMS + 5)}
    with Client(server.url, server.token) as api:
        for slug in sorted(slugs):
            api.call("POST", "/v1/inboxes", body={"slug": slug, "issue_token": True})
    listed = json.loads(fine(command("inbox", "list", "--json")))["inboxes"]
    assert slugs <= {inbox["slug"] for inbox in listed}
    tokens = json.loads(fine(command("token", "list", "--json")))["tokens"]
    assert len(tokens) > PAGE_ITEMS
    assert len({token["token_id"] for token in tokens}) == len(tokens)


def test_one_message_is_erased_for_good(command: Command) -> None:
    fine(command("inbox", "create", "erasing", "--no-token"))
    for text in ("keep", "erase"):
        fine(command("send", "erasing", "--data", text))
    assert fine(command("erase", "erasing", "2", "--yes")) == "Erased message 2 of erasing.\n"
    assert "not_found" in sentence(command("message", "erasing", "2"), 5)
    assert "as message 3 (" in fine(command("send", "erasing", "--data", "next"))
    assert json.loads(fine(command("erase", "erasing", "1", "--yes", "--json"))) == {
        "inbox": "erasing",
        "erased": 1,
    }
    assert "not_found" in sentence(command("erase", "erasing", "9223372036854775807", "--yes"), 5)
    assert "from 1 to" in sentence(command("erase", "erasing", "9223372036854775808", "--yes"), 1)


def test_an_inbox_answers_with_headers_of_its_own(server: ServerProcess, command: Command) -> None:
    words = ["--response-header", "X-Queue: orders", "--response-header", "X-Empty:"]
    fine(command("inbox", "create", "headers", "--no-token", *words))
    with Client(server.url, None) as sender:
        answer = sender.send("headers", "", [], b"x")
    assert (answer.headers["x-queue"], answer.headers["x-empty"]) == ("orders", "")
    shown = json.loads(fine(command("inbox", "set", "headers", "--no-response", "--json")))
    assert shown["response"] is None


def test_an_inbox_that_can_verify_nothing_yet_says_so(command: Command) -> None:
    created = command("inbox", "create", "secretless", "--verifier", "github", "--json")
    assert json.loads(fine(created))["slug"] == "secretless"
    assert "secretless has no secret yet, so it stores every message as unverified" in created.stderr
    assert "postroom inbox secret add secretless --secret-env NAME" in created.stderr
    changed = command("inbox", "set", "secretless", "--on-unverified", "reject")
    fine(changed)
    assert "refuses every message" in changed.stderr
    fine(command("inbox", "secret", "add", "secretless", "--secret-env", "HOOK", HOOK="s3cret"))
    changed = command("inbox", "set", "secretless", "--on-unverified", "store")
    fine(changed)
    assert changed.stderr == ""
    assert command("inbox", "create", "verifierless").stderr == ""


# -- tokens --------------------------------------------------------------------------------------------------


def test_a_token_is_made_listed_changed_and_revoked(command: Command) -> None:
    fine(command("inbox", "create", "first", "--no-token"))
    fine(command("inbox", "create", "second", "--no-token"))
    words = ["--inbox", "first", "--name", "worker", "--expires", "30d"]
    made = json.loads(fine(command("token", "create", *words, "--json")))
    assert made["token"].startswith("prm_agent_")
    assert "worker" in fine(command("token", "list"))
    assert made["token"] not in fine(command("token", "list", "--json"))
    fine(command("messages", "first", POSTROOM_TOKEN=made["token"]))
    fine(command("token", "set", made["token_id"], "--inbox", "second", "--no-expiry"))
    assert "not_found" in sentence(command("messages", "first", POSTROOM_TOKEN=made["token"]), 5)
    fine(command("messages", "second", POSTROOM_TOKEN=made["token"]))
    assert "--yes" in sentence(command("token", "revoke", made["token_id"]), 2)
    fine(command("token", "revoke", made["token_id"], "--yes"))
    assert "unauthenticated" in sentence(command("messages", "second", POSTROOM_TOKEN=made["token"]), 4)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["token", "create"], "--inbox SLUG or --all-inboxes"),
        (["token", "create", "--all-inboxes", "--inbox", "x"], "not both"),
        (["token", "create", "--kind", "admin", "--inbox", "x"], "takes no --inbox"),
        (["token", "set", "x"], "name at least one thing"),
        (["send", "demo", "--data", "x", "--path", "a"], "--path begins with /"),
        (["send", "demo", "--data", "x", "--header", "no colon"], "--header takes"),
        (["send", "demo", "--data", "x", "--header", "Content-Length: 100"], "cannot set Content-Length"),
        (["send", "demo", "--data", "x", "--header", "transfer-encoding: chunked"], "follows from the body"),
        (["send", "demo", "--data", "x", "--header", "X: a\x01b"], "--header takes"),
        (["send", "demo", "--data", "x", "--event", "push"], "need --sign"),
        (["inbox", "set", "demo", "--no-response", "--response-body", "hi"], "not both"),
        (["inbox", "set", "demo", "--no-response", "--response-header", "X-A: 1"], "not both"),
        (["inbox", "set", "demo", "--response-header", "X-A"], "--response-header takes"),
        (["inbox", "set", "demo", "--response-header", "X-A: 1", "--response-header", "x-a: 2"], "twice"),
        (["token", "create", "--all-inboxes", "--expires", "99999999d"], "beyond the year 9999"),
        (["token", "create", "--all-inboxes", "--expires", "999999999999999999w"], "beyond the year 9999"),
        (["token", "create", "--all-inboxes", "--expires", "0d"], "no time to come"),
        (["token", "create", "--all-inboxes", "--expires", "2020-01-01T00:00:00Z"], "no time to come"),
        (["token", "set", "x", "--expires", "0s"], "no time to come"),
        (["token", "create", "--all-inboxes", "--expires", "soon"], "such as 30d"),
        (["erase", "demo", "1"], "--yes"),
        (["send", "demo", "--data", "x", "--sign", "basic", "--secret", "x"], "cannot sign (value)"),
        (["send", "demo", "--data", "x", "--sign", "github"], "The verifier of this inbox is none"),
        (
            ["send", "demo", "--data", "x", "--sign", "hmac", "--sign-option", "header=X"],
            "need a secret here",
        ),
        (["send", "demo", "--data", "x", "--secret", "x"], "need --sign"),
        (["send", "demo", "/nowhere/at/all"], "No such file or directory"),
        (["raw", "demo", "1", "--json"], "no --json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_said_in_one_sentence(command: Command, words: list[str], hint: str) -> None:
    result = command(*words)
    assert result.exit_code in (1, 2)
    assert hint in sentence(result, result.exit_code)


# -- reaching the server ---------------------------------------------------------------------------------------


def test_no_server_is_exit_3() -> None:
    result = run("send", "demo", "--data", "x", "--url", "http://127.0.0.1:9")
    assert "No server answers" in sentence(result, 3)


def test_a_token_is_not_taken_from_the_command_line(server: ServerProcess) -> None:
    result = run("messages", "demo", "--token", server.token, "--url", server.url)
    assert result.exit_code == 2


def test_no_token_is_exit_4(server: ServerProcess) -> None:
    assert "POSTROOM_TOKEN" in sentence(run("messages", "demo", "--url", server.url), 4)
    assert "unauthenticated" in sentence(
        run("inbox", "list", POSTROOM_URL=server.url, POSTROOM_TOKEN="wrong"), 4
    )


def test_a_body_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    with OddServer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this") as odd:
        words = ["raw", "demo", "1", "--output", str(tmp_path / "body"), "--url", odd.url]
        assert "broke before the answer was complete" in sentence(run(*words, POSTROOM_TOKEN="x"), 3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
    ],
    ids=["a page", "a redirect", "another protocol", "nothing"],
)
def test_something_that_is_no_postroom_is_exit_3(answer: bytes) -> None:
    with OddServer(answer) as odd:
        sentence(run("messages", "demo", "--url", odd.url, POSTROOM_TOKEN="x"), 3)


def test_an_error_of_a_proxy_is_told_by_its_status() -> None:
    with OddServer(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n\x1b[2J<x") as odd:
        said = sentence(run("messages", "demo", "--url", odd.url, POSTROOM_TOKEN="x"), 1)
    assert "502" in said
    assert "\x1b" not in said


def test_a_taken_slug_is_exit_6(command: Command) -> None:
    assert "conflict" in sentence(command("inbox", "create", "demo"), 6)


def test_a_url_that_is_none_is_exit_2() -> None:
    assert "is not" in sentence(run("send", "demo", "--data", "x", "--url", "ftp://127.0.0.1"), 2)


def test_a_slug_with_a_slash_does_not_become_another_route(command: Command) -> None:
    assert command("inbox", "show", "demo/messages").exit_code == 5


# -- the configuration -----------------------------------------------------------------------------------------


def test_config_shows_where_values_come_from_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text("log_format = 'json'\n")
    words = ["config", "--config", str(file), "--bind", "127.0.0.1:1"]
    result = run(*words, POSTROOM_ADMIN_TOKEN="a" * 40)
    shown = fine(result)
    assert "a" * 40 not in shown
    assert "flag --bind" in shown
    document = json.loads(fine(run(*words, "--changed", "--json", POSTROOM_ADMIN_TOKEN="a" * 40)))
    assert {s["name"]: s["value"] for s in document["settings"]} == {
        "BIND": "127.0.0.1:1",
        "ADMIN_TOKEN": "(set, not shown)",
        "LOG_FORMAT": "json",
    }


def test_a_bad_setting_stops_a_command_with_exit_2() -> None:
    assert "POSTROOM_MAX_CONNECTIONS must be" in sentence(run("config", POSTROOM_MAX_CONNECTIONS="0"), 2)
