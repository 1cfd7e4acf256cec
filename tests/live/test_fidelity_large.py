"""Large bodies: 10 MiB in bounded memory, and a refusal that a sender can read while it is still sending."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.api import SECRET, Api
from tests.live.harness import Server
from tests.live.memory import MIB, MemoryGrowth
from tests.live.rawhttp import Line, Sender, head, ingest
from tests.live.signing import sha256_signature

KIB = 1024
LIMIT = 10 * MIB
GROWTH_BYTES = 32 * MIB
"""The issue's bound for one 10 MiB body."""

PIECE = 64 * KIB
CHUNKED = (b"Transfer-Encoding", b"chunked")


def body_of(size: int) -> bytes:
    """Return bytes of which no two 64 KiB are alike, so that a piece lost, repeated or moved is noticed."""
    block = b"".join(hashlib.sha256(n.to_bytes(8, "big")).digest() for n in range(size // 32 + 1))
    return block[:size]


LARGEST = body_of(LIMIT)


@pytest.fixture(scope="module")
def largest(api: Api, sender: Sender) -> str:
    """An inbox of the shared server whose first message has the largest body."""
    slug = api.inbox()
    assert sender.post(slug, LARGEST) == 1
    return slug


def raw(api: Api, slug: str, seq: int = 1) -> bytes:
    """Return the bytes of a message."""
    answer = api.call("GET", f"/inboxes/{slug}/messages/{seq}/raw")
    assert answer.status_code == 200, answer.text
    return answer.content


def test_a_body_of_exactly_the_limit_comes_back_byte_for_byte(api: Api, largest: str) -> None:
    assert raw(api, largest) == LARGEST
    assert api.messages(largest, after=0)["messages"][0]["size"] == LIMIT


def test_a_chunked_body_of_exactly_the_limit_comes_back_byte_for_byte(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    pieces = [LARGEST[at : at + PIECE - 1] for at in range(0, LIMIT, PIECE - 1)]
    assert sender.post_chunked(slug, pieces) == 1
    assert raw(api, slug) == LARGEST


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("verifier", ["none", "github"])
def test_ten_mebibytes_in_and_out_cost_the_server_at_most_32_mebibytes(
    tmp_path: Path, framing: str, verifier: str
) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        sender = Sender(server.url)
        slug = api.inbox() if verifier == "none" else api.github_inbox()
        signature = [(b"X-Hub-Signature-256", sha256_signature(SECRET.encode(), LARGEST))]
        sender.post(slug, b"{}")  # what the first request of all costs is no growth of a body's
        raw(api, slug)
        with MemoryGrowth(server.pid) as coming:
            if framing == "length":
                sender.post(slug, LARGEST, signature)
            else:
                pieces = [LARGEST[at : at + PIECE] for at in range(0, LIMIT, PIECE)]
                sender.post_chunked(slug, pieces, signature)
        with MemoryGrowth(server.pid) as going:
            content = raw(api, slug, 2)
        assert content == LARGEST
        assert api.messages(slug)["messages"][0]["verified"] is (None if verifier == "none" else True)
        assert coming.bytes <= GROWTH_BYTES, f"ingest: {coming.bytes / MIB:.1f} MiB"
        assert going.bytes <= GROWTH_BYTES, f"/raw: {going.bytes / MIB:.1f} MiB"


def test_a_message_over_4_mebibytes_names_its_raw_url_instead(api: Api, largest: str) -> None:
    answer = api.call("GET", f"/inboxes/{largest}/messages/1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    assert f"/v1/inboxes/{largest}/messages/1/raw" in answer.json()["error"]["message"]


def test_a_page_with_a_large_body_leaves_it_out_and_says_so(api: Api, largest: str) -> None:
    answer = api.call("GET", f"/inboxes/{largest}/messages", params={"after": 0, "bodies": "true"})
    message = answer.json()["messages"][0]
    assert (message["body_truncated"], message["size"]) == (True, LIMIT)
    assert not {"body", "body_text", "body_base64"} & message["untrusted"].keys()
    assert len(answer.content) < 4 * KIB


# -- one byte too many ------------------------------------------------------------------------------------


def refused(line: Line) -> None:
    """Read the refusal of a body that is too large."""
    reply = line.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (413, "payload_too_large")
    assert str(LIMIT) in reply.json()["error"]["message"]


def test_a_declared_body_one_byte_over_the_limit_is_refused_before_it_is_sent(
    api: Api, sender: Sender
) -> None:
    slug = api.inbox()
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), [(b"Content-Length", b"%d" % (LIMIT + 1))]))
        refused(line)
    assert api.messages(slug)["latest_seq"] == 0


def test_a_sender_that_sends_all_of_it_before_it_listens_can_read_the_413(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), [(b"Content-Length", b"%d" % (LIMIT + 1))]))
        line.send(LARGEST, b"x")
        refused(line)
    assert api.messages(slug)["latest_seq"] == 0


def test_a_sender_in_the_middle_of_its_upload_can_read_the_413(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), [(b"Content-Length", b"%d" % (4 * LIMIT))]))
        told = threading.Event()

        def upload() -> None:
            for _ in range(4 * LIMIT // PIECE):
                if told.is_set():
                    return
                line.send(LARGEST[:PIECE])

        uploading = threading.Thread(target=upload)
        uploading.start()
        try:
            refused(line)
        finally:
            told.set()
            uploading.join()
    assert api.messages(slug)["latest_seq"] == 0


def test_a_chunked_body_is_refused_at_its_first_byte_over_the_limit(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), [CHUNKED]))
        for at in range(0, LIMIT, PIECE):
            line.send(b"%x\r\n" % PIECE, LARGEST[at : at + PIECE], b"\r\n")
        line.send(b"1\r\nx\r\n")  # and no end: the sender is still uploading
        refused(line)
    assert api.messages(slug)["latest_seq"] == 0


def test_a_chunked_body_without_end_is_refused_and_the_server_goes_on(api: Api, sender: Sender) -> None:
    slug = api.inbox()

    def endless() -> Iterator[bytes]:
        yield head(b"POST", ingest(slug), [CHUNKED])
        chunk = b"%x\r\n%b\r\n" % (PIECE, LARGEST[:PIECE])
        for _ in range(2 * LIMIT // PIECE):
            yield chunk

    with sender.line() as line:
        line.send(*endless())
        refused(line)
    assert sender.post(slug, b"{}") == 1


def test_an_inbox_may_take_less_than_the_server(api: Api, sender: Sender) -> None:
    slug = api.inbox(max_body_bytes=1_000)
    assert sender.post(slug, b"x" * 1_000) == 1
    assert sender.request(b"POST", ingest(slug), [], b"x" * 1_001).status == 413
    with sender.line() as line:
        line.send(head(b"POST", ingest(slug), [CHUNKED]), b"3e9\r\n" + b"x" * 1_001 + b"\r\n")
        assert line.reply().status == 413
    assert api.messages(slug)["latest_seq"] == 1


def test_a_refused_upload_leaves_no_memory_behind(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        sender = Sender(server.url)
        slug = api.inbox()
        sender.post(slug, b"{}")
        with MemoryGrowth(server.pid) as growth:
            for _ in range(5):
                with sender.line() as line:
                    line.send(head(b"POST", ingest(slug), [(b"Content-Length", b"%d" % (LIMIT + 1))]))
                    line.send(LARGEST, b"x")
                    refused(line)
        assert growth.bytes <= GROWTH_BYTES, f"{growth.bytes / MIB:.1f} MiB"
