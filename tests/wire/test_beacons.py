"""Beacons over REST and MCP: placing, showing, testing and removing them, what they bring, and who learns of them."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from tests.virtual import pass_time
from tests.wire.client import Reply
from tests.wire.mail_scene import CLOSED, OPEN, Agent, mail_scene
from tests.wire.test_publishing import NOTE, ROUTED_SECONDS, items, published
from tests.wire.test_pulls import tool

ABOUT = {"about": "deployment failures of the api"}


async def place(agent: Agent, name: str = "ci", **fields: Any) -> Any:
    reply = await agent.call("PUT", f"/v1/beacons/{name}", fields or ABOUT)
    assert reply.status == 200, reply.body
    return reply.json


async def test_what_matches_a_beacon_comes_into_the_inbox_published_or_not(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, routing=True) as at:
        agent, sender = await at.agent(), await at.agent("sender")
        placed = await place(agent)
        assert list(placed) == ["name", "terms", "would_have_matched_7d", "backfilled"]
        assert placed["name"] == "ci"
        assert [list(term) for term in placed["terms"]] == [["term", "idf"]] * len(placed["terms"])
        await published(sender)
        await at.message(OPEN, b'{"text": "deployment of the api: 3 failures"}')
        await at.message(CLOSED, b'{"text": "deployment of the api: 3 failures"}')
        await published(sender, to={"agents": ["sender"]})
        found = sorted(await items(agent), key=lambda one: one["delivery_seq"])
        assert [item["diff"]["origin"]["inbox"] for item in found] == ["commons", OPEN]
        for item in found:
            assert item["delivery"]["via"] == "beacon:ci"
            assert item["delivery"]["matched_terms"]


async def test_beacons_are_placed_shown_listed_tested_and_removed_over_both(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, routing=True) as at:
        agent, other = await at.agent(), await at.agent("other")
        await at.message(OPEN, b'{"text": "deployment failures of the api"}')
        await at.message(CLOSED, b'{"text": "deployment failures of the api"}')
        tested = (await agent.call("POST", "/v1/beacons:test", ABOUT)).json
        [match] = tested["matches"]
        assert list(match) == ["inbox", "seq", "score", "matched_terms"]
        assert (match["inbox"], match["seq"]) == (OPEN, 1)
        assert (await tool(agent, "test_beacon", **ABOUT))["structuredContent"] == tested

        placed = await place(agent, **ABOUT, ttl_seconds=60, backfill=5)
        assert (placed["would_have_matched_7d"], placed["backfilled"]) == (1, 1)
        assert len(await items(agent)) == 1
        over_mcp = (await tool(agent, "place_beacon", name="all", inboxes=[OPEN]))["structuredContent"]
        assert (over_mcp["name"], over_mcp["terms"]) == ("all", [])
        named = (await agent.call("POST", "/v1/beacons:test", {"name": "ci"})).json
        assert named == tested

        listed = (await agent.call("GET", "/v1/beacons")).json
        assert (await tool(agent, "list_beacons"))["structuredContent"] == listed
        assert [one["name"] for one in listed["beacons"]] == ["all", "ci"]
        shown = (await agent.call("GET", "/v1/beacons/ci")).json
        assert shown == listed["beacons"][1]
        assert (shown["about"], shown["min_score"], shown["weight"]) == (ABOUT["about"], 0.45, 1.0)
        assert shown["expires_at"] > shown["placed_at"]
        assert listed["beacons"][0]["expires_at"] is None

        assert (await other.call("GET", "/v1/beacons")).json == {"beacons": []}
        for method, path in (("GET", "/v1/beacons/ci"), ("DELETE", "/v1/beacons/ci")):
            assert (await other.call(method, path)).code == "not_found"
        assert (await agent.call("DELETE", "/v1/beacons/ci")).status == 204
        assert (await agent.call("DELETE", "/v1/beacons/ci")).code == "not_found"
        for removed in (True, False):
            result = await tool(agent, "remove_beacon", name="all")
            assert result["structuredContent"] == {"name": "all", "removed": removed}


BEACONS = [
    ({"about": "x" * 2_001}, "about"),
    ({"about": "the and of"}, "about"),
    ({"min_score": 1.5}, "min_score"),
    ({"weight": -1}, "weight"),
    ({"kinds": ["spam"]}, "kinds"),
    ({"inboxes": ["A B"]}, "inboxes"),
    ({"backfill": 101}, "backfill"),
    ({"ttl_seconds": 0}, "ttl_seconds"),
    ({"name": "other"}, "name"),
    ({"salience": 1}, "salience"),
]


@pytest.mark.parametrize(("fields", "field"), BEACONS, ids=lambda one: str(one)[:40])
async def test_a_beacon_that_makes_no_sense_is_refused_by_name(
    fields: dict[str, Any], field: str, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        reply = await agent.call("PUT", "/v1/beacons/ci", fields)
        assert (reply.status, reply.code, reply.json["error"].get("field")) == (
            400,
            "invalid_argument",
            field,
        )
        assert (await agent.call("GET", "/v1/beacons")).json == {"beacons": []}


async def test_a_beacons_name_may_stand_in_the_body(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path) as at:
        agent = await at.agent()
        for path in ("/v1/beacons", "/v1/beacons/ci"):
            reply = await agent.call("PUT", path, {"name": "ci", **ABOUT})
            assert (reply.status, reply.json["name"]) == (200, "ci")
        reply = await agent.call("PUT", "/v1/beacons", ABOUT)
        assert (reply.code, reply.json["error"]["field"]) == ("invalid_argument", "name")
        reply = await agent.call("PUT", "/v1/beacons/No%20Name", ABOUT)
        assert (reply.code, reply.json["error"]["field"]) == ("invalid_argument", "name")


OPERATORS = [
    "NEAR({})",
    'NEAR("{}" 5)',
    '"{}"',
    "{}*",
    "^{}",
    "-{}",
    "+{}",
    "NOT {}",
    "(({}",
    "{} OR",
    "{} AND NOT",
    "subject:{}",
    "{{subject text}} : {}",
    "- subject : {}",
    "'; DROP TABLE beacon; -- {}",
]
"""Ways to write a word in the language of a full-text search."""

COLUMN = re.compile("subject|beacon")
"""Words of their own beside those operators, in a beacon like any others."""


async def test_operators_of_a_search_in_messages_and_beacons_change_nothing(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    words = ["deployment", "failures", "checkout"]
    async with mail_scene(tmp_path, routing=True) as at:
        agent, sender = await at.agent(), await at.agent("sender")
        abouts = [_spelled(words, operator) for operator in OPERATORS if not COLUMN.search(operator)]
        for number, about in enumerate([" ".join(words), *abouts]):
            placed = await place(agent, f"b{number}", about=about)
            assert [term["term"] for term in placed["terms"]] == words, about
        for some in (words, words[1:], words[:1]):
            for text in (" ".join(some), *[_spelled(some, operator) for operator in OPERATORS]):
                await published(sender, text=text, subject="", type="created")
                await at.message(OPEN, msgspec.json.encode({"text": text}))
        found = [item["delivery"] for item in await items(agent)]
        # All words, and two of them: enough, in every spelling. One of them: too little, in any.
        assert len(found) == 2 * 2 * (1 + len(OPERATORS))
        assert {(one["score"], *one["matched_terms"]) for one in found} == {(0.8, *words), (0.6, *words[1:])}
        assert {len(one["also_via"]) for one in found} == {len(abouts)}


def _spelled(words: list[str], operator: str) -> str:
    return " ".join(operator.format(word) for word in words)


# -- isolation -----------------------------------------------------------------------------------------


async def test_what_an_agent_is_told_is_the_same_whatever_another_one_has(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Two servers, equal but for agent b, which has mail and beacons on one of them: a is told the same on both.

    The beacons of b share some of the words of a's, each in another number, and none has the words of another.
    """
    alone, beside_b = [await _told_to_a(tmp_path, busy) for busy in (False, True)]
    assert [call for call, *_ in alone] == [call for call, *_ in beside_b]
    for one, other in zip(alone, beside_b, strict=True):
        assert one == other
    scores = {
        item["delivery"]["score"] for call, _, page in alone if "pull" in call for item in page["items"]
    }
    assert len(scores) > 2  # else there was little to compare


OF_A = {"ci": "deployment failures of the api", "db": "deployment of database migrations", "one": "rollback"}
OF_B = {
    "apps": "deployment of the mobile app",
    "payments": "failures of payments and deployment",
    "rollbacks": "rollback after deployment",
    "api": "api deprecations",
}
TEXTS = (
    "deployment of the api",
    "api failures",
    "the database after its deployment: failures",
    "rollback",
    "migrations of the database, deployment of the api, failures",
)


async def _told_to_a(tmp_path: Path, busy: bool) -> list[tuple[str, int, Any]]:
    async with mail_scene(tmp_path, routing=True) as at:
        a, b = await at.agent("a"), await at.agent("b", inboxes=(OPEN, CLOSED))
        sender = await at.agent("sender")
        if busy:
            for name, about in OF_B.items():
                await place(b, name, about=about)
            flood = [await at.message(CLOSED, b'{"text": "kubernetes rollback"}') for _ in range(60)]
            await at.deliver(b, *flood[:3])
        told: list[tuple[str, int, Any]] = []

        async def tell(method: str, path: str, body: Any = None) -> None:
            reply = await a.call(method, path, body)
            told.append((f"{method} {path} {body}", reply.status, _without_ids(reply)))

        for name, about in OF_A.items():
            await tell("PUT", f"/v1/beacons/{name}", {"about": about})
        for text in TEXTS:
            await published(sender, text=text)
            await at.message(OPEN, msgspec.json.encode({"text": text}))
        await pass_time(ROUTED_SECONDS)
        await tell("POST", "/v1/inbox:pull", {"since": 0})
        for to in ({}, {"to": {"agents": ["b"]}}, {"to": {"inbox": CLOSED}}):
            await tell("POST", "/v1/publish", {**NOTE, **to})
        if busy:  # and what b does later changes nothing of what a has
            await place(b, "late", about="api failures, database migrations, rollback")
        for method, path, body in _calls_of_a():
            await tell(method, path, body)
        return told


def _calls_of_a() -> list[tuple[str, str, Any]]:
    of_b = "/v1/inboxes/agent.b"
    refused = ("the", "event", "kubernetes", "x" * 2_001)
    return [
        ("GET", f"{of_b}/messages", None),
        ("GET", f"{of_b}/messages/1", None),
        ("GET", f"{of_b}/wait?after=0&timeout_seconds=0", None),
        ("GET", f"{of_b}/stream", None),
        ("GET", "/v1/beacons/apps", None),
        ("DELETE", "/v1/beacons/apps", None),
        ("GET", "/v1/beacons/ci", None),
        ("GET", "/v1/beacons", None),
        *[("POST", "/v1/beacons:test", {"about": about}) for about in (*OF_A.values(), *OF_B.values())],
        ("POST", "/v1/beacons:test", {"name": "db"}),
        ("PUT", "/v1/beacons/ci", {**ABOUT, "backfill": 9}),
        *[("PUT", "/v1/beacons/new", {"about": about}) for about in refused],
        ("GET", "/v1/inboxes", None),
        ("POST", "/v1/inbox:pull", {}),
        ("GET", "/v1/inbox", None),
    ]


def _without_ids(reply: Reply) -> Any:
    """Return an answer without what is different on every server: ids and times."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: None if _is_its_own(name) else plain(one) for name, one in value.items()}
        return [plain(one) for one in value] if isinstance(value, list) else value

    return plain(msgspec.json.decode(reply.body)) if reply.body else None


def _is_its_own(name: str) -> bool:
    return name in ("diff_id", "epoch", "last_seen") or name.endswith("_at")
