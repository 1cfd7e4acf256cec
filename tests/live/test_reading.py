"""Reading over REST, as a client sees it: cursors that never lie, lives and gaps, filters, and the list of inboxes.

Black-box: written from section 5 of the surface and from the inlet contract, over real sockets.
"""

import re
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.live.api import Api, only, seqs
from tests.live.harness import Server

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

# -- following a cursor ----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 5, 7, 100])
def test_following_next_after_visits_every_message_once_in_order(api: Api, ten: str, limit: int) -> None:
    pages = list(api.forward(ten, limit=limit))
    assert [seq for page in pages for seq in seqs(page)] == list(range(1, 11))
    assert all(len(page["messages"]) <= limit for page in pages)
    assert {page["latest_seq"] for page in pages} == {10}
    assert {page["gap"] for page in pages} == {False}
    assert pages[-1]["next_after"] == 10


@pytest.mark.parametrize("limit", [1, 2, 5, 7, 100])
def test_following_next_before_visits_every_message_once_newest_first(api: Api, ten: str, limit: int) -> None:
    pages = list(api.backward(ten, limit=limit))
    assert [seq for page in pages for seq in seqs(page)] == list(range(10, 0, -1))
    assert [page["next_before"] for page in pages][-1] is None
    assert all(page["messages"] for page in pages), "null comes with the oldest message, not one page later"
    assert "next_after" not in pages[0]
    assert "gap" not in pages[0]


def test_without_a_cursor_the_newest_twenty_come_newest_first(api: Api) -> None:
    slug = api.inbox()
    for _ in range(23):
        api.send(slug)
    page = api.messages(slug)
    assert seqs(page) == list(range(23, 3, -1))
    assert page["next_before"] == 4
    assert seqs(api.messages(slug, before=4)) == [3, 2, 1]


def test_messages_that_arrive_between_two_pages_are_neither_skipped_nor_repeated(api: Api, ten: str) -> None:
    first = api.messages(ten, after=0, limit=6)
    api.send(ten)
    second = api.messages(ten, after=first["next_after"], limit=6)
    assert seqs(first) + seqs(second) == list(range(1, 12))


def test_an_empty_inbox_still_answers_with_its_cursor(api: Api) -> None:
    slug = api.inbox()
    page = api.messages(slug, after=0)
    listed = only(api, slug)
    assert page == {"messages": [], "latest_seq": 0, "epoch": listed["epoch"], "gap": False, "next_after": 0}
    assert api.messages(slug) == {
        "messages": [],
        "latest_seq": 0,
        "epoch": page["epoch"],
        "next_before": None,
    }
    assert (listed["first_seq"], listed["latest_seq"]) == (1, 0)


def test_a_reader_that_is_up_to_date_gets_its_cursor_back(api: Api, ten: str) -> None:
    page = api.messages(ten, after=10)
    assert (page["messages"], page["next_after"], page["gap"]) == ([], 10, False)


def test_received_at_is_strictly_increasing_within_an_inbox(api: Api, ten: str) -> None:
    times = [message["received_at"] for message in api.messages(ten, after=0)["messages"]]
    assert all(TIME.fullmatch(time) for time in times)
    assert all(earlier < later for earlier, later in pairwise(times))


# -- gaps, lives, and cursors from elsewhere -------------------------------------------------------


@pytest.mark.parametrize(("after", "gap"), [(0, False), (1, True), (3, True), (4, True), (5, False)])
def test_a_reader_behind_a_purge_is_told_of_the_gap(api: Api, after: int, gap: bool) -> None:
    slug = api.inbox()
    for _ in range(5):
        api.send(slug)
    api.call("POST", f"/inboxes/{slug}:purge").raise_for_status()
    api.send(slug)
    page = api.messages(slug, after=after)
    assert (seqs(page), page["gap"], page["next_after"]) == ([6], gap, 6)


def test_a_purged_inbox_keeps_its_counter(api: Api, ten: str) -> None:
    api.call("POST", f"/inboxes/{ten}:purge").raise_for_status()
    listed = only(api, ten)
    assert (listed["first_seq"], listed["latest_seq"]) == (11, 10)
    assert api.messages(ten)["messages"] == []
    assert api.messages(ten, after=2) == {
        "messages": [],
        "latest_seq": 10,
        "epoch": listed["epoch"],
        "gap": True,
        "next_after": 10,
    }
    assert api.refused("GET", f"/inboxes/{ten}/messages/3")[:2] == (404, "not_found")
    assert api.send(ten) == 11


def test_a_cursor_ahead_of_the_inbox_is_refused(api: Api, ten: str) -> None:
    assert api.refused("GET", f"/inboxes/{ten}/messages?after=11")[:2] == (409, "cursor_ahead")
    assert api.messages(ten, before=1000)["latest_seq"] == 10, "a backward cursor may lie anywhere"


def test_another_lifes_epoch_is_refused_before_the_cursor_is_looked_at(api: Api, ten: str) -> None:
    for path in ("/messages?after=11&epoch=other", "/messages?epoch=other", "/messages/1?epoch=other"):
        assert api.refused("GET", f"/inboxes/{ten}{path}")[:2] == (409, "epoch_changed"), path
    assert api.refused("GET", f"/inboxes/{ten}/messages/1/raw?epoch=other")[:2] == (409, "epoch_changed")
    assert api.refused("GET", f"/inboxes/{ten}/messages/99?epoch=other")[:2] == (409, "epoch_changed")


def test_the_current_epoch_is_accepted_everywhere(api: Api, ten: str) -> None:
    epoch = api.messages(ten)["epoch"]
    assert seqs(api.messages(ten, after=8, epoch=epoch)) == [9, 10]
    assert api.message(ten, 3, epoch=epoch)["epoch"] == epoch
    assert api.call("GET", f"/inboxes/{ten}/messages/3/raw?epoch={epoch}").status_code == 200
    assert only(api, ten)["epoch"] == epoch


def test_an_inbox_made_again_under_its_slug_has_another_epoch(api: Api, ten: str) -> None:
    old = api.messages(ten)["epoch"]
    assert api.call("DELETE", f"/inboxes/{ten}").status_code == 204
    assert api.refused("GET", f"/inboxes/{ten}/messages")[:2] == (404, "not_found")
    assert api.post(ten).status_code == 404
    api.inbox(slug=ten)
    page = api.messages(ten, after=0)
    assert (page["messages"], page["latest_seq"], page["gap"]) == ([], 0, False)
    assert page["epoch"] != old
    assert api.send(ten) == 1
    assert api.refused("GET", f"/inboxes/{ten}/messages?after=10&epoch={old}")[1] == "epoch_changed"
    assert api.refused("GET", f"/inboxes/{ten}/messages/1?epoch={old}")[1] == "epoch_changed"


def test_an_erased_message_is_shown_nowhere_and_its_number_is_not_used_again(api: Api) -> None:
    slug = api.inbox()
    for n in range(4):
        api.send(slug, b"%d" % n)
    for seq in (2, 4):
        assert api.call("DELETE", f"/inboxes/{slug}/messages/{seq}").status_code == 204
    assert [seqs(page) for page in api.forward(slug)] == [[1, 3], []]
    assert [seqs(page) for page in api.backward(slug)] == [[3, 1]]
    page = api.messages(slug, after=1)
    assert (seqs(page), page["gap"], page["next_after"], page["latest_seq"]) == ([3], False, 4, 4)
    for path in ("", "/raw"):
        assert api.refused("GET", f"/inboxes/{slug}/messages/2{path}")[:2] == (404, "not_found")
    assert api.refused("DELETE", f"/inboxes/{slug}/messages/2")[:2] == (404, "not_found")
    assert api.send(slug) == 5


# -- filters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"types": ["push"]}, [1, 3, 5]),
        ({"types": ["push", "issues"]}, [1, 3, 4, 5]),
        ({"types": ["issues"], "verified": True}, [4]),
        ({"types": ["nothing"]}, []),
        ({"types": ["Push"]}, []),
        ({"verified": True}, [1, 3, 4, 6]),
        ({"verified": False}, [2, 5]),
        ({"verified": False, "types": ["push"]}, [5]),
    ],
)
def test_filters_choose_messages_in_both_directions(
    api: Api, mixed: str, wanted: dict[str, Any], found: list[int]
) -> None:
    assert seqs(api.messages(mixed, after=0, **wanted)) == found
    assert seqs(api.messages(mixed, **wanted)) == found[::-1]
    for limit in (1, 2):
        forward = [seq for page in api.forward(mixed, limit=limit, **wanted) for seq in seqs(page)]
        backward = [seq for page in api.backward(mixed, limit=limit, **wanted) for seq in seqs(page)]
        assert (forward, backward) == (found, found[::-1])


def test_next_after_moves_past_what_a_filter_skipped(api: Api, mixed: str) -> None:
    page = api.messages(mixed, after=0, types=["issues"])
    assert (seqs(page), page["next_after"]) == ([4], 6)
    page = api.messages(mixed, after=0, types=["nothing"])
    assert (page["messages"], page["next_after"]) == ([], 6)


def test_next_after_never_passes_a_match_that_was_not_returned(api: Api, mixed: str) -> None:
    page = api.messages(mixed, after=0, types=["push"], limit=2)
    assert (seqs(page), 3 <= page["next_after"] < 5) == ([1, 3], True)


def test_since_is_included_and_until_is_not(api: Api, mixed: str) -> None:
    at = {message["seq"]: message["received_at"] for message in api.messages(mixed, after=0)["messages"]}
    assert seqs(api.messages(mixed, after=0, since=at[2], until=at[5])) == [2, 3, 4]
    assert seqs(api.messages(mixed, since=at[2], until=at[5])) == [4, 3, 2]
    assert seqs(api.messages(mixed, after=0, since=at[3])) == [3, 4, 5, 6]
    assert seqs(api.messages(mixed, after=0, until=at[3])) == [1, 2]
    assert seqs(api.messages(mixed, after=0, since=at[2], types=["push"])) == [3, 5]
    assert seqs(api.messages(mixed, after=4, since=at[2])) == [5, 6]
    assert api.messages(mixed, after=0, since=at[4], until=at[4])["messages"] == []
    assert api.messages(mixed, after=0, since=at[4], until=at[2])["messages"] == []


def test_a_time_filter_skips_ahead_and_back_without_losing_the_cursor(api: Api, mixed: str) -> None:
    at = {message["seq"]: message["received_at"] for message in api.messages(mixed, after=0)["messages"]}
    assert api.messages(mixed, after=0, since="2999-01-01T00:00:00Z")["next_after"] == 6
    assert api.messages(mixed, until="2001-01-01T00:00:00Z")["next_before"] is None
    found = [seqs(page) for page in api.backward(mixed, since=at[3], limit=2)]
    assert found == [[6, 5], [4, 3]], "nothing older matches, so the last match comes with null"


def test_times_may_have_any_offset_and_precision(api: Api, mixed: str) -> None:
    third = api.message(mixed, 3)["received_at"]
    at = datetime.fromisoformat(third)
    elsewhere = at.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat()
    assert seqs(api.messages(mixed, after=0, since=elsewhere, limit=1)) == [3]
    finer = third.removesuffix("Z") + "001Z"  # a nanosecond later
    assert seqs(api.messages(mixed, after=0, since=finer, limit=1)) == [4]
    assert seqs(api.messages(mixed, after=0, until=finer)) == [1, 2, 3]


# -- the list of inboxes ---------------------------------------------------------------------------


def test_an_inbox_is_listed_with_its_counters(api: Api, ten: str) -> None:
    listed = only(api, ten)
    assert listed.keys() == {"slug", "name", "kind", "verifier", "latest_seq", "first_seq", "epoch"}
    values = (listed["slug"], listed["kind"], listed["latest_seq"], listed["first_seq"])
    assert values == (ten, "webhook", 10, 1)


def test_a_token_for_named_inboxes_lists_them_all_and_no_others(api: Api) -> None:
    mine = sorted(api.inbox() for _ in range(3))
    agent = api.as_(api.agent(mine))
    listing = agent.get("/inboxes")
    assert [inbox["slug"] for inbox in listing["inboxes"]] == mine
    assert not listing.get("truncated")
    for spelled in ("limit=2", "%6cimit=2"):
        page = agent.ok("GET", f"/inboxes?{spelled}")
        assert ([inbox["slug"] for inbox in page["inboxes"]], page["truncated"]) == (mine[:2], True)
        assert page["next_after_slug"] == mine[1]


@pytest.mark.parametrize("who", ["admin", "all-inboxes agent"])
def test_following_next_after_slug_lists_every_inbox_once(api: Api, who: str) -> None:
    mine = {api.inbox() for _ in range(7)}
    reader = api if who == "admin" else api.as_(api.agent("all"))
    found: list[str] = []
    listing = reader.get("/inboxes", limit=3)
    while True:
        found += [inbox["slug"] for inbox in listing["inboxes"]]
        assert len(listing["inboxes"]) <= 3
        if not listing.get("truncated"):
            break
        assert listing["next_after_slug"] == found[-1]
        listing = reader.get("/inboxes", limit=3, after_slug=listing["next_after_slug"])
    assert found == sorted(set(found))
    assert mine <= set(found)


def test_at_most_a_hundred_inboxes_are_listed_at_once(fresh: Api) -> None:
    for n in range(101):
        fresh.inbox(slug=f"many-{n:03}")
    listing = fresh.get("/inboxes")
    assert (len(listing["inboxes"]), listing["truncated"]) == (100, True)
    named = fresh.as_(fresh.agent([f"many-{n:03}" for n in range(101)]))
    listing = named.get("/inboxes")
    assert (len(listing["inboxes"]), listing.get("truncated", False)) == (101, False)


def test_without_the_read_api_only_ingest_and_administration_are_left(tmp_path: Path) -> None:
    with (
        Server(tmp_path / "data", read_api_enabled="false") as server,
        Api(server.url, server.token) as admin,
    ):
        slug = admin.inbox()
        assert admin.send(slug) == 1
        assert admin.get(f"/inboxes/{slug}")["latest_seq"] == 1
        for path in (f"/inboxes/{slug}/messages/1", f"/inboxes/{slug}/messages/1/raw"):
            assert admin.call("GET", path).status_code in (404, 405), path
        for path in ("/inboxes", f"/inboxes/{slug}/messages"):
            assert admin.call("GET", path).status_code in (404, 405), path
