"""Servers as processes of their own: started on a free port of the loopback, ended by their own pid whatever
happens.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped]  # it ships no type information

START_SECONDS = 30.0
"""A server that has not said its address by then will not: starts take under 2 s on a slow machine."""

STOP_SECONDS = 15.0
"""A little more than Postroom's own SHUTDOWN_SECONDS; then it is killed."""

DYING_SECONDS = 2.0
"""When a measurement fails, so long is waited for its servers to say that they are the reason."""

POLL_SECONDS = 0.02

LOG_TAIL_LINES = 20

SCHEDULER_CLOCK = 2
"""CPUCLOCK_SCHED of the kernel: the low bits of a process's clock id, above which its inverted pid stands."""

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


class ServerFailed(Exception):
    """A server did not start or ended by itself; the message carries the end of its log."""


class Server(msgspec.Struct, frozen=True):
    """A running server."""

    name: str
    pid: int
    port: int

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used so far, all threads, user and system.

        From the process's own clock (see clock_getcpuclockid(3)), which does not count in ticks of 10 ms.
        """
        return time.clock_gettime((~self.pid << 3) | SCHEDULER_CLOCK)

    def resident_bytes(self) -> int:
        """Return how much of its memory is resident."""
        return int(psutil.Process(self.pid).memory_info().rss)


@contextmanager
def running(
    name: str, arguments: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run `python ARGUMENTS` until the block is left; its log is `directory/NAME.log`.

    The server says its address (`http://127.0.0.1:PORT`) on stdout or stderr once it answers. Variables of
    the surroundings that begin with `POSTROOM_` are not passed on. Raises `ServerFailed`; an exception of the block
    leaves with a note of what the server has logged.
    """
    with _running(name, [sys.executable, *arguments], directory, environment or {}, _said) as server:
        yield server


@contextmanager
def listening(name: str, command: Sequence[str], directory: Path) -> Iterator[Server]:
    """Run a server that listens on a port of its own choice and does not say on which; otherwise as `running`."""
    with _running(name, command, directory, {}, _listens) as server:
        yield server


@contextmanager
def _running(
    name: str,
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    port_of: Callable[[int, Path], int | None],
) -> Iterator[Server]:
    """Run a command; `port_of` is asked for the port, with the pid and the log, until it knows."""
    log = directory / f"{name}.log"
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("POSTROOM_")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**inherited, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,  # ctrl-C is for us; we end the servers in order
        )
    try:
        port = _wait_for_port(name, process, log, port_of)
        yield Server(name, process.pid, port)
        if process.poll() is not None:
            raise ServerFailed(f"{name} ended by itself ({process.returncode}):\n{_tail(log)}")
    except ServerFailed:
        raise  # it says so itself
    except Exception as error:
        # A server that is going down closes its connections first, and says why last.
        with suppress(subprocess.TimeoutExpired):
            process.wait(DYING_SECONDS)
        state = "still runs" if process.poll() is None else f"ended by itself ({process.returncode})"
        error.add_note(f"{name} {state} and said last:\n{_tail(log)}")
        raise
    finally:
        _stop(process)


def _said(pid: int, log: Path) -> int | None:
    """Return the port that a server has said."""
    found = ADDRESS.search(log.read_text(encoding="utf-8", errors="replace"))
    return None if found is None else int(found[1])


def _listens(pid: int, log: Path) -> int | None:
    """Return the port on which a process listens."""
    with suppress(psutil.NoSuchProcess):
        for connection in psutil.Process(pid).net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                return int(connection.laddr.port)
    return None


def _wait_for_port(
    name: str, process: "subprocess.Popen[bytes]", log: Path, port_of: Callable[[int, Path], int | None]
) -> int:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerFailed(f"{name} did not start ({process.returncode}):\n{_tail(log)}")
        if (port := port_of(process.pid, log)) is not None:
            return port
        time.sleep(POLL_SECONDS)
    raise ServerFailed(f"{name} gave no address within {START_SECONDS:g} s:\n{_tail(log)}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-LOG_TAIL_LINES:])
