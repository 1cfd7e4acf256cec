"""A real server in a process of its own, as a user starts it: `python -m postroom serve` on a free port."""

import os
import queue
import re
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from postroom.cli.banner import LAST_LINE
from tests.program import PROGRAM

START_SECONDS = 20
STOP_SECONDS = 12
"""A little over the server's own deadline, so that its exit code tells when it was needed."""

_LISTENS = re.compile(r"^Postroom listens on (http://\S+) and")


def clean_environment(**more: str) -> dict[str, str]:
    """Return this process's environment without any setting of Postroom, and with `more`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    return inherited | more


class ServerProcess:
    """A server on a data directory. Entered when it takes requests; ended by SIGTERM at the exit.

    `said` is what it printed until it was ready, `url` where it listens, `token` the admin token if it was
    printed.
    """

    def __init__(self, data_dir: Path, *flags: str, **settings: str) -> None:
        self._command = [*PROGRAM, "serve", "--data-dir", str(data_dir), *flags]
        self._command += [] if "--bind" in flags else ["--bind", "127.0.0.1:0"]
        self._environment = clean_environment(
            **{f"POSTROOM_{name}": value for name, value in settings.items()}
        )
        self._inherited: tuple[int, ...] = ()
        """Descriptors that the process gets under the same numbers."""
        self._directory: Path | None = None
        """Where it is started; None: here."""
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.said: list[str] = []
        self.url = ""
        self.exit_code: int | None = None

    @property
    def token(self) -> str:
        """The admin token that was printed."""
        found = re.search(r"export POSTROOM_TOKEN=(\S+)", "\n".join(self.said))
        assert found is not None, self.said
        return found[1]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            cwd=self._directory,
            pass_fds=self._inherited,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server in order and note its exit code."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self.exit_code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.exit_code = self._process.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _wait_until_ready(self) -> None:
        while LAST_LINE not in self.said:
            line = self._lines.get(timeout=START_SECONDS)
            assert line is not None, "\n".join(self.said)
            self.said.append(line)
        [self.url] = [found[1] for line in self.said if (found := _LISTENS.match(line))]
