"""One terminal is one session of an agent, however its commands are started; without a terminal, one machine is."""

import json
import os
import pty
import subprocess
import sys

import pytest

from postroom.session import Process, session_of, terminal_of
from tests.postroom.conftest import run
from tests.postroom.scriptedserver import ScriptedServer, answer
from tests.postroom.serverproc import clean_environment
from tests.postroom.test_cli import fine, sentence

PROCESS_SECONDS = 20


def table(*processes: Process) -> dict[int, Process]:
    return {process.pid: process for process in processes}


INIT = Process(1, 0, 0, False, 1)
TERMINAL = Process(2, 1, 2, True, 20)
HARNESS = Process(3, 2, 2, True, 30)
DETACHED = Process(4, 3, 4, False, 40)
COMMAND = Process(5, 4, 4, False, 50)
OTHER_TERMINAL = Process(6, 1, 6, True, 60)
INSIDE_OTHER = Process(7, 6, 7, False, 70)
SERVICE = Process(8, 1, 8, False, 80)
ORPHAN = Process(9, 1, 99, True, 90)
EVERY = table(
    INIT, TERMINAL, HARNESS, DETACHED, COMMAND, OTHER_TERMINAL, INSIDE_OTHER, SERVICE, ORPHAN
)  # fmt: skip


@pytest.mark.parametrize(
    ("pid", "found"),
    [
        (2, (2, 20)),
        (3, (2, 20)),
        (5, (2, 20)),
        (7, (6, 60)),
        (8, None),
        (9, (99, 0)),
        (100, None),
    ],
    ids=["shell", "program", "detached", "elsewhere", "service", "orphan", "no such process"],
)
def test_a_process_belongs_to_the_nearest_terminal_above_it(pid: int, found: object) -> None:
    assert terminal_of(pid, EVERY.get) == found


def test_a_table_of_processes_that_never_ends_is_given_up() -> None:
    loop = table(Process(1, 2, 1, False, 1), Process(2, 1, 1, False, 1))
    assert terminal_of(1, loop.get) is None


def test_the_environment_decides_if_it_says_anything() -> None:
    assert session_of({"POSTROOM_SESSION": "mine"}) == "mine"
    assert session_of({"POSTROOM_SESSION": ""}) == session_of({})


def session_in(*wrapper: str, stdin: int | None = None) -> str:
    """Return the session that a process of its own finds itself in."""
    script = "import os; from postroom.session import session_of; print(session_of(os.environ))"
    done = subprocess.run(
        [*wrapper, sys.executable, "-c", script],
        env=clean_environment(),
        stdin=stdin or subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
        check=True,
    )
    return done.stdout.strip()


ON_A_TERMINAL = """
import fcntl, os, subprocess, sys, termios
os.setsid()
fcntl.ioctl(int(sys.argv[1]), termios.TIOCSCTTY, 0)
script = "import os; from postroom.session import session_of; print(session_of(os.environ))"
for detached in (False, True):
    subprocess.run([sys.executable, "-c", script], start_new_session=detached, check=True)
"""


def test_commands_of_one_terminal_are_one_session_and_no_other_terminal_s() -> None:
    sessions = []
    for _ in range(2):
        controller, terminal = pty.openpty()
        try:
            done = subprocess.run(
                [sys.executable, "-c", ON_A_TERMINAL, str(terminal)],
                env=clean_environment(),
                pass_fds=(terminal,),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PROCESS_SECONDS,
                check=True,
            )
        finally:
            os.close(controller)
            os.close(terminal)
        attached, detached = done.stdout.split()
        assert attached == detached
        sessions.append(attached)
    assert sessions[0] != sessions[1]


def test_detached_commands_of_one_place_are_one_session() -> None:
    assert session_in() == session_in("/usr/bin/env") == session_of({})


# -- what the commands say -----------------------------------------------------------------------------------


def told(server: ScriptedServer) -> list[str | None]:
    headers = [{name.lower(): value for name, value in one.headers} for one in server.asked]
    return [one.get("postroom-session") for one in headers]


def test_commands_say_which_session_they_belong_to_and_senders_do_not() -> None:
    listing = answer(json.dumps({"beacons": []}).encode())
    page = answer(json.dumps({"items": [], "cursor": 0, "window_high": 0, "has_more": False}).encode())
    stored = answer(json.dumps({"id": "01M8", "seq": 1}).encode())
    with ScriptedServer(listing, listing, page, stored) as server:
        asked = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": "token", "XDG_STATE_HOME": "/nowhere"}
        fine(run("beacon", "list", **asked))
        fine(run("beacon", "list", POSTROOM_SESSION="mine", **asked))
        fine(run("drain", POSTROOM_SESSION="mine", **asked))
        fine(run("send", "demo", "--data", "x", POSTROOM_SESSION="mine", **asked))
    assert told(server) == [session_of({}), "mine", "mine", None]


@pytest.mark.parametrize("session", ["mine\n", "my own", "naïve", "x" * 129])
def test_a_session_that_is_no_name_asks_no_server(session: str) -> None:
    result = run("beacon", "list", POSTROOM_SESSION=session, POSTROOM_TOKEN="token")
    assert "POSTROOM_SESSION" in sentence(result, 2)
