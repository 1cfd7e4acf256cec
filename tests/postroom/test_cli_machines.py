"""`machine`, and tokens of machines: what they ask of a server, and what they print of its answers."""

import json
from typing import Any

import pytest

from tests.postroom.conftest import run
from tests.postroom.scriptedserver import ScriptedServer
from tests.postroom.test_cli import fine, sentence
from tests.postroom.test_cli_agents import NO_CONTENT, asked, call, ok

MACHINE = {
    "name": "box",
    "inbox": "machine.box",
    "agents": 2,
    "created_at": "2026-11-30T20:00:00.000000Z",
}
ISSUED = {"token_id": "01token", "token": "prm_machine_text", "kind": "machine"}


def test_a_machine_is_created_with_a_token_of_its_own() -> None:
    words = ["--inbox", "repo", "--reach", "attic", "--reach", "cellar"]
    with ScriptedServer(ok(MACHINE, "201 Created"), ok(ISSUED, "201 Created")) as server:
        printed = fine(call(server, "machine", "create", "box", *words))
    assert "Created the machine box; its inbox is machine.box." in printed
    assert "export POSTROOM_TOKEN=prm_machine_text" in printed
    issued = {"kind": "machine", "machine": "box", "inboxes": ["repo"], "machines": ["attic", "cellar"]}
    assert asked(server) == [("POST", "/v1/machines", {"name": "box"}), ("POST", "/v1/tokens", issued)]


def test_a_machine_s_json_is_the_machine_with_its_token() -> None:
    with ScriptedServer(ok(MACHINE, "201 Created"), ok(ISSUED, "201 Created")) as server:
        made = json.loads(fine(call(server, "machine", "create", "box", "--all-inboxes", "--json")))
    assert made == MACHINE | {"token_id": "01token", "token": "prm_machine_text"}
    assert asked(server)[1][2] == {"kind": "machine", "machine": "box", "inboxes": "all"}


def test_a_machine_can_be_created_without_a_token() -> None:
    with ScriptedServer(ok(MACHINE, "201 Created")) as server:
        assert "TOKEN" not in fine(call(server, "machine", "create", "box", "--no-token"))
    sentence(call(server, "machine", "create", "box", "--no-token", "--reach", "attic"), 2)
    assert len(server.asked) == 1


def test_a_machine_whose_token_failed_is_told_of() -> None:
    refusal = ok({"error": {"code": "invalid_argument", "message": "No."}}, "400 Bad Request")
    with ScriptedServer(ok(MACHINE, "201 Created"), refusal) as server:
        result = call(server, "machine", "create", "box")
    assert result.exit_code == 1
    assert "the machine box was created, its token was not" in result.stderr


def test_machines_are_listed_shown_and_deleted() -> None:
    listed = [
        ok({"machines": [MACHINE], "next_after": "box"}),
        ok({"machines": [MACHINE | {"name": "den"}]}),
    ]
    with ScriptedServer(*listed, ok({"machines": []}), ok(MACHINE), NO_CONTENT) as server:
        rows = fine(call(server, "machine", "list")).splitlines()
        assert [row.split()[:3] for row in rows[1:]] == [
            ["box", "machine.box", "2"],
            ["den", "machine.box", "2"],
        ]
        assert fine(call(server, "machine", "list")) == "No machines.\n"
        assert json.loads(fine(call(server, "machine", "show", "box", "--json"))) == MACHINE
        assert fine(call(server, "machine", "delete", "box", "--yes")) == "Deleted the machine box.\n"
    assert asked(server) == [
        ("GET", "/v1/machines", None),
        ("GET", "/v1/machines?after=box", None),
        ("GET", "/v1/machines", None),
        ("GET", "/v1/machines/box", None),
        ("DELETE", "/v1/machines/box", None),
    ]
    assert "--yes" in sentence(call(server, "machine", "delete", "box"), 2)


def test_more_tokens_of_a_machine_and_an_agent_s_reach_are_issued_and_changed() -> None:
    with ScriptedServer(*[ok(ISSUED, "201 Created")] * 2, *[ok(ISSUED)] * 2) as server:
        fine(call(server, "token", "create", "--kind", "machine", "--machine", "box", "--name", "ci"))
        fine(call(server, "token", "create", "--agent", "planner", "--reach", "attic"))
        fine(call(server, "token", "set", "01token", "--reach", "attic", "--reach", "cellar"))
        fine(call(server, "token", "set", "01token", "--no-reach"))
    assert [body for _, _, body in asked(server)] == [
        {"kind": "machine", "machine": "box", "name": "ci"},
        {"kind": "agent", "agent": "planner", "machines": ["attic"]},
        {"machines": ["attic", "cellar"]},
        {"machines": []},
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("create", "--kind", "machine"),
        ("create", "--machine", "box", "--all-inboxes"),
        ("create", "--kind", "machine", "--machine", "box", "--agent", "planner"),
        ("create", "--kind", "admin", "--reach", "box"),
        ("create", "--kind", "admin", "--machine", "box"),
        ("set", "01token", "--reach", "box", "--no-reach"),
    ],
    ids=" ".join,
)
def test_options_of_tokens_that_do_not_go_together_ask_no_server(words: tuple[str, ...]) -> None:
    result = run("token", *words, POSTROOM_TOKEN="token", POSTROOM_URL="http://127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("words", [("--peek", "list"), ("--json", "show", "demo"), ("--limit", "3", "list")])
def test_options_for_reading_mail_are_none_of_the_inbox_commands(words: tuple[str, ...], **_: Any) -> None:
    result = run("inbox", *words, POSTROOM_TOKEN="token", POSTROOM_URL="http://127.0.0.1:1")
    assert "follow" in sentence(result, 2)
