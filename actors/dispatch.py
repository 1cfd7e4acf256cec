"""Giving deliveries to the actors of their recipients' inboxes, until each is there, was there before, or cannot be.

Every recipient is asked once for all that it gets, many at a time. A repeat is harmless: what is in an inbox already is
skipped in its turn. What becomes of an ask:

| what happened                             | what is done                                                    |
|-------------------------------------------|-----------------------------------------------------------------|
| stored, or there before                   | done                                                            |
| the inbox is gone                         | done: nobody is left to read it                                 |
| the store could not, or nobody knows      | asked again, later each time, until it can; the log waits       |
| the inbox is in quarantine: it has no     | the turn that its next actor would begin with is taken here, so |
| actor, and gets none before it is lifted  | that one broken inbox neither loses mail nor holds up the log   |
| a draft fails inside the transaction:     | the others are given without it; it is logged, counted, and     |
| a defect, and it would fail for ever      | left out                                                        |
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog
import trio

from actors.ask import InboxQuarantined, InboxStopped
from actors.commands import Deliver, DeliveryDraft
from actors.inbox import CommandFailed
from actors.registry import Registry
from actors.turn import Turn
from storage.errors import (
    InboxGone,
    NotStored,
    OutcomeUnknown,
    ReadersBusy,
    StorageClosed,
    StorageError,
    UnitFailed,
)
from storage.protocols import Lane, Log

ASKED_AT_ONCE = 32
"""Recipients that are asked at the same time, and so share a transaction. Its end wakes two tasks for each of them, and
whoever sends meanwhile waits for these in every pass of the loop.
"""

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 5.0
"""Between tries; the writer itself looks at a degraded disk once a second."""

Parcel = tuple[int, Sequence[DeliveryDraft]]
"""The inbox of a recipient, and what it gets, in order."""

log = structlog.get_logger("postroom.router")


class Patience:
    """Pauses between tries of something that the store could not do just now, each twice as long as the last."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE_SECONDS

    async def wait(self, error: Exception) -> None:
        """Sleep. The first time it is logged."""
        if self._pause == FIRST_PAUSE_SECONDS:
            log.warning("routing waits for the store", error=type(error).__name__)
        await trio.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)


def passes(error: Exception) -> bool:
    """Whether a fault may be gone when the same is tried again."""
    if isinstance(error, (StorageClosed, UnitFailed)):
        return False
    return isinstance(error, (NotStored, OutcomeUnknown, ReadersBusy, InboxStopped))


class Dispatch:
    """Delivers. `delivered` counts entries that were stored, `failed` drafts that were left out."""

    def __init__(self, store: Log, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self.delivered = 0
        self.failed = 0

    async def deliver(self, outbox: Mapping[int, Sequence[DeliveryDraft]]) -> None:
        """Return when nothing of it is left to deliver. Raises what is no fault of the store's."""
        left: Sequence[Parcel] = list(outbox.items())
        patience = Patience()
        while left:
            refused: list[tuple[Parcel, Exception]] = []
            await self._ask_all(iter(left), lambda parcel, error: refused.append((parcel, error)))  # noqa: B023 — called before the next round
            left = [parcel for parcel, _ in refused]
            if refused:
                await patience.wait(refused[0][1])

    async def _ask_all(self, parcels: Iterator[Parcel], refuse: Callable[[Parcel, Exception], None]) -> None:
        async def work() -> None:
            for parcel in parcels:
                try:
                    await self._give(*parcel)
                except (StorageError, InboxStopped) as error:
                    if not passes(error):
                        raise
                    refuse(parcel, error)

        async with trio.open_nursery() as nursery:
            for _ in range(ASKED_AT_ONCE):
                nursery.start_soon(work)

    async def _give(self, inbox_id: int, drafts: Sequence[DeliveryDraft]) -> None:
        try:
            seqs = await self._ask(inbox_id, Deliver(tuple(drafts)))
        except InboxGone:
            return
        except (CommandFailed, UnitFailed) as error:
            if len(drafts) > 1:
                for draft in drafts:
                    await self._give(inbox_id, [draft])
                return
            self.failed += 1
            cause = type(error.__cause__).__name__
            log.error("a delivery failed", inbox_id=inbox_id, mid=drafts[0].mid, error=cause)
            return
        self.delivered += sum(seq is not None for seq in seqs)

    async def _ask(self, inbox_id: int, command: Deliver) -> tuple[int | None, ...]:
        try:
            seqs: tuple[int | None, ...] = await self._registry.ask(inbox_id, command)
        except InboxQuarantined:
            result = await self._store.commit(Turn(inbox_id, None, (command,), lane=Lane.DELIVERIES))
            seqs = result.outcomes[0]
        return seqs
