"""Secrets at rest, on a real server: with `POSTROOM_SECRET_KEY` no file, answer or log has a secret or the key.

A value is searched for byte by byte, in every file of the data directory while the server runs and in backups.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

import apsw
import pytest

from tests.live.api import Api, error_of
from tests.live.harness import Server
from tests.live.test_restore import postroom
from tests.storage.remains import remains

KEY = "UzVJ9m1+Uf8pwDWgyDvuSZs/vIQKVqpSjWXJ3ZrJ2+o="
"""As `openssl rand -base64 32` prints it."""
NEW_KEY = "correct-horse-battery-staple-and-then-some"

MIB = 1024 * 1024

StartServer = Callable[..., tuple[Server, Api]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartServer]:
    """Return what starts a server on the test's data directory, with the same admin token each time."""
    token = f"prm_admin_{token_hex(32)}"
    with ExitStack() as stack:

        def run(key: str | None = None) -> tuple[Server, Api]:
            sealed = {} if key is None else {"secret_key": key}
            server = Server(tmp_path / "data", wal_limit_bytes=MIB, reserve_bytes=2 * MIB, **sealed)
            server.token = token
            stack.enter_context(server)
            return server, stack.enter_context(Api(server.url, token))

        yield run


def value(size: int = 40) -> str:
    return token_hex(size)[:size]


def verdict(api: Api, slug: str, secret: str) -> bool:
    """Send a message that is signed with a secret; return whether it was verified."""
    seq = api.github(slug, secret=secret).raise_for_status().json()["seq"]
    return bool(api.message(slug, seq)["verified"])


def left(values: list[str], *places: Path) -> list[bytes]:
    return remains([text.encode() for text in values], *places)


def refused_start(data: Path, **environment: str) -> str:
    """Start a server that must refuse to run; return its one sentence."""
    end = postroom("serve", "--bind", "127.0.0.1:0", "--data-dir", str(data), **environment)
    assert (end.returncode, end.stdout) == (1, "")
    assert len(end.stderr.splitlines()) == 1, end.stderr
    return end.stderr


def rekey(data: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return postroom("rekey", "--data-dir", str(data), *words, **environment)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_the_first_start_with_a_key_leaves_no_plain_secret_anywhere(
    start: StartServer, tmp_path: Path, end: str
) -> None:
    data, before, after = tmp_path / "data", tmp_path / "before.db", tmp_path / "after.db"
    current, spilled, replaced, retired, deleted, later = (
        value(),
        value(4_096),
        value(),
        value(4_096),
        value(),
        value(),
    )
    every = [current, spilled, replaced, retired, deleted, later]
    server, api = start()
    slug = api.inbox(verifier="github", secrets=[{"name": "long", "value": spilled}], secret=replaced)
    gone = api.inbox(verifier="github", secret=deleted)
    api.ok("POST", f"/inboxes/{slug}/secrets", {"name": "default", "value": current}, status=201)
    api.ok("POST", f"/inboxes/{slug}/secrets", {"name": "old", "value": retired}, status=201)
    assert api.call("DELETE", f"/inboxes/{slug}/secrets/old").status_code == 204
    assert api.call("DELETE", f"/inboxes/{gone}").status_code == 204
    assert verdict(api, slug, current)
    assert len(left([current, spilled], data)) == 2, "without a key they are plain"
    caller = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    assert postroom("backup", str(before), **caller).returncode == 0
    assert len(left([current, spilled], before)) == 2
    if end == "stopped":
        server.stop()
    else:
        server.kill()

    server, api = start(KEY)
    assert left([*every, KEY], data) == []
    assert verdict(api, slug, current)
    assert verdict(api, slug, spilled)
    assert not verdict(api, slug, retired)
    api.ok("POST", f"/inboxes/{slug}/secrets", {"name": "later", "value": later}, status=201)
    assert verdict(api, slug, later)
    caller["POSTROOM_URL"] = server.url
    assert postroom("backup", str(after), **caller).returncode == 0
    assert api.call("DELETE", f"/inboxes/{slug}/secrets/later").status_code == 204
    assert left([*every, KEY], data, after) == []
    told = server.output + api.call("GET", f"/inboxes/{slug}").text + api.call("GET", "/inboxes").text
    server.stop()
    assert "secrets that are sealed with POSTROOM_SECRET_KEY from now on: 2" in told
    assert not [text for text in [*every, KEY] if text in told + server.output]
    assert left([*every, KEY], data) == []

    verified = postroom("verify", str(after))
    assert (verified.returncode, "3 secrets, sealed." in verified.stdout) == (0, True), verified.stdout
    assert "2 secrets, not sealed." in postroom("verify", str(before)).stdout
    found = json.loads(postroom("verify", "--data-dir", str(data), "--json").stdout)
    assert (found["secrets"], found["sealed_secrets"], found["findings"]) == (2, 2, [])


def test_without_the_key_or_with_another_one_the_start_is_refused_and_nothing_changes(
    start: StartServer, tmp_path: Path
) -> None:
    secret, data = value(), tmp_path / "data"
    server, api = start(KEY)
    slug = api.inbox(verifier="github", secret=secret)
    server.stop()
    assert "are sealed and POSTROOM_SECRET_KEY is not set" in refused_start(data)
    assert "sealed with another key than POSTROOM_SECRET_KEY" in refused_start(
        data, POSTROOM_SECRET_KEY=NEW_KEY
    )
    end = postroom("serve", "--data-dir", str(data), POSTROOM_SECRET_KEY="k" * 31)
    assert end.returncode == 2
    assert (
        end.stderr
        == "postroom: POSTROOM_SECRET_KEY must be 32 to 512 printable ASCII characters without spaces.\n"
    )
    _, api = start(KEY)
    assert verdict(api, slug, secret)


def test_a_restored_backup_is_sealed_as_it_was(start: StartServer, tmp_path: Path) -> None:
    secret, copy, restored = value(), tmp_path / "copy.db", tmp_path / "restored"
    server, api = start(KEY)
    slug = api.inbox(verifier="github", secret=secret)
    caller = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    assert postroom("backup", str(copy), **caller).returncode == 0
    done = postroom("restore", str(copy), "--data-dir", str(restored))
    assert done.returncode == 0
    assert "The secrets are sealed" in done.stdout
    assert left([secret], restored) == []
    assert "sealed" in refused_start(restored)
    with (
        Server(restored, secret_key=KEY, admin_token=server.token) as other,
        Api(other.url, server.token) as there,
    ):
        assert verdict(there, slug, secret)


def test_the_key_can_be_changed_and_taken_away(start: StartServer, tmp_path: Path) -> None:
    secret, data, file = value(), tmp_path / "data", tmp_path / "key"
    file.write_text(KEY + "\n")
    server, api = start(KEY)
    slug = api.inbox(verifier="github", secret=secret)
    in_use = rekey(data, "--old-key-file", str(file), POSTROOM_SECRET_KEY=NEW_KEY)
    assert (in_use.returncode, "in use by another Postroom" in in_use.stderr) == (1, True)
    server.stop()

    done = rekey(data, "--old-key-file", str(file), POSTROOM_SECRET_KEY=NEW_KEY)
    assert (done.returncode, "1 secret of" in done.stdout) == (0, True), done.stderr
    again = rekey(data, "--old-key-file", str(file), POSTROOM_SECRET_KEY=NEW_KEY)
    assert (again.returncode, "nothing was changed" in again.stdout) == (0, True)
    assert "another key" in refused_start(data, POSTROOM_SECRET_KEY=KEY)
    server, api = start(NEW_KEY)
    assert verdict(api, slug, secret)
    assert left([secret], data) == []
    server.stop()

    done = rekey(data, "--plain", "--old-key-env", "OLD", "--json", OLD=NEW_KEY)
    assert json.loads(done.stdout) == {
        "data_dir": str(data),
        "secrets": 1,
        "sealed": False,
        "changed": True,
        "forgotten": [],
    }
    again = rekey(data, "--plain", "--old-key-env", "OLD", OLD=NEW_KEY)
    assert (again.returncode, "plain already; nothing was changed" in again.stdout) == (0, True)
    _, api = start()
    assert verdict(api, slug, secret)


def test_after_the_key_was_lost_everything_but_the_secrets_is_there(
    start: StartServer, tmp_path: Path
) -> None:
    secret, data = value(), tmp_path / "data"
    server, api = start(KEY)
    slug = api.inbox(verifier="github", secret=secret)
    assert verdict(api, slug, secret)
    server.stop()
    for mistyped in ({}, {"POSTROOM_SECRET_KEY": NEW_KEY}):
        refused = rekey(data, "--forget", "--yes", **mistyped)
        assert (refused.returncode, "say --forget-all" in refused.stderr) == (1, True)
    unanswered = rekey(data, "--forget-all", POSTROOM_SECRET_KEY=NEW_KEY)
    assert unanswered.returncode == 2
    assert f"Remove 1 secret that no key given here opens (1 of {slug})?" in unanswered.stderr
    server, api = start(KEY)
    assert verdict(api, slug, secret), "nothing was removed so far"
    server.stop()
    done = rekey(data, "--forget-all", "--yes", POSTROOM_SECRET_KEY=NEW_KEY)
    assert done.returncode == 0, done.stderr
    assert f"Removed the secret default of {slug}." in done.stdout
    _, api = start(NEW_KEY)
    assert not verdict(api, slug, secret)
    api.ok("POST", f"/inboxes/{slug}/secrets", {"value": secret}, status=201)
    assert verdict(api, slug, secret)
    assert [one["verified"] for one in api.messages(slug, after=0)["messages"]] == [True, True, False, True]
    assert left([secret], data) == []


def test_a_row_from_elsewhere_closes_its_own_inbox_only(start: StartServer, tmp_path: Path) -> None:
    secret, data = value(), tmp_path / "data"
    server, api = start(KEY)
    slug, other = (api.inbox(verifier="github", secret=secret) for _ in range(2))
    server.stop()
    db = apsw.Connection(str(data / "postroom.db"))
    ids = {
        name: db.execute("SELECT inbox_id FROM inbox WHERE slug = ?", (name,)).get for name in (slug, other)
    }
    db.execute(
        "UPDATE secret SET value = (SELECT value FROM secret WHERE inbox_id = ?) WHERE inbox_id = ?",
        (ids[other], ids[slug]),
    ).fetchall()
    assert db.total_changes() == 1
    db.close()
    server, api = start(KEY)
    for _ in range(3):
        assert error_of(api.github(slug, secret=secret))[:2] == (503, "busy")
    assert verdict(api, other, secret)
    assert server.output.count(f"the secret default of inbox {ids[slug]} does not open") == 1
    server.stop()
    done = rekey(data, "--forget", "--yes", POSTROOM_SECRET_KEY=KEY)
    assert (done.returncode, f"Removed the secret default of {slug}." in done.stdout) == (0, True)
    _, api = start(KEY)
    assert not verdict(api, slug, secret)
    assert verdict(api, other, secret)


def test_the_configuration_shows_that_there_is_a_key_and_not_which(tmp_path: Path) -> None:
    for words in (("config",), ("config", "--json"), ("config", "--changed")):
        shown = postroom(*words, POSTROOM_SECRET_KEY=KEY, POSTROOM_DATA_DIR=str(tmp_path))
        assert shown.returncode == 0
        assert "SECRET_KEY" in shown.stdout
        assert KEY not in shown.stdout + shown.stderr
    assert "--secret-key" not in postroom("serve", "--help").stdout


@pytest.mark.parametrize(
    ("words", "environment", "sentence"),
    [
        (("--forget-all", "--plain"), {"POSTROOM_SECRET_KEY": NEW_KEY}, "POSTROOM_SECRET_KEY is set"),
        ((), {}, "give the key that the secrets are sealed with"),
        (("--plain",), {}, "give the key that the secrets are sealed with"),
        (("--old-key-env", "OLD"), {"OLD": KEY}, "set POSTROOM_SECRET_KEY to the new key"),
        (("--old-key-env", "OLD", "--forget"), {"OLD": KEY}, "set POSTROOM_SECRET_KEY to the new key"),
        (("--old-key-env", "OLD"), {}, "the environment variable OLD is not set"),
        (
            ("--plain", "--old-key-env", "OLD"),
            {"OLD": KEY, "POSTROOM_SECRET_KEY": NEW_KEY},
            "POSTROOM_SECRET_KEY is set",
        ),
    ],
)
def test_rekey_says_what_it_was_not_given(
    tmp_path: Path, words: tuple[str, ...], environment: dict[str, str], sentence: str
) -> None:
    end = rekey(tmp_path, *words, **environment)
    assert (end.returncode, end.stdout) == (2, "")
    assert sentence in end.stderr
    assert not list(tmp_path.iterdir())
