"""Which session of an agent a command belongs to: what the header `Postroom-Session` says.

The server tells an agent whether another session reads its mail, too. An agent's shell runs many short processes, and
all of them are one session, so processes of one terminal are. Programs that run commands for a model often detach each
of them from the terminal; the nearest ancestor that has one counts. Where nobody has a terminal (services, containers,
cron), a machine is one session: a false alarm at each command would be worse than two sessions that pass for one.
`POSTROOM_SESSION` decides for whoever knows better.
"""

import hashlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

SESSION_VARIABLE = "POSTROOM_SESSION"

ID_DIGITS = 32
"""Of the digest, in hexadecimal: 128 bits. It gives away neither the host's name nor any process."""

MOST_ANCESTORS = 64
"""More than any chain of shells and supervisors has; a bound against a table of processes that changes under us."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Process(msgspec.Struct, frozen=True):
    """What is looked at in a process. `session` is the pid of its session's leader, `started` ticks since boot."""

    pid: int
    parent: int
    session: int
    has_terminal: bool
    started: int


Find = Callable[[int], Process | None]
"""Returns a process by its pid, None where there is no such thing or it may not be seen."""


def session_of(environment: Mapping[str, str]) -> str:
    """Return the name of this process's session: the one that the environment gives, or one that was derived."""
    return environment.get(SESSION_VARIABLE) or _derived()


def terminal_of(pid: int, find: Find) -> tuple[int, int] | None:
    """Return the session, as the pid of its leader and when that was started, of the nearest process from `pid` on
    upwards that has a terminal; None when there is none.

    The leader's start is 0 when it has ended, which its terminal may survive.
    """
    for process in _lineage(pid, find):
        if process.has_terminal:
            leader = find(process.session)
            return process.session, leader.started if leader is not None else 0
    return None


def _lineage(pid: int, find: Find) -> Iterator[Process]:
    for _ in range(MOST_ANCESTORS):
        process = find(pid)
        if process is None:
            return
        yield process
        pid = process.parent


def _derived() -> str:
    me = os.getpid()
    # Without a table of processes to read: the terminal that this process itself has.
    found = terminal_of(me, _running) if _running(me) is not None else _own_terminal()
    parts = (socket.gethostname(), _boot_id(), str(os.getuid()), repr(found))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:ID_DIGITS]


def _running(pid: int) -> Process | None:
    """Return a process as Linux tells of it."""
    try:
        # The name of the program, in brackets, may hold anything. What follows is numbered from the third field.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return Process(
            pid=pid,
            parent=int(fields[4 - 3]),
            session=int(fields[6 - 3]),
            has_terminal=int(fields[7 - 3]) != 0,
            started=int(fields[22 - 3]),
        )
    except (OSError, ValueError, IndexError):
        return None


def _own_terminal() -> tuple[int, int] | None:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return None
    return os.getsid(0), 0


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
