"""The runs of `postroom watch`: each a process group of its own, ended as a whole; and the signals that end it all."""

import math
import os
import signal
import subprocess  # runs what its user has asked for # nosec B404
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import trio

GRACE_SECONDS = 10.0
"""Between asking a run to end and ending it."""

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What asks a watch for its end: the third comes from a terminal that is closed."""

T = TypeVar("T")


class Runner:
    """Runs one command, one run at a time, without a terminal.

    `to_stdin`: whether the prompt goes there, and not behind the arguments. `limit_seconds`: how long a run may take.
    `stdout`: the descriptor that the command prints to.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        to_stdin: bool = False,
        limit_seconds: float | None = None,
        stdout: int = 1,
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._to_stdin = to_stdin
        self._limit_seconds = limit_seconds
        self._stdout = stdout
        self._process: trio.Process | None = None

    async def run(self, prompt: str) -> int | None:
        """Run the command and return its exit code, None when it took too long; a signal's number is negative.

        Cancelled, it ends the run first. Raises `OSError` for a command that cannot be started.
        """
        words = self._command if self._to_stdin else [*self._command, prompt]
        with trio.move_on_after(math.inf if self._limit_seconds is None else self._limit_seconds):
            try:
                done = await trio.run_process(
                    words,
                    stdin=prompt.encode() if self._to_stdin else subprocess.DEVNULL,
                    stdout=self._stdout,
                    check=False,
                    deliver_cancel=self._end,
                    env=self._environment,
                    # What asks a terminal would stop a watch in the background for ever.
                    start_new_session=True,
                )
            finally:
                self.kill()  # what is left of a run that had to be ended
                self._process = None
            return done.returncode
        return None

    def kill(self) -> None:
        """End a run at once that was asked to end."""
        if self._process is not None:
            _signal_group(self._process.pid, signal.SIGKILL)

    async def _end(self, process: trio.Process) -> None:
        self._process = process
        _signal_group(process.pid, signal.SIGTERM)
        await trio.sleep(GRACE_SECONDS)
        _signal_group(process.pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def until_signal(work: Callable[[], Awaitable[T]], kill: Callable[[], None]) -> T | None:
    """Return what the work returns, None when the first signal that asks for an end comes before; then the work is
    cancelled and ends in order. `kill` at the second.

    A signal that whoever started this process has it ignore stays ignored.
    """
    done: T | None = None
    heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        await nursery.start(_cancel_at_signal, heard, scope, kill)
        with scope:
            done = await work()
        nursery.cancel_scope.cancel()
    return done


async def _cancel_at_signal(
    numbers: Sequence[signal.Signals],
    scope: trio.CancelScope,
    kill: Callable[[], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    with trio.open_signal_receiver(*numbers) as received:
        task_status.started()
        async for _ in received:
            if scope.cancel_called:
                kill()
            scope.cancel()
