"""One ticker for the heartbeats of all streams, instead of a deadline for each.

A deadline that passes is an exception through a task, which costs more than the heartbeat itself; and streams that were
all told the same message would all beat in the same instant. The ticker looks at every stream once a second and wakes
those that are due, a few at a time. A thousand idle streams cost under 1 % of a core.
"""

from typing import Protocol

import trio

from storage.histogram import Histogram

TICK_SECONDS = 1.0
"""How often the streams are looked at. What is due is done at the nearest tick, half of this early or late."""

AT_ONCE = 32
REST_SECONDS = 0.01
"""After so many are woken the loop belongs to others for so long: a heartbeat takes about 0.06 ms."""

NEVER = float("inf")

DELAY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Bounds of a tick's delay. Woken waits and large pages stop the loop for milliseconds; more is worth a look."""


class Beating(Protocol):
    """Something that sleeps and wants to be woken. `wake_at` is on trio's clock, `NEVER` while it is not asleep."""

    wake_at: float

    def wake(self) -> None:
        """Wake it; more than once does no harm."""


def is_due(wake_at: float) -> bool:
    """Whether this is the tick for a moment."""
    return trio.current_time() >= wake_at - TICK_SECONDS / 2


class Pulse:
    """All streams of the server. They add themselves and take themselves out, synchronously.

    `delay`: how much later than asked for the ticks came, which is how late everything else in the loop is.
    """

    def __init__(self) -> None:
        self.delay = Histogram(DELAY_SECONDS)
        self._streams: dict[Beating, None] = {}

    @property
    def streams(self) -> int:
        """How many there are."""
        return len(self._streams)

    def add(self, stream: Beating) -> None:
        """Take a stream that begins."""
        self._streams[stream] = None

    def discard(self, stream: Beating) -> None:
        """Let go of a stream that has ended."""
        self._streams.pop(stream, None)

    async def run(self) -> None:
        """Wake streams when they are due, for ever."""
        while True:
            tick_at = trio.current_time() + TICK_SECONDS
            await trio.sleep_until(tick_at)
            self.delay.add(trio.current_time() - tick_at)
            # Not by `is_due`: a call for each of a thousand streams is felt, once a second.
            soonest = trio.current_time() + TICK_SECONDS / 2
            due = [stream for stream in self._streams if stream.wake_at <= soonest]
            for n, stream in enumerate(due, 1):
                if is_due(stream.wake_at):
                    stream.wake()
                if n % AT_ONCE == 0:
                    await trio.sleep(REST_SECONDS)
