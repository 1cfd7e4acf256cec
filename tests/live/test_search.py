"""Searching a real server: through `kill -9`, beside a crowd of senders, and through backup and restore."""

import random
import time
from pathlib import Path

import msgspec

from storage.verify import verify_file
from tests.live.api import Api
from tests.live.harness import Server
from tests.live.test_backup import ready
from tests.postroom.conftest import run

INDEXED_SECONDS = 30.0
"""Far more than an index needs to come to the end of these inboxes."""


def indexed(api: Api, slug: str) -> int:
    """Wait until an index has come to the end of its inbox; return its last seq."""
    ends = time.monotonic() + INDEXED_SECONDS
    while time.monotonic() < ends:
        page = api.get(f"/inboxes/{slug}/search", q="anything")
        if page["indexed_seq"] == page["latest_seq"]:
            return int(page["latest_seq"])
    raise AssertionError(f"the index is at {page['indexed_seq']} of {page['latest_seq']}")


def found(api: Api, slug: str, q: str) -> list[int]:
    """Return everything that a question finds, page by page."""
    seqs: list[int] = []
    page = api.get(f"/inboxes/{slug}/search", q=q, limit=100)
    while True:
        seqs += [message["seq"] for message in page["messages"]]
        if page["next_before"] is None:
            return seqs
        page = api.get(f"/inboxes/{slug}/search", q=q, limit=100, before=page["next_before"])


def test_everything_that_is_kept_is_found_once_after_kill_minus_nine(
    tmp_path: Path, kill_rounds: int
) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    erased: set[int] = set()
    sent = 0
    with Server(tmp_path / "data") as server:
        for round_ in range(min(kill_rounds, 3)):
            with Api(server.url, server.token) as api:
                if not round_:
                    api.inbox(slug="notes", search=True)
                for _ in range(rng.randint(20, 80)):
                    sent += 1
                    assert api.send("notes", msgspec.json.encode({"say": f"word n{sent}"})) == sent
                    if rng.random() < 0.05:
                        api.ok("DELETE", f"/inboxes/notes/messages/{sent}", status=204)
                        erased.add(sent)
            server.kill()
            server.start()
        with Api(server.url, server.token) as api:
            assert indexed(api, "notes") == sent
            there = [seq for seq in range(sent, 0, -1) if seq not in erased]
            assert found(api, "notes", "word") == there
            for seq in rng.sample(range(1, sent + 1), 20):
                assert found(api, "notes", f"n{seq}") == ([] if seq in erased else [seq])
        assert server.stop() == 0
    assert verify_file(tmp_path / "data" / "postroom.db", lambda name: None).findings == ()


def test_a_backup_brings_its_index_along(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        api.inbox(slug="notes", search=True)
        for n in range(1, 41):
            api.send("notes", b'{"say": "word n%d"}' % n)
        indexed(api, "notes")
        made = ready(api, api.ok("POST", "/backups", status=202)["id"])
        copy = tmp_path / "copy.db"
        copy.write_bytes(api.call("GET", f"/backups/{made['id']}/file").content)
        token = server.token
    result = run("restore", str(copy), "--data-dir", str(tmp_path / "restored"))
    assert result.exit_code == 0, result.output
    again = Server(tmp_path / "restored")
    again.token = token
    with again, Api(again.url, token) as api:
        assert found(api, "notes", "n7") == [7]
        assert api.send("notes", b'{"say": "afterwards"}') == 41
        assert indexed(api, "notes") == 41
        assert found(api, "notes", "afterwards") == [41]


def test_retention_and_purge_take_messages_out_of_the_index_for_good(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        api.inbox(slug="notes", search=True, retention={"max_messages": 50})
        api.inbox(slug="gone", search=True)
        for n in range(1, 301):
            api.send("notes", b'{"say": "word n%d"}' % n)
        api.send("gone", b'"word"')
        indexed(api, "notes")
        assert found(api, "notes", "word") == list(range(300, 250, -1))
        assert found(api, "notes", "n7") == []
        api.ok("POST", "/inboxes/notes:purge")
        assert found(api, "notes", "word") == []
        api.ok("DELETE", "/inboxes/gone", status=204)
        api.send("notes", b'{"say": "one more word"}')
        assert indexed(api, "notes") == 301
        assert found(api, "notes", "word") == [301]
        assert server.stop() == 0
    assert verify_file(tmp_path / "data" / "postroom.db", lambda name: None).findings == ()
