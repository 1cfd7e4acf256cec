"""Administration over REST: making, changing, emptying and deleting inboxes.

Black-box: written from sections 5 and 9 of the surface, over real sockets. What a setting promises is checked by
sending, not by reading the setting back.
"""

from threading import Barrier, Thread
from typing import Any

import pytest

from tests.live.api import SECRET, Api, error_of, new_slug, seqs

KIB = 1024

# -- making inboxes --------------------------------------------------------------------------------


def test_a_created_inbox_takes_messages_at_its_ingest_url(api: Api) -> None:
    slug = new_slug()
    made = api.ok("POST", "/inboxes", {"slug": slug, "name": "Payments"}, status=201)
    assert (made["slug"], made["name"], made["kind"]) == (slug, "Payments", "webhook")
    assert (made["latest_seq"], made["first_seq"]) == (0, 1)
    assert made["ingest_url"].endswith(f"/in/{slug}")
    assert "token" not in made
    assert made == api.get(f"/inboxes/{slug}")
    assert api.send(slug) == 1


def test_an_inbox_without_a_slug_gets_one_that_cannot_be_guessed(api: Api) -> None:
    slugs = {api.ok("POST", "/inboxes", {}, status=201)["slug"] for _ in range(5)}
    assert len(slugs) == 5
    assert all(len(slug) >= 20 for slug in slugs), "100 random bits in base 32 are 20 characters"
    assert all(api.send(slug) == 1 for slug in slugs)


def test_an_empty_body_creates_an_inbox_with_every_default(api: Api) -> None:
    made = api.ok("POST", "/inboxes", status=201)
    assert made["verifier"] is None
    assert (made["on_unverified"], made["dedupe_window_seconds"]) == ("store", 86_400)
    assert made["retention"] == {
        "max_age_seconds": 30 * 86_400,
        "max_messages": 1_000_000,
        "max_bytes": 1024**3,
        "policy": "drop_oldest",
    }
    assert (made["response"], made["rate_per_minute"], made["secrets"]) == (None, None, [])


def test_issue_token_gives_a_token_that_reads_this_inbox_only(api: Api) -> None:
    other = api.inbox()
    made = api.ok("POST", "/inboxes", {"slug": new_slug(), "issue_token": True}, status=201)
    assert made["token"].startswith("prm_agent_")
    reader = api.as_(made["token"])
    assert reader.messages(made["slug"])["messages"] == []
    assert [inbox["slug"] for inbox in reader.get("/inboxes")["inboxes"]] == [made["slug"]]
    assert reader.refused("GET", f"/inboxes/{other}/messages")[1] == "not_found"
    assert "token" not in api.get(f"/inboxes/{made['slug']}")


def test_a_taken_slug_is_a_conflict_and_changes_nothing(api: Api) -> None:
    slug = api.inbox(name="first")
    api.send(slug)
    assert api.refused("POST", "/inboxes", {"slug": slug, "name": "second"}) == (409, "conflict", "slug")
    shown = api.get(f"/inboxes/{slug}")
    assert (shown["name"], shown["latest_seq"]) == ("first", 1)


def test_of_two_that_create_the_same_slug_at_once_one_wins(api: Api) -> None:
    slug, gate, statuses = new_slug(), Barrier(4, timeout=20), []

    def create(admin: Api) -> None:
        gate.wait()
        statuses.append(admin.call("POST", "/inboxes", {"slug": slug}).status_code)

    threads = [Thread(target=create, args=(api.as_(api.token),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert sorted(statuses) == [201, 409, 409, 409]


def test_a_topic_takes_no_webhooks(api: Api) -> None:
    slug = api.inbox(kind="topic")
    absent = api.post(new_slug())
    for answer in (api.post(slug), api._http.get(f"{api.url}/in/{slug}")):
        assert error_of(answer)[:2] == (404, "not_found")
        assert answer.content == absent.content
    assert api.messages(slug)["messages"] == []


WRONG_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"slug": "Upper"}, "slug"),
    ({"slug": "-a"}, "slug"),
    ({"slug": "a" * 65}, "slug"),
    ({"slug": "newline-after\n"}, "slug"),
    ({"slug": ""}, "slug"),
    ({"slug": "agent.someone"}, "slug"),
    ({"slug": "machine.m1"}, "slug"),
    ({"slug": 5}, "slug"),
    ({"kind": "agent"}, "kind"),
    ({"kind": "machine"}, "kind"),
    ({"name": 1}, "name"),
    ({"verifier": "nobody"}, "verifier"),
    ({"verifier": "github", "verifier_options": {"x": 1}}, "verifier_options.x"),
    ({"on_unverified": "drop"}, "on_unverified"),
    ({"dedupe_window_seconds": -1}, "dedupe_window_seconds"),
    ({"dedupe_window_seconds": "60"}, "dedupe_window_seconds"),
    ({"dedupe_window_seconds": 1.5}, "dedupe_window_seconds"),
    ({"retention": {"max_messages": 0}}, "retention.max_messages"),
    ({"retention": {"policy": "keep"}}, "retention.policy"),
    ({"retention": {"days": 3}}, "retention.days"),
    ({"retention": 5}, "retention"),
    ({"response": {"status": 99}}, "response.status"),
    ({"response": {"headers": {"X": "a\r\nSet-Cookie: b"}}}, "response.headers"),
    ({"response": {"headers": {"Content-Length": "5"}}}, "response.headers"),
    ({"response": {"headers": {"Transfer-Encoding": "chunked"}}}, "response.headers"),
    ({"response": {"content_type": "text/html\r\nX: y"}}, "response.content_type"),
    ({"rate_per_minute": 0}, "rate_per_minute"),
    ({"max_body_bytes": -5}, "max_body_bytes"),
    ({"signed_url": "ftp://x"}, "signed_url"),
    ({"verifier": "twilio"}, "signed_url"),
    ({"search": "yes"}, "search"),
]


@pytest.mark.parametrize(("settings", "field"), WRONG_SETTINGS)
def test_wrong_settings_are_refused_by_name_when_creating_and_when_changing(
    api: Api, settings: dict[str, Any], field: str
) -> None:
    assert api.refused("POST", "/inboxes", settings) == (400, "invalid_argument", field)
    if field in ("slug", "kind"):
        return
    slug = api.inbox(slug=new_slug())
    before = api.get(f"/inboxes/{slug}")
    assert api.refused("PATCH", f"/inboxes/{slug}", settings) == (400, "invalid_argument", field)
    assert api.get(f"/inboxes/{slug}") == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"slugg": "a"}, "slugg"),
        ({"secrets": [{"name": "a", "value": ""}]}, "secrets[0].value"),
        ({"secrets": [{"name": "A b", "value": "x"}]}, "secrets[0].name"),
        ({"secrets": [{"name": "a", "value": "x"}, {"name": "a", "value": "y"}]}, "secrets"),
        ({"secret": ""}, "secret"),
        ({"issue_token": 1}, "issue_token"),
    ],
)
def test_wrong_members_are_refused_by_name_when_creating(api: Api, body: dict[str, Any], field: str) -> None:
    assert api.refused("POST", "/inboxes", body) == (400, "invalid_argument", field)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"x"',
        b"1",
        b"null",
        b'{"name": "\xff"}',
        b"[" * 5000,
        b'{"a":' * 500 + b"1" + b"}" * 500,
    ],
)
@pytest.mark.parametrize(
    "route", ["POST /inboxes", "POST /tokens", "PATCH /inboxes/{}", "POST /inboxes/{}/secrets"]
)
def test_a_body_that_is_no_json_object_is_refused(api: Api, ten: str, route: str, body: bytes) -> None:
    method, path = route.format(ten).split()
    headers = {"Content-Type": "application/json"}
    assert api.refused(method, path, content=body, headers=headers)[:2] == (400, "invalid_argument")


def test_a_body_over_a_mebibyte_is_refused(api: Api) -> None:
    body = b'{"name": "' + b"x" * 1024 * KIB + b'"}'
    status, code, _ = api.refused("POST", "/inboxes", content=body)
    assert (status, code) == (413, "payload_too_large")


@pytest.mark.parametrize("query", ["x=1", "token=1", "limit=5"])
def test_administration_takes_no_unknown_query_parameters(api: Api, ten: str, query: str) -> None:
    field = query.partition("=")[0]
    assert api.refused("GET", f"/inboxes/{ten}?{query}") == (400, "invalid_argument", field)
    assert api.refused("POST", f"/inboxes?{query}", {}) == (400, "invalid_argument", field)
    assert api.refused("DELETE", f"/inboxes/{ten}?{query}") == (400, "invalid_argument", field)
    assert api.get(f"/inboxes/{ten}")["slug"] == ten


# -- changing inboxes ------------------------------------------------------------------------------


def test_a_patch_changes_what_it_names_and_null_resets(api: Api) -> None:
    slug = api.inbox(name="before", rate_per_minute=1000, retention={"max_messages": 50, "policy": "refuse"})
    first = api.get(f"/inboxes/{slug}")
    changed = api.ok("PATCH", f"/inboxes/{slug}", {"name": "after", "retention": {"max_bytes": 1000}})
    assert changed == api.get(f"/inboxes/{slug}")
    assert changed == {
        **first,
        "name": "after",
        "retention": {**first["retention"], "max_bytes": 1000},
    }
    reset = api.ok(
        "PATCH", f"/inboxes/{slug}", {"rate_per_minute": None, "retention": {"max_messages": None}}
    )
    assert reset["rate_per_minute"] is None
    assert reset["retention"] == {**changed["retention"], "max_messages": None}
    assert reset["name"] == "after"
    empty = api.ok("PATCH", f"/inboxes/{slug}", {})
    assert empty == reset


@pytest.mark.parametrize(
    "member", ["slug", "kind", "epoch", "latest_seq", "secrets", "secret", "issue_token", "nothing"]
)
def test_a_patch_of_what_cannot_be_changed_is_refused(api: Api, ten: str, member: str) -> None:
    assert api.refused("PATCH", f"/inboxes/{ten}", {member: "x"}) == (400, "invalid_argument", member)


def test_a_change_is_in_force_for_the_next_message(api: Api) -> None:
    slug = api.inbox()
    api.send(slug, b"x" * 100)
    api.ok("PATCH", f"/inboxes/{slug}", {"max_body_bytes": 99})
    assert error_of(api.post(slug, b"x" * 100))[:2] == (413, "payload_too_large")
    api.ok("PATCH", f"/inboxes/{slug}", {"max_body_bytes": None})
    assert api.send(slug, b"x" * 100) == 2


def test_patches_at_once_lose_none_of_each_others_members(api: Api) -> None:
    slug = api.inbox()
    patches: list[dict[str, Any]] = [
        {"name": "n"},
        {"rate_per_minute": 9},
        {"dedupe_window_seconds": 7},
        {"search": True},
    ]
    gate = Barrier(len(patches), timeout=20)

    def patch(admin: Api, body: dict[str, Any]) -> None:
        gate.wait()
        admin.ok("PATCH", f"/inboxes/{slug}", body)

    threads = [Thread(target=patch, args=(api.as_(api.token), body)) for body in patches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    shown = api.get(f"/inboxes/{slug}")
    assert {name: shown[name] for body in patches for name in body} == {
        "name": "n",
        "rate_per_minute": 9,
        "dedupe_window_seconds": 7,
        "search": True,
    }


# -- taking away -----------------------------------------------------------------------------------


def test_a_deleted_inbox_is_gone_for_everybody(api: Api) -> None:
    slug = api.inbox()
    agent = api.as_(api.agent([slug]))
    api.send(slug)
    answer = api.call("DELETE", f"/inboxes/{slug}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert api.post(slug).status_code == 404
    for caller in (api, agent):
        assert caller.refused("GET", f"/inboxes/{slug}/messages")[:2] == (404, "not_found")
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", ":purge"), ("DELETE", "/messages/1")):
        assert api.refused(method, f"/inboxes/{slug}{path}")[:2] == (404, "not_found")
    assert api.refused("PATCH", f"/inboxes/{slug}", {})[:2] == (404, "not_found")
    assert agent.get("/inboxes")["inboxes"] == []
    assert slug not in [inbox["slug"] for inbox in api.get("/inboxes", limit=100)["inboxes"]]


def test_a_deleted_inboxs_secrets_and_delivery_ids_do_not_come_back(api: Api) -> None:
    slug = api.github_inbox(name="first life")
    api.github(slug, delivery="d-1").raise_for_status()
    api.call("DELETE", f"/inboxes/{slug}").raise_for_status()
    api.inbox(slug=slug, verifier="github", secret="another")
    shown = api.get(f"/inboxes/{slug}")
    assert (shown["name"], len(shown["secrets"])) == ("", 1)
    assert api.github(slug, delivery="d-1", secret=SECRET).json()["seq"] == 1
    real = api.github(slug, delivery="d-1", secret="another")
    assert (real.json()["seq"], "postroom-duplicate" in real.headers) == (2, False)
    assert [message["verified"] for message in api.messages(slug, after=0)["messages"]] == [False, True]


def test_purging_takes_large_bodies_too(api: Api) -> None:
    slug = api.inbox()
    api.send(slug, b"x" * 300 * KIB)
    api.send(slug, b"y")
    assert api.get(f"/inboxes/{slug}")["kept"]["messages"] == 2
    api.call("POST", f"/inboxes/{slug}:purge").raise_for_status()
    assert api.refused("GET", f"/inboxes/{slug}/messages/1/raw")[:2] == (404, "not_found")
    kept = api.get(f"/inboxes/{slug}")["kept"]
    assert (kept["messages"], kept["bytes"]) == (0, 0)
    assert api.send(slug) == 3
    assert [seqs(page) for page in api.forward(slug)] == [[3], []]


def test_erasing_takes_one_message(api: Api) -> None:
    slug = api.inbox()
    for size in (10, 300 * KIB, 10):
        api.send(slug, b"x" * size)
    answer = api.call("DELETE", f"/inboxes/{slug}/messages/2")
    assert (answer.status_code, answer.content) == (204, b"")
    kept = api.get(f"/inboxes/{slug}")["kept"]
    assert (kept["messages"], kept["bytes"]) == (2, 20)
    for seq in ("0", "9", "x"):
        status, code, field = api.refused("DELETE", f"/inboxes/{slug}/messages/{seq}")
        assert (code, field) in {("not_found", None), ("not_found", "seq"), ("invalid_argument", "seq")}, (
            status
        )
