"""Real servers on real sockets of the loopback, and connections that control every byte.

`Server` is the program as users start it, `python -m postroom serve`, in a process of its own: for black-box
tests, for signals and for `kill -9`. `serving` is the HTTP edge alone in this process, around any ASGI
application: for what must be counted from inside, such as connections and evictions. Both listen on a port
that the kernel chooses.
"""

import os
import re
import secrets
import signal
import socket
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trio
from hypercorn.typing import ASGIFramework

from tests.program import PROGRAM
from tests.wire.client import Client
from web.options import WebOptions
from web.serve import Listening, serve_http
from web.upstream.connections import Connections

START_SECONDS = 30.0
"""For a process to say that it is ready; it takes about one second on a quiet machine."""

STOP_SECONDS = 15.0
"""For an orderly end, which has a deadline of ten seconds of its own."""

_READY = re.compile(r"Postroom listens on (http://\S+)")


class Server:
    """`python -m postroom serve` on a data directory. A context manager: leaving it kills the process.

    `settings` are those of the surface, section 10, in lower case; sizes and times as plain numbers. `token`
    is the admin token. `start` may be called again after `stop` or `kill`: same directory, same token,
    another port.
    """

    def __init__(self, data_dir: Path, **settings: object) -> None:
        self.data_dir = data_dir
        self.token = f"prm_admin_{secrets.token_urlsafe(32)}"
        self.url = ""
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self._output: list[str] = []
        self._printed = threading.Condition()
        self._ready = threading.Event()
        self._readers: list[threading.Thread] = []

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    @property
    def host(self) -> str:
        """The address without its port."""
        return "127.0.0.1"

    @property
    def port(self) -> int:
        """The port that it got."""
        return int(self.url.rpartition(":")[2])

    @property
    def output(self) -> str:
        """What it has printed and logged so far."""
        return "".join(self._output)

    def start(self, *flags: str) -> Self:
        """Start the process, with flags for this once, and return when it takes requests."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
        settings = {
            "data_dir": self.data_dir,
            "bind": f"{self.host}:0",
            "admin_token": self.token,
            **self._settings,
        }
        environment |= {f"POSTROOM_{name.upper()}": str(value) for name, value in settings.items()}
        self._ready.clear()
        self._output.clear()
        self.url = ""  # that of an earlier start says nothing of this one
        self._process = subprocess.Popen(
            [*PROGRAM, "serve", *flags],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=self._read, args=(pipe,), daemon=True)
            for pipe in (self._process.stdout, self._process.stderr)
        ]
        for reader in self._readers:
            reader.start()
        if not self._ready.wait(START_SECONDS) or not self.url:
            self.kill()
            raise AssertionError(f"the server did not start:\n{self.output}")
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask for an orderly end with a signal and return the exit code."""
        self.signal(number)
        return self.wait()

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def keep_port(self) -> None:
        """Listen on the same port after the next start, as a server does whose clients come back by themselves."""
        self._settings["bind"] = f"{self.host}:{self.port}"

    def wait_for_output(self, text: str) -> None:
        """Return when the process has printed or logged this. Fails after `STOP_SECONDS`."""
        with self._printed:
            found = self._printed.wait_for(lambda: text in self.output, STOP_SECONDS)
        assert found, f"{text!r} is not in:\n{self.output}"

    def wait(self) -> int:
        """Wait for the end of the process and return its exit code."""
        assert self._process is not None
        code = self._process.wait(STOP_SECONDS)
        self._finish()
        return code

    def kill(self) -> None:
        """`kill -9`, at this very moment."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._finish()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _read(self, pipe: Any) -> None:
        for line in pipe:
            with self._printed:
                self._output.append(line)
                self._printed.notify_all()
            found = _READY.search(line)
            if found is not None:
                self.url = found[1]
                self._ready.set()
        self._ready.set()  # it has ended, ready or not

    def _finish(self) -> None:
        assert self._process is not None
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


async def connect(port: int, *, receive_buffer: int | None = None) -> Client:
    """Open a connection to the loopback; a small receive buffer makes for a reader that is soon full."""
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    await sock.connect(("127.0.0.1", port))
    return Client(trio.SocketStream(sock))


class Serving:
    """The HTTP edge in this process."""

    def __init__(
        self, at: Listening, connections: Connections, stopping: trio.Event, ended: trio.Event
    ) -> None:
        self.connections = connections
        self.port = at.port
        self.url = at.url
        self.stopping = stopping
        self.ended = ended

    async def connect(self, *, receive_buffer: int | None = None) -> Client:
        """Open a connection."""
        return await connect(self.port, receive_buffer=receive_buffer)


@asynccontextmanager
async def serving(
    app: ASGIFramework, stopping: trio.Event | None = None, **options: Any
) -> AsyncIterator[Serving]:
    """Serve an application; `options` are those of `WebOptions`. Leaving is an orderly end, which must be
    soon.
    """
    web = WebOptions(bind="127.0.0.1:0", **options)
    ends = trio.Event() if stopping is None else stopping
    ended = trio.Event()
    connections = Connections(web)

    async def serve(*, task_status: trio.TaskStatus[Listening]) -> None:
        await serve_http(app, web, stopping=ends, connections=connections, task_status=task_status)
        ended.set()

    async with trio.open_nursery() as nursery:
        yield Serving(await nursery.start(serve), connections, ends, ended)
        ends.set()
        with trio.fail_after(5):
            await ended.wait()


def open_descriptors() -> int:
    """Return how many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))
