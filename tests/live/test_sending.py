"""What an inbox's settings mean to its senders: duplicates, own answers, rates, rejection, methods.

Black-box: written from section 4 of the surface, over real sockets.
"""

from threading import Barrier, Thread
from typing import Any

import pytest

from tests.live.api import Api, error_of, new_slug

KIB = 1024


def test_a_verified_message_sent_again_is_answered_with_the_first_ones_place(api: Api) -> None:
    slug = api.github_inbox()
    first = api.github(slug, body=b'{"n": 1}', delivery="d-1")
    assert "postroom-duplicate" not in first.headers
    api.github(slug, delivery="d-2").raise_for_status()
    again = api.github(slug, body=b'{"n": 1}', delivery="d-1")
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["postroom-duplicate"] == "true"
    assert api.messages(slug)["latest_seq"] == 2
    assert api.github(slug, delivery="d-3").json()["seq"] == 3


def test_an_unverified_message_burns_no_delivery_id(api: Api) -> None:
    slug = api.github_inbox()
    forged = [api.github(slug, delivery="d-1", secret="wrong") for _ in range(2)]
    assert [answer.json()["seq"] for answer in forged] == [1, 2]
    real = api.github(slug, delivery="d-1")
    assert (real.json()["seq"], "postroom-duplicate" in real.headers) == (3, False)
    late = api.github(slug, delivery="d-1", secret="wrong")
    assert (late.json()["seq"], "postroom-duplicate" in late.headers) == (4, False)


def test_delivery_ids_are_remembered_for_each_inbox_apart(api: Api) -> None:
    for slug in (api.github_inbox(), api.github_inbox()):
        answer = api.github(slug, delivery="the-same")
        assert (answer.json()["seq"], "postroom-duplicate" in answer.headers) == (1, False)


def test_a_window_of_zero_turns_duplicates_off(api: Api) -> None:
    slug = api.github_inbox(dedupe_window_seconds=0)
    answers = [api.github(slug, delivery="d-1") for _ in range(3)]
    assert [answer.json()["seq"] for answer in answers] == [1, 2, 3]
    assert not any("postroom-duplicate" in answer.headers for answer in answers)


def test_a_duplicate_is_known_after_its_message_was_purged(api: Api) -> None:
    slug = api.github_inbox()
    first = api.github(slug, delivery="d-1").json()
    api.call("POST", f"/inboxes/{slug}:purge").raise_for_status()
    again = api.github(slug, delivery="d-1")
    assert (again.json(), again.headers.get("postroom-duplicate")) == (first, "true")


def test_fifty_copies_at_once_are_one_message(api: Api) -> None:
    slug, gate = api.github_inbox(), Barrier(10, timeout=20)
    answers: list[Any] = []

    def send(sender: Api) -> None:
        gate.wait()
        answers.extend(sender.github(slug, delivery="d-1") for _ in range(5))

    threads = [Thread(target=send, args=(api.as_(None),)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert len(answers) == 50
    assert {answer.content for answer in answers} == {answers[0].content}
    assert sum("postroom-duplicate" not in answer.headers for answer in answers) == 1
    assert api.messages(slug)["latest_seq"] == 1


def test_an_inboxs_own_answer_goes_to_its_senders(api: Api) -> None:
    response = {
        "status": 202,
        "content_type": "text/xml",
        "body": "<Response/>",
        "headers": {"X-Seen-By": "postroom"},
    }
    slug = api.github_inbox(response=response)
    first = api.github(slug, delivery="d-1")
    again = api.github(slug, delivery="d-1")
    for answer in (first, again):
        assert (answer.status_code, answer.text) == (202, "<Response/>")
        assert (answer.headers["content-type"], answer.headers["x-seen-by"]) == ("text/xml", "postroom")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "postroom-duplicate" not in first.headers
    assert again.headers["postroom-duplicate"] == "true"
    assert api.messages(slug)["latest_seq"] == 1
    api.ok("PATCH", f"/inboxes/{slug}", {"response": {"status": 204, "body": None, "headers": None}})
    empty = api.github(slug)
    assert (empty.status_code, empty.content) == (204, b"")
    api.ok("PATCH", f"/inboxes/{slug}", {"response": None})
    assert api.github(slug).json()["seq"] == 3


def test_a_sender_over_the_rate_is_told_when_to_come_back(api: Api) -> None:
    slug, other = api.inbox(rate_per_minute=3), api.inbox()
    answers = [api.post(slug) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert error_of(answers[3])[1] == "rate_limited"
    assert 1 <= int(answers[3].headers["retry-after"]) <= 20
    assert api.messages(slug)["latest_seq"] == 3
    assert api.send(other) == 1, "one inbox's rate is no other's"
    api.ok("PATCH", f"/inboxes/{slug}", {"rate_per_minute": None})
    assert api.send(slug) == 4


@pytest.mark.parametrize("size", [20, 300 * KIB])
def test_an_inbox_that_rejects_stores_only_what_is_verified(api: Api, size: int) -> None:
    slug = api.github_inbox(on_unverified="reject")
    body = b"x" * size
    forged = api.github(slug, body=body, delivery="d-1", secret="wrong")
    unsigned = api.post(slug, body)
    assert error_of(forged)[:2] == (401, "unauthenticated")
    assert error_of(unsigned)[:2] == (401, "unauthenticated")
    assert "signature mismatch" in forged.text
    assert "missing signature" in unsigned.text
    assert api.messages(slug)["latest_seq"] == 0
    assert api.github(slug, body=body, delivery="d-1").json()["seq"] == 1


@pytest.mark.parametrize(
    ("method", "status"),
    [("HEAD", 200), ("GET", 200), ("DELETE", 405), ("PATCH", 405), ("OPTIONS", 405), ("PUT", 200)],
)
def test_methods_of_an_inbox_and_of_no_inbox(api: Api, method: str, status: int) -> None:
    slug, absent = api.inbox(), new_slug()
    answer = api._http.request(method, f"{api.url}/in/{slug}")
    assert answer.status_code == status
    if status == 405:
        assert error_of(answer)[1] == "method_not_allowed"
        assert {"POST", "PUT"} <= {name.strip() for name in answer.headers["allow"].split(",")}
    assert api.messages(slug)["latest_seq"] == (1 if method == "PUT" else 0)
    nowhere = api._http.request(method, f"{api.url}/in/{absent}")
    assert nowhere.status_code == 404
    if method != "HEAD":
        assert nowhere.content == api.post(absent).content
