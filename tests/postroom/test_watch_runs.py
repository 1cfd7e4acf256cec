"""A run of `postroom watch`: what its command gets, how it ends, and that nothing of it is left behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from postroom.watch_runs import Runner, until_signal
from tests.postroom.serverproc import clean_environment

PATIENCE_SECONDS = 20.0
"""For a process to start and end, on a busy machine."""

TELLS = """
import json, os, sys
told = {"args": sys.argv[1:], "stdin": sys.stdin.read(), "mine": os.environ["MINE"],
        "leads": os.getsid(0) == os.getpid() == os.getpgrp()}
open(sys.argv[1], "w").write(json.dumps(told))
"""

LINGERS = """
import os, signal, sys
if "parent" in sys.argv[2]:
    signal.signal(signal.SIGTERM, lambda *_: open(sys.argv[1] + ".asked", "w"))
child = os.fork()
if not child:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "child" in sys.argv[2] else signal.SIG_DFL)
open(sys.argv[1] + str(bool(child)), "w").write(str(os.getpid()))
os.rename(sys.argv[1] + str(bool(child)), sys.argv[1] + (".parent" if child else ".child"))
while True:
    signal.pause()
"""


def runner(script: str, *args: str, **how: Any) -> Runner:
    words = [sys.executable, "-c", script, *args]
    return Runner(words, clean_environment(MINE="yes"), **how)


@pytest.mark.parametrize("to_stdin", [False, True])
async def test_a_command_gets_the_prompt_and_no_terminal(to_stdin: bool, tmp_path: Path) -> None:
    file = tmp_path / "told"
    with trio.fail_after(PATIENCE_SECONDS):
        assert await runner(TELLS, str(file), to_stdin=to_stdin).run("You have mail.") == 0
    args, stdin = ([str(file)], "You have mail.") if to_stdin else ([str(file), "You have mail."], "")
    assert json.loads(file.read_text()) == {"args": args, "stdin": stdin, "mine": "yes", "leads": True}


@pytest.mark.parametrize(
    ("script", "code"),
    [("", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)],
    ids=["fine", "failed", "killed"],
)
async def test_the_exit_code_is_the_command_s(script: str, code: int) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        assert await runner(script).run("prompt") == code


async def test_what_a_command_prints_goes_where_it_is_sent(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out, trio.fail_after(PATIENCE_SECONDS):
        await runner("print('from the command')", stdout=out.fileno()).run("prompt")
    assert (tmp_path / "out").read_text() == "from the command\n"


async def test_a_command_that_is_not_there_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError):
        await Runner(["/no/such/command"], {}).run("prompt")


async def pids(folder: Path) -> list[int]:
    """Return the process of a run and its child, as soon as both are there."""
    files = [folder / "pid.parent", folder / "pid.child"]
    await there(*files)
    return [int(file.read_text()) for file in files]


async def there(*files: Path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while not all(file.exists() for file in files):
            await tick()


async def tick() -> None:
    with trio.move_on_after(0.02):
        await trio.sleep_forever()


async def all_gone(processes: list[int]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while any(map(is_running, processes)):
            await tick()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


@pytest.mark.parametrize("stubborn", ["nobody", "child"])
async def test_a_run_that_takes_too_long_is_ended_with_all_its_children(
    stubborn: str, tmp_path: Path
) -> None:
    async def run() -> None:
        assert await runner(LINGERS, str(tmp_path / "pid"), stubborn, limit_seconds=1.5).run("prompt") is None

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        processes = await pids(tmp_path)
    await all_gone(processes)


async def test_a_signal_ends_the_work_and_its_run_and_a_second_one_kills_it(tmp_path: Path) -> None:
    running = runner(LINGERS, str(tmp_path / "pid"), "parent and child")

    async def work() -> str:
        await running.run("prompt")
        return "never"

    async with trio.open_nursery() as nursery:
        done: list[object] = []

        async def watched() -> None:
            done.append(await until_signal(work, running.kill))

        nursery.start_soon(watched)
        processes = await pids(tmp_path)
        with trio.fail_after(PATIENCE_SECONDS):
            os.kill(os.getpid(), signal.SIGTERM)
            await there(tmp_path / "pid.asked")
            assert all(map(is_running, processes))  # they do not care
            os.kill(os.getpid(), signal.SIGTERM)
    assert done == [None]
    await all_gone(processes)


async def test_work_that_ends_by_itself_is_not_waited_for() -> None:
    async def work() -> str:
        return "done"

    with trio.fail_after(PATIENCE_SECONDS):
        assert await until_signal(work, lambda: None) == "done"


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    script = (
        "import os, signal, trio\n"
        "from postroom.watch_runs import until_signal\n"
        "async def work():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    with trio.move_on_after(0.5): await trio.sleep_forever()\n"
        "    return 'done'\n"
        "print(trio.run(until_signal, work, lambda: None))"
    )
    for command, said in ((["nohup"], "done\n"), ([], "None\n")):
        done = subprocess.run(
            [*command, sys.executable, "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        assert done.stdout == said
