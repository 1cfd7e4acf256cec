"""What a server keeps over its end and start, and that a data directory has one server at a time."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.live.api import SECRET, Api
from tests.live.harness import Server
from tests.live.rawhttp import Sender, ingest
from tests.live.signing import Delivery, sha256_signature
from tests.program import PROGRAM

REFUSAL_SECONDS = 30
LARGE = bytes(range(256)) * 2_000
"""500 KiB in two pieces, and no UTF-8."""


def second_server(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start a server on a data directory and wait for its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    return subprocess.run(
        [*PROGRAM, "serve", "--data-dir", str(data_dir), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=REFUSAL_SECONDS,
        check=False,
    )


def test_a_second_server_on_the_same_directory_refuses_to_start_with_a_sentence(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        slug = api.inbox()
        before = api.send(slug, b"before")
        second = second_server(server.data_dir, "--bind", "127.0.0.1:0")
        assert second.returncode not in (0, None)
        said = second.stderr.strip()
        assert str(server.data_dir) in said
        assert "in use" in said or "another" in said, said
        assert str(server.pid) in said or server.url in said, "who has it is said too"
        assert "Traceback" not in second.stderr + second.stdout
        assert len(said.splitlines()) == 1, said
        assert "listens" not in second.stdout
        # The first one has noticed nothing.
        assert api.send(slug, b"after") == before + 1


def test_the_directory_is_free_again_after_an_orderly_end_and_after_a_kill(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server:
        assert server.stop() == 0
        server.start()
        server.kill()
        server.start()
        with Api(server.url, server.token) as api:
            assert api.send("demo", b"{}") == 1


def everything(api: Api, slug: str) -> tuple[Any, Any, list[Any], list[bytes]]:
    """Return all that can be seen of an inbox: its settings, its pages, each message whole, and its bytes."""
    pages = list(api.forward(slug, limit=3, bodies=True))
    seqs = [message["seq"] for page in pages for message in page["messages"]]
    raw = [api.call("GET", f"/inboxes/{slug}/messages/{seq}/raw").content for seq in seqs]
    settings = api.get(f"/inboxes/{slug}")
    settings.pop("ingest_url")  # it has the port, which is another one after each start
    return settings, pages, [api.message(slug, seq) for seq in seqs], raw


@pytest.mark.parametrize("end", ["orderly", "kill -9"])
def test_a_restart_keeps_everything(tmp_path: Path, end: str) -> None:
    server = Server(tmp_path / "data")
    delivery = Delivery("push", "the-same-delivery", b'{"n": 1.0}', 1, "repository", 2)
    key = SECRET.encode()
    with server:
        with Api(server.url, server.token) as api:
            sender = Sender(server.url)
            slug = api.github_inbox(name="Kept", dedupe_window_seconds=3_600, max_body_bytes=9_999_999)
            agent = api.agent([slug])
            signed = sender.request(
                b"POST", ingest(slug, b"/a%2Fb//?q=&q"), delivery.headers(key), delivery.body
            )
            assert signed.json()["seq"] == 1
            sender.post(slug, b"", [(b"X-Twice", b"1"), (b"X-Twice", b"2")])
            sender.post(slug, LARGE, [(b"Content-Type", b"image/png")])
            sender.post(slug, "žluť".encode())
            sender.post(slug, b"forged", [(b"X-Hub-Signature-256", b"sha256=" + b"0" * 64)])
            before = everything(api, slug)
            assert [message["verified"] for message in before[2]] == [True, False, False, False, False]
            assert before[3] == [delivery.body, b"", LARGE, "žluť".encode(), b"forged"]
        if end == "orderly":
            assert server.stop() == 0
        else:
            server.kill()
        server.start()
        with Api(server.url, server.token) as api:
            sender = Sender(server.url)
            assert everything(api, slug) == before
            # The reader's token, the sender's secret and the memory of deliveries have lived on as well.
            assert api.as_(agent).message(slug, 1) == before[2][0]
            again = sender.request(b"POST", ingest(slug), delivery.headers(key), delivery.body)
            assert again.header(b"postroom-duplicate") == b"true"
            assert again.json() == signed.json()
            # And numbers go on where they were.
            fresh = b'{"n": 2}'
            lines = [
                (b"X-Hub-Signature-256", sha256_signature(key, fresh)),
                (b"X-GitHub-Delivery", b"another"),
            ]
            assert sender.post(slug, fresh, lines) == 6
            last = api.message(slug, 6)
            assert (last["verified"], last["epoch"]) == (True, before[2][0]["epoch"])
            assert last["received_at"] > before[2][-1]["received_at"]


def test_another_admin_token_for_an_old_directory_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server:
        assert server.stop() == 0
    other = Server(tmp_path / "data")
    with pytest.raises(AssertionError, match="POSTROOM_ADMIN_TOKEN"):
        other.start()
    assert other.token not in other.output
    assert "Traceback" not in other.output
