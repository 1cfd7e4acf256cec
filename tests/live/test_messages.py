"""Messages over REST: facts apart from claims, bodies as they came, sizes as sent, raw bytes.

Black-box: written from sections 3 and 5 of the surface and from the inlet contract, over real sockets.
"""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.api import Api, error_of, query, seqs
from tests.live.harness import Server

KIB = 1024
MIB = 1024 * KIB
PAGE_BYTES = MIB
INLINE_BYTES = 16 * KIB

FACTS = {
    "id",
    "inbox",
    "seq",
    "epoch",
    "received_at",
    "method",
    "source_ip",
    "size",
    "verified",
    "verifier",
} | {
    "verify_error",
    "sender",
}
CLAIMS = {"path", "query", "headers", "content_type", "delivery_id", "event_type"}
BODY_FIELDS = {"body", "body_text", "body_base64"}

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")

# -- the shape of a message, and its body ----------------------------------------------------------


def test_a_message_keeps_facts_and_claims_apart(api: Api) -> None:
    slug = api.github_inbox()
    body = b'{"zen": "Design for failure."}'
    answer = api.github(slug, "ping", body, delivery="a-delivery").json()
    message = api.message(slug, 1)
    assert message.keys() == FACTS | {"untrusted"}
    assert message["untrusted"].keys() == CLAIMS | {"body"}
    assert ULID.fullmatch(message["id"])
    assert answer == {"id": message["id"], "seq": 1}
    facts = {name: message[name] for name in ("inbox", "seq", "method", "source_ip", "size", "sender")}
    assert facts == {
        "inbox": slug,
        "seq": 1,
        "method": "POST",
        "source_ip": "127.0.0.1",
        "size": len(body),
        "sender": None,
    }
    verdict = (message["verified"], message["verifier"], message["verify_error"])
    assert verdict == (True, "github", None)
    claims = message["untrusted"]
    assert (claims["event_type"], claims["delivery_id"]) == ("ping", "a-delivery")
    assert (claims["path"], claims["query"]) == ("", "")
    assert claims["content_type"] == "application/json"
    assert ["x-github-event", "ping"] in claims["headers"]


def test_facts_that_do_not_apply_are_null_and_present(api: Api) -> None:
    slug = api.inbox()
    api.send(slug, b"", path="/a/b?x=1&x=2", headers={"Authorization": "Bearer their-own", "Cookie": "c=1"})
    message = api.message(slug, 1)
    assert message.keys() == FACTS | {"untrusted"}
    assert (message["verified"], message["verifier"], message["verify_error"]) == (None, None, None)
    claims = message["untrusted"]
    assert (claims["path"], claims["query"]) == ("/a/b", "x=1&x=2")
    assert (claims["delivery_id"], claims["event_type"], claims["content_type"]) == (None, None, None)
    assert ["authorization", "[redacted]"] in claims["headers"]
    assert ["cookie", "[redacted]"] in claims["headers"]
    assert claims["body_text"] == ""


def test_a_forged_signature_is_told_without_the_secret(api: Api) -> None:
    slug = api.github_inbox()
    api.github(slug, secret="another one").raise_for_status()
    api.post(slug).raise_for_status()
    verdicts = [
        (message["verified"], message["verifier"], message["verify_error"])
        for message in api.messages(slug, after=0)["messages"]
    ]
    assert verdicts == [(False, "github", "signature mismatch"), (False, "github", "missing signature")]


BODIES = [
    pytest.param(b'{"a": 1.10, "a":2,\n "big": 123456789012345678901}', "body", id="json-as-it-came"),
    pytest.param(b" [1, 2]\r\n", "body", id="json-with-space-around"),
    pytest.param(b'"text"', "body", id="a-json-string"),
    pytest.param('{"emoji": "\U0001f4ec"}'.encode(), "body", id="json-with-emoji"),
    pytest.param(b'{"cut": ', "body_text", id="json-cut-short"),
    pytest.param(b"[1e999]", "body_text", id="a-number-beyond-every-double"),
    pytest.param(b"[NaN]", "body_text", id="not-a-number"),
    pytest.param(b"[" * 101 + b"]" * 101, "body_text", id="json-nested-101-deep"),
    pytest.param(b"a=1&b=%20", "body_text", id="a-form"),
    pytest.param("Grüße\x00 \x1f".encode(), "body_text", id="text-with-controls"),
    pytest.param(b"", "body_text", id="empty"),
    pytest.param(b"\xff\xfe\x00", "body_base64", id="bytes"),
    pytest.param(b'"\xc3\x28"', "body_base64", id="json-with-broken-utf-8"),
]


@pytest.mark.parametrize(("body", "field"), BODIES)
def test_a_body_is_shown_as_what_it_is(api: Api, body: bytes, field: str) -> None:
    slug = api.inbox()
    api.send(slug, body)
    whole = api.call("GET", f"/inboxes/{slug}/messages/1")
    page = api.call("GET", f"/inboxes/{slug}/messages", params=query(after=0, bodies=True))
    for answer in (whole, page):
        message = answer.json() if answer is whole else answer.json()["messages"][0]
        assert BODY_FIELDS & message["untrusted"].keys() == {field}
        assert "body_truncated" not in message
        assert message["size"] == len(body)
        if field == "body":
            assert b'"body":' + body + b"}" in answer.content, "spliced in, not encoded again"
        elif field == "body_text":
            assert message["untrusted"]["body_text"].encode() == body
        else:
            assert base64.b64decode(message["untrusted"]["body_base64"]) == body
    assert api.call("GET", f"/inboxes/{slug}/messages/1/raw").content == body


def test_bodies_come_only_when_they_are_asked_for(api: Api, ten: str) -> None:
    for params in ({}, {"bodies": False}, {"after": 0}):
        for message in api.messages(ten, **params)["messages"]:
            assert message["untrusted"].keys() == CLAIMS
            assert message.keys() == FACTS | {"untrusted"}


@pytest.mark.parametrize(
    ("size", "inline"),
    [(INLINE_BYTES, True), (INLINE_BYTES + 1, False), (64 * KIB + 1, False), (300 * KIB, False)],
)
def test_a_body_over_the_inline_limit_is_left_out_and_marked(api: Api, size: int, inline: bool) -> None:
    slug = api.inbox()
    body = b'"' + b"x" * (size - 2) + b'"'
    api.send(slug, body)
    (message,) = api.messages(slug, bodies=True)["messages"]
    assert message["size"] == size
    assert ("body" in message["untrusted"], message.get("body_truncated")) == (
        inline,
        None if inline else True,
    )
    if not inline:
        assert not BODY_FIELDS & message["untrusted"].keys()
    (without,) = api.messages(slug)["messages"]
    assert "body_truncated" not in without
    whole = api.message(slug, 1)
    assert "body_truncated" not in whole
    assert whole["untrusted"]["body"] == "x" * (size - 2)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param(b'{"pad": "' + b"x" * 300 * KIB + b'"}', "body", id="json"),
        pytest.param(b"{" * 70 * KIB, "body_text", id="text"),
        pytest.param(b"\xff" * 70 * KIB, "body_base64", id="bytes"),
    ],
)
def test_a_large_body_is_shown_as_what_it_is(api: Api, body: bytes, field: str) -> None:
    slug = api.inbox()
    api.send(slug, body)
    assert BODY_FIELDS & api.message(slug, 1)["untrusted"].keys() == {field}
    assert api.call("GET", f"/inboxes/{slug}/messages/1/raw").content == body


# -- sizes -----------------------------------------------------------------------------------------


def test_a_page_is_cut_at_one_mebibyte_and_its_cursor_skips_nothing(api: Api) -> None:
    slug = api.inbox()
    body = b'"' + b"x" * (INLINE_BYTES - 2) + b'"'
    for _ in range(80):
        api.send(slug, body)
    path = f"/inboxes/{slug}/messages"
    for start, name in (({"after": 0}, "next_after"), ({}, "next_before")):
        found: list[int] = []
        cursor: dict[str, int] = start
        while True:
            answer = api.call("GET", path, params=query(limit=100, bodies=True, **cursor))
            assert len(answer.content) <= PAGE_BYTES
            page = answer.json()
            if not found:
                assert 50 < len(page["messages"]) < 80, "as many as fit, not fewer"
            found += seqs(page)
            if page[name] is None or not page["messages"]:
                break
            cursor = {name.removeprefix("next_"): page[name]}
        assert sorted(found) == list(range(1, 81))
        assert len(set(found)) == len(found)


def test_long_headers_count_towards_a_page_as_bodies_do(api: Api) -> None:
    slug = api.inbox()
    for _ in range(40):
        api.send(slug, headers={"X-Long": "x" * 60_000})
    found: list[int] = []
    after = 0
    while len(found) < 40:
        answer = api.call("GET", f"/inboxes/{slug}/messages", params=query(after=after, limit=100))
        assert len(answer.content) <= PAGE_BYTES
        found += seqs(answer.json())
        after = answer.json()["next_after"]
    assert found == list(range(1, 41))


@pytest.fixture
def small_pages(tmp_path: Path) -> Iterator[Api]:
    """A server whose pages are smaller than one of its messages may be."""
    with Server(tmp_path / "data", page_bytes=16 * KIB) as running, Api(running.url, running.token) as client:
        yield client


def test_a_page_never_has_fewer_than_one_message(small_pages: Api) -> None:
    slug = small_pages.inbox()
    for _ in range(3):
        small_pages.send(slug, b"\0" * INLINE_BYTES)  # six bytes each as JSON, so one message exceeds a page
    pages = list(small_pages.forward(slug, bodies=True))
    assert [seqs(page) for page in pages] == [[1], [2], [3], []]
    assert [seqs(page) for page in small_pages.backward(slug, bodies=True)] == [[3], [2], [1]]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'"' + b"x" * 4 * MIB + b'"', id="larger-than-the-limit"),
        pytest.param(b"\1" * MIB, id="larger-once-it-is-escaped"),
        pytest.param(b"\xff" * (3 * MIB + 100 * KIB), id="larger-once-it-is-base64"),
    ],
)
def test_a_message_too_large_to_be_sent_whole_is_refused_with_its_raw_url(api: Api, body: bytes) -> None:
    slug = api.inbox()
    api.send(slug, body)
    answer = api.call("GET", f"/inboxes/{slug}/messages/1")
    assert error_of(answer)[:2] == (413, "payload_too_large")
    url = answer.json()["error"]["details"]["raw_url"]
    assert url.endswith(f"/v1/inboxes/{slug}/messages/1/raw")
    assert url in answer.json()["error"]["message"]
    raw = api.call("GET", f"/inboxes/{slug}/messages/1/raw")
    assert (raw.status_code, raw.content == body) == (200, True)


def test_a_message_just_under_the_limit_is_sent_whole(api: Api) -> None:
    slug = api.inbox()
    body = b'"' + b"x" * (4 * MIB - 4 * KIB) + b'"'
    api.send(slug, body)
    answer = api.call("GET", f"/inboxes/{slug}/messages/1")
    assert answer.status_code == 200
    assert len(answer.content) <= 4 * MIB
    assert answer.content.count(b"x") >= 4 * MIB - 4 * KIB


# -- the raw bytes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("application/json", "application/json"),
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("text/html", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
        ("application/pdf", "application/octet-stream"),
        ("text/javascript", "application/octet-stream"),
    ],
)
def test_raw_bytes_cannot_run_in_a_browser(api: Api, sent: str, shown: str) -> None:
    slug = api.inbox()
    api.send(slug, b"<script>alert(1)</script>", headers={"Content-Type": sent})
    answer = api.call("GET", f"/inboxes/{slug}/messages/1/raw")
    assert answer.content == b"<script>alert(1)</script>"
    assert answer.headers["content-type"] == shown
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("size", [1000, 600 * KIB], ids=["inline", "in-pieces"])
def test_a_range_of_the_raw_bytes_can_be_had(api: Api, size: int) -> None:
    slug = api.inbox()
    body = bytes(n * 7 % 251 for n in range(size))
    api.send(slug, body)
    path = f"/inboxes/{slug}/messages/1/raw"
    for start, stop in ((0, 1), (10, 500), (size - 3, size), (size // 2, size), (0, size)):
        answer = api.call("GET", path, headers={"Range": f"bytes={start}-{stop - 1}"})
        assert (answer.status_code, answer.content == body[start:stop]) == (206, True)
        assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
    assert api.call("GET", path, headers={"Range": "bytes=-5"}).content == body[-5:]
    beyond = api.call("GET", path, headers={"Range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")


def test_head_tells_the_size_without_the_bytes(api: Api) -> None:
    slug = api.inbox()
    api.send(slug, b"x" * 1234)
    answer = api.call("HEAD", f"/inboxes/{slug}/messages/1/raw")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "1234", b"")
