"""Waking many without keeping the sender waiting (study, S16).

trio runs the tasks of one pass in random order, and an answer needs about ten passes through the HTTP server. So when
one message wakes a thousand waits, its sender would be answered last, and every other sender would stand behind them.
Instead:

- up to `AT_ONCE` watchers are woken in the step that applies the commit;
- more of them wait until the senders of that turn have been answered (their *tickets* are closed), at most
  `TICKET_SECONDS`;
- then at most `IN_FLIGHT` woken ones run at a time: the next one is woken when one has dealt with its wake-up.

Measured with 1,000 waits: the sender is answered in 2.3 times its usual time instead of 10, other senders wait 13 to
18 ms instead of 325, and the last wait is answered no later than before.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial

import trio

from actors.watchers import News, Watcher
from storage.histogram import Histogram

AT_ONCE = 4
"""Watchers that are woken without pacing: they cost the sender less than the pacing itself would."""

TICKET_SECONDS = 0.02
"""How long the crowd waits for the sender's answer to be sent: a sender that does not read holds nobody up."""

IN_FLIGHT = 8
"""Woken watchers that may be under way at once. Fewer leave the core idle between them, more delay everybody else."""


WAKE_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Bounds of what a wake-up takes: 1,000 on one inbox come to their end after half a second."""

PACE_SECONDS = 0.05
"""A woken watcher that has not come to its end by then (its client does not read) loses its place to the next."""


class Ticket:
    """Open while a sender has not been answered. `close` is called by whoever sent the last byte."""

    __slots__ = ("_waiting", "closed")

    def __init__(self) -> None:
        self.closed = False
        self._waiting: trio.Event | None = None

    def close(self) -> None:
        """Say that the answer has been sent, or that there will be none."""
        self.closed = True
        if self._waiting is not None:
            self._waiting.set()

    async def wait(self) -> None:
        """Wait until it is closed."""
        if not self.closed:
            self._waiting = self._waiting or trio.Event()
            await self._waiting.wait()


class Fanout:
    """The one task that wakes crowds, crowd after crowd, in the order of the commits.

    `latency`: from the commit's being known to the moment that a watcher which slept runs, in seconds.
    """

    def __init__(self) -> None:
        self.latency = Histogram(WAKE_SECONDS)
        self._crowds: deque[tuple[Sequence[Watcher], Sequence[Ticket], News]] = deque()
        self._work = trio.Event()
        self._in_flight: dict[int, float] = {}  # numbers of wake-ups and when they began, the oldest first
        self._wakeups = 0
        self._finished = trio.Event()
        self.hurry = False

    def announce(self, watchers: Sequence[Watcher], tickets: Sequence[Ticket]) -> None:
        """Wake these watchers: a few at once, a crowd in good order. Synchronous; part of applying a commit."""
        news = News(self.latency)
        if len(watchers) <= AT_ONCE or self.hurry:
            for watcher in watchers:
                watcher.wake(news=news)
            return
        self._crowds.append((watchers, tickets, news))
        self._work.set()

    def rush(self) -> None:
        """Wake everybody now and do not pace any more: the server is stopping."""
        self.hurry = True
        while self._crowds:
            for watcher in self._crowds.popleft()[0]:
                watcher.wake()
        self._finished.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wake crowds until cancelled."""
        task_status.started()
        while True:
            while not self._crowds:
                self._work = trio.Event()
                await self._work.wait()
            watchers, tickets, news = self._crowds.popleft()
            with trio.move_on_after(TICKET_SECONDS):
                for ticket in tickets:
                    await ticket.wait()
            for watcher in watchers:
                if not watcher.parked:
                    watcher.wake()  # it costs nobody a place: it is awake already, or its client does not read
                    continue
                await self._room()
                self._wakeups += 1
                self._in_flight[self._wakeups] = trio.current_time()
                watcher.wake(partial(self._done, self._wakeups), news)

    async def _room(self) -> None:
        """Wait until another one may be woken. Those that take too long are not waited for, all of them at once: the
        clients of one inbox that do not read must not hold up everybody else's.
        """
        while len(self._in_flight) >= IN_FLIGHT and not self.hurry:
            self._finished = trio.Event()
            oldest = next(iter(self._in_flight.values()))
            with trio.move_on_at(oldest + PACE_SECONDS):
                await self._finished.wait()
            late = trio.current_time() - PACE_SECONDS
            for wakeup in [wakeup for wakeup, began in self._in_flight.items() if began <= late]:
                del self._in_flight[wakeup]

    def _done(self, wakeup: int) -> None:
        self._in_flight.pop(wakeup, None)
        self._finished.set()
