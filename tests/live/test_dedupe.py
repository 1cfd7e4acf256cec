"""Duplicates over real sockets: one message for one delivery, and nobody unverified decides what is one.

Black-box: written from section 4 of the surface.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pytest

from tests.live.api import SECRET, Api, github_headers

SENDERS = 50


def place(answer: httpx.Response) -> tuple[str, int]:
    assert answer.status_code == 200, answer.text
    return answer.json()["id"], answer.json()["seq"]


def is_duplicate(answer: httpx.Response) -> bool:
    marked = answer.headers.get_list("postroom-duplicate")
    assert marked in ([], ["true"])
    return bool(marked)


@pytest.mark.parametrize("on_unverified", ["store", "reject"])
def test_an_unverified_request_never_suppresses_the_verified_one(api: Api, on_unverified: str) -> None:
    slug = api.github_inbox(on_unverified=on_unverified)
    for n in range(3):
        forged = api.github(slug, delivery="d-1", secret="guessed")
        assert forged.status_code == (200 if on_unverified == "store" else 401)
        assert not is_duplicate(forged), n
    unsigned = {"X-GitHub-Delivery": "d-1", "X-GitHub-Event": "push"}
    assert not is_duplicate(api.post(slug, b"{}", headers=unsigned))
    honest = api.github(slug, delivery="d-1")
    assert not is_duplicate(honest)
    again = api.github(slug, delivery="d-1")
    assert (place(again), is_duplicate(again)) == (place(honest), True)
    forged = api.github(slug, delivery="d-1", secret="guessed")
    assert not is_duplicate(forged), "nor is one suppressed by the verified one"
    verified = [message["verified"] for message in api.messages(slug, after=0)["messages"]]
    assert verified == ([False] * 4 + [True, False] if on_unverified == "store" else [True])


@pytest.mark.parametrize("size", [2, 100_000], ids=["small", "large"])
def test_verified_duplicates_at_the_same_time_are_one_message_and_all_hear_of_it(api: Api, size: int) -> None:
    slug = api.github_inbox()
    body = b'"' + b"x" * size + b'"'
    headers = github_headers(body, "push", "d-1")
    together = Barrier(SENDERS)

    def deliver(_: int) -> httpx.Response:
        with httpx.Client(base_url=api.url, trust_env=False, timeout=20) as sender:
            together.wait(20)
            return sender.post(f"/in/{slug}", content=body, headers=headers)

    with ThreadPoolExecutor(SENDERS) as pool:
        answers = list(pool.map(deliver, range(SENDERS)))
    assert len({place(answer) for answer in answers}) == 1
    assert sum(is_duplicate(answer) for answer in answers) == SENDERS - 1
    page = api.messages(slug, after=0)
    assert [message["seq"] for message in page["messages"]] == [1]
    assert (page["messages"][0]["id"], page["latest_seq"]) == (place(answers[0])[0], 1)
    assert len(api._http.get(f"/v1/inboxes/{slug}/messages/1/raw").content) == len(body)


def test_duplicates_are_an_inbox_s_own_affair(api: Api) -> None:
    first, second = api.github_inbox(), api.github_inbox()
    assert not is_duplicate(api.github(first, delivery="d-1"))
    assert not is_duplicate(api.github(second, delivery="d-1"))


def test_another_body_under_the_same_delivery_id_is_a_duplicate(api: Api) -> None:
    slug = api.github_inbox()
    first = api.github(slug, body=b"1", delivery="d-1")
    second = api.github(slug, body=b"2", delivery="d-1")
    assert (place(second), is_duplicate(second)) == (place(first), True)


def test_without_a_delivery_id_or_a_window_nothing_is_a_duplicate(api: Api) -> None:
    off = api.github_inbox(dedupe_window_seconds=0)
    on = api.github_inbox()
    for _ in range(2):
        assert not is_duplicate(api.github(off, delivery="d-1"))
        headers = github_headers(b"{}", "push", "")
        assert not is_duplicate(api.post(on, b"{}", headers=headers))
    assert (api.messages(off)["latest_seq"], api.messages(on)["latest_seq"]) == (2, 2)


def test_an_inbox_without_a_verifier_suppresses_nothing(api: Api) -> None:
    slug = api.inbox(verifier_options={"delivery_id": "header:x-github-delivery"})
    for seq in (1, 2):
        answer = api.github(slug, delivery="d-1")
        assert (place(answer)[1], is_duplicate(answer)) == (seq, False)
    assert [m["untrusted"]["delivery_id"] for m in api.messages(slug)["messages"]] == ["d-1", "d-1"]


def test_a_duplicate_is_told_in_the_inbox_s_own_words(api: Api) -> None:
    own = {"status": 201, "content_type": "text/x-ack", "body": "got it", "headers": {"X-Mine": "1"}}
    slug = api.inbox(verifier="github", secret=SECRET, response=own)
    for duplicate in (False, True):
        answer = api.github(slug, delivery="d-1")
        assert (answer.status_code, answer.text) == (201, "got it")
        assert (answer.headers["content-type"], answer.headers["x-mine"]) == ("text/x-ack", "1")
        assert is_duplicate(answer) == duplicate
