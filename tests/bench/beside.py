"""A process that works beside what is measured, led by lines: it answers each line on stdin with one on stdout."""

import io
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from tests.bench.harness import CLIENT_SECONDS, LoadFailed

T = TypeVar("T")


class Beside:
    """Such a process. Made by `beside`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def tell(self, line: bytes) -> None:
        """Send a line. Raises `LoadFailed` when it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def hear(self, result: type[T]) -> T:
        """Return what it answers. Raises `LoadFailed` when it has ended without an answer, or gives none."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], (), (), CLIENT_SECONDS)[0]:
            raise LoadFailed(f"a client has not answered for {CLIENT_SECONDS:g} s")
        answer = self._process.stdout.readline()
        if not answer:
            raise self._failed()
        return msgspec.json.decode(answer, type=result)

    def ask(self, line: bytes, result: type[T]) -> T:
        """Send a line and return the answer. Raises `LoadFailed`."""
        self.tell(line)
        return self.hear(result)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def _failed(self) -> LoadFailed:
        said = b"" if self._process.stderr is None else self._process.stderr.read()
        return LoadFailed(said.decode(errors="replace").strip().rpartition("\n")[2])


@contextmanager
def beside(module: str) -> Iterator[Beside]:
    """Run a module as such a process; it is gone when the block is left."""
    with subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        led = Beside(process)
        try:
            yield led
        finally:
            led.kill()


# -- in such a process ----------------------------------------------------------------------------------------
def lines_of_stdin() -> io.FileIO:
    """Return stdin without a buffer: a line that waits there is seen by `select`, and not lost in it."""
    return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)


def say(answer: msgspec.Struct) -> None:
    """Answer a line."""
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
