"""A command that runs for as long as it is let: in a process of its own, its output line by line."""

import queue
import shlex
import signal
import subprocess
import threading
from types import TracebackType
from typing import IO, Self

from tests.postroom.serverproc import clean_environment
from tests.program import PROGRAM

LINE_SECONDS = 20
"""For one line, start of the interpreter and a reconnection included; the rest is for a busy machine."""


class CommandProcess:
    """`python -m postroom …`, entered when it runs, killed at the exit."""

    def __init__(self, *words: str, **environment: str) -> None:
        self._command = [*PROGRAM, *words]
        self._environment = clean_environment(**environment)
        self._lines: dict[str, queue.SimpleQueue[str | None]] = {
            "stdout": queue.SimpleQueue(),
            "stderr": queue.SimpleQueue(),
        }

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        pipes = {"stdout": self._process.stdout, "stderr": self._process.stderr}
        self._readers = [
            threading.Thread(target=self._read, args=(name, pipe), daemon=True)
            for name, pipe in pipes.items()
        ]
        for reader in self._readers:
            reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(LINE_SECONDS)
        for reader, pipe in zip(self._readers, (self._process.stdout, self._process.stderr), strict=True):
            assert pipe is not None
            reader.join(LINE_SECONDS)
            # A child that outlived it holds the pipe open, and closing what is being read would wait for ever.
            assert not reader.is_alive() or kind is not None, "the command has left a child behind"
            if not reader.is_alive():
                pipe.close()

    def line(self, stream: str = "stdout") -> str:
        """Return the next line that it prints. Fails when it ends instead, or takes too long."""
        line = self._lines[stream].get(timeout=LINE_SECONDS)
        assert line is not None, f"the command has ended: {self.rest('stderr')}"
        return line

    def rest(self, stream: str) -> list[str]:
        """Return the lines that it prints until its end."""
        return list(iter(lambda: self._lines[stream].get(timeout=LINE_SECONDS), None))

    def interrupt(self, number: int = signal.SIGINT) -> int:
        """Press Ctrl-C, or send another signal, and return the exit code."""
        self._process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Return the exit code when it has ended."""
        return self._process.wait(LINE_SECONDS)

    def _read(self, name: str, pipe: IO[str]) -> None:
        for line in pipe:
            self._lines[name].put(line.rstrip("\n"))
        self._lines[name].put(None)


class ShellProcess(CommandProcess):
    """A script of the shell, in which `postroom` is this program. Let it end by itself: it has children."""

    def __init__(self, script: str, **environment: str) -> None:
        super().__init__(**environment)
        program = f'postroom() {{ {shlex.join(PROGRAM)} "$@"; }}\n'
        self._command = ["/bin/sh", "-c", program + script]
