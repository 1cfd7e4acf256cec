"""What a server holds at a moment, and what it needed at most: seen from outside, and by its own metrics."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.live.harness import Server

MIB = 1024 * 1024

SETTLED_SECONDS = 20.0
"""For everything to be given back after the last client has left. The longest that the server itself takes is the ten
seconds for which it listens to the rest of a refused body.
"""

SCRAPE_SECONDS = 20.0
"""For one answer; while a flood goes on it may have to wait for its turn."""

_METRICS = re.compile(r"metrics ready\s.*address=(\S+)")


class Holding(msgspec.Struct, frozen=True):
    """What is held: descriptors of the process; connections, waits, streams and bytes of bodies as the server counts
    them. A request has its tasks in its connection, which ends after them.
    """

    descriptors: int
    connections: int
    waits: int
    streams: int
    body_bytes: int

    def exceeds(self, other: "Holding") -> bool:
        """Whether there is more of anything than there."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return any(mine > theirs for mine, theirs in pairs)


class Books:
    """The accounts of one running server, which must have a port for its metrics."""

    def __init__(self, server: Server) -> None:
        self._process = psutil.Process(server.pid)
        found = _METRICS.search(server.output)
        assert found is not None, server.output
        self._url = f"http://{found[1]}/metrics"

    def figures(self) -> dict[tuple[str, ...], float]:
        """Return the metrics: by name and values of labels, `postroom_` left out."""
        text = httpx.get(self._url, timeout=SCRAPE_SECONDS, trust_env=False).text
        return {
            (sample.name.removeprefix("postroom_"), *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def holding(self) -> Holding:
        """Return what is held now."""
        figures = self.figures()
        return Holding(
            descriptors=self._process.num_fds(),
            connections=int(figures["connections",]),
            waits=int(figures["watchers", "wait"]),
            streams=int(figures["watchers", "stream"]),
            body_bytes=int(figures["bodies_in_flight_bytes",]),
        )

    def until(self, holds: Callable[[Holding], bool]) -> Holding:
        """Return what is held as soon as that is so. Fails after `SETTLED_SECONDS`."""
        began = time.monotonic()
        while not holds(holding := self.holding()):
            assert time.monotonic() - began < SETTLED_SECONDS, holding
        return holding

    def until_given_back(self, before: Holding) -> float:
        """Return after how many seconds no more is held than `before`. Fails after `SETTLED_SECONDS`."""
        began = time.monotonic()
        self.until(lambda holding: not holding.exceeds(before))
        return time.monotonic() - began

    def peak_mib(self) -> float:
        """Return the most memory that the process has had in use since its start: the kernel's own figure on Linux."""
        status = Path(f"/proc/{self._process.pid}/status")
        if status.exists():
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
            assert found is not None
            return int(found[1]) / 1024
        return self._process.memory_info().rss / MIB
