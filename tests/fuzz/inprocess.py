"""The whole server in a thread of this process: real SQLite, real sockets, started and stopped in milliseconds."""

import threading
from pathlib import Path

import trio

from postroom.config import load
from postroom.server import Started, run

BOUND_SECONDS = 20.0
"""For a start or an orderly end."""


class InProcess:
    """One data directory with a server that can be stopped in order and started again."""

    def __init__(self, data_dir: Path, token: str) -> None:
        self._config = load(
            flags={"data_dir": str(data_dir), "bind": "127.0.0.1:0", "log_level": "error"},
            environment={"POSTROOM_ADMIN_TOKEN": token},
        )
        self.url = ""
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._trio: trio.lowlevel.TrioToken | None = None
        self._stopping: trio.Event | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Start and return when requests are answered."""
        self._ready.clear()
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._thread.start()
        assert self._ready.wait(BOUND_SECONDS)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End in order and return when everything is closed."""
        assert self._trio is not None
        assert self._stopping is not None
        assert self._thread is not None
        self._trio.run_sync_soon(self._stopping.set)
        self._thread.join(BOUND_SECONDS)
        assert not self._thread.is_alive(), "the server did not end"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        async def main() -> None:
            self._trio = trio.lowlevel.current_trio_token()
            self._stopping = trio.Event()
            await run(self._config, self._stopping, self._started)

        try:
            trio.run(main)
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    def _started(self, started: Started) -> None:
        self.url = started.url
        self._ready.set()
