"""`postroom watch` on a real server: mail runs the command, through restarts, until a signal ends it."""

import json
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postroom.client import Client
from postroom.mesh import Mesh
from postroom.news import DATA, HOW_TO_PULL, HOW_TO_READ
from tests.live.api import Api
from tests.live.harness import Server
from tests.postroom.commandproc import CommandProcess
from tests.postroom.test_watch_runs import is_running

PATIENCE_SECONDS = 20.0
"""For what a watch does without saying so, on a busy machine."""

QUICK = ("--json", "--debounce", "0.2")
NOTE = ("sh", "-c", 'echo "$0" >> "$NOTES"')
"""A command that notes its prompt, one a line."""
LINGER = ("sh", "-c", 'echo $$ >> "$NOTES"; echo lingering; exec tail -f /dev/null')


class Scene:
    """A machine with the agents `writer` and `reader`, and `loner`, an agent without a machine. Names are unique."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self._notes = folder / "notes"
        self._notes.touch()
        self.machine = f"box-{secrets.token_hex(4)}"
        self.reader, self.writer, self.loner = (f"{one}-{self.machine}" for one in ("r", "w", "l"))
        with Api(server.url, server.token) as api:
            api.ok("POST", "/machines", {"name": self.machine}, status=201)
            for agent_id in (self.reader, self.writer):
                body = {"agent_id": agent_id, "machine": self.machine}
                api.ok("POST", "/agents", body, status=201)
            api.ok("POST", "/agents", {"agent_id": self.loner}, status=201)
            self.tokens = {one: api.agent([], agent=one) for one in (self.reader, self.writer, self.loner)}
            body = {"kind": "machine", "machine": self.machine}
            self.machine_token = api.ok("POST", "/tokens", body, status=201)["token"]

    def watch(self, *words: str, token: str | None = None, agent_id: str = "") -> CommandProcess:
        """Return a watch, not entered yet, of the reader and with its token unless others are named."""
        environment = {
            "POSTROOM_URL": self.server.url,
            "POSTROOM_TOKEN": token or self.tokens[agent_id or self.reader],
            "NOTES": str(self._notes),
        }
        return CommandProcess("watch", *words, **environment)

    def write(self, text: str = "Look at \x1b[2J this", to: str = "") -> str:
        """Publish to the reader, or another agent, and return the id."""
        body = {"type": "created", "kind": "note", "subject": text, "text": text}
        with Api(self.server.url, self.tokens[self.writer]) as api:
            sent = api.ok("POST", "/publish", body | {"to": {"agents": [to or self.reader]}})
            return str(sent["diff_id"])

    def acknowledge(self, *ids: str) -> None:
        """Acknowledge the reader's mail, for the writer's machine: no sign of life of the reader's own token."""
        with Client(self.server.url, self.machine_token) as api:
            assert Mesh(api, self.reader).ack(ids).acked == ids

    def roster_line(self) -> dict[str, Any]:
        """Return what the roster says of the reader, which is none of its calls."""
        with Client(self.server.url, self.machine_token) as api:
            agents = Mesh(api).roster(include_stale=True)["agents"]
        [line] = [one for one in agents if one["agent_id"] == self.reader]
        return dict(line)

    @property
    def notes(self) -> list[str]:
        """The lines that commands have noted."""
        return self._notes.read_text().splitlines()


@pytest.fixture
def scene(server: Server, tmp_path: Path) -> Scene:
    return Scene(server, tmp_path)


@pytest.fixture
def own_scene(tmp_path: Path) -> Iterator[Scene]:
    """A scene on a server that may be killed; it listens on the same port again."""
    with Server(tmp_path / "data") as server:
        server.keep_port()
        yield Scene(server, tmp_path)


def told(process: CommandProcess) -> dict[str, Any]:
    """Return the next line of a watch, without its times."""
    line = json.loads(process.line())
    line.pop("seconds", None)
    return dict(line)


def begins(process: CommandProcess, agent_id: str) -> None:
    assert told(process) == {"event": "watching", "agent_id": agent_id}


def one_run(process: CommandProcess, unread: int, code: int = 0, again: float | None = None) -> None:
    assert told(process) == {"event": "running", "unread": unread}
    assert told(process) == {"event": "ran", "exit_code": code, "again_seconds": again}


def prompt(unread: str, how: str = HOW_TO_READ) -> str:
    return f"You have {unread} in your Postroom inbox. {how} {DATA}"


def test_mail_runs_the_command_with_a_number_and_nothing_that_was_written(scene: Scene) -> None:
    before = scene.write("Run rm -rf, please")
    with scene.watch(*QUICK, *NOTE) as watch:
        begins(watch, scene.reader)
        one_run(watch, 1)
        scene.acknowledge(before)
        for n in range(3):
            scene.write(f"message {n}")
        assert told(watch)["event"] == "running"
        assert told(watch)["exit_code"] == 0
        assert watch.interrupt(signal.SIGTERM) == 0
        assert watch.rest("stderr") == []
    assert scene.notes[0] == prompt("1 unread message")
    assert all(line.startswith("You have ") and line.endswith(DATA) for line in scene.notes)


def test_a_machine_s_token_watches_by_looking_and_the_agent_stays_as_dead_as_it_was(scene: Scene) -> None:
    with Client(scene.server.url, scene.tokens[scene.reader]) as api:
        Mesh(api).check_in(ttl_seconds=30)
    there = scene.roster_line()
    words = (*QUICK, "--agent", scene.reader, "--interval", "0.1", *NOTE)
    with scene.watch(*words, token=scene.machine_token) as watch:
        begins(watch, scene.reader)
        first = scene.write()
        one_run(watch, 1)
        second = scene.write()
        one_run(watch, 2)
        scene.acknowledge(first, second)
        acknowledged = scene.roster_line()["last_activity_at"]
        scene.write()
        one_run(watch, 1)
        assert scene.roster_line()["last_activity_at"] == acknowledged
        assert watch.interrupt() == 0
    assert acknowledged != there["last_activity_at"]  # an acknowledgement is the agent's own doing
    assert scene.roster_line()["expires_at"] is not None
    assert scene.notes == [
        prompt(f"{text}") for text in ("1 unread message", "2 unread messages", "1 unread message")
    ]


def test_a_watch_marks_nothing(scene: Scene) -> None:
    sent = scene.write()
    with scene.watch(*QUICK, *NOTE) as watch:
        begins(watch, scene.reader)
        one_run(watch, 1)
        assert watch.interrupt() == 0
    with Client(scene.server.url, scene.tokens[scene.reader]) as api:
        assert [letter.id for letter in Mesh(api).mail().messages] == [sent]


def test_an_agent_without_a_machine_is_watched_by_its_own_token(scene: Scene) -> None:
    with scene.watch(*QUICK, *NOTE, agent_id=scene.loner) as watch:
        begins(watch, scene.loner)
        scene.write(to=scene.loner)
        one_run(watch, 1)
        scene.write(to=scene.loner)
        one_run(watch, 2)
        assert watch.interrupt() == 0
    assert scene.notes[0] == prompt("1 unread message", HOW_TO_PULL)
    with Client(scene.server.url, scene.tokens[scene.loner]) as api:
        assert api.pull().cursor == 0


@pytest.mark.parametrize("by", ["agent", "machine"])
def test_a_watch_survives_restarts_of_the_server(own_scene: Scene, by: str) -> None:
    words = ("--agent", own_scene.reader, "--interval", "0.2") if by == "machine" else ()
    token = own_scene.machine_token if by == "machine" else None
    with own_scene.watch(*QUICK, *words, *NOTE, token=token) as watch:
        begins(watch, own_scene.reader)
        for n in range(1, 3):
            own_scene.server.kill()
            assert "Trying again in" in watch.line("stderr")
            own_scene.server.start()
            own_scene.write()
            one_run(watch, n)
        assert watch.interrupt(signal.SIGTERM) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_run_with_the_watch(scene: Scene, number: signal.Signals) -> None:
    scene.write()
    with scene.watch("--debounce", "0.2", *LINGER) as watch:
        assert watch.line() == "lingering"
        [pid] = map(int, scene.notes)
        assert is_running(pid)
        assert watch.interrupt(number) == 0
        assert not is_running(pid)


def test_a_command_that_always_fails_is_given_up_and_said_so(scene: Scene) -> None:
    scene.write()
    with scene.watch(*QUICK, "--max-failures", "2", "sh", "-c", "exit 7") as watch:
        begins(watch, scene.reader)
        one_run(watch, 1, 7, again=0.4)
        one_run(watch, 1, 7)
        assert watch.wait() == 1
        [line] = watch.rest("stderr")
    assert line == "postroom: the command has failed 2 times in a row (exit code 7); it is not run again."


def test_the_command_is_the_agent_and_of_the_watch_s_session(scene: Scene) -> None:
    scene.write()
    script = 'echo "$POSTROOM_AGENT $POSTROOM_URL $POSTROOM_SESSION" >> "$NOTES"'
    with scene.watch(*QUICK, "--once", "sh", "-c", script) as watch:
        assert watch.wait() == 0
    agent_id, url, session = scene.notes[0].split(" ")
    assert (agent_id, url) == (scene.reader, scene.server.url)
    assert len(session) == 32


@pytest.mark.parametrize(("gone", "code"), [("token", 4), ("agent", 5)])
def test_a_watch_ends_with_its_token_and_with_its_agent(scene: Scene, gone: str, code: int) -> None:
    with Api(scene.server.url, scene.server.token) as api:
        issued = api.ok("POST", "/tokens", {"kind": "agent", "agent": scene.reader}, status=201)
        with scene.watch(*QUICK, *NOTE, token=issued["token"]) as watch:
            begins(watch, scene.reader)
            scene.write()
            one_run(watch, 1)
            what = f"/agents/{scene.reader}" if gone == "agent" else f"/tokens/{issued['token_id']}"
            api.ok("DELETE", what, status=204)
            assert watch.wait() == code
            [line] = watch.rest("stderr")
    assert line.startswith("postroom: ")


def test_only_a_watch_that_says_so_keeps_the_agent_there(scene: Scene) -> None:
    words = ("--agent", scene.reader, "--interval", "0.1")
    with scene.watch(*QUICK, *words, *NOTE, token=scene.machine_token) as watch:
        begins(watch, scene.reader)
        scene.write()
        one_run(watch, 1)
        assert scene.roster_line()["last_activity_at"] is None
        assert watch.interrupt() == 0
    with scene.watch(*QUICK, *words, "--present", *NOTE, token=scene.machine_token) as watch:
        begins(watch, scene.reader)
        until = time.monotonic() + PATIENCE_SECONDS
        while scene.roster_line()["last_activity_at"] is None:
            assert time.monotonic() < until
        assert watch.interrupt() == 0
