"""`/raw`: the bytes, whole or in part, in a form that no browser runs."""

import hashlib
from typing import Any

import httpx
import pytest

from tests.live.api import Api
from tests.live.rawhttp import Sender

KIB = 1024
MIB = 1024 * KIB
PIECE = 256 * KIB
"""Larger bodies are kept in pieces of this size; ranges are tried at their edges."""

SIZES = {"small": 1_000, "300 KiB": 300 * KIB, "10 MiB": 10 * MIB}


def body_of(size: int) -> bytes:
    """Return bytes of which no two blocks are alike."""
    return b"".join(hashlib.sha256(n.to_bytes(8, "big")).digest() for n in range(size // 32 + 1))[:size]


BODIES = {name: body_of(size) for name, size in SIZES.items()}


@pytest.fixture(scope="module")
def slug(api: Api, sender: Sender) -> str:
    """An inbox of the shared server with one message of each size, in their order."""
    slug = api.inbox()
    for body in BODIES.values():
        sender.post(slug, body)
    return slug


def fetch(api: Api, slug: str, seq: int = 1, method: str = "GET", **headers: str) -> httpx.Response:
    """Ask for the bytes of a message."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.call(method, f"/inboxes/{slug}/messages/{seq}/raw", headers=sent)


def seq_of(size: str) -> int:
    """Return the seq of the message of a size."""
    return list(SIZES).index(size) + 1


@pytest.mark.parametrize("size", SIZES)
def test_the_whole_comes_with_the_headers_that_keep_it_harmless(api: Api, slug: str, size: str) -> None:
    answer = fetch(api, slug, seq_of(size))
    assert answer.status_code == 200
    assert answer.content == BODIES[size]
    assert answer.headers["content-length"] == str(SIZES[size])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["accept-ranges"] == "bytes"
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("size", SIZES)
def test_head_says_what_get_would_send(api: Api, slug: str, size: str) -> None:
    got, told = fetch(api, slug, seq_of(size)).headers, fetch(api, slug, seq_of(size), "HEAD")
    assert (told.status_code, told.content) == (200, b"")
    of_each = {"date": "", "postroom-request-id": ""}
    assert {**told.headers, **of_each} == {**got, **of_each}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "asked",
    [
        "0-0",
        "0-",
        "0-999999999999",
        "-1",
        "-999999999999",
        "10-19",
        "-100",
        "999-",
        f"{PIECE - 1}-{PIECE}",
        f"{PIECE}-{PIECE}",
        f"{PIECE - 1}-{PIECE - 1}",
        f"{PIECE}-",
        f"1-{3 * PIECE + 7}",
    ],
)
def test_a_range_is_exactly_that_part(api: Api, slug: str, size: str, asked: str) -> None:
    body = BODIES[size]
    first, _, last = asked.partition("-")
    start = int(first) if first else max(len(body) - int(last), 0)
    stop = min(int(last) + 1, len(body)) if first and last else len(body)
    answer = fetch(api, slug, seq_of(size), Range=f"bytes={asked}")
    if start >= len(body):
        assert answer.status_code == 416
        assert answer.headers["content-range"] == f"bytes */{len(body)}"
        return
    assert answer.status_code == 206
    assert answer.content == body[start:stop]
    assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(body)}"
    assert answer.headers["content-length"] == str(stop - start)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment")


def test_a_body_fetched_in_ranges_is_the_whole(api: Api, slug: str) -> None:
    step = 777_777
    size = SIZES["10 MiB"]
    parts = [
        fetch(api, slug, seq_of("10 MiB"), Range=f"bytes={at}-{at + step - 1}").content
        for at in range(0, size, step)
    ]
    assert b"".join(parts) == BODIES["10 MiB"]


@pytest.mark.parametrize("asked", ["bytes=5-2", "bytes=a-b", "bytes=", "lines=0-1", "bytes=--1", "0-1"])
def test_a_range_that_is_none_is_passed_over(api: Api, slug: str, asked: str) -> None:
    answer = fetch(api, slug, Range=asked)
    assert (answer.status_code, answer.content) == (200, BODIES["small"])


@pytest.mark.parametrize("asked", ["bytes=0-1,5-6", "bytes=0-1, -1"])
def test_several_ranges_are_answered_with_the_whole(api: Api, slug: str, asked: str) -> None:
    answer = fetch(api, slug, Range=asked)
    assert (answer.status_code, answer.content) == (200, BODIES["small"])


@pytest.mark.parametrize("asked", ["bytes=1000-", "bytes=1000-1001", "bytes=99999999-", "bytes=-0"])
def test_a_range_beyond_the_end_is_416_and_says_the_size(api: Api, slug: str, asked: str) -> None:
    answer = fetch(api, slug, Range=asked)
    assert answer.status_code == 416
    assert answer.headers["content-range"] == "bytes */1000"


def test_a_range_of_an_empty_body_is_416_and_the_whole_is_empty(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    sender.post(slug, b"")
    whole = fetch(api, slug)
    assert (whole.status_code, whole.content, whole.headers["content-length"]) == (200, b"", "0")
    assert fetch(api, slug, Range="bytes=0-").status_code == 416


def test_a_resumed_download_is_of_the_same_body_or_of_the_whole(api: Api, slug: str) -> None:
    etag = fetch(api, slug).headers["etag"]
    assert fetch(api, slug, Range="bytes=0-0", If_Range=etag).status_code == 206
    other = fetch(api, slug, Range="bytes=0-0", If_Range='"another"')
    assert (other.status_code, other.content) == (200, BODIES["small"])


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "text/plain", "text/plain; charset=utf-8", "application/octet-stream", "image/png"],
)
def test_a_harmless_content_type_is_the_stored_one(api: Api, sender: Sender, content_type: str) -> None:
    slug = api.inbox()
    sender.post(slug, b"x", [(b"Content-Type", content_type.encode())])
    assert fetch(api, slug).headers["content-type"] == content_type


@pytest.mark.parametrize(
    "content_type",
    [
        "text/html",
        "TEXT/HTML; charset=utf-8",
        "application/xhtml+xml",
        "image/svg+xml",
        "text/xml",
        "application/xml",
        "application/atom+xml",
        "text/javascript",
        "application/javascript",
        "application/pdf",
        "application/wasm",
        "multipart/mixed; boundary=x",
        "text/plain, text/html",
        "text/plain; charset=utf-7",
        "text/cache-manifest",
        "message/rfc822",
        "text/html;/json",
        "x\u00e9",
        "",
    ],
)
def test_a_content_type_that_a_browser_may_run_becomes_octet_stream(
    api: Api, sender: Sender, content_type: str
) -> None:
    slug = api.inbox()
    sender.post(slug, b"<script>", [(b"Content-Type", content_type.encode("latin-1"))])
    answer = fetch(api, slug)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.content == b"<script>"


def test_an_old_epoch_is_refused_and_the_present_one_accepted(api: Api, slug: str) -> None:
    epoch: Any = api.message(slug, 1)["epoch"]
    path = f"/inboxes/{slug}/messages/1/raw"
    assert api.call("GET", path, params={"epoch": epoch}).content == BODIES["small"]
    assert api.refused("GET", path, params={"epoch": "another"}) == (409, "epoch_changed", "epoch")


@pytest.mark.parametrize("seq", ["4", "0", "9223372036854775807"])
def test_a_message_that_is_not_there_is_not_found(api: Api, slug: str, seq: str) -> None:
    status, code, _ = api.refused("GET", f"/inboxes/{slug}/messages/{seq}/raw")
    assert (status, code) in {(404, "not_found"), (400, "invalid_argument")}


def test_erased_bytes_are_gone_and_the_others_stay(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    sender.post(slug, BODIES["300 KiB"])
    sender.post(slug, BODIES["small"])
    api.ok("DELETE", f"/inboxes/{slug}/messages/1", status=204)
    assert fetch(api, slug, 1).status_code == 404
    assert fetch(api, slug, 2).content == BODIES["small"]
    assert sender.post(slug, b"next") == 3
