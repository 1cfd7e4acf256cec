"""Retention as its owner and its readers see it, and the space that it gives back."""

import time
from pathlib import Path

import pytest

from tests.live.api import Api
from tests.live.harness import Server

MIB = 1024 * 1024
PIECE = b"x" * (64 * 1024)
BOUND_SECONDS = 20.0


def test_an_inbox_keeps_its_newest_messages_and_a_reader_behind_is_told_of_the_gap(api: Api) -> None:
    slug = api.inbox(retention={"max_messages": 3})
    for _ in range(10):
        api.send(slug, b"12345")
    page = api.messages(slug, after=4)
    assert [message["seq"] for message in page["messages"]] == [8, 9, 10]
    assert page["gap"] is True
    assert api.messages(slug, after=7)["gap"] is False
    assert api.messages(slug, after=0)["gap"] is False
    shown = api.get(f"/inboxes/{slug}")
    assert (shown["first_seq"], shown["latest_seq"]) == (8, 10)
    assert shown["kept"] == {"messages": 3, "bytes": 15, "dropped_messages": 7, "dropped_bytes": 35}
    assert api.refused("GET", f"/inboxes/{slug}/messages/7")[:2] == (404, "not_found")


def test_a_full_inbox_that_refuses_answers_507_and_keeps_what_it_has(api: Api) -> None:
    slug = api.inbox(retention={"max_bytes": 100, "policy": "refuse"})
    assert api.send(slug, b"x" * 60) == 1
    refused = api.post(slug, b"x" * 60)
    assert refused.status_code == 507
    assert refused.json()["error"]["code"] == "insufficient_storage"
    assert api.send(slug, b"x" * 40) == 2
    assert [message["seq"] for message in api.messages(slug, after=0)["messages"]] == [1, 2]
    api.ok("POST", f"/inboxes/{slug}:purge")
    assert api.send(slug, b"x" * 60) == 3


def test_a_refused_delivery_may_be_tried_again_with_its_id(api: Api) -> None:
    slug = api.github_inbox(retention={"max_messages": 1, "policy": "refuse"})
    assert api.github(slug, delivery="first").status_code == 200
    assert api.github(slug, delivery="second").status_code == 507
    again = api.github(slug, delivery="first")
    assert (again.status_code, again.headers.get("Postroom-Duplicate")) == (200, "true")
    api.ok("POST", f"/inboxes/{slug}:purge")
    later = api.github(slug, delivery="second")
    assert (later.status_code, later.headers.get("Postroom-Duplicate")) == (200, None)


def test_large_bodies_that_are_dropped_can_no_longer_be_read(api: Api) -> None:
    slug = api.inbox(retention={"max_messages": 1})
    api.send(slug, PIECE * 10)
    api.send(slug, PIECE * 11)
    assert api.refused("GET", f"/inboxes/{slug}/messages/1/raw")[:2] == (404, "not_found")
    assert api.call("GET", f"/inboxes/{slug}/messages/2/raw").content == PIECE * 11


@pytest.mark.parametrize("size", [len(PIECE), 6 * len(PIECE)], ids=["in the row", "in pieces"])
def test_space_is_really_given_back_and_what_stays_is_used_again(tmp_path: Path, size: int) -> None:
    def used() -> int:
        return sum(path.stat().st_size for path in tmp_path.glob("postroom.db*"))

    def fill(api: Api, slug: str) -> None:
        for _ in range(48 * MIB // size):
            api.send(slug, b"x" * size)

    with Server(tmp_path, wal_limit_bytes=MIB) as server, Api(server.url, server.token) as api:
        slug = api.inbox()
        before = used()
        fill(api, slug)
        full = used()
        assert full > before + 40 * MIB
        api.ok("PATCH", f"/inboxes/{slug}", {"retention": {"max_messages": 1}})
        bound = time.monotonic() + BOUND_SECONDS
        while (
            used() > before + 16 * MIB
        ):  # 8 MiB of free pages stay for what comes next, and the log has its limit
            assert time.monotonic() < bound, used()
            api.get("/me")
        api.ok("PATCH", f"/inboxes/{slug}", {"retention": None})
        fill(api, slug)
        assert used() < full * 1.1
