"""A trio loop in a thread, for state machines, which are synchronous: what one step opens is there in the next."""

import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import trio

T = TypeVar("T")

BOUND_SECONDS = 20.0
"""For one step, and for the end."""


class LoopThread:
    """Runs coroutines, one at a time, in a loop that stays."""

    def __init__(self) -> None:
        self._started: queue.Queue[trio.lowlevel.TrioToken] = queue.Queue()
        self._end: trio.Event
        self._nursery: trio.Nursery
        self._thread = threading.Thread(target=trio.run, args=(self._main,), name="loop", daemon=True)
        self._thread.start()
        self._trio = self._started.get(timeout=BOUND_SECONDS)

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run to the end and return the result, or raise."""

        async def bounded() -> T:
            with trio.fail_after(BOUND_SECONDS):
                return await function(*args)

        return trio.from_thread.run(bounded, trio_token=self._trio)

    def open(self, context: AbstractAsyncContextManager[T]) -> tuple[T, Callable[[], None]]:
        """Enter a context in a task of its own; return its value, and what leaves it again and waits for that."""

        async def hold(task_status: trio.TaskStatus[tuple[T, trio.Event, trio.Event]]) -> None:
            leave, left = trio.Event(), trio.Event()
            try:
                async with context as value:
                    task_status.started((value, leave, left))
                    await leave.wait()
            finally:
                left.set()

        async def start() -> tuple[T, trio.Event, trio.Event]:
            held: tuple[T, trio.Event, trio.Event] = await self._nursery.start(hold)
            return held

        value, leave, left = self.run(start)

        async def close() -> None:
            leave.set()
            await left.wait()

        return value, lambda: self.run(close)

    def close(self) -> None:
        """End the loop."""
        self._trio.run_sync_soon(self._end.set)
        self._thread.join(BOUND_SECONDS)
        assert not self._thread.is_alive()

    async def _main(self) -> None:
        self._end = trio.Event()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._started.put(trio.lowlevel.current_trio_token())
            await self._end.wait()
