"""Crowds as processes of their own: led by lines, killed without a farewell; and the descriptors that they need."""

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from tests.bench.beside import Beside, beside
from tests.bench.crowd import Held, Hold
from tests.bench.harness import LoadFailed

SPARE_DESCRIPTORS = 256
"""Beside the connections: the database, its log, the listener, pipes, the client's other connections."""


class CrowdProcess:
    """A crowd in another process. Made by `crowd`."""

    def __init__(self, process: Beside) -> None:
        self._process = process

    def hold(self, port: int, requests: Sequence[bytes], *, streams: bool = False) -> Held:
        """Open requests, which the server has accepted but perhaps not read yet when this returns."""
        return self._tell(msgspec.json.encode(Hold(port, list(requests), streams)))

    def check(self) -> None:
        """Raise `LoadFailed` when one has been answered, or refused."""
        held = self._tell(msgspec.json.encode(Hold(0, [])))
        if held.heard or held.refused:
            ended = held.heard + held.refused
            raise LoadFailed(f"{ended} of {held.open + ended} waits were not held open: {held.example}")

    def collect(self) -> Held:
        """Return how it stands when everybody has heard of a message, or after a minute."""
        return self._tell(b"")

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()

    def _tell(self, line: bytes) -> Held:
        return self._process.ask(line, Held)


@contextmanager
def crowd() -> Iterator[CrowdProcess]:
    """Run a crowd; it is gone when the block is left."""
    with beside("tests.bench.crowd") as process:
        yield CrowdProcess(process)


def need_descriptors(connections: int) -> None:
    """Raise this process's soft limit of open files, which servers and clients inherit, to what so many connections
    need in each of them. Raises `LoadFailed` where the hard limit is lower.
    """
    needed = connections + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise LoadFailed(
            f"{connections:,} connections need {needed:,} open files in the server and in its client, but this shell "
            f"allows {hard:,} (`ulimit -Hn`): raise the limit, or choose other cases with --only."
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def open_descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))
