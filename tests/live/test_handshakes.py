"""Handshakes over raw sockets: the bytes that each provider demands, and no message for any of them.

Black-box: the requests and answers are those of the providers' documentation (`tests/handshakes.py`).
"""

import itertools
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.handshakes import EVERYWHERE, HANDSHAKES, HOOK_SECRET, MALFORMED, SECRETS, Ask, Handshake
from tests.live.api import Api
from tests.live.rawhttp import Reply, Sender, ingest

EVERY_ANSWER = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


SIGNED_URL = "https://hooks.example/in"
"""For the presets that sign the URL; the shared server has no PUBLIC_URL."""


def inbox_of(api: Api, preset: str, **settings: Any) -> str:
    settings.setdefault("signed_url", SIGNED_URL)
    return api.inbox(verifier=preset, secrets=SECRETS.get(preset, []), **settings)


def send(sender: Sender, slug: str, ask: Ask) -> Reply:
    return sender.request(ask.method, ingest(slug, ask.suffix), ask.headers, ask.body)


def latest_seq(api: Api, slug: str) -> int:
    return int(api.messages(slug, after=0)["latest_seq"])


@pytest.mark.parametrize("row", HANDSHAKES, ids=lambda row: f"{row.ask.preset}-{row.ask.why}")
@pytest.mark.parametrize("on_unverified", ["store", "reject"])
def test_a_provider_gets_the_very_bytes_and_leaves_no_message(
    api: Api, sender: Sender, row: Handshake, on_unverified: str
) -> None:
    slug = inbox_of(api, row.ask.preset, on_unverified=on_unverified, response={"status": 202, "body": "own"})
    reply = send(sender, slug, row.ask)
    assert (reply.status, reply.body) == (row.status, row.body)
    length = [] if row.status == 204 else [(b"content-length", b"%d" % len(row.body))]
    of_every_answer = (b"date", b"postroom-request-id")
    told = [(name, value) for name, value in reply.headers if name not in of_every_answer]
    assert sorted(told) == sorted([*EVERY_ANSWER, *row.headers, *length])
    assert latest_seq(api, slug) == 0


@pytest.mark.parametrize(
    "row",
    [row for row in HANDSHAKES if row.ask.preset not in EVERYWHERE],
    ids=lambda row: f"{row.ask.preset}-{row.ask.why}",
)
def test_on_any_other_inbox_the_same_bytes_are_an_ordinary_request(
    api: Api, sender: Sender, row: Handshake
) -> None:
    for slug in (api.inbox(), api.inbox(verifier="github"), inbox_of(api, "trello")):
        reply = send(sender, slug, row.ask)
        if row.ask.method == b"OPTIONS":
            assert (reply.status, reply.header(b"allow")) == (405, b"POST, PUT, GET, HEAD")
        elif row.ask.method == b"GET":
            assert (reply.status, reply.body) == (200, b"")
        else:
            assert (reply.status, reply.json()["seq"]) == (200, 1)
            assert api._http.get(f"/v1/inboxes/{slug}/messages/1/raw").content == row.ask.body
        assert latest_seq(api, slug) == (row.ask.method == b"POST")


@pytest.mark.parametrize("preset", sorted({ask.preset for ask in MALFORMED}))
def test_a_malformed_handshake_is_an_ordinary_request(api: Api, sender: Sender, preset: str) -> None:
    slug = inbox_of(api, preset)
    expected = itertools.count(1)
    for ask in (ask for ask in MALFORMED if ask.preset == preset):
        reply = send(sender, slug, ask)
        if ask.method == b"OPTIONS":
            assert reply.status == 405, ask.why
        elif ask.method == b"GET":
            assert (reply.status, reply.body) == (200, b""), ask.why
        else:
            seq = next(expected)
            assert reply.status == 200, ask.why
            # Xero's answers have no body.
            assert preset == "xero" or reply.json().get("seq") == seq, ask.why
            assert api._http.get(f"/v1/inboxes/{slug}/messages/{seq}/raw").content == ask.body, ask.why
    assert latest_seq(api, slug) == next(expected) - 1


@pytest.mark.parametrize("preset", ["meta", "websub"])
def test_a_wrong_verify_token_is_forbidden(api: Api, sender: Sender, preset: str) -> None:
    slug = api.inbox(verifier=preset, secrets=[{"name": "verify_token", "value": "right"}])
    for query, status in ((b"verify_token=right", 200), (b"verify_token=wrong", 403), (b"topic=x", 403)):
        reply = send(sender, slug, Ask(preset, "", b"GET", b"?hub.challenge=%3Cb%3E&hub." + query))
        assert reply.status == status
        if status == 403:
            assert reply.json()["error"]["code"] == "permission_denied"
            assert b"<b>" not in reply.body


def test_asana_s_secret_is_kept_only_while_the_inbox_has_none_and_shown_to_nobody(
    api: Api, sender: Sender
) -> None:
    slug = api.inbox(verifier="asana")
    for secret in (HOOK_SECRET, b"another"):
        reply = send(sender, slug, Ask("asana", "", b"POST", b"", [(b"X-Hook-Secret", secret)], b""))
        assert (reply.status, reply.header(b"x-hook-secret")) == (200, secret)
    answer = api.call("GET", f"/inboxes/{slug}")
    assert [secret["name"] for secret in answer.json()["secrets"]] == ["default"]
    assert HOOK_SECRET.decode() not in answer.text


@contextmanager
def nobody() -> Iterator[tuple[str, socket.socket]]:
    """Listen where nobody is expected to call."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/confirm", listener


def test_a_subscription_of_sns_is_a_message_whose_url_is_not_fetched(api: Api, sender: Sender) -> None:
    slug = api.inbox(verifier="sns", secret="s3cret")
    with nobody() as (url, listener):
        body = json.dumps(
            {"Type": "SubscriptionConfirmation", "MessageId": "m-1", "SubscribeURL": url}
        ).encode()
        kind = (b"x-amz-sns-message-type", b"SubscriptionConfirmation")
        assert sender.post(slug, body, [kind], suffix=b"/s3cret") == 1
        message = api.message(slug, 1)
        assert message["untrusted"]["body"]["SubscribeURL"] == url
        assert (message["verified"], message["untrusted"]["path"]) == (True, "/[redacted]")
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_validation_url_is_not_fetched_either(api: Api, sender: Sender) -> None:
    slug = api.inbox(verifier="cloudevents")
    with nobody() as (url, listener):
        headers = [
            (b"WebHook-Request-Origin", b"a.example"),
            (b"WebHook-Request-Callback", url.encode()),
        ]
        assert send(sender, slug, Ask("cloudevents", "", b"OPTIONS", b"", headers)).status == 200
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_challenge_is_no_way_into_another_answer(sender: Sender, api: Api) -> None:
    """One connection, several challenges: what is odd in one does not leak into the next."""
    slug = inbox_of(api, "msgraph")
    with sender.line() as line:
        for query in (b"a%0d%0a%0d%0aHTTP/1.1 200 OK", b"fine"):
            target = ingest(slug, b"?validationToken=" + query.replace(b" ", b"%20"))
            line.send(b"POST " + target + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        first, second = line.reply(), line.reply()
    assert first.json()["seq"] == 1
    assert (second.status, second.body) == (200, b"fine")


def test_a_secret_in_the_path_reaches_no_reader_and_no_log(api: Api, server: Any, sender: Sender) -> None:
    slug = api.inbox(verifier="eventgrid", secret="pssst-4711")
    assert sender.post(slug, b"[]", suffix=b"/pssst-4711/x?y=1") == 1
    for answer in (
        api.call("GET", f"/inboxes/{slug}/messages?after=0&bodies=true"),
        api.call("GET", f"/inboxes/{slug}/messages/1"),
    ):
        assert "pssst-4711" not in answer.text
        assert "[redacted]" in answer.text
    assert "pssst-4711" not in server.output
