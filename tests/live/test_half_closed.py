"""Clients that close their sending side after a request (`shutdown(SHUT_WR)`): they have not left, they are reading."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from tests.live.api import Api
from tests.live.rawhttp import Reply, Sender, head
from tests.live.stack import MIB, stack
from tests.wire.client import head as head_of
from web.http import Request, StreamedAnswer
from web.routes import Route

LARGE_BYTES = 3_000_000


def ask_and_close(sender: Sender, api: Api, method: str, target: str, body: bytes = b"") -> Reply:
    """Send one request as the administrator, close the sending side, and return the answer."""
    fields = [
        (b"Authorization", f"Bearer {api.token}".encode()),
        (b"Content-Length", b"%d" % len(body)),
    ]
    with sender.line() as line:
        line.send(head(method.encode(), target.encode(), fields) + body)
        line.finish_sending()
        return line.reply(method)


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", "/v1/inboxes", b'{"issue_token": true}', 201),
        ("PATCH", "/v1/inboxes/{slug}", b'{"name": "Half"}', 200),
        ("POST", "/v1/tokens", b'{"kind": "agent", "inboxes": "all"}', 201),
        ("GET", "/v1/tokens", b"", 200),
        ("DELETE", "/v1/inboxes/{slug}/messages/1", b"", 204),
        ("GET", "/v1/me", b"", 200),
        ("GET", "/v1/inboxes", b"", 200),
        ("GET", "/v1/inboxes/{slug}/messages?bodies=true", b"", 200),
        ("POST", "/in/{slug}", b"{}", 200),
        ("GET", "/v1/nowhere", b"", 404),
    ],
)
def test_a_client_that_closes_its_sending_side_gets_its_answer(
    api: Api, sender: Sender, method: str, target: str, body: bytes, status: int
) -> None:
    slug = api.inbox()
    api.send(slug)
    for _ in range(5):  # which of two tasks is first is a matter of chance
        if method == "DELETE":
            target = f"/v1/inboxes/{slug}/messages/{api.send(slug)}"
        assert ask_and_close(sender, api, method, target.format(slug=slug), body).status == status


def test_a_token_that_was_issued_to_a_half_closed_client_is_not_lost(api: Api, sender: Sender) -> None:
    made = ask_and_close(sender, api, "POST", "/v1/inboxes", b'{"issue_token": true}').json()
    assert api.as_(made["token"]).messages(made["slug"])["latest_seq"] == 0


def test_a_half_closed_client_gets_the_whole_of_a_large_body(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    body = os.urandom(LARGE_BYTES)
    api.send(slug, body)
    reply = ask_and_close(sender, api, "GET", f"/v1/inboxes/{slug}/messages/1/raw")
    assert reply.status == 200
    assert reply.body == body


@pytest.mark.parametrize("half_closed", [False, True])
async def test_a_download_ends_when_its_client_has_really_gone(tmp_path: Path, half_closed: bool) -> None:
    ended = trio.Event()

    async def endless(request: Request) -> StreamedAnswer:
        @trio.as_safe_channel
        async def pieces() -> AsyncGenerator[bytes, None]:
            try:
                while True:
                    yield bytes(MIB)
            finally:
                ended.set()

        return StreamedAnswer(200, pieces, b"application/octet-stream", 2**40)

    async with (
        stack(tmp_path, hot=(Route("GET", "/v1/endless", endless),), stalled_reader_seconds=60) as served,
        await served.connect() as client,
    ):
        with trio.fail_after(5):
            await client.send(head_of("GET", "/v1/endless", [await served.admin()]))
            if half_closed:
                await client.stream.send_eof()
            await client.until(bytes(2 * MIB))
            assert not ended.is_set()
            await client.aclose()
            await ended.wait()
            await served.served.connections.wait_until_none()
