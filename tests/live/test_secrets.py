"""Secrets over REST: several at once, so that a rotation loses nothing; shown by name and never by value.

Black-box: written from sections 4 and 5 of the surface, over real sockets.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.live.api import Api, error_of, new_slug
from tests.live.harness import Server


def test_secrets_are_shown_by_name_and_nowhere_by_value(api: Api) -> None:
    values = [f"value-{n}-of-a-secret" for n in range(4)]
    slug = new_slug()
    answers = [
        api.call(
            "POST",
            "/inboxes",
            {
                "slug": slug,
                "verifier": "github",
                "secrets": [{"name": "one", "value": values[0]}, {"name": "two", "value": values[1]}],
                "secret": values[2],
            },
        ),
        api.call("POST", f"/inboxes/{slug}/secrets", {"name": "three", "value": values[3]}),
        api.call("GET", f"/inboxes/{slug}"),
        api.call("PATCH", f"/inboxes/{slug}", {"name": "x"}),
        api.call("GET", "/inboxes"),
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 200, 200, 200]
    names = sorted(secret["name"] for secret in answers[2].json()["secrets"])
    assert names == ["default", "one", "three", "two"]
    for value in values:
        assert api.github(slug, secret=value).status_code == 200
        for answer in answers:
            assert value not in answer.text
    page = api.call("GET", f"/inboxes/{slug}/messages?after=0")
    assert [message["verified"] for message in page.json()["messages"]] == [True] * 4
    assert not any(value in page.text for value in values)


def test_no_refusal_repeats_a_secret_and_no_log_has_one(api: Api, server: Server) -> None:
    bad, long = "refused-secret-äö-%", "far-too-long-secret-" * 300
    slug = api.inbox(verifier="standard-webhooks", secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    inboxes: list[dict[str, Any]] = [
        {"slug": slug, "secret": bad},
        {"verifier": "standard-webhooks", "secret": bad},
        {"secrets": [{"name": "a", "value": bad}, {"name": "a", "value": bad}]},
        {"secrets": [{"name": bad, "value": bad}]},
        {"secrets": bad},
        {"secrets": [bad]},
        {"secret": [bad]},
        {"secret": long},
        {"secret": bad, "more": True},
        {"secret": bad, "verifier": bad},
    ]
    secrets = [
        {"value": bad},
        {"value": bad, "name": bad},
        {"value": long},
        {"value": {"of": bad}},
        {"value": bad, "more": 1},
    ]
    answers = [api.call("POST", "/inboxes", body) for body in inboxes]
    answers += [api.call("POST", f"/inboxes/{slug}/secrets", body) for body in secrets]
    answers += [
        api.call("PATCH", f"/inboxes/{slug}", {"secret": bad}),
        api.call("DELETE", f"/inboxes/{slug}/secrets/x"),
    ]
    for answer in answers:
        error_of(answer)
    told = "".join(answer.text for answer in answers) + server.output
    assert not [text for text in ("refused-secret", "far-too-long-secret") if text in told]


def test_a_rotation_loses_no_message(api: Api) -> None:
    slug = api.inbox(verifier="github", secret="old")

    def verdicts() -> list[bool]:
        for secret in ("old", "new"):
            assert api.github(slug, secret=secret).status_code == 200
        return [message["verified"] for message in api.messages(slug, limit=2)["messages"]][::-1]

    assert verdicts() == [True, False]
    api.ok("POST", f"/inboxes/{slug}/secrets", {"name": "next", "value": "new"}, status=201)
    assert verdicts() == [True, True]
    assert api.call("DELETE", f"/inboxes/{slug}/secrets/default").status_code == 204
    assert verdicts() == [False, True]
    assert [secret["name"] for secret in api.get(f"/inboxes/{slug}")["secrets"]] == ["next"]


def test_a_secret_of_the_same_name_is_replaced(api: Api) -> None:
    slug = api.inbox(verifier="github", secret="old")
    api.ok("POST", f"/inboxes/{slug}/secrets", {"name": "default", "value": "new"}, status=201)
    for secret in ("old", "new"):
        api.github(slug, secret=secret).raise_for_status()
    assert [message["verified"] for message in api.messages(slug, after=0)["messages"]] == [False, True]
    assert len(api.get(f"/inboxes/{slug}")["secrets"]) == 1


def test_without_any_secret_left_nothing_is_verified(api: Api) -> None:
    slug = api.github_inbox()
    assert api.call("DELETE", f"/inboxes/{slug}/secrets/default").status_code == 204
    assert api.github(slug, secret="").status_code == 200
    assert api.github(slug).status_code == 200
    assert [message["verified"] for message in api.messages(slug)["messages"]] == [False, False]
    assert api.refused("DELETE", f"/inboxes/{slug}/secrets/default")[:2] == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "value"),
        ({"name": "a"}, "value"),
        ({"name": "a", "value": ""}, "value"),
        ({"name": "a", "value": 5}, "value"),
        ({"name": "Not A Name", "value": "x"}, "name"),
        ({"name": "a", "value": "x", "more": 1}, "more"),
    ],
)
def test_a_wrong_secret_is_refused_by_name(api: Api, ten: str, body: dict[str, Any], field: str) -> None:
    assert api.refused("POST", f"/inboxes/{ten}/secrets", body) == (400, "invalid_argument", field)


def test_secrets_added_at_the_same_time_stay_within_their_number(api: Api) -> None:
    slug = api.inbox(verifier="github")

    def add(n: int) -> int:
        return api.call("POST", f"/inboxes/{slug}/secrets", {"name": f"s{n}", "value": "x"}).status_code

    with ThreadPoolExecutor(20) as senders:
        statuses = list(senders.map(add, range(20)))
    assert sorted(statuses) == [201] * 10 + [400] * 10
    assert len(api.get(f"/inboxes/{slug}")["secrets"]) == 10


def test_a_verifier_that_could_not_use_the_secrets_is_refused_and_nothing_changes(api: Api) -> None:
    slug = api.inbox(verifier="github", secret="not base64!")
    patch = {"verifier": "hmac", "verifier_options": {"header": "X-S", "key": "base64"}}
    assert api.refused("PATCH", f"/inboxes/{slug}", patch) == (400, "invalid_argument", "verifier")
    assert api.get(f"/inboxes/{slug}")["verifier"] == "github"
