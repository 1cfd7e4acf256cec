"""Waiting until a server has done what it still had to do, before its memory or its processor time is looked at."""

import time
from collections.abc import Callable

from tests.bench.processes import Server

STEP_SECONDS = 0.25
QUIET_SHARE = 0.05
"""The server has settled when it used less of a core than this for two steps."""

SETTLE_SECONDS = 20.0


def settle(server: Server) -> None:
    """Wait until a server is quiet, but not longer than `SETTLE_SECONDS`."""
    until(lambda: _settled(server), SETTLE_SECONDS)


def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition, but not longer than this; what is measured next says whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(STEP_SECONDS / 10)


def _settled(server: Server) -> bool:
    """Watch the server for two steps and return whether it was quiet."""
    for _ in range(2):
        before = server.cpu_seconds()
        time.sleep(STEP_SECONDS)
        if server.cpu_seconds() - before > QUIET_SHARE * STEP_SECONDS:
            return False
    return True
