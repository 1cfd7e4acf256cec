"""Changes of which nobody knows whether they were stored, and the look that settles it.

A commit whose answer the disk has lost (`storage.errors.OutcomeUnknown`) may have taken effect. Its caller is told so;
but what is kept in memory, settings, tokens, agents, would go on as if it had not until the next start. So whoever
keeps something leaves a look here, and the task of this module makes it once the writer works again: what was unknown
is one or the other by then.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager

import structlog
import trio

from actors.units import TouchTokens
from storage.errors import OutcomeUnknown, StorageClosed, StorageError
from storage.protocols import Log

RETRY_SECONDS = 1.0
"""The store looks once a second whether its disk works again."""

Look = Callable[[], Awaitable[None]]
"""Reads from the store what there is, and makes memory equal to it. Raises as `Log.read`."""

log = structlog.get_logger("postroom.doubts")


class Doubts:
    """What must be read again."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._looks: dict[Hashable, Look] = {}
        self._waiting = trio.Event()

    def about(self, key: Hashable, look: Look) -> None:
        """Have a look made as soon as may be, once for each key. Synchronous."""
        self._looks[key] = look
        self._waiting.set()

    @contextmanager
    def of(self, key: Hashable, look: Look) -> Iterator[None]:
        """Leave a look when what is committed inside ends in `OutcomeUnknown`, which goes on to the caller."""
        try:
            yield
        except OutcomeUnknown:
            self.about(key, look)
            raise

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Settle what comes until cancelled."""
        task_status.started()
        while True:
            await self._waiting.wait()
            try:
                await self.settle()
            except StorageClosed:
                return
            except StorageError as error:
                log.warning("an unknown outcome is not settled yet", error=type(error).__name__)
                await trio.sleep(RETRY_SECONDS)

    async def settle(self) -> None:
        """Make all looks that are due. Raises as `Log.commit` and `Log.read`; what was not looked at stays due."""
        while self._looks:
            await self._store.commit(TouchTokens(()))  # changes nothing: it comes back once the writer works
            for key, look in list(self._looks.items()):
                del self._looks[key]
                try:
                    await look()
                except BaseException:
                    self._looks.setdefault(key, look)
                    raise
        self._waiting = trio.Event()
