"""The housekeeper: one task that deletes, in bounded slices, what nobody can read any more.

It owns no decision about messages: purges, erasures and deletions were decided in an inbox's turn, and readers have
not seen those rows since. It also forgets dedupe keys that are older than any window, and writes down when tokens were
used and agents were heard of. A slice that fails is logged and tried again at the next round: housekeeping never ends
the process, and a degraded or full store is exactly when it must go on.
"""

from collections.abc import Callable
from functools import partial

import structlog
import trio

from actors.ask import InboxQuarantined, InboxStopped
from actors.commands import Retain
from actors.inbox import CommandFailed
from actors.registry import Registry
from actors.roster import Roster
from actors.tokens import TokenBook
from actors.units import Reading, SweepSlice
from storage.errors import InboxGone, SecretUnreadable, StorageClosed, StorageError
from storage.protocols import Log, Snapshot

SLICE_ROWS = 500
"""Rows in one slice: about 1 ms of the writer's time (study, section 5)."""
SLICE_BYTES = 4 * 1024 * 1024
"""Bodies in one slice, in bytes: pieces cost 0.8 ms per MiB to delete."""
DUE_INBOXES = 256
"""Inboxes looked up at a time: their ids are all that is read."""
ROUND_SECONDS = 60.0
"""Without a nudge, look once a minute."""
HELD_SECONDS = 2.0
"""So long after a nudge, look once more: what was not routed yet was left, and the router writes down once a second how
far it is."""
DEDUPE_WINDOW_MAX_SECONDS = 7 * 86_400
"""The longest dedupe window that an inbox may have; older keys serve nobody. Providers retry for at most three days."""

log = structlog.get_logger("postroom.housekeeping")


class HousekeepingFigures:
    """What was done since the start. `rounds` that came to their end, `failed` ones that did not; `rows` that were
    swept; `last_round_at`: Unix time in seconds of the last round that came to its end, 0 for none.
    """

    def __init__(self) -> None:
        self.rounds = 0
        self.failed = 0
        self.rows = 0
        self.last_round_at = 0.0


class Housekeeper:
    """Sweeps when nudged and once a minute, and calls inboxes whose oldest entry has come of age."""

    def __init__(
        self,
        store: Log,
        registry: Registry,
        tokens: TokenBook,
        clock: Callable[[], int],
        *,
        routing: bool = False,
        roster: Roster | None = None,
    ) -> None:
        """`clock` gives µs since the epoch. `routing`: there is a router, and what it has not come to yet stays.
        `roster`: whose presences are written down, once a minute at most.
        """
        self.figures = HousekeepingFigures()
        self._routing = routing
        self._roster = roster
        self._flush_at = 0.0
        self._store = store
        self._registry = registry
        self._tokens = tokens
        self._clock = clock
        self._nudged = trio.Event()

    def nudge(self) -> None:
        """Say that there is something to sweep now. Synchronous, from any task."""
        self._nudged.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep house until cancelled."""
        task_status.started()
        nudged = False
        while True:
            try:
                await self.call_due()
                await self.sweep()
                await self._tokens.flush_use()
                await self._flush_roster()
                self.figures.rounds += 1
                self.figures.last_round_at = self._clock() / 1_000_000
            except StorageClosed:
                return
            except StorageError as error:
                self.figures.failed += 1
                log.warning("housekeeping failed and will be tried again", error=type(error).__name__)
            with trio.move_on_after(HELD_SECONDS if nudged else ROUND_SECONDS):
                await self._nudged.wait()
            nudged = self._nudged.is_set()
            self._nudged = trio.Event()

    async def _flush_roster(self) -> None:
        if self._roster is not None and trio.current_time() >= self._flush_at:
            self._flush_at = trio.current_time() + ROUND_SECONDS
            await self._roster.flush()

    async def call_due(self) -> int:
        """Have every inbox with entries past their age take a turn; return how many were called.

        Busy inboxes drop what is too old in their ordinary turns; this is for those that nobody writes to. One that
        cannot take its turn keeps nobody else from it, and is called again at the next round.
        """
        called: set[int] = (
            set()
        )  # each once in a round: one that is still due has more turns to take, or cannot
        still_due = 0
        now = self._clock()
        while True:
            look = Reading(partial(_due, now_us=now, limit=DUE_INBOXES + still_due), slow=True)
            due = await self._store.read(look)
            waiting = [inbox_id for inbox_id in due if inbox_id not in called]
            if not waiting:
                return len(called)
            still_due = len(due) - len(waiting)
            for inbox_id in waiting:
                called.add(inbox_id)
                try:
                    await self._registry.ask(inbox_id, Retain())
                except (InboxGone, InboxQuarantined, InboxStopped, CommandFailed, SecretUnreadable) as error:
                    log.warning(
                        "an inbox cannot drop its old messages", inbox_id=inbox_id, error=type(error).__name__
                    )

    async def sweep(self) -> int:
        """Sweep until nothing is left; return how many rows went."""
        rows = 0
        horizon = self._clock() - DEDUPE_WINDOW_MAX_SECONDS * 1_000_000
        while True:
            swept = await self._store.commit(
                SweepSlice(SLICE_ROWS, SLICE_BYTES, horizon, routed_only=self._routing)
            )
            rows += swept.rows
            self.figures.rows += swept.rows
            if not swept.more:
                return rows


def _due(snapshot: Snapshot, now_us: int, limit: int) -> list[int]:
    return snapshot.due(now_us, limit)
