"""Clients that drain an inbox of a real server: through kills and restores, by hand, and as a harness's hook does."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postroom.client import Client
from postroom.deliveries import Item
from postroom.draining import Budget, Drainer
from tests.live.api import Api
from tests.live.harness import Server
from tests.postroom.serverproc import clean_environment
from tests.program import PROGRAM

CALL_SECONDS = 2.0
"""What one call of the command may take, start and end of the process included."""
COMMAND_SECONDS = 30


class Scene:
    """A server with two agents: `writer` writes to `reader`. Clients come back to the same port."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server
        self.call_seconds: list[float] = []
        server.keep_port()
        self.writer = self._agent("writer")
        self.reader = self._agent("reader")

    def _agent(self, agent_id: str) -> str:
        with Api(self.server.url, self.server.token) as api:
            api.ok("POST", "/agents", {"agent_id": agent_id}, status=201)
            return api.agent([], agent=agent_id)

    def write(self, *texts: str) -> None:
        """Send messages to the reader."""
        with Api(self.server.url, self.writer) as api:
            for text in texts:
                api.ok("POST", "/publish", message(text))

    def client(self) -> Client:
        """Return a client with the reader's token."""
        return Client(self.server.url, self.reader)

    def hook(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command in a process of its own, as a harness does."""
        began = time.monotonic()
        done = subprocess.run(
            [*PROGRAM, "drain", *words],
            env=clean_environment(
                POSTROOM_URL=self.server.url,
                POSTROOM_TOKEN=self.reader,
                XDG_STATE_HOME=str(self.folder / "state"),
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        self.call_seconds.append(time.monotonic() - began)
        assert done.returncode == 0, done.stderr
        return done

    def cursor(self) -> int:
        """Return how far the reader has acknowledged."""
        with self.client() as api:
            return api.pull().cursor


def message(text: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "created",
        "kind": "note",
        "subject": text,
        "text": text,
        "to": {"agents": ["reader"]},
    } | more


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Server(tmp_path / "data") as server:
        yield Scene(tmp_path, server)


def texts(items: list[Item]) -> list[str]:
    return [item.untrusted["text"] for item in items]


# -- from Python -----------------------------------------------------------------------------------------------


def test_what_is_drained_is_acknowledged_and_does_not_come_again(scene: Scene) -> None:
    written = [f"message {n}" for n in range(250)]
    scene.write(*written)
    got: list[Item] = []
    with scene.client() as api:
        assert api.drain(got.append).items == 250
        assert sorted(texts(got)) == sorted(written)
        assert api.drain(got.append).items == 0
        page = api.pull(since=0, limit=3)
    assert page.cursor == 250
    assert [item.delivery_seq for item in page.items] == [1, 2, 3]
    assert {item.diff.origin.sender for item in got} == {"writer"}
    assert {item.delivery.via for item in got} == {"direct"}


def test_the_better_message_comes_first_and_a_budget_leaves_the_rest(scene: Scene) -> None:
    with Api(scene.server.url, scene.writer) as api:
        for salience in (0.1, 0.9, 0.5):
            api.ok("POST", "/publish", message(str(salience), salience=salience))
    got: list[Item] = []
    with scene.client() as client:
        drainer = Drainer(client)
        assert drainer.drain(got.append, Budget(max_bytes=1)).left
        assert texts(got) == ["0.9"]
        assert client.pull().cursor == 0
        drainer.drain(got.append)
    assert texts(got) == ["0.9", "0.5", "0.1"]
    assert scene.cursor() == 3


def test_a_drainer_sees_each_message_once_through_kills_in_the_middle_of_pages(scene: Scene) -> None:
    written = [f"message {n}" for n in range(30)]
    scene.write(*written)
    got: list[Item] = []

    def handle(item: Item) -> None:
        got.append(item)
        if len(got) in (3, 15, 30):
            scene.server.kill()
            scene.server.start()

    with scene.client() as api:
        Drainer(api, limit=7).drain(handle)
    assert texts(got) == written
    assert scene.cursor() == 30


def test_a_drainer_sleeps_until_something_comes(scene: Scene) -> None:
    got: list[Item] = []
    with scene.client() as api:
        assert api.drain(got.append, wait_seconds=1).items == 0
        scene.write("at last")
        assert api.drain(got.append, wait_seconds=30).items == 1
    assert texts(got) == ["at last"]


# -- as a hook -------------------------------------------------------------------------------------------------


def test_a_hook_prints_what_is_new_and_acknowledges_it_the_next_time(scene: Scene) -> None:
    assert (scene.hook().stdout, scene.cursor()) == ("", 0)
    scene.write("the first")
    assert "| the first" in scene.hook().stdout
    assert scene.cursor() == 0
    scene.write("the second")
    printed = scene.hook().stdout
    assert "| the second" in printed
    assert "the first" not in printed
    assert scene.cursor() == 1
    assert (scene.hook().stdout, scene.cursor()) == ("", 2)
    assert min(scene.call_seconds) < CALL_SECONDS  # others may keep the machine busy at times


def test_a_hook_is_quiet_while_the_server_is_away_and_goes_on_afterwards(scene: Scene) -> None:
    scene.write("before")
    assert "| before" in scene.hook().stdout
    scene.server.kill()
    away = scene.hook()
    assert away.stdout == ""
    assert "No server answers" in away.stderr
    scene.server.start()
    scene.write("after")
    printed = scene.hook().stdout
    assert "| after" in printed
    assert "| before" not in printed


def test_after_a_restore_a_hook_shows_what_has_the_old_numbers(scene: Scene) -> None:
    data, copy = scene.server.data_dir, scene.folder / "copy"
    scene.write("kept")
    assert "| kept" in scene.hook().stdout
    scene.server.stop()
    shutil.copytree(data, copy)
    scene.server.start()
    scene.write("lost one", "lost two")
    assert "| lost two" in scene.hook().stdout
    scene.server.stop()
    shutil.rmtree(data)
    copy.rename(data)
    scene.server.start()
    scene.write("new one", "new two", "new three")
    printed = scene.hook().stdout
    for text in ("new one", "new two", "new three"):
        assert f"| {text}" in printed
    assert scene.hook().stdout == ""
    assert scene.cursor() == 4
