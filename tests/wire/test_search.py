"""Searching over HTTP: what is found, page by page, who may search what, and what a question cannot do."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import trio.testing

from actors import indexing
from storage.records import InboxRecord
from storage.search_records import SearchPage, SearchQuery
from tests.actors.test_indexing import switch
from tests.contract.conftest import opens
from tests.virtual import pass_time
from tests.wire.client import Reply
from tests.wire.harness import Wire, wire
from tests.wire.mail_scene import CLOSED, OPEN, Agent, MailScene, mail_scene, webhook
from tests.wire.scene import LIMIT_SECONDS

INDEXED_SECONDS = 1.0
HOSTILE = (
    '"',
    '" OR "a',
    "a OR b",
    "a AND",
    "NOT",
    "NEAR(a b)",
    "NEAR/2",
    "words:a",
    "search_words:a",
    "{words}:a",
    "^a",
    "a + b",
    "(a",
    "a)",
    "*",
    "a**",
    "-",
    "--",
    "a; DROP TABLE message",
    "a' OR '1'='1",
    "1:0:a",
    "a\0b",
    "a\\",
    "\u202e\u0301",
    "💥 a",
    "a" * 500,
    " ".join("abcdefghijklmnopqrstuvwxyz"),
)


class Searcher:
    """A server with one searched inbox, and a token that reads it."""

    def __init__(self, served: Wire, inbox: InboxRecord, token: tuple[str, str]) -> None:
        self.served = served
        self.inbox = inbox
        self.headers = [token]

    async def send(self, *bodies: Any, event_type: str = "push") -> None:
        """Append messages and let them be indexed."""
        for body in bodies:
            said = webhook(msgspec.json.encode(body), event_type)
            await self.served.service.append(self.inbox, said)
        await pass_time(INDEXED_SECONDS)

    async def search(self, q: str, slug: str = "demo", **params: Any) -> Reply:
        given = "".join(f"&{name}={value}" for name, value in params.items())
        async with self.served.connect() as client:
            target = f"/v1/inboxes/{slug}/search?q={quote(q)}{given}"
            return await client.request("GET", target, self.headers)

    async def found(self, q: str, **params: Any) -> list[int]:
        reply = await self.search(q, **params)
        assert reply.status == 200, reply.body
        return seqs(reply.json)


def seqs(page: Any) -> list[int]:
    return [message["seq"] for message in page["messages"]]


@asynccontextmanager
async def searcher(tmp_path: Path, **options: Any) -> AsyncIterator[Searcher]:
    with trio.fail_after(LIMIT_SECONDS):
        async with wire(tmp_path, reading=True, indexing=True, **options) as served:
            inbox = await served.inbox(search=True)
            yield Searcher(served, inbox, await served.token("agent", ["demo", "plain", "absent"]))


async def test_what_was_sent_is_found_as_a_page_shows_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with searcher(tmp_path) as at:
        await at.send({"order": 1042, "note": "Red apples"}, {"order": 7, "note": "Green\npears"})
        reply = await at.search("apples")
        async with at.served.connect() as client:
            page = await client.request("GET", "/v1/inboxes/demo/messages?before=2", at.headers)
        assert reply.json["messages"] == page.json["messages"]
        assert reply.header("content-type") == "application/json"
        rest = {name: value for name, value in reply.json.items() if name != "messages"}
        assert rest == {
            "latest_seq": 2,
            "epoch": page.json["epoch"],
            "next_before": None,
            "indexed_seq": 2,
        }
        assert await at.found("order") == [2, 1]
        assert await at.found('"green pears"') == [2]
        assert await at.found("1042 -pears") == [1]
        assert await at.found("order appl*") == [1]
        assert await at.found("push") == [2, 1]
        assert await at.found("hook") == []  # the path
        assert await at.found("nothing-of-the-kind") == []


async def test_a_body_in_another_character_set_is_found(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with searcher(tmp_path) as at:
        for text, charset in (
            ("Crème brûlée", "iso-8859-1"),
            ("Łódź", "windows-1250"),
            ("請求書", "shift_jis"),
        ):
            async with at.served.connect() as client:
                kind = ("Content-Type", f"text/plain; charset={charset}")
                assert (await client.request("POST", "/in/demo", [kind], text.encode(charset))).status == 200
        await pass_time(INDEXED_SECONDS)
        assert await at.found("creme brulee") == [1]
        assert await at.found("lodz") == await at.found("Łódź") == [2]
        assert await at.found("請求") == [3]


async def test_pages_go_down_to_the_oldest(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with searcher(tmp_path) as at:
        await at.send(*(["all", "odd"] if n % 2 else ["all"] for n in range(1, 31)))
        read: list[list[int]] = []
        params: dict[str, int] = {"limit": 6}
        while True:
            page = (await at.search("odd", **params)).json
            read.append(seqs(page))
            if page["next_before"] is None:
                break
            params["before"] = page["next_before"]
        assert read == [[29, 27, 25, 23, 21, 19], [17, 15, 13, 11, 9, 7], [5, 3, 1]]
        assert await at.found("odd", limit=100) == list(range(29, 0, -2))
        assert len(await at.found("all")) == 20


async def test_a_page_is_cut_by_its_size_and_goes_on_where_it_was_cut(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with searcher(tmp_path, page_bytes=1_500) as at:
        await at.send(*["word"] * 10)
        read: list[int] = []
        params: dict[str, int] = {}
        pages = 0
        while True:
            reply = await at.search("word", **params)
            assert len(reply.body) <= 1_500
            pages += 1
            read += seqs(reply.json)
            if reply.json["next_before"] is None:
                break
            params["before"] = reply.json["next_before"]
        assert read == list(range(10, 0, -1))
        assert 3 <= pages <= 6
    async with searcher(tmp_path, page_bytes=1) as at:
        await at.send("word", "word")
        page = (await at.search("word")).json
        assert (seqs(page), page["next_before"]) == ([2], 2)


async def test_a_look_that_found_nothing_yet_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async with searcher(tmp_path) as at:
        await at.send("needle", *["hay"] * 9)
        asked: list[int | None] = []
        whole = at.served.service.search

        async def in_steps(query: SearchQuery) -> SearchPage:
            """Look at three messages at a time, as the store does when its time is up."""
            asked.append(query.before)
            low = max(1, (query.before or 11) - 3)
            page = await whole(query)
            rows = [row for row in page.rows if row.seq >= low]
            return SearchPage(page.head, rows, low if low > 1 else None, page.indexed_seq)

        monkeypatch.setattr(at.served.service, "search", in_steps)
        assert await at.found("needle") == [1]
        assert asked == [None, 8, 5, 2]
        page = (await at.search("hay")).json
        assert (seqs(page), page["next_before"]) == ([10, 9, 8], 8)


async def test_what_is_not_indexed_yet_is_not_found_and_said(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with searcher(tmp_path) as at:
        await at.send("word")
        at.served.world.registry.on_mail = lambda inbox_id: None
        await at.send("word")
        page = (await at.search("word")).json
        assert (seqs(page), page["latest_seq"], page["indexed_seq"]) == ([1], 2, 1)
        await pass_time(indexing.ROUND_SECONDS)
        assert await at.found("word") == [2, 1]


async def test_search_that_is_off_is_a_conflict(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with searcher(tmp_path) as at:
        await at.served.inbox("plain")
        await at.send("word")
        reply = await at.search("word", slug="plain")
        assert (reply.status, reply.code) == (409, "conflict")
        await switch(at.served.world, at.inbox.inbox_id, on=False)
        assert (await at.search("word")).status == 409
        await switch(at.served.world, at.inbox.inbox_id, on=True)
        await pass_time(INDEXED_SECONDS)
        assert await at.found("word") == [1]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_no_question_is_a_fault_or_reads_beyond_its_words(kind: str, tmp_path: Path) -> None:
    """Over SQLite on the real clock; what a question means is the same over either store."""
    async with opens(kind, tmp_path)() as store, searcher(tmp_path, store=store) as at:
        await at.send("harmless", "a b c")
        with trio.fail_after(20):
            while (await at.search("harmless")).json["indexed_seq"] < 2:
                await pass_time(0.02)
        for q in HOSTILE:
            reply = await at.search(q)
            if reply.status == 200:
                assert set(seqs(reply.json)) <= {2}, q
            else:
                assert (reply.status, reply.code, reply.json["error"]["field"]) == (
                    400,
                    "invalid_argument",
                    "q",
                )
        assert await at.found("harmless") == [1]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "q"),
        ("q=", "q"),
        ("q=%20", "q"),
        ("q=-a", "q"),
        ("q=" + "a" * 501, "q"),
        ("q=" + "+".join(f"w{n}" for n in range(33)), "q"),
        ("q=a&q=b", "q"),
        ("q=%ff", "q"),
        ("q=a&limit=0", "limit"),
        ("q=a&limit=101", "limit"),
        ("q=a&before=0", "before"),
        ("q=a&before=x", "before"),
        ("q=a&after=1", "after"),
        ("q=a&bodies=true", "bodies"),
        ("q=a&inbox=other", "inbox"),
    ],
)
async def test_a_wrong_parameter_is_named(
    query: str, field: str, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with searcher(tmp_path) as at, at.served.connect() as client:
        reply = await client.request("GET", f"/v1/inboxes/demo/search?{query}", at.headers)
        assert (reply.status, reply.code, reply.json["error"]["field"]) == (400, "invalid_argument", field)


async def test_only_a_reader_of_the_inbox_may_search_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with searcher(tmp_path) as at:
        await at.served.inbox("theirs", search=True)
        await at.send("word")
        forbidden, absent = [await at.search("word", slug=slug) for slug in ("theirs", "absent")]
        assert (forbidden.status, forbidden.body) == (absent.status, absent.body)
        assert forbidden.status == 404
        at.headers = [await at.served.token("admin")]
        assert await at.found("word") == [1]
        assert await at.found("word", slug="theirs") == []
        at.headers = []
        assert (await at.search("word")).status == 401


# -- private inboxes -------------------------------------------------------------------------------------


async def search_own(agent: Agent, q: str, **params: Any) -> Any:
    own = f"agent.{agent.record.agent_id}"
    given = "".join(f"&{name}={value}" for name, value in params.items())
    reply = await agent.call("GET", f"/v1/inboxes/{own}/search?q={quote(q)}{given}")
    assert reply.status == 200, reply.body
    return reply.json


async def delivered(at: MailScene, agent: Agent, slugs: Sequence[str]) -> None:
    for slug in slugs:
        await at.deliver(agent, await at.message(slug, b'{"say": "build of %s"}' % slug.encode()))


async def test_an_agent_finds_in_its_own_inbox_what_it_may_see_there(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, indexing=True) as at:
        agent, other = await at.agent("me"), await at.agent("you")
        await switch(at.world, agent.record.inbox_id, on=True)
        await delivered(at, agent, [OPEN, CLOSED, OPEN, CLOSED])
        note = {
            "type": "created",
            "kind": "note",
            "subject": "news",
            "text": "build of mine",
            "to": {"agents": ["me"]},
        }
        assert (await other.call("POST", "/v1/publish", note)).status < 300
        await pass_time(INDEXED_SECONDS)
        assert seqs(await search_own(agent, "build")) == [5, 3, 1]
        assert seqs(await search_own(agent, "closed")) == []
        await agent.rescope(CLOSED)
        assert seqs(await search_own(agent, "build")) == [5, 4, 2]
        reply = await other.call("GET", "/v1/inboxes/agent.me/search?q=build")
        assert reply.status == 404


async def test_pages_of_which_nothing_may_be_seen_are_read_on_from(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, indexing=True) as at:
        agent = await at.agent("me")
        await switch(at.world, agent.record.inbox_id, on=True)
        await delivered(at, agent, [OPEN, *[CLOSED] * 7, OPEN, *[CLOSED] * 3])
        await pass_time(INDEXED_SECONDS)
        read: list[int] = []
        params: dict[str, int] = {"limit": 2}
        while True:
            page = await search_own(agent, "build", **params)
            read += seqs(page)
            if page["next_before"] is None:
                break
            assert page["messages"]
            params["before"] = page["next_before"]
        assert read == [9, 1]


async def test_a_search_says_nothing_of_words_in_messages_that_the_caller_may_not_see(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mail_scene(tmp_path, indexing=True) as at:
        agent = await at.agent("me")
        await switch(at.world, agent.record.inbox_id, on=True)
        for slug, text in (
            (CLOSED, "swordfish"),
            (OPEN, "swordfish marlin"),
            (OPEN, "swordfish"),
            (CLOSED, "swordfish"),
        ):
            await at.deliver(agent, await at.message(slug, b'{"say": "%s"}' % text.encode()))
        await pass_time(INDEXED_SECONDS)
        assert seqs(await search_own(agent, "swordfish", limit=5)) == [3, 2]
        first = await search_own(agent, "swordfish", limit=1)
        assert (seqs(first), first["next_before"]) == ([3], 3), "another one is there that it may see"
        for q in ("swordfish", "sw*", "marlin"):  # the first two are in a hidden one as well
            last = await search_own(agent, q, limit=1, before=3)
            assert (seqs(last), last["next_before"]) == ([2], None)
