"""Fidelity of headers: what was sent is what is shown, in the order in which it was sent, except for credentials."""

from pathlib import Path
from typing import Any

import pytest

from tests.live.api import Api
from tests.live.harness import Server
from tests.live.rawhttp import Headers, Sender, head, ingest

KIB = 1024


def headers_of(api: Api, slug: str, seq: int = 1) -> list[list[str]]:
    """Return the headers of a message without the two that the raw sender adds by itself."""
    headers: list[list[str]] = api.message(slug, seq)["untrusted"]["headers"]
    return [line for line in headers if line[0] not in ("host", "content-length")]


def test_duplicate_headers_are_all_kept(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    sender.post(slug, b"{}", [(b"X-Tag", b"one"), (b"X-Tag", b"two"), (b"X-Tag", b"one")])
    assert headers_of(api, slug) == [["x-tag", "one"], ["x-tag", "two"], ["x-tag", "one"]]


def test_duplicates_between_other_headers_stay_where_they_were(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    sender.post(slug, b"{}", [(b"X-A", b"1"), (b"X-B", b"2"), (b"x-a", b"3"), (b"X-C", b"4"), (b"X-B", b"5")])
    assert headers_of(api, slug) == [["x-a", "1"], ["x-b", "2"], ["x-a", "3"], ["x-c", "4"], ["x-b", "5"]]


def test_the_order_of_headers_is_the_senders(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    names = [f"X-{n * 7919 % 100:02}" for n in range(40)]
    sender.post(slug, b"{}", [(name.encode(), b"v") for name in names])
    assert [name for name, _ in headers_of(api, slug)] == [name.lower() for name in names]
    sent = api.message(slug, 1)["untrusted"]["headers"]
    assert sent[0] == ["host", "postroom.test"]
    assert sent[-1] == ["content-length", "2"]


def test_values_are_shown_byte_by_byte_as_latin_1(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    value = "žluť 🐎".encode()
    every_byte = bytes([*range(0x21, 0x7F), *range(0x80, 0x100)])
    lines = [(b"X-Utf8", value), (b"X-Every", every_byte), (b"X-Tab", b"a\tb"), (b"X-None", b"")]
    sender.post(slug, b"{}", lines)
    shown = dict(headers_of(api, slug))
    assert shown["x-utf8"].encode("latin-1") == value
    assert shown["x-every"].encode("latin-1") == every_byte
    assert shown["x-tab"] == "a\tb"
    assert shown["x-none"] == ""


def test_a_header_value_of_32_kib_is_kept(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    value = bytes(0x21 + n % 90 for n in range(32 * KIB))
    sender.post(slug, b"{}", [(b"X-Large", value)])
    assert headers_of(api, slug) == [["x-large", value.decode()]]


def test_five_hundred_headers_are_kept(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    sender.post(slug, b"{}", [(b"X-%d" % n, b"%d" % n) for n in range(500)])
    assert headers_of(api, slug) == [[f"x-{n}", str(n)] for n in range(500)]


@pytest.mark.parametrize(
    "headers",
    [
        [(b"X-Large", b"v" * 65 * KIB)],
        [(b"X-%d" % n, b"v" * KIB) for n in range(65)],
        [(b"X-%d" % n, b"") for n in range(9_000)],
        [(b"X-Large", b"v" * 1024 * KIB)],
    ],
    ids=["one of 65 KiB", "65 of 1 KiB", "9,000 empty ones", "one of 1 MiB"],
)
def test_headers_over_64_kib_are_refused_with_431(api: Api, sender: Sender, headers: Headers) -> None:
    slug = api.inbox()
    reply = sender.request(b"POST", ingest(slug), headers, b"{}")
    assert (reply.status, reply.json()["error"]["code"]) == (431, "headers_too_large")
    assert reply.header(b"cache-control") == b"no-store"
    assert api.messages(slug)["latest_seq"] == 0


def test_a_target_over_64_kib_is_refused_with_431(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    reply = sender.request(b"POST", ingest(slug, b"?" + b"q" * 65 * KIB), [], b"{}")
    assert (reply.status, reply.json()["error"]["code"]) == (431, "headers_too_large")
    assert api.messages(slug)["latest_seq"] == 0


def test_the_same_sender_is_served_after_a_431(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    assert sender.request(b"POST", ingest(slug), [(b"X-Large", b"v" * 65 * KIB)], b"{}").status == 431
    assert sender.post(slug, b"{}") == 1


# -- credentials ----------------------------------------------------------------------------------------


CREDENTIALS = [
    b"Authorization",
    b"Proxy-Authorization",
    b"Cookie",
    b"Set-Cookie",
    b"X-Api-Key",
    b"X-Gitlab-Token",
    b"X-Telegram-Bot-Api-Secret-Token",
]


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_header_with_a_credential_is_redacted_and_keeps_its_place(
    api: Api, sender: Sender, name: bytes
) -> None:
    slug = api.inbox()
    secret = b"do-not-keep-me"
    lines = [(b"X-A", b"1"), (name, secret), (name.upper(), secret), (b"X-B", b"2")]
    sender.post(slug, b"{}", lines)
    redacted = [name.decode().lower(), "[redacted]"]
    assert headers_of(api, slug) == [["x-a", "1"], redacted, redacted, ["x-b", "2"]]


def test_a_credential_is_in_no_answer_and_in_no_file_of_the_data_directory(tmp_path: Path) -> None:
    secret = b"do-not-keep-me-anywhere"
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        slug = api.inbox()
        Sender(server.url).post(slug, b'{"kept": true}', [(name, secret) for name in CREDENTIALS])
        for path in (f"/inboxes/{slug}/messages/1", f"/inboxes/{slug}/messages?bodies=true"):
            assert secret not in api.call("GET", path).content
        # While it runs the newest pages are in the write-ahead log, afterwards in the database.
        assert secret not in contents(server.data_dir)
        assert server.stop() == 0
        assert secret not in contents(server.data_dir)
        assert b"kept" in contents(server.data_dir), "this is how a stored text would be found"
        assert secret.decode() not in server.output


def contents(directory: Path) -> bytes:
    """Return the bytes of all files of a directory."""
    return b"\n".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


# -- Expect ---------------------------------------------------------------------------------------------


def test_expect_100_continue_is_answered_before_the_body_is_sent(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    body = b'{"waited": true}'
    lines = [(b"Expect", b"100-continue"), (b"Content-Length", b"%d" % len(body))]
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), lines))
        assert line.interim() == 100
        line.send(body)
        assert line.reply().status == 200
    message: Any = api.message(slug, 1)
    assert message["untrusted"]["body"] == {"waited": True}
    assert ["expect", "100-continue"] in message["untrusted"]["headers"]


def test_expect_100_continue_works_for_a_chunked_body(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    lines = [(b"Expect", b"100-continue"), (b"Transfer-Encoding", b"chunked")]
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), lines))
        assert line.interim() == 100
        line.send(b"2\r\n[]\r\n", b"0\r\n\r\n")
        assert line.reply().status == 200
    assert api.message(slug, 1)["untrusted"]["body"] == []


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        (b"/in/demo", [(b"Content-Length", b"50000000")], 413),
        (b"/in/demo", [(b"Content-Length", b"2"), (b"Transfer-Encoding", b"chunked")], 400),
        (b"/in/nobody-here", [(b"Content-Length", b"2")], 404),
        (b"/in/nobody-here", [(b"Transfer-Encoding", b"chunked")], 404),
        (b"/v1/inboxes", [(b"Content-Length", b"2")], 401),
        (b"/healthz", [(b"Content-Length", b"2")], 405),
        (b"/nowhere", [(b"Content-Length", b"2")], 404),
    ],
    ids=["too large", "framed twice", "unknown", "unknown and chunked", "no token", "method", "nowhere"],
)
def test_a_sender_that_asks_first_is_refused_without_being_told_to_go_on(
    sender: Sender, target: bytes, headers: Headers, status: int
) -> None:
    with sender.line() as line:
        line.send(head(b"POST", target, [(b"Expect", b"100-continue"), *headers]))
        reply = line.reply()
    assert (reply.status, reply.interim) == (status, ())
    assert reply.header(b"connection") == b"close"


def test_a_sender_that_does_not_wait_to_be_told_is_told_nothing(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    lines = [(b"Expect", b"100-continue"), (b"Content-Length", b"2")]
    reply = sender.exchange(head(b"POST", ingest(slug), lines) + b"[]")
    assert (reply.status, reply.interim) == (200, ())


def test_an_administrator_that_asks_first_is_told_to_go_on(api: Api, sender: Sender) -> None:
    body = b'{"issue_token": true}'
    lines = [
        (b"Authorization", f"Bearer {api.token}".encode()),
        (b"Expect", b"100-continue"),
        (b"Content-Length", b"%d" % len(body)),
    ]
    with sender.line() as line:
        line.send(head(b"POST", b"/v1/inboxes", lines))
        assert line.interim() == 100
        line.send(body)
        assert line.reply().status == 201
