"""What `postroom watch` asks a server: looks that leave no mark, and a stream for whoever may open one."""

import json
from typing import Any

import pytest

from postroom.client import Client, ClientError, Refused, Unreachable
from postroom.following import Ended
from postroom.news import HOW_TO_PULL, HOW_TO_READ, Look
from postroom.watch_eyes import LEAST_RENEWAL_SECONDS, UNKNOWN_RENEWAL_SECONDS, Eyes
from tests.postroom.drained import Letter, item, page
from tests.postroom.scriptedserver import ScriptedServer, answer, event, events
from tests.postroom.test_cli_agents import asked, ok
from tests.postroom.test_cli_mesh import MACHINE_S, ME, letter, mail, refused

PEEK = ("GET", "/agent/inbox?agent_id=planner&limit=100&peek=true&background=true", None)
FORBIDDEN = refused("permission_denied", "403 Forbidden")


def eyes(server: ScriptedServer, agent_id: str | None = None) -> Eyes:
    return Eyes(Client(server.url, "token"), agent_id)


def test_an_agent_s_own_token_peeks_in_the_background_and_has_a_stream() -> None:
    with ScriptedServer(ok(ME), mail(), mail(letter("01A"), letter("01B"), unread=7)) as server:
        mine = eyes(server)
        assert (mine.agent_id, mine.has_stream, mine.how) == ("planner", True, HOW_TO_READ)
        assert mine.look() == Look(7, frozenset({"01A", "01B"}))
    assert asked(server) == [("GET", "/v1/me", None), PEEK, PEEK]


def test_a_machine_s_token_peeks_for_the_agent_that_is_named_and_has_none() -> None:
    with ScriptedServer(ok(MACHINE_S), mail()) as server:
        assert eyes(server, "planner").has_stream is False
    assert asked(server)[1] == PEEK


def test_an_agent_without_a_machine_pulls_without_acknowledging() -> None:
    one, two = item(Letter(8, "01A", 0.5)), item(Letter(9, "01B", 0.5))
    pages = page([], 0, 4, has_more=True), page([one, two], 0, 9), page([one], 0, 8, has_more=True)
    with ScriptedServer(ok(ME), FORBIDDEN, answer(page([], 0, 0)), *map(answer, pages)) as server:
        mine = eyes(server)
        assert mine.how == HOW_TO_PULL
        assert mine.look() == Look(2, frozenset({"01A", "01B"}))
        assert mine.look() == Look(1, frozenset({"01A"}), is_all=False)
    assert [body for _, target, body in asked(server) if target == "/v1/inbox:pull"] == [
        {"limit": 100},
        {"limit": 100},
        {"since": 4, "limit": 100},
        {"limit": 100},
    ]


@pytest.mark.parametrize(("me", "agent_id"), [(MACHINE_S, "spy"), (ME, "spy")], ids=["machine", "agent"])
def test_whoever_is_refused_as_somebody_else_does_not_pull(me: dict[str, Any], agent_id: str) -> None:
    with ScriptedServer(ok(me), FORBIDDEN) as server, pytest.raises(Refused):
        eyes(server, agent_id)


def test_a_token_of_many_agents_must_say_which() -> None:
    with ScriptedServer(ok(MACHINE_S)) as server, pytest.raises(ClientError, match="--agent"):
        eyes(server)


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (event("bye", '{"reason": "shutdown"}'), Unreachable),
        (event("bye", '{"reason": "revoked"}'), Ended),
        (event("bye", '{"reason": "inbox_deleted"}'), Ended),
        (event("bye", "[]"), Unreachable),
        ("", None),
    ],
    ids=["shutdown", "revoked", "deleted", "odd", "end"],
)
def test_a_stream_rings_when_it_opens_and_for_all_that_comes(last: str, error: type | None) -> None:
    told = event("message", json.dumps(letter()), "e:1")
    rung: list[None] = []
    with ScriptedServer(ok(ME), mail(), events(told, told, last)) as server:
        mine = eyes(server)
        if error is None:
            mine.listen(lambda: rung.append(None))
        else:
            with pytest.raises(error) as raised:
                mine.listen(lambda: rung.append(None))
            assert raised.type is error
    assert len(rung) == 3
    assert asked(server)[2][1] == "/v1/inbox:stream"


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ({"last_activity_at": "2026-11-30T20:00:00.5Z", "expires_at": "2026-11-30T20:05:00.5Z"}, 100.0),
        ({"last_activity_at": "2026-11-30T20:00:00Z", "expires_at": "2026-11-30T20:00:15Z"}, LEAST_RENEWAL_SECONDS),
        ({"last_activity_at": None, "expires_at": None}, UNKNOWN_RENEWAL_SECONDS),
        ({"agent_id": "other"}, UNKNOWN_RENEWAL_SECONDS),
    ],
)  # fmt: skip
def test_presence_is_renewed_in_time(line: dict[str, Any], seconds: float) -> None:
    roster = {"agents": [{"agent_id": "planner"} | line]}
    with ScriptedServer(ok(ME), mail(), ok(roster)) as server:
        assert eyes(server).renew() == seconds
    assert asked(server)[2] == ("GET", "/agents?include_stale=true&agent_id=planner", None)
