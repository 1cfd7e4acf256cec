"""`postroom watch`: running a command on an agent's own machine when mail has come, for agents that do not wait for it.

`Watch` looks when a bell rings, waits a moment for more, looks again, and runs the command if there is still news; one
run at a time. News is what the command has not been told of, so mail that an agent leaves alone does not wake it again
and again, and mail that came during a run wakes it once more.

Where mail shows is not decided here: `look` is a call, and the bell is rung by a stream of the agent's inbox or, for a
token that has none, by a clock (`postroom.watch_eyes`). No look marks anything.
"""

import random
from collections.abc import Awaitable, Callable

import msgspec
import trio

from postroom.client import Refused, Unreachable
from postroom.following import Backoff, Lost
from postroom.news import Look, Terms, Told


class Running(msgspec.Struct, frozen=True):
    """The command is being run."""

    unread: int


class Ran(msgspec.Struct, frozen=True):
    """A run has ended. `exit_code` None: it took too long. `again_seconds`: when it is run again, having failed."""

    exit_code: int | None
    seconds: float
    again_seconds: float | None = None


Happening = Running | Ran | Lost


class Bell:
    """Rings until somebody hears it; rung twice, it is heard once. It has rung before anybody rings it."""

    def __init__(self) -> None:
        self._rung = trio.Event()
        self._rung.set()

    def ring(self) -> None:
        """Ring, for whoever waits or comes to wait."""
        self._rung.set()

    async def wait(self) -> None:
        """Return when it has rung, and silence it."""
        await self._rung.wait()
        self._rung = trio.Event()


class Watch:
    """One agent's watch. `look` says what is unread; `run` runs the command and returns its exit code, None when it
    took too long; `tell` is told what happens. `jitter` is for tests.
    """

    def __init__(
        self,
        look: Callable[[], Awaitable[Look]],
        run: Callable[[Look], Awaitable[int | None]],
        tell: Callable[[Happening], object],
        terms: Terms,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.bell = Bell()
        self._look = look
        self._run_command = run
        self._tell = tell
        self._debounce_seconds = terms.debounce_seconds
        self._max_failures = 1 if terms.once else terms.max_failures
        self._once = terms.once
        self._backoff = Backoff(jitter)
        self._told = Told()
        self._failures = 0

    async def run(self) -> str | None:
        """Watch until the command has failed too often, and return how, in a sentence; None after one good run that is
        enough.

        Raises `Refused` for what no retry can change, and what running the command raises.
        """
        while self._failures < self._max_failures:
            await self.bell.wait()
            if await self._news() is None:
                continue
            await trio.sleep(self._debounce_seconds)
            look = await self._news()
            if look is not None:
                code = await self._one_run(look)
                self.bell.ring()  # for what came meanwhile
                if self._once and code == 0:
                    return None
        times = "once" if self._failures == 1 else f"{self._failures} times in a row"
        how = "it took too long" if code is None else f"exit code {code}"
        return f"the command has failed {times} ({how}); it is not run again."

    async def _news(self) -> Look | None:
        """Return what is unread, None when it is nothing new."""
        look = await self._seen()
        self._told = self._told.seen(look)
        return look if self._told.is_news(look) else None

    async def _seen(self) -> Look:
        """Look until there is a server that answers."""
        while True:
            try:
                look = await self._look()
            except (Unreachable, Refused) as error:
                lost = self._backoff.lost(error)
                self._tell(lost)
                await trio.sleep(lost.seconds)
                continue
            self._backoff.succeeded()
            return look

    async def _one_run(self, look: Look) -> int | None:
        self._told = Told(look.ids, look.unread)
        self._tell(Running(look.unread))
        began = trio.current_time()
        code = await self._run_command(look)
        seconds = trio.current_time() - began
        self._failures = 0 if code == 0 else self._failures + 1
        if code == 0 or self._failures >= self._max_failures:
            self._tell(Ran(code, seconds))
            return code
        self._told = Told()  # it was told in vain
        pause_seconds = self._debounce_seconds * (2**self._failures - 1)
        self._tell(Ran(code, seconds, pause_seconds + self._debounce_seconds))
        await trio.sleep(pause_seconds)
        return code


async def ring_at_intervals(bell: Bell, seconds: float) -> None:
    """Ring for ever, every `seconds`."""
    while True:
        await trio.sleep(seconds)
        bell.ring()


async def keep_present(
    renew: Callable[[], float],
    tell: Callable[[Lost], object],
    jitter: Callable[[], float] = random.random,
) -> None:
    """Renew an agent's presence for ever. `renew` blocks, and returns after how many seconds to call it again.

    Raises what it raises, except what another try may change.
    """
    backoff = Backoff(jitter)
    while True:
        try:
            seconds = await trio.to_thread.run_sync(renew, abandon_on_cancel=True)
            backoff.succeeded()
        except (Unreachable, Refused) as error:
            lost = backoff.lost(error)
            tell(lost)
            seconds = lost.seconds
        await trio.sleep(seconds)


async def ring_at_events(
    bell: Bell,
    listen: Callable[[Callable[[], object]], None],
    tell: Callable[[Lost], object],
    jitter: Callable[[], float] = random.random,
) -> None:
    """Ring for what comes over a stream, and open another one when it ends.

    `listen` blocks for as long as a stream is open and calls what it is given, from a thread. Raises what it raises,
    except what another try may change.
    """
    backoff = Backoff(jitter)

    def ring() -> None:
        backoff.succeeded()
        trio.from_thread.run_sync(bell.ring)

    while True:
        try:
            await trio.to_thread.run_sync(listen, ring, abandon_on_cancel=True)
            lost = backoff.lost(Unreachable("The stream ended."))
        except (Unreachable, Refused) as error:
            lost = backoff.lost(error)
        tell(lost)
        await trio.sleep(lost.seconds)
