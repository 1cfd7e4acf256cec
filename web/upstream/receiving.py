"""What arrives for a request, on its way from the connection to the handler.

In the place of Hypercorn's memory channel, whose every `send` and `receive` is a pass through the scheduler, also when
nobody has to wait: five passes for a small request.
"""

from collections.abc import Awaitable, Callable

import trio
from hypercorn.config import Config
from hypercorn.trio.task_group import TaskGroup, _handle
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope


class Arrivals:
    """A queue of ASGI messages. It gives way only when it has to: empty to who receives, full to who puts."""

    __slots__ = ("_changed", "_limit", "_messages")

    def __init__(self, limit: int) -> None:
        """`limit`: who puts one message more waits until it is taken, which slows the sender of a body down."""
        self._limit = limit
        # A list, for a handful: an empty deque takes 700 bytes, and each of ten thousand waits has one.
        self._messages: list[ASGIReceiveEvent] = []
        self._changed = trio.lowlevel.ParkingLot()

    async def put(self, message: ASGIReceiveEvent) -> None:
        """Add a message; wait while there are too many."""
        self._messages.append(message)
        if self._changed:
            self._changed.unpark_all()
        while len(self._messages) > self._limit:
            await self._changed.park()

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message; wait while there is none. Cancellable, and loses nothing then."""
        if self._messages:
            await trio.lowlevel.checkpoint_if_cancelled()
        while not self._messages:
            await self._changed.park()
        message = self._messages.pop(0)
        if self._changed:
            self._changed.unpark_all()
        return message


class AppTasks(TaskGroup):
    """The tasks of one connection: Hypercorn's, with our queue in front of each handler."""

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start a request's handler and return what takes the messages for it."""
        arrivals = Arrivals(config.max_app_queue_size)
        nursery = self._nursery
        assert nursery is not None  # noqa: S101 - the connection is inside its context # nosec B101
        nursery.start_soon(
            _handle, app, config, scope, arrivals.receive, send, trio.to_thread.run_sync, trio.from_thread.run
        )
        return arrivals.put
