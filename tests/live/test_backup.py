"""Backups of a running server, over HTTP and by the command: current, one at a time, and gone once they are fetched."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from storage.verify import verify_file
from tests.live.api import Api, error_of
from tests.live.harness import Server
from tests.live.test_restore import postroom
from tests.postroom.conftest import run

FILLED = 48
"""Messages of 1 MiB: a copy of them takes long enough to be met in the middle."""
LOOKS = 2_000
"""Most looks at a backup until it is ready."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with some tens of MiB."""
    with (
        Server(tmp_path_factory.mktemp("filled") / "data") as running,
        Api(running.url, running.token) as api,
    ):
        api.inbox(slug="large")
        for _ in range(FILLED):
            api.send("large", os.urandom(1024 * 1024))
        yield running


@pytest.fixture
def admin(filled: Server) -> Iterator[Api]:
    with Api(filled.url, filled.token) as api:
        yield api


def copies(server: Server) -> list[str]:
    return [name for name in os.listdir(server.data_dir) if "backup" in name]


def ready(api: Api, backup_id: str) -> dict[str, object]:
    """Return a backup once it is ready; on the way it only ever grows."""
    pages = 0
    for _ in range(LOOKS):
        made: dict[str, object] = api.get(f"/backups/{backup_id}")
        assert made["state"] in ("copying", "ready"), made
        assert isinstance(made["pages"], int)
        assert made["pages"] >= pages
        pages = made["pages"]
        if made["state"] == "ready":
            return made
    raise AssertionError("it is not ready yet")


def test_a_backup_is_made_fetched_and_gone(admin: Api, filled: Server, tmp_path: Path) -> None:
    started = admin.ok("POST", "/backups", status=202)
    assert started.keys() == {"id", "state", "pages", "total", "size", "error", "created_at"}
    assert (started["state"], started["size"], started["error"]) == ("copying", None, None)
    made = ready(admin, started["id"])
    assert made["pages"] == made["total"] != 0
    assert len(copies(filled)) == 1
    route = f"/backups/{started['id']}/file"
    assert admin.call("HEAD", route).status_code == 200
    answer = admin.call("GET", route)
    assert answer.headers["content-type"] == "application/vnd.sqlite3"
    assert answer.headers["content-disposition"] == f'attachment; filename="postroom-{started["id"]}.db"'
    assert answer.headers["cache-control"] == "no-store"
    assert int(answer.headers["content-length"]) == made["size"] == len(answer.content)
    file = tmp_path / "backup.db"
    file.write_bytes(answer.content)
    assert verify_file(file, lambda name: None).messages >= FILLED
    assert error_of(admin.call("GET", route))[1] == "not_found"
    assert copies(filled) == []


def test_one_backup_at_a_time_and_a_cancelled_one_makes_room(admin: Api, filled: Server) -> None:
    first = admin.ok("POST", "/backups", status=202)
    assert error_of(admin.call("POST", "/backups"))[:2] == (409, "conflict")
    assert error_of(admin.call("GET", f"/backups/{first['id']}/file"))[:2] == (409, "conflict")
    assert admin.call("DELETE", f"/backups/{first['id']}").status_code == 204
    assert error_of(admin.call("GET", f"/backups/{first['id']}"))[:2] == (404, "not_found")
    second = admin.ok("POST", "/backups", status=202)
    ready(admin, second["id"])
    third = admin.ok("POST", "/backups", status=202)
    assert error_of(admin.call("DELETE", f"/backups/{second['id']}"))[1] == "not_found", "it was replaced"
    ready(admin, third["id"])
    assert admin.call("DELETE", f"/backups/{third['id']}").status_code == 204
    assert copies(filled) == []


def test_backups_are_for_administrators(admin: Api) -> None:
    other = admin.as_(admin.agent("all"))
    for method, path in (("POST", ""), ("GET", "/x"), ("DELETE", "/x"), ("GET", "/x/file")):
        assert error_of(other.call(method, f"/backups{path}"))[:2] == (403, "permission_denied")
    assert error_of(admin.call("POST", "/backups", {"to": "/etc"}))[:2] == (400, "invalid_argument")
    assert error_of(admin.call("POST", "/backups", params={"to": "x"}))[:2] == (400, "invalid_argument")


def test_the_command_writes_a_whole_file_while_messages_arrive(
    filled: Server, admin: Api, tmp_path: Path
) -> None:
    ended, sent = Event(), [0]

    def send() -> None:
        with Api(filled.url, filled.token) as api:
            slug = api.inbox()
            while not ended.is_set():
                sent[0] = api.send(slug)

    sender = Thread(target=send)
    sender.start()
    dest = tmp_path / "backup.db"
    environment = {"POSTROOM_URL": filled.url, "POSTROOM_TOKEN": filled.token}
    try:
        done = postroom("backup", str(dest), "--json", **environment)
    finally:
        ended.set()
        sender.join()
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "a bar is for terminals"
    assert f'"bytes": {dest.stat().st_size}' in done.stdout
    assert stat.S_IMODE(dest.stat().st_mode) == 0o600
    assert sent[0] > 10
    assert verify_file(dest, lambda name: None).findings == ()
    assert copies(filled) == []
    again = postroom("backup", str(dest), **environment)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert postroom("backup", str(dest), "--force", **environment).returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["backup.db"]


def test_an_interrupted_command_leaves_nothing_here_or_there(
    filled: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("postroom.cli.backup.time.sleep", interrupt)
    dest = str(tmp_path / "backup.db")
    result = run("backup", dest, POSTROOM_URL=filled.url, POSTROOM_TOKEN=filled.token)
    assert result.exit_code == 130, "some tens of MiB are not copied within one call"
    assert os.listdir(tmp_path) == []
    assert copies(filled) == []


def test_what_a_killed_server_left_of_a_backup_is_removed_at_the_start(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        with Api(server.url, server.token) as api:
            ready(api, api.ok("POST", "/backups", status=202)["id"])
        server.kill()
        assert copies(server)
        server.start()
        assert copies(server) == []
        with Api(server.url, server.token) as api:
            ready(api, api.ok("POST", "/backups", status=202)["id"])
        assert server.stop() == 0
        assert copies(server) == []
