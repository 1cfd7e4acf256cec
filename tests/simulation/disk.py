"""The storage double: the store in memory behind a writer and readers that fail as the seed says.

`Disk` is what stays when the server dies; `OpenDisk` is one server's hold on it. Units queue for one writer, which
takes some of them at a time into a transaction, as the real one does (`storage/writer.py`, whose failure table this
keeps):

| trouble    | what happens while it lasts, now and then                                                               |
|------------|---------------------------------------------------------------------------------------------------------|
| `flaky`    | one unit meets a fault: it is not stored, the others are run one by one; or COMMIT fails: all are       |
|            | *unknown*, and are stored or not; after either the disk may be degraded for a while                     |
| `full`     | what grows is refused, the rest runs                                                                    |
| `degraded` | everything is refused; reads go on                                                                      |
| `slow`     | transactions and reads take up to a second and a half                                                   |
| `busy`     | reads find no slot                                                                                      |
| `crooked`  | answers to units and reads are late, each by itself, so that they come in any order                     |

A unit runs in one step, and is durable with it. A crash loses what waits, and stores the transaction that is under way,
or not, as a whole. `observe` is called after every unit that took effect.
"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from storage.engine import Job
from storage.errors import NotStored, OutcomeUnknown, ReadersBusy, StorageClosed, StorageDegraded, StorageFull
from storage.memory import MemoryHealth, MemoryStore
from storage.memory_read import MemorySnapshot
from storage.memory_state import MemoryState
from storage.options import StorageOptions
from storage.protocols import Look, Unit
from tests.simulation.schedule import Shape
from tests.virtual import pass_time

T = TypeVar("T")

SLOW_SECONDS = 1.5
LATE_SECONDS = 0.8
UNITS_AT_ONCE = 12
DEGRADED_SECONDS = 2.0
FAULTS = 0.3
"""How often a transaction meets a fault while the disk is flaky, and a read while it is busy."""

Observe = Callable[[MemoryState, Unit[Any], Any], None]
"""Called with the state, the unit that has just become durable, and its result."""


class Disk:
    """What is durable, and how the disk is at present. `troubled_at`: when a fault was last met."""

    def __init__(
        self,
        shape: Shape,
        chance: random.Random,
        clock: Callable[[], int],
        observe: Observe,
        nursery: trio.Nursery,
    ) -> None:
        """`nursery` outlives every server."""
        self.shape = shape
        self.chance = chance
        self.spell = ""
        self.troubled_at = float("-inf")
        self.under_way = 0
        self.commits = 0
        self.observe = observe
        self.store = MemoryStore(clock=clock)
        self.opened: OpenDisk | None = None
        self._nursery = nursery

    @property
    def state(self) -> MemoryState:
        """What is stored."""
        return self.store._state

    def note_trouble(self) -> None:
        """Remember that somebody was refused for a reason."""
        self.troubled_at = trio.current_time()

    def crash(self) -> None:
        """Lose what is not durable. Nothing that the dying server still does has an effect any more."""
        if self.opened is not None:
            self.opened.die()

    @asynccontextmanager
    async def open(self, options: StorageOptions, *, same_life: bool = False) -> AsyncIterator["OpenDisk"]:
        """Open it for one server's life, as `storage.sqlite.open_store`."""
        assert self.opened is None, "two servers hold the store"
        self.store.reopen()
        self.opened = opened = OpenDisk(self)
        self._nursery.start_soon(opened.write)
        try:
            yield opened
        finally:
            opened.close()
            with trio.CancelScope(shield=True):  # as a thread's end is waited for
                await opened.ended.wait()
            self.opened = None


class OpenDisk:
    """The store as one server has it; keeps `storage.protocols.Log`."""

    new_life = ()

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._queue: list[Job] = []
        self._running: list[Job] = []
        self._late: set[Job] = set()
        self._more = trio.Event()
        self._closed = False
        self.ended = trio.Event()
        self._degraded_until = float("-inf")
        self.dead = False
        self.awake = False  # whether trouble may begin: not before the server has started

    # -- as the server sees it ----------------------------------------------------------------------------
    @property
    def health(self) -> MemoryHealth:
        """How the store is."""
        health = self._disk.store.health
        if health.state != "closed":
            refusing = self._is("degraded") or trio.current_time() < self._degraded_until
            health.state = "degraded" if refusing else "full" if self._is("full") else "open"
            health.reason = "" if health.state == "open" else "The disk is not as it should be."
        return health

    def note_address(self, url: str) -> None:
        """Take note of nothing: there is no other server that would want to know."""

    async def commit(self, unit: Unit[T]) -> T:
        """Queue a unit and wait for its outcome, as `storage.protocols.Log.commit`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._require_open()
        job = Job(unit, trio.lowlevel.current_task())
        self._queue.append(job)
        self._more.set()

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            job.cancelled, job.task = True, None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        result: T = job.unwrap()
        return result

    async def read(self, look: Look[T]) -> T:
        """Run a look on the store as it is at some moment of the call."""
        disk = self._disk
        await trio.lowlevel.checkpoint()
        self._require_open()
        disk.under_way += 1
        try:
            await self._pause(disk.shape.latency / 4)
            if self._is("busy") and disk.chance.random() < FAULTS:
                disk.note_trouble()
                raise ReadersBusy("no slot")
            found = look.run(MemorySnapshot(disk.state))
            await self._be_late()
            return found
        finally:
            disk.under_way -= 1

    def close(self) -> None:
        """Take no more; what is queued still runs."""
        self._closed = True
        self._more.set()

    def die(self) -> None:
        """Do as a process that ends here and now."""
        self.dead = self._closed = True
        if self._running and self._disk.chance.random() < 0.5:
            for job in self._running:
                self._run(job)
        for job in (*self._queue, *self._running, *self._late):
            job.fail(StorageClosed("the process has ended"))
            self._deliver(job)
        self._queue, self._running = [], []
        self._more.set()

    # -- the writer ---------------------------------------------------------------------------------------
    async def write(self) -> None:
        """Run what is queued until closed. It is a thread in the real store: no cancellation reaches it."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as answering:
                while self._queue or not self._closed:
                    if not self._queue:
                        self._more = trio.Event()
                        await self._more.wait()
                        continue
                    # What comes in the same step of the loop comes into one transaction.
                    await self._pause(self._disk.shape.latency)
                    await self._transaction(answering)
        self._disk.store.close()
        self.ended.set()

    async def _transaction(self, nursery: trio.Nursery) -> None:
        chance = self._disk.chance
        self._queue.sort(key=lambda job: int(job.work.lane))
        size = chance.randint(1, UNITS_AT_ONCE)
        self._running, self._queue = self._queue[:size], self._queue[size:]
        await self._pause(self._disk.shape.latency)
        jobs = [job for job in self._running if self._admit(job)]
        fault = chance.random() if self._is("flaky") and jobs else 1.0
        if fault < FAULTS / 3:
            self._fail_at_commit(jobs, stored=chance.random() < 0.5)
        elif fault < FAULTS:
            await self._lose(jobs)
        else:
            for job in jobs:
                self._run(job)
        done, self._running = self._running, []
        for job in done:
            if not self.dead:
                nursery.start_soon(self._answer, job)

    def _admit(self, job: Job) -> bool:
        state = self.health.state
        if job.cancelled:
            job.drop()
        elif state == "degraded":
            self._refuse(job, StorageDegraded("The disk is degraded."))
        elif state == "full" and job.work.grows:
            self._refuse(job, StorageFull("The disk is full; nothing of this was stored."))
        return not job.done

    def _fail_at_commit(self, jobs: list[Job], *, stored: bool) -> None:
        """Let COMMIT fail, so that nobody knows what became of the transaction."""
        for job in jobs:
            if stored:
                self._run(job)
            if job.error is None:
                self._refuse(
                    job, OutcomeUnknown("The disk reported an error; this may or may not be stored.")
                )
            else:
                self._refuse(job, NotStored("The disk reported an error; this change was not stored."))
        self._degrade()

    async def _lose(self, jobs: list[Job]) -> None:
        """Let one unit meet a fault of the disk: it is not stored, and the others run one by one."""
        culprit = self._disk.chance.choice(jobs)
        self._refuse(culprit, NotStored("The disk reported an error; nothing of this was stored."))
        for job in jobs:
            if job is not culprit:
                await self._pause(self._disk.shape.latency)
                if self._admit(job):
                    self._run(job)
        if self._disk.chance.random() < 0.2:
            self._degrade()

    def _degrade(self) -> None:
        if self._disk.chance.random() < 0.5:
            self._degraded_until = trio.current_time() + self._disk.chance.uniform(0, DEGRADED_SECONDS)

    def _refuse(self, job: Job, error: Exception) -> None:
        self._disk.note_trouble()
        job.fail(error)

    def _run(self, job: Job) -> None:
        """Run a unit, in a step of its own; it is durable when this returns."""
        if job.done:
            return
        if job.cancelled:
            job.drop()
            return
        try:
            result = self._disk.store._run(job.work)
        except Exception as error:
            job.fail(error)
            return
        job.succeed(result)
        self._disk.commits += 1
        self._disk.observe(self._disk.state, job.work, result)

    async def _answer(self, job: Job) -> None:
        self._late.add(job)
        try:
            await self._be_late()
        finally:
            self._late.discard(job)
            self._deliver(job)

    def _deliver(self, job: Job) -> None:
        task, job.task = job.task, None
        if task is not None:
            if not job.done:
                job.fail(StorageClosed("the process has ended"))
            trio.lowlevel.reschedule(task)

    # -- chance -------------------------------------------------------------------------------------------
    def _is(self, spell: str) -> bool:
        return self.awake and self._disk.spell == spell

    def _require_open(self) -> None:
        if self._closed:
            raise StorageClosed("the store is closed")

    async def _pause(self, longest: float) -> None:
        if self._is("slow"):
            longest = SLOW_SECONDS
        await pass_time(self._disk.chance.uniform(0, longest))

    async def _be_late(self) -> None:
        chance = self._disk.chance
        often = 0.5 if self._is("crooked") else self._disk.shape.reorder
        if chance.random() < often:
            await pass_time(chance.uniform(0, LATE_SECONDS))
