"""A server inside another trio program, in trouble: it fails, it is interrupted, everybody calls at once."""

import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog
import trio
import trio.testing

import postroom
from actors.router import Router
from tests.postroom.serverproc import clean_environment
from tests.postroom.test_embedding import SECONDS, config, count, seqs

PROGRAM_SECONDS = 60
LARGE = bytes(3_000_000)
"""A body of more transactions than are through before the server is not there any more."""


class RouterFailed(Exception):
    """What a task of the server fails of."""


class Fail:
    """Lets a task of the server raise an exception: while it starts, or once it runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = trio.Event()
        self._error: BaseException = AssertionError()
        self._at_once = False
        self._undo = monkeypatch.undo

        async def run(router: Router, *, task_status: trio.TaskStatus[None]) -> NoReturn:
            if not self._at_once:
                task_status.started()
            await self._now.wait()
            raise self._error

        monkeypatch.setattr(Router, "run", run)

    def __call__(self, error: BaseException, *, at_once: bool = False) -> None:
        self._error, self._at_once = error, at_once
        self._now.set()
        if not at_once:
            self._undo()


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    return Fail(monkeypatch)


async def test_when_the_server_fails_the_block_is_cancelled_and_told(tmp_path: Path, fail: Fail) -> None:
    told = []

    async def block() -> None:
        async with postroom.open(config(tmp_path)) as server:
            await server.append("demo", b"")
            fail(RouterFailed())
            patience = trio.move_on_after(SECONDS / 2)
            try:
                with patience:
                    await trio.sleep_forever()
            finally:
                told.append("in time" if not patience.cancelled_caught else "never")

    with trio.fail_after(SECONDS):
        with pytest.raises(postroom.ServerFailed) as failed:
            await block()
        assert told == ["in time"]
        cause = failed.value.__cause__
        assert isinstance(cause, BaseExceptionGroup)
        assert cause.subgroup(RouterFailed) is not None
        assert await count(tmp_path) == 1


async def test_a_server_that_fails_at_its_start_says_so_before_the_block(tmp_path: Path, fail: Fail) -> None:
    fail(RouterFailed(), at_once=True)
    with trio.fail_after(SECONDS):
        with pytest.raises(postroom.ServerFailed) as failed:
            async with postroom.open(config(tmp_path)):
                raise AssertionError("it has not started")
        assert isinstance(failed.value.__cause__, BaseExceptionGroup)


async def test_what_the_block_raises_of_the_failure_is_not_lost(tmp_path: Path, fail: Fail) -> None:
    mine = ValueError("mine")

    async def block() -> None:
        async with postroom.open(config(tmp_path)):
            fail(RouterFailed())
            try:
                await trio.sleep_forever()
            finally:
                raise mine

    with trio.fail_after(SECONDS), pytest.raises(postroom.ServerFailed) as failed:
        await block()
    assert failed.value.__context__ is mine


@pytest.mark.parametrize(
    ("error", "told"),
    [(RouterFailed(), postroom.ServerFailed), (KeyboardInterrupt(), KeyboardInterrupt)],
    ids=["failed", "interrupted"],
)
async def test_calls_of_other_tasks_end_with_a_server_that_fails(
    tmp_path: Path, fail: Fail, error: BaseException, told: type[BaseException]
) -> None:
    """They would wait for an actor that is not there any more."""
    ended: list[object] = []
    servers: list[postroom.Server] = []

    async def note(call: Callable[[], Any]) -> None:
        try:
            ended.append(await call())
        except postroom.ApiError as refused:
            ended.append(refused.code)

    async def block(nursery: trio.Nursery) -> None:
        async with postroom.open(config(tmp_path), http=False) as server:
            servers.append(server)
            nursery.start_soon(note, lambda: server.wait("demo", after=0, timeout_seconds=60))
            await trio.testing.wait_all_tasks_blocked(0.05)
            for _ in range(3):
                nursery.start_soon(note, lambda: server.append("demo", LARGE))
            await trio.lowlevel.checkpoint()
            fail(error)
            await trio.sleep_forever()

    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            with pytest.raises(told):
                await block(nursery)
            with pytest.raises(postroom.ApiError) as refused:
                await servers[0].append("demo", b"")
            assert refused.value.code == "shutting_down"
        assert len(ended) == 4
        for outcome in ended:
            assert outcome == "shutting_down" or (isinstance(outcome, dict) and seqs(outcome) == []), outcome
        assert await count(tmp_path) == 0


@pytest.mark.parametrize("wish", [KeyboardInterrupt(), SystemExit(3)])
async def test_a_wish_to_end_that_finds_a_task_of_the_server_is_no_failure(
    tmp_path: Path, fail: Fail, wish: BaseException
) -> None:
    async def block() -> None:
        async with postroom.open(config(tmp_path), http=False):
            fail(wish)
            await trio.sleep_forever()

    with trio.fail_after(SECONDS):
        with pytest.raises(type(wish)) as raised:
            await block()
        assert raised.value is wish
        assert await count(tmp_path) == 0


INTERRUPTED = """
import trio, postroom
appended = 0
async def main():
    global appended
    async with postroom.open(postroom.configure(data_dir="data"), http=False) as server:
        await server.create_inbox("orders")
        while True:
            appended = (await server.append("orders", b"x")).seq
            if appended == 20:
                print("busy", flush=True)
try:
    trio.run(main)
except* KeyboardInterrupt:
    print("interrupted", appended)
"""


def test_ctrl_c_reaches_a_busy_program_and_nothing_is_lost(tmp_path: Path) -> None:
    """Whichever task is running when it comes."""
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "busy\n"
            process.send_signal(signal.SIGINT)
            said, complaints = process.communicate(timeout=PROGRAM_SECONDS)
        finally:
            process.kill()
    assert (said.split()[0], complaints, process.returncode) == ("interrupted", "", 0)

    async def stored() -> int:
        with trio.fail_after(SECONDS):
            async with postroom.open(config(tmp_path), http=False) as server:
                latest: int = (await server.query("orders"))["latest_seq"]
                return latest

    assert trio.run(stored) >= int(said.split()[1]) >= 20


async def test_a_crowd_of_waits_hears_of_everything_that_a_crowd_appends(tmp_path: Path) -> None:
    waits, appends = 200, 300
    heard: list[list[int]] = []

    async def listen(server: postroom.Server) -> None:
        found: list[int] = []
        while len(found) < appends:
            page = await server.wait("orders", after=found[-1] if found else 0)
            found += seqs(page)
        heard.append(found)

    with trio.fail_after(SECONDS):
        async with postroom.open(config(tmp_path), http=False) as server:
            await server.create_inbox("orders")
            async with trio.open_nursery() as nursery:
                for _ in range(waits):
                    nursery.start_soon(listen, server)
                for n in range(appends):
                    nursery.start_soon(server.append, "orders", str(n))
    assert heard == [list(range(1, appends + 1))] * waits


async def test_two_servers_with_every_port_live_in_one_program(tmp_path: Path) -> None:
    def whole(name: str) -> Any:
        return config(tmp_path / name, grpc_bind="127.0.0.1:0", metrics_bind="127.0.0.1:0")

    with trio.fail_after(SECONDS):
        async with postroom.open(whole("a")) as one:
            async with postroom.open(whole("b")) as other:
                await other.append("demo", b"")
            await one.append("demo", b"")
            with pytest.raises(postroom.ApiError):
                await other.append("demo", b"")


async def test_a_traceback_in_the_programs_log_has_no_word_of_what_was_handled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = structlog.get_config()
    structlog.reset_defaults()
    try:
        with trio.fail_after(SECONDS), caplog.at_level(logging.ERROR):
            async with postroom.open(config(tmp_path), http=False):
                try:
                    int("hunter2")
                except ValueError:
                    structlog.get_logger("postroom.web").exception("it failed")
    finally:
        structlog.configure(**before)
    [record] = caplog.records
    assert record.name == "postroom.web"
    assert "it failed" in record.getMessage()
    assert "ValueError" in record.getMessage()
    assert "hunter2" not in record.getMessage().replace('int("hunter2")', "")
