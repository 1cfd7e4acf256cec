"""The housekeeper: one task that deletes, in bounded slices, what nobody can read any more.

It owns no decision about messages: purges, erasures and deletions were decided in an inbox's turn, and readers have
not seen those rows since. It also forgets dedupe keys that are older than any window, and writes down when tokens were
used. A slice that fails is logged and tried again at the next round: housekeeping never ends the process, and a
degraded or full store is exactly when it must go on.
"""

from collections.abc import Callable

import structlog
import trio

from actors.tokens import TokenBook
from actors.units import SweepSlice
from storage.errors import StorageClosed, StorageError
from storage.protocols import Log

SLICE_ROWS = 500
"""Rows in one slice: about 1 ms of the writer's time (study, section 5)."""
SLICE_BYTES = 4 * 1024 * 1024
"""Bodies in one slice, in bytes: pieces cost 0.8 ms per MiB to delete."""
ROUND_SECONDS = 60.0
"""Without a nudge, look once a minute."""
DEDUPE_WINDOW_MAX_SECONDS = 7 * 86_400
"""The longest dedupe window that an inbox may have; older keys serve nobody. Providers retry for at most three days."""

log = structlog.get_logger("postroom.housekeeping")


class Housekeeper:
    """Sweeps when nudged and once a minute."""

    def __init__(self, store: Log, tokens: TokenBook, clock: Callable[[], int]) -> None:
        """`clock` gives µs since the epoch."""
        self._store = store
        self._tokens = tokens
        self._clock = clock
        self._nudged = trio.Event()

    def nudge(self) -> None:
        """Say that there is something to sweep now. Synchronous, from any task."""
        self._nudged.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep house until cancelled."""
        task_status.started()
        while True:
            try:
                await self.sweep()
                await self._tokens.flush_use()
            except StorageClosed:
                return
            except StorageError as error:
                log.warning("housekeeping failed and will be tried again", error=type(error).__name__)
            self._nudged = trio.Event()
            with trio.move_on_after(ROUND_SECONDS):
                await self._nudged.wait()

    async def sweep(self) -> int:
        """Sweep until nothing is left; return how many rows went."""
        rows = 0
        horizon = self._clock() - DEDUPE_WINDOW_MAX_SECONDS * 1_000_000
        while True:
            swept = await self._store.commit(SweepSlice(SLICE_ROWS, SLICE_BYTES, horizon))
            rows += swept.rows
            if not swept.more:
                return rows
