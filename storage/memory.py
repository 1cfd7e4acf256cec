"""The thread-free twin of the SQLite store: `MemoryStore` keeps `storage.protocols.Log` in dictionaries.

It is for tests that own time and interleaving. It has no thread and no disk, so that the whole server can run
on trio's virtual clock, and a fuzz can put a cancellation or a fault at every point of a commit. Held to the
same contract tests as SQLite (`tests/contract/`), it promises the same except for durability: units run one
at a time in the order in which `commit` was called (lanes make no difference), and `ReadersBusy` never
happens. Nothing is at rest here, so no secret is sealed.

The object is the durable state: `close` and `reopen` are an orderly stop and the next start of a server on
it. After a crash in a test, `reopen` alone is the next start.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from storage.clock import wall_clock_us
from storage.errors import Fenced, InboxGone, SlugTaken, StorageClosed, StorageError, UnitFailed
from storage.health import TRANSACTION_UNITS
from storage.histogram import Histogram
from storage.memory_read import MemorySnapshot
from storage.memory_state import MemoryState
from storage.memory_tx import MemoryTx
from storage.protocols import Look, Unit

T = TypeVar("T")


class MemoryHealth:
    """How the store is; keeps `storage.protocols.Health`. A test may set `state` and `reason` at will."""

    def __init__(self) -> None:
        self.state = "open"
        self.reason = ""
        self.transaction_units = Histogram(TRANSACTION_UNITS)
        self.transaction_seconds = Histogram(())
        self.commit_seconds = Histogram(())
        self.read_seconds = Histogram(())
        self.batch_units_max = 0
        self.database_bytes = 0
        self.wal_bytes = 0
        self.checkpoints = 0
        self.lost_transactions = 0
        self.unknown_commits = 0
        self.refused_full = 0
        self.reads_refused = 0

    @property
    def commits(self) -> int:
        """Units that took effect."""
        return self.transaction_units.count

    @property
    def batch_units(self) -> int:
        """The same."""
        return self.transaction_units.count


class MemoryStore:
    """A store in memory, with three hooks for tests, each of which may be set or changed at any time.

    `clock` returns µs since the Unix epoch; it is read once per unit.

    `gate`: awaited before each unit runs, while it is the only one that may; later ones queue behind it. A
    caller that is cancelled here, or in the queue, gets nothing stored.

    `fault`: called with each unit just before it runs. It may raise `StorageFull`, `StorageDegraded` or
    another `NotStored` (the unit was not stored), or `OutcomeUnknown` (a commit that left nothing).

    `acknowledge`: awaited after each unit took effect and before its caller hears of it. A caller that is
    cancelled here, or for which it raises `OutcomeUnknown`, does not learn that its unit is durable. It must
    raise nothing that says *not stored*. Other units run meanwhile.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], int] = wall_clock_us,
        gate: Callable[[], Awaitable[None]] | None = None,
        fault: Callable[[Unit[Any]], None] | None = None,
        acknowledge: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.gate = gate
        self.fault = fault
        self.acknowledge = acknowledge
        self._clock = clock
        self._health = MemoryHealth()
        self._state = MemoryState()
        self._turn = trio.Lock()  # first come, first served

    @property
    def health(self) -> MemoryHealth:
        """How the store is."""
        return self._health

    def close(self) -> None:
        """Refuse everything from now on, also units that still wait in the queue."""
        self._health.state, self._health.reason = "closed", "the store is closed"

    def reopen(self) -> None:
        """Begin another start on the same data: staged bodies of earlier ones are rubbish from now on."""
        self._health = MemoryHealth()
        self._state.start += 1
        self._turn = trio.Lock()

    async def commit(self, unit: Unit[T]) -> T:
        """Run a unit and return its result. Raises as `storage.protocols.Log.commit`.

        A checkpoint always comes first, and is where a cancelled caller leaves without having done anything.
        """
        async with self._turn:
            if self.gate is not None:
                await self.gate()
            result = self._run(unit)
        if self.acknowledge is not None:
            await self.acknowledge()
        return result

    async def read(self, look: Look[T]) -> T:
        """Run a look after one checkpoint, on the store as it is then. Raises whatever the look raises."""
        await trio.lowlevel.checkpoint()
        self._refuse_when_closed()
        return look.run(MemorySnapshot(self._state))

    def _run(self, unit: Unit[T]) -> T:
        """Run a unit all or nothing. Nothing awaits in here."""
        self._refuse_when_closed()
        if self.fault is not None:
            self.fault(unit)
        tx = MemoryTx(self._state, self._clock())
        try:
            result = unit.run(tx)
        except (Fenced, InboxGone, SlugTaken, StorageError):
            tx.undo()
            raise
        except Exception as error:
            tx.undo()
            raise UnitFailed(f"the unit raised {type(error).__name__}") from error
        except BaseException:  # an interrupt from the keyboard: not an answer, but half a unit must not stay
            tx.undo()
            raise
        self._health.transaction_units.add(1)
        self._health.batch_units_max = 1
        return result

    def _refuse_when_closed(self) -> None:
        if self._health.state == "closed":
            raise StorageClosed(self._health.reason)
