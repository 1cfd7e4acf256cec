"""`agent`, `beacon` and `publish`: what they ask of a server, and what they print of its answers."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.postroom.conftest import run
from tests.postroom.scriptedserver import Asked, ScriptedServer, answer
from tests.postroom.test_cli import fine, sentence

AGENT = {
    "agent_id": "planner",
    "inbox": "agent.planner",
    "machine": None,
    "created_at": "2026-11-30T20:00:00.000000Z",
}
TOKEN = {"token_id": "01token", "token": "prm_agent_text"}
ISSUED = {"token_id": "01token", "token": "prm_agent_text", "kind": "agent"}
PLACED = {
    "name": "ci",
    "terms": [{"term": "deploy", "idf": 2.5}],
    "would_have_matched_7d": 3,
    "backfilled": 2,
}
PUBLISHED = {"diff_id": "01M8", "inbox": "commons", "seq": 7}
NO_CONTENT = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


def ok(document: object, status: str = "200 OK") -> bytes:
    return answer(json.dumps(document).encode(), status=status)


def call(server: ScriptedServer, *words: str, **how: Any) -> Result:
    return run(*words, POSTROOM_URL=server.url, POSTROOM_TOKEN="token", **how)


def asked(server: ScriptedServer) -> list[tuple[str, str, object]]:
    """Return method, path and body of each call."""

    def body(one: Asked) -> object:
        return json.loads(one.body) if one.body else None

    return [(one.method, one.target, body(one)) for one in server.asked]


# -- agents ----------------------------------------------------------------------------------------------------


def test_an_agent_is_created_with_a_token_of_its_own() -> None:
    words = ["agent", "create", "planner", "--machine", "box", "--inbox", "repo", "--inboxes", "builds"]
    with ScriptedServer(ok(AGENT | TOKEN, "201 Created")) as server:
        printed = fine(call(server, *words))
    assert "Created the agent planner; its inbox is agent.planner." in printed
    assert "export POSTROOM_TOKEN=prm_agent_text" in printed
    wanted = {"agent_id": "planner", "machine": "box", "issue_token": True, "inboxes": ["repo", "builds"]}
    assert asked(server) == [("POST", "/v1/agents", wanted)]


@pytest.mark.parametrize(
    ("words", "scope"), [((), {}), (("--all-inboxes",), {"inboxes": "all"})], ids=["none", "all"]
)
def test_what_an_agent_s_token_reads_is_what_was_named(words: tuple[str, ...], scope: dict[str, Any]) -> None:
    with ScriptedServer(ok(AGENT | TOKEN, "201 Created")) as server:
        made = json.loads(fine(call(server, "agent", "create", "planner", *words, "--json")))
    assert made == AGENT | TOKEN
    assert asked(server)[0][2] == {"agent_id": "planner", "issue_token": True} | scope


def test_an_agent_can_be_created_without_a_token() -> None:
    with ScriptedServer(ok(AGENT, "201 Created")) as server:
        assert "TOKEN" not in fine(call(server, "agent", "create", "planner", "--no-token"))
    sentence(call(server, "agent", "create", "planner", "--no-token", "--inbox", "repo"), 2)
    assert len(server.asked) == 1


def test_agents_are_listed_shown_and_deleted() -> None:
    other = AGENT | {"agent_id": "tester", "inbox": "agent.tester", "machine": "box"}
    listed = [ok({"agents": [AGENT], "next_after": "planner"}), ok({"agents": [other]})]
    with ScriptedServer(*listed, ok(AGENT), NO_CONTENT) as server:
        rows = fine(call(server, "agent", "list")).splitlines()
        assert [row.split()[:3] for row in rows[1:]] == [
            ["planner", "agent.planner", "–"],
            ["tester", "agent.tester", "box"],
        ]
        assert json.loads(fine(call(server, "agent", "show", "planner", "--json"))) == AGENT
        assert fine(call(server, "agent", "delete", "planner", "--yes")) == "Deleted the agent planner.\n"
    assert asked(server) == [
        ("GET", "/v1/agents", None),
        ("GET", "/v1/agents?after=planner", None),
        ("GET", "/v1/agents/planner", None),
        ("DELETE", "/v1/agents/planner", None),
    ]
    assert "--yes" in sentence(call(server, "agent", "delete", "planner"), 2)


def test_another_token_can_be_issued_for_an_agent() -> None:
    with ScriptedServer(ok(ISSUED, "201 Created")) as server:
        fine(call(server, "token", "create", "--agent", "planner", "--name", "laptop"))
    assert asked(server) == [
        ("POST", "/v1/tokens", {"kind": "agent", "agent": "planner", "name": "laptop"}),
    ]
    sentence(call(server, "token", "create", "--kind", "admin", "--agent", "planner"), 2)


# -- beacons ---------------------------------------------------------------------------------------------------


def test_a_beacon_is_placed_with_everything_that_it_can_have() -> None:
    words = ["--about", "deploys and rollbacks", "--inbox", "repo", "--type", "push", "--kind", "webhook"]
    words += ["--require", "main", "--exclude", "draft", "--min-score", "0.6", "--weight", "0.5"]
    words += ["--ttl", "12h", "--backfill", "10"]
    with ScriptedServer(ok(PLACED)) as server:
        printed = fine(call(server, "beacon", "place", "ci", *words))
    assert asked(server) == [
        (
            "PUT",
            "/v1/beacons/ci",
            {
                "about": "deploys and rollbacks",
                "inboxes": ["repo"],
                "types": ["push"],
                "kinds": ["webhook"],
                "require": ["main"],
                "exclude": ["draft"],
                "min_score": 0.6,
                "weight": 0.5,
                "ttl_seconds": 43_200,
                "backfill": 10,
            },
        )
    ]
    assert "Placed the beacon ci." in printed
    assert "deploy    2.50" in printed
    assert "Messages of the last 7 days that match: 3." in printed
    assert "Delivered now: 2." in printed


def test_a_beacon_without_a_text_says_only_what_was_given() -> None:
    with ScriptedServer(ok(PLACED | {"terms": [], "backfilled": 0})) as server:
        fine(call(server, "beacon", "place", "ci", "--inbox", "repo"))
    assert asked(server) == [("PUT", "/v1/beacons/ci", {"inboxes": ["repo"]})]


def test_beacons_are_listed_tested_and_removed() -> None:
    placed = {
        "name": "ci",
        "about": "deploys\x1b[2J",
        "inboxes": ["repo"],
        "types": [],
        "kinds": [],
        "require": ["main"],
        "exclude": ["draft"],
        "delivered_today": 500,
        "overflow_today": 3,
    }
    match = {"inbox": "repo", "seq": 7, "score": 0.725, "matched_terms": ["deploy", "main"]}
    beacons, matches = {"beacons": [placed | {"expires_at": None}]}, {"matches": [match]}
    with ScriptedServer(ok(beacons), ok(matches), ok(matches), ok({"matches": []}), NO_CONTENT) as server:
        listed = fine(call(server, "beacon", "list"))
        assert listed.splitlines()[1].split() == [
            *("ci", "repo", "+main", "-draft", "deploys\\x1b[2J"),
            *("500", "(3", "kept", "back)", "–"),
        ]
        tested = fine(call(server, "beacon", "test", "--about", "deploys"))
        assert tested.splitlines()[1].split() == ["repo", "7", "0.72", "deploy", "main"]
        assert json.loads(fine(call(server, "beacon", "test", "ci", "--json"))) == matches
        assert fine(call(server, "beacon", "test", "ci")) == "It would have matched nothing.\n"
        assert fine(call(server, "beacon", "remove", "ci")) == "Removed the beacon ci.\n"
    assert asked(server) == [
        ("GET", "/v1/beacons", None),
        ("POST", "/v1/beacons:test", {"about": "deploys"}),
        ("POST", "/v1/beacons:test", {"name": "ci"}),
        ("POST", "/v1/beacons:test", {"name": "ci"}),
        ("DELETE", "/v1/beacons/ci", None),
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("place", "ci"),
        ("place", "ci", "--weight", "1"),
        ("test",),
        ("test", "ci", "--about", "x"),
        ("place", "ci", "--about", "x", "--ttl", "soon"),
        ("place", "ci", "--about", "x", "--ttl", "0"),
        ("place", "ci", "--about", "x", "--min-score", "much"),
    ],
    ids=" ".join,
)
def test_a_beacon_about_nothing_or_everything_asks_no_server(words: tuple[str, ...]) -> None:
    result = run("beacon", *words, POSTROOM_TOKEN="token", POSTROOM_URL="http://127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (2, "")


# -- publishing ------------------------------------------------------------------------------------------------


def test_a_message_is_published_with_everything_that_it_can_have(tmp_path: Path) -> None:
    file = tmp_path / "note.md"
    file.write_text("We switch.\n")
    words = ["--subject", "Blue-green", "--type", "updated", "--kind", "decision", "--salience", "0.9"]
    words += ["--to", "tester", "--to", "builder", "--tag", "api", "--tag", "deploy", "--supersedes", "01OLD"]
    words += ["--ttl", "30d", "--idempotency-key", "k-1"]
    answered = {"diff_id": "01M8", "inbox": "agent.tester", "seq": 3, "recipients": ["tester", "builder"]}
    with ScriptedServer(ok(answered)) as server:
        printed = fine(call(server, "publish", str(file), *words))
    assert printed == "Published to tester, builder (01M8).\n"
    assert asked(server) == [
        (
            "POST",
            "/v1/publish",
            {
                "type": "updated",
                "kind": "decision",
                "subject": "Blue-green",
                "text": "We switch.\n",
                "tags": ["api", "deploy"],
                "salience": 0.9,
                "to": {"agents": ["tester", "builder"]},
                "supersedes": "01OLD",
                "ttl_seconds": 30 * 86_400,
                "idempotency_key": "k-1",
            },
        )
    ]


def test_without_recipients_a_message_goes_to_everybody_who_is_interested() -> None:
    with ScriptedServer(*[ok(PUBLISHED)] * 3) as server:
        printed = fine(call(server, "publish", "-s", "Hi", "-t", "text"))
        fine(call(server, "publish", "-s", "Hi", "--to-inbox", "news", stdin="naïve".encode()))
        assert json.loads(fine(call(server, "publish", "-", "-s", "Hi", "--json", stdin=b""))) == PUBLISHED
    assert printed == "Published in commons as message 7 (01M8).\n"
    plain = {"type": "created", "kind": "note", "subject": "Hi"}
    assert [body for _, _, body in asked(server)] == [
        plain | {"text": "text"},
        plain | {"text": "naïve", "to": {"inbox": "news"}},
        plain | {"text": ""},
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("--text", "x"),
        ("-s", "x", "--text", "x", "--to", "a", "--to-inbox", "b"),
        ("-s", "x", "--text", "x", "file"),
        ("-s", "x", "--text", "x", "--kind", "webhook"),
        ("-s", "x", "--text", "x", "--type", "new"),
        ("-s", "x"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_published_asks_no_server(words: tuple[str, ...]) -> None:
    result = run("publish", *words, stdin=b"\xff", POSTROOM_TOKEN="token", POSTROOM_URL="http://127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (2, "")
