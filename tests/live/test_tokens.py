"""Tokens over REST: made, listed, changed, revoked, expired; a change is in force for the next call.

Black-box: written from section 5 of the surface, over real sockets.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.live.api import Api, error_of

FAR = "2999-01-01T00:00:00.000000Z"


def test_a_tokens_text_is_shown_once(api: Api) -> None:
    slug = api.inbox()
    made = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": [slug], "name": "reader"}, status=201)
    assert made["token"].startswith("prm_agent_")
    assert len(made["token"]) >= len("prm_agent_") + 43, "256 random bits in base 64"
    assert (made["kind"], made["inboxes"], made["name"]) == ("agent", [slug], "reader")
    listed = find(api, made["token_id"])
    assert "token" not in listed
    assert made["token"] not in api.call("GET", "/tokens").text
    assert "hash" not in listed


def test_me_says_what_a_token_is_and_may(api: Api) -> None:
    slug = api.inbox()
    agent = api.as_(api.agent([slug], name="reader", expires_at=FAR))
    me = agent.get("/me")
    assert (me["kind"], me["inboxes"], me["name"], me["expires_at"]) == ("agent", [slug], "reader", FAR)
    assert "token" not in me
    assert api.as_(api.agent("all")).get("/me")["inboxes"] == "all"
    admin = api.get("/me")
    assert (admin["kind"], admin["inboxes"]) == ("admin", "all")


def test_an_expiry_that_cannot_be_written_makes_no_token(api: Api) -> None:
    for expires_at in ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"):
        body = {"kind": "agent", "inboxes": ["some"], "expires_at": expires_at}
        assert api.refused("POST", "/tokens", body) == (400, "invalid_argument", "expires_at")
    api.get("/tokens")


def test_following_the_list_of_tokens_visits_each_once_without_the_revoked(api: Api) -> None:
    made = [api.ok("POST", "/tokens", {"kind": "agent", "inboxes": ["some"]}, status=201) for _ in range(7)]
    api.call("DELETE", f"/tokens/{made[3]['token_id']}").raise_for_status()
    found: list[str] = []
    page = api.get("/tokens", limit=2)
    while True:
        assert len(page["tokens"]) <= 2
        found += [token["token_id"] for token in page["tokens"]]
        if not page.get("truncated"):
            break
        page = api.get("/tokens", limit=2, after=page["next_after"])
    assert len(found) == len(set(found))
    assert {token["token_id"] for token in made} - set(found) == {made[3]["token_id"]}


def test_a_change_of_scope_is_in_force_for_the_next_call(api: Api) -> None:
    one, two = api.inbox(), api.inbox()
    made = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": [one]}, status=201)
    agent = api.as_(made["token"])
    assert agent.call("GET", f"/inboxes/{two}/messages").status_code == 404
    changed = api.ok("PATCH", f"/tokens/{made['token_id']}", {"inboxes": [two], "name": "moved"})
    assert (changed["inboxes"], changed["name"], "token" in changed) == ([two], "moved", False)
    assert agent.call("GET", f"/inboxes/{two}/messages").status_code == 200
    assert agent.call("GET", f"/inboxes/{one}/messages").status_code == 404
    api.ok("PATCH", f"/tokens/{made['token_id']}", {"inboxes": "all"})
    assert agent.call("GET", f"/inboxes/{one}/messages").status_code == 200
    reset = api.ok("PATCH", f"/tokens/{made['token_id']}", {"name": None, "inboxes": [one]})
    assert (reset["name"], reset["inboxes"]) == (None, [one])


def test_a_revoked_token_fails_on_the_next_call(api: Api) -> None:
    made = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": "all"}, status=201)
    agent = api.as_(made["token"])
    assert agent.call("GET", "/me").status_code == 200
    answer = api.call("DELETE", f"/tokens/{made['token_id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert agent.refused("GET", "/me")[:2] == (401, "unauthenticated")
    for method, body in (("DELETE", None), ("PATCH", {"name": "x"})):
        assert api.refused(method, f"/tokens/{made['token_id']}", body)[:2] == (404, "not_found")


def test_a_token_fails_from_the_moment_it_expires(api: Api) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    agent = api.as_(api.agent("all", expires_at=soon.isoformat().replace("+00:00", "Z")))
    answer = agent.call("GET", "/me")
    while answer.status_code == 200:
        assert datetime.now(UTC) < soon + timedelta(seconds=5), "it should have expired by now"
        answer = agent.call("GET", "/me")
    assert datetime.now(UTC) >= soon
    assert error_of(answer)[:2] == (401, "unauthenticated")


def test_an_expiry_can_be_moved_and_taken_away(api: Api) -> None:
    made = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": ["some"], "expires_at": FAR}, status=201)
    assert made["expires_at"] == FAR
    assert api.ok("PATCH", f"/tokens/{made['token_id']}", {"expires_at": None})["expires_at"] is None
    moved = api.ok("PATCH", f"/tokens/{made['token_id']}", {"expires_at": "2999-01-01T02:00:00+02:00"})
    assert moved["expires_at"] == FAR


def test_the_last_admin_token_cannot_be_revoked(fresh: Api) -> None:
    own = fresh.get("/me")["token_id"]
    assert fresh.refused("DELETE", f"/tokens/{own}")[:2] == (409, "conflict")
    fresh.ok("POST", "/tokens", {"kind": "admin", "expires_at": FAR}, status=201)
    assert fresh.refused("DELETE", f"/tokens/{own}")[:2] == (409, "conflict"), "that one will expire"
    assert fresh.refused("PATCH", f"/tokens/{own}", {"expires_at": FAR})[:2] == (409, "conflict")
    other = fresh.ok("POST", "/tokens", {"kind": "admin"}, status=201)
    successor = fresh.as_(other["token"])
    assert successor.call("DELETE", f"/tokens/{own}").status_code == 204
    assert fresh.refused("GET", "/me")[0] == 401
    assert successor.refused("DELETE", f"/tokens/{other['token_id']}")[:2] == (409, "conflict")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "kind"),
        ({"kind": "root"}, "kind"),
        ({"kind": "agent", "inboxes": "some"}, "inboxes"),
        ({"kind": "agent", "inboxes": ["Not a slug"]}, "inboxes"),
        ({"kind": "agent"}, "inboxes"),
        ({"kind": "admin", "inboxes": ["a"]}, "inboxes"),
        ({"kind": "agent", "inboxes": ["some"], "expires_at": "tomorrow"}, "expires_at"),
        ({"kind": "agent", "inboxes": ["some"], "name": "Not A Name"}, "name"),
        ({"kind": "agent", "inboxes": ["some"], "scope": "all"}, "scope"),
        ({"kind": "agent", "inboxes": ["some"], "token": "prm_agent_mine"}, "token"),
    ],
)
def test_a_wrong_token_is_refused_by_name(api: Api, body: dict[str, Any], field: str) -> None:
    assert api.refused("POST", "/tokens", body) == (400, "invalid_argument", field)


@pytest.mark.parametrize("field", ["kind", "token_id", "agent", "machine", "nothing"])
def test_a_tokens_fixed_members_cannot_be_changed(api: Api, field: str) -> None:
    made = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": ["some"]}, status=201)
    assert api.refused("PATCH", f"/tokens/{made['token_id']}", {field: "x"}) == (
        400,
        "invalid_argument",
        field,
    )


def find(api: Api, token_id: str) -> Any:
    """Return one token as the list shows it."""
    page = api.get("/tokens")
    while True:
        for token in page["tokens"]:
            if token["token_id"] == token_id:
                return token
        page = api.get("/tokens", after=page["next_after"])
