"""Whatever is put in the place of a database, an old cursor is refused, never answered with other messages.

Each case lets a server take messages, puts something else there while it is stopped, starts again and sends other
messages, so that the old cursor's numbers exist once more. And a crash is none of these cases: after `kill -9` every
cursor goes on.
"""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from postroom.cli.commands import program
from tests.live.api import Api, error_of
from tests.live.harness import Server
from tests.postroom.serverproc import clean_environment
from tests.program import INSTALLED, PROGRAM

COMMAND_SECONDS = 30
FEWEST_ROUNDS = 6
MOST_MESSAGES = 40
"""Sent between two kills: from less than the life file's second to more than one batch."""

DATABASE = "postroom.db"
LIFE = "postroom.life"


def postroom(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command: in this process, which loads nothing anew, where that makes no difference to the command.

    A server has a process of its own, and so has the program of an installed package.
    """
    if INSTALLED is None and "serve" not in words:
        unset = dict.fromkeys(name for name in os.environ if name.startswith("POSTROOM_"))
        end = CliRunner().invoke(program, words, env=unset | environment, prog_name="postroom")
        return subprocess.CompletedProcess(words, end.exit_code, end.stdout, end.stderr)
    return subprocess.run(
        [*PROGRAM, *words],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        stdin=subprocess.DEVNULL,
    )


class Reader:
    """A reader with the cursor of one moment, and every way of using it."""

    def __init__(self, api: Api, slug: str) -> None:
        page = api.messages(slug, after=0)
        self.slug = slug
        self.epoch = page["epoch"]
        self.after = page["next_after"]

    def calls(self, api: Api) -> dict[str, httpx.Response]:
        inbox = f"/inboxes/{self.slug}"
        cursor = {"after": self.after, "epoch": self.epoch}
        return {
            "query": api.call("GET", f"{inbox}/messages", params=cursor),
            "backward": api.call("GET", f"{inbox}/messages", params={"before": 3, "epoch": self.epoch}),
            "message": api.call("GET", f"{inbox}/messages/1", params={"epoch": self.epoch}),
            "raw": api.call("GET", f"{inbox}/messages/1/raw", params={"epoch": self.epoch}),
            "wait": api.call("GET", f"{inbox}/wait", params={**cursor, "timeout_seconds": 0}),
        }

    def is_refused(self, api: Api) -> None:
        """Check that no call is answered, and that each is told the present epoch."""
        present = api.messages(self.slug)["epoch"]
        assert present != self.epoch
        for name, answer in self.calls(api).items():
            assert error_of(answer)[:2] == (409, "epoch_changed"), name
            assert answer.json()["error"]["details"]["epoch"] == present, name

    def goes_on(self, api: Api) -> None:
        """Check that the cursor is as good as before."""
        for name, answer in self.calls(api).items():
            assert answer.status_code == 200, f"{name}: {answer.text}"


class Scene:
    """A server, a reader of its inbox, and a copy of the directory from before the reader's last messages."""

    def __init__(self, tmp_path: Path) -> None:
        self.data = tmp_path / "data"
        self.old = tmp_path / "old"
        self.backup = tmp_path / "backup.db"
        self.server = Server(self.data)

    def play(self) -> Reader:
        """Send, take a copy and a backup, send more, read, stop in order."""
        with self.server as server, Api(server.url, server.token) as api:
            slug = api.inbox(slug="demo-2")
            for n in range(3):
                api.send(slug, b'"before %d"' % n)
            done = postroom("backup", str(self.backup), POSTROOM_URL=server.url, POSTROOM_TOKEN=server.token)
            assert done.returncode == 0, done.stderr
            assert server.stop() == 0
        shutil.copytree(self.data, self.old)
        with self.server as server, Api(server.url, server.token) as api:
            for n in range(3):
                api.send(slug, b'"after %d"' % n)
            reader = Reader(api, slug)
            assert reader.after == 6
            assert server.stop() == 0
        return reader

    @contextmanager
    def start(self, data: Path, *flags: str) -> Iterator[Server]:
        """Run a server on a directory, with the same admin token; it is killed at the end, if it still runs."""
        server = Server(data)
        server.token = self.server.token
        server.start(*flags)
        try:
            yield server
        finally:
            server.__exit__(None, None, None)


def restored(scene: Scene) -> None:
    done = postroom("restore", str(scene.backup), "--data-dir", str(scene.data), "--force", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"] == 3


def database_copied_back(scene: Scene) -> None:
    shutil.copy(scene.old / DATABASE, scene.data / DATABASE)


def database_renamed_back(scene: Scene) -> None:
    (scene.old / DATABASE).rename(scene.data / DATABASE)


def database_and_life_copied_back(scene: Scene) -> None:
    # As an archive does it: the file of today is moved away first, so the old one gets an inode of its own.
    (scene.data / DATABASE).rename(scene.data / "of-today")
    for name in (DATABASE, LIFE):
        shutil.copy(scene.old / name, scene.data / name)


def backup_copied_back(scene: Scene) -> None:
    shutil.copy(scene.backup, scene.data / DATABASE)


def life_deleted(scene: Scene) -> None:
    (scene.data / LIFE).unlink()


def directory_replaced(scene: Scene) -> None:
    scene.data.rename(scene.data.with_name("of-today"))
    shutil.copytree(scene.old, scene.data)


def renewed_on_purpose(scene: Scene) -> None:
    done = postroom("epochs", "renew", "--data-dir", str(scene.data), "--yes")
    assert done.returncode == 0, done.stderr


CASES: tuple[Callable[[Scene], None], ...] = (
    restored,
    database_copied_back,
    database_renamed_back,
    database_and_life_copied_back,
    backup_copied_back,
    life_deleted,
    directory_replaced,
    renewed_on_purpose,
)


@pytest.mark.parametrize("put_back", CASES, ids=lambda case: case.__name__)
def test_an_old_cursor_is_refused_after(put_back: Callable[[Scene], None], tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    reader = scene.play()
    put_back(scene)
    with scene.start(scene.data) as server:
        with Api(server.url, server.token) as api:
            reader.is_refused(api)
            while api.send(reader.slug, b'"other"') <= reader.after:
                pass
            reader.is_refused(api)
            follower = Reader(api, reader.slug)
        server.wait_for_output("Ctrl-C")
        told = 0 if put_back in (restored, renewed_on_purpose) else 2
        assert server.output.count("begins a new life") == told, "in the log and in the start message"
        assert server.stop() == 0
        server.start()
        with Api(server.url, server.token) as api:
            follower.goes_on(api)
        assert "begins a new life" not in server.output


def test_a_moved_directory_is_asked_about_and_accepted_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    reader = scene.play()
    there = tmp_path / "there"
    shutil.copytree(scene.data, there)
    shutil.copytree(there, tmp_path / "elsewhere")
    with scene.start(there, "--same-life") as server, Api(server.url, server.token) as api:
        reader.goes_on(api)
        assert server.stop() == 0
    with scene.start(there) as server, Api(server.url, server.token) as api:
        reader.goes_on(api)
    with scene.start(tmp_path / "elsewhere") as server, Api(server.url, server.token) as api:
        reader.is_refused(api)
        server.wait_for_output("--same-life")


def test_same_life_does_not_make_an_older_database_the_same(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    reader = scene.play()
    database_copied_back(scene)
    with scene.start(scene.data, "--same-life") as server, Api(server.url, server.token) as api:
        reader.is_refused(api)


def test_a_backup_starts_in_an_empty_directory_with_its_tokens_and_messages(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    reader = scene.play()
    done = postroom("restore", str(scene.backup), "--data-dir", str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr
    assert "new epoch" in done.stdout
    assert "revoked" in done.stdout
    with scene.start(tmp_path / "new") as server, Api(server.url, server.token) as api:
        reader.is_refused(api)
        page = api.messages(reader.slug, after=0, bodies=True)
        assert [message["untrusted"]["body"] for message in page["messages"]] == [
            f"before {n}" for n in range(3)
        ]
        refused = postroom("verify", "--data-dir", str(server.data_dir))
        assert refused.returncode == 1
        assert "postroom backup FILE" in refused.stderr
        refused = postroom("restore", str(scene.backup), "--data-dir", str(server.data_dir), "--force")
        assert "in use by another Postroom" in refused.stderr
        assert server.stop() == 0
    for what in (str(scene.backup), "--data-dir=" + str(tmp_path / "new")):
        whole = postroom("verify", what)
        assert whole.returncode == 0, whole.stdout + whole.stderr
        assert "is whole: 3 messages in 3 inboxes" in whole.stdout


def test_kill_minus_nine_is_no_new_life(tmp_path: Path, kill_rounds: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with Server(tmp_path / "data") as server:
        with Api(server.url, server.token) as api:
            slug = api.inbox()
            api.send(slug)
            reader = Reader(api, slug)
        for _ in range(max(FEWEST_ROUNDS, kill_rounds // 2)):
            with Api(server.url, server.token) as api:
                for _ in range(rng.randint(0, MOST_MESSAGES)):
                    api.send(slug)
            server.kill()
            server.start()
            with Api(server.url, server.token) as api:
                reader.goes_on(api)
            assert "new life" not in server.output


def stream_of(api: Api, reader: Reader) -> list[dict[str, Any]]:
    """Open the stream with the reader's last event id and return its events until it is closed."""
    headers = {"Authorization": f"Bearer {api.token}", "Last-Event-ID": f"{reader.epoch}:{reader.after}"}
    events: list[dict[str, Any]] = []
    with httpx.stream(
        "GET", f"{api.url}/v1/inboxes/{reader.slug}/stream", headers=headers, timeout=5
    ) as answer:
        if answer.status_code != 200:
            answer.read()
            return [{"event": answer.json()["error"]["code"]}]
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                events.append({"event": value})
    return events


def test_a_stream_is_not_resumed_in_another_life(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    reader = scene.play()
    database_copied_back(scene)
    with scene.start(scene.data) as server, Api(server.url, server.token) as api:
        while api.send(reader.slug, b'"other"') <= reader.after:
            pass
        assert [event["event"] for event in stream_of(api, reader)] == ["epoch_changed"]
