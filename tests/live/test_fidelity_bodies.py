"""Fidelity of bodies: the bytes that were sent are the bytes that come back, however they were cut on the way."""

import gzip
import json
from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.live.api import Api
from tests.live.rawhttp import Sender, head, ingest

KIB = 1024
CHUNKED = (b"Transfer-Encoding", b"chunked")

TEXT = "žluťoučký kůň 🐎 日本語 \u202e\u0000 é"
"""Characters of one, two, three and four bytes in UTF-8, one that reverses the reading direction, and NUL."""


def raw(api: Api, slug: str, seq: int = 1) -> bytes:
    """Return the bytes of a message."""
    answer = api.call("GET", f"/inboxes/{slug}/messages/{seq}/raw")
    assert answer.status_code == 200, answer.text
    return answer.content


def claims(api: Api, slug: str, seq: int = 1) -> dict[str, Any]:
    """Return what the sender said, the body included."""
    said: dict[str, Any] = api.message(slug, seq)["untrusted"]
    return said


# -- empty, and how a body is framed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "framing"),
    [
        ([], b""),
        ([(b"Content-Length", b"0")], b""),
        ([CHUNKED], b"0\r\n\r\n"),
        ([(b"Content-Type", b"application/json"), (b"Content-Length", b"0")], b""),
    ],
    ids=["no framing", "length 0", "no chunk", "said to be JSON"],
)
def test_an_empty_body_is_stored_as_empty_text(
    api: Api, sender: Sender, lines: list[tuple[bytes, bytes]], framing: bytes
) -> None:
    slug = api.inbox()
    assert sender.exchange(head(b"POST", ingest(slug), lines), framing).status == 200
    message = api.message(slug, 1)
    assert message["size"] == 0
    assert message["untrusted"]["body_text"] == ""
    assert not {"body", "body_base64"} & message["untrusted"].keys()
    assert raw(api, slug) == b""
    assert api.messages(slug, after=0, bodies=True)["messages"][0]["untrusted"]["body_text"] == ""


def test_a_chunked_body_is_put_together(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    assert sender.post_chunked(slug, [b'{"a"', b":", b" [1,", b" 2]}"]) == 1
    message = api.message(slug, 1)
    assert (message["size"], message["untrusted"]["body"]) == (13, {"a": [1, 2]})
    assert raw(api, slug) == b'{"a": [1, 2]}'
    assert ["transfer-encoding", "chunked"] in message["untrusted"]["headers"]


def test_extensions_and_trailers_of_chunks_are_no_part_of_the_body(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    start = head(b"POST", ingest(slug), [CHUNKED])
    reply = sender.exchange(start, b'3;x="y"\r\nabc\r\n', b"0002\r\nde\r\n", b"0\r\nX-Trailer: t\r\n\r\n")
    assert reply.status == 200
    assert raw(api, slug) == b"abcde"


def test_a_body_that_comes_with_its_head_or_byte_by_byte_is_the_same(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    body = TEXT.encode()
    start = head(b"POST", ingest(slug), [(b"Content-Length", b"%d" % len(body))])
    assert sender.exchange(start + body).status == 200
    assert sender.exchange(*(bytes([byte]) for byte in start + body)).status == 200
    assert raw(api, slug, 1) == raw(api, slug, 2) == body


# -- what is in it ------------------------------------------------------------------------------------------


def test_multi_byte_text_survives_a_cut_at_every_chunk_boundary(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    body = TEXT.encode()
    cuts = range(1, len(body))
    with ThreadPoolExecutor(4) as pool:
        seqs = list(pool.map(lambda cut: sender.post_chunked(slug, [body[:cut], body[cut:]]), cuts))
    assert sorted(seqs) == list(range(1, len(body)))
    messages = [one for page in api.forward(slug, bodies=True, limit=100) for one in page["messages"]]
    assert {one["untrusted"]["body_text"] for one in messages} == {TEXT}
    assert {raw(api, slug, seq) for seq in seqs} == {body}


def test_multi_byte_json_survives_a_chunk_for_every_byte(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    body = json.dumps({"text": TEXT}, ensure_ascii=False).encode()
    sender.post_chunked(slug, [bytes([byte]) for byte in body])
    assert claims(api, slug)["body"] == {"text": TEXT}
    assert raw(api, slug) == body


@pytest.mark.parametrize(
    "body",
    [
        bytes(range(256)),
        b'{"text": "\xff"}',
        b"\xed\xa0\x80",  # half of a surrogate pair, which UTF-8 forbids
        b"\xc0\x80",  # NUL written overlong
        b"caf\xe9",
        "ž".encode()[:1],
    ],
    ids=["every byte", "JSON but for one byte", "surrogate", "overlong", "latin-1", "cut in a character"],
)
def test_a_body_that_is_not_utf_8_is_shown_as_base64(api: Api, sender: Sender, body: bytes) -> None:
    slug = api.inbox()
    sender.post(slug, body, [(b"Content-Type", b"application/json")])
    said = claims(api, slug)
    assert b64decode(said["body_base64"], validate=True) == body
    assert not {"body", "body_text"} & said.keys()
    assert raw(api, slug) == body
    listed = api.messages(slug, after=0, bodies=True)["messages"][0]["untrusted"]
    assert listed["body_base64"] == said["body_base64"]


@pytest.mark.parametrize("compress", [gzip.compress, lambda body: b"not gzip at all \xff" + body])
def test_a_gzip_body_is_kept_as_it_was_compressed(
    api: Api, sender: Sender, compress: Callable[[bytes], bytes]
) -> None:
    slug = api.inbox()
    body = compress(b'{"a": 1}')
    sender.post(slug, body, [(b"Content-Encoding", b"gzip"), (b"Content-Type", b"application/json")])
    message = api.message(slug, 1)
    assert message["size"] == len(body)
    assert ["content-encoding", "gzip"] in message["untrusted"]["headers"]
    assert b64decode(message["untrusted"]["body_base64"]) == body
    answer = api.call("GET", f"/inboxes/{slug}/messages/1/raw")
    assert "content-encoding" not in answer.headers, "a client would unpack what was to be kept"
    assert answer.content == body


def test_a_form_body_is_kept_as_text(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    body = b"a=1&a=2&b=&c=%C5%BE+%26&=&payload=%7B%22x%22%3A1%7D"
    sender.post(slug, body, [(b"Content-Type", b"application/x-www-form-urlencoded")])
    said = claims(api, slug)
    assert (said["body_text"], said["content_type"]) == (body.decode(), "application/x-www-form-urlencoded")
    assert raw(api, slug) == body


def test_a_multipart_body_is_kept_byte_for_byte(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    parts = [
        b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n',
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="x.bin"\r\n\r\n\x00\xff\r\n--b--\r\n',
    ]
    content_type = b'multipart/form-data; boundary="b"'
    sender.post(slug, b"".join(parts), [(b"Content-Type", content_type)])
    assert raw(api, slug) == b"".join(parts)
    assert claims(api, slug)["content_type"] == content_type.decode()


@pytest.mark.parametrize("content_type", [b"", b"text/plain", b"application/xml", b"nonsense"])
def test_json_is_recognised_by_its_bytes_whatever_it_is_said_to_be(
    api: Api, sender: Sender, content_type: bytes
) -> None:
    slug = api.inbox()
    sender.post(slug, b'{"a": 1}', [(b"Content-Type", content_type)])
    said = claims(api, slug)
    assert (said["body"], said["content_type"]) == ({"a": 1}, content_type.decode())


def test_without_a_content_type_it_is_null(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    sender.post(slug, b"x")
    assert claims(api, slug)["content_type"] is None


@pytest.mark.parametrize(
    "size", [16 * KIB - 1, 16 * KIB, 16 * KIB + 1, 64 * KIB, 64 * KIB + 1, 256 * KIB + 1]
)
def test_bodies_around_every_internal_boundary_come_back_whole(api: Api, sender: Sender, size: int) -> None:
    slug = api.inbox()
    body = b'{"n":"' + b"n" * (size - 8) + b'"}'
    assert len(body) == size
    sender.post(slug, body)
    assert raw(api, slug) == body
    assert claims(api, slug)["body"] == {"n": "n" * (size - 8)}
    listed = api.messages(slug, after=0, bodies=True)["messages"][0]
    if size > 16 * KIB:
        assert listed["body_truncated"] is True
        assert "body" not in listed["untrusted"]
    else:
        assert "body_truncated" not in listed
        assert listed["untrusted"]["body"] == {"n": "n" * (size - 8)}
