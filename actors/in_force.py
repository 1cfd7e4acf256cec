"""The beacons in force: in memory, in the index that matches them, with their counts of the day; and changing them.

A change is committed first and known in the synchronous step that follows. Between the two the store has a beacon that
the index has not: whoever matches messages calls `settled` after having read them, and then misses none.

What a beacon brought today outlives it, in memory alone: one that is placed again under its name goes on from there, so
removing it is no way around its daily limit. After a restart in between it begins anew.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
import structlog
import trio

from actors.agents import AgentBook
from actors.beacon_units import (
    BeaconPlaced,
    CountBrought,
    DropExpired,
    PlaceBeacon,
    RemoveBeacon,
    is_in_force,
)
from actors.options import ActorOptions
from actors.rules.allowance import DAY_US, Count, Tally
from actors.rules.matching.beacons import Beacon, Key, Spec, Unplaceable, beacon_of
from actors.rules.matching.index import MatchIndex
from actors.units import Reading
from storage.errors import OutcomeUnknown
from storage.mail_records import AgentRecord, BeaconRecord
from storage.protocols import Log, Unit

NOTHING = Count()

LINGER_US = 10_000_000
"""How long an expired beacon stays: what came just before it expired may not be committed yet."""

MOST_LEFT = 65_536
"""Counts of the day that are kept of beacons that are gone: 20 MB. Each of them has brought something, so there are
few; of more the oldest are forgotten.
"""

T = TypeVar("T")

log = structlog.get_logger("postroom.beacons")


def spec_of(record: BeaconRecord) -> Spec:
    """Return a stored beacon as it was asked for. Raises `msgspec.DecodeError`."""
    return msgspec.json.decode(record.spec, type=Spec)


class InForce:
    """All beacons of the server, also those that expired a moment ago. `clock` gives µs since the epoch."""

    def __init__(
        self, store: Log, agents: AgentBook, options: ActorOptions, clock: Callable[[], int]
    ) -> None:
        self._store = store
        self._agents = agents
        self._options = options
        self._clock = clock
        self._records: dict[str, dict[str, BeaconRecord]] = {}
        self._counts: dict[Key, Count] = {}
        self._left: dict[Key, None] = {}
        self._left_on = 0
        self._changing = trio.Lock()
        self._committing: trio.Event | None = None
        self._doubtful: set[str] = set()
        self.index = MatchIndex()
        agents.when_gone(self._forget_agent)

    async def load(self) -> None:
        """Read every beacon from the store; called once, before anything is routed."""
        beacons: list[Beacon] = []
        for record in await self._store.read(Reading(lambda snapshot: snapshot.beacons())):
            self._note(record)
            beacon = self._meaning(record)
            if beacon is not None:
                beacons.append(beacon)
        self.index = MatchIndex(beacons)

    # -- one agent's -----------------------------------------------------------------------------------------
    def names(self, agent_id: str) -> Sequence[str]:
        """Return the names of an agent's beacons, in their order."""
        return sorted(self._records.get(agent_id, ()))

    def get(self, key: Key) -> BeaconRecord | None:
        """Return a beacon that has not expired."""
        record = self._records.get(key[0], {}).get(key[1])
        return record if record is not None and is_in_force(record, self._clock()) else None

    def count(self, key: Key) -> Count:
        """Return what a beacon has brought on the last day on which it brought anything."""
        return self._counts.get(key, NOTHING)

    async def place(self, agent: AgentRecord, unit: PlaceBeacon) -> BeaconPlaced | None:
        """Place a beacon; None when its agent has as many as it may have. Raises `InboxGone` when that was deleted, and
        as `Log.commit`.
        """
        async with self._changing:
            return await self._committed(agent, unit, lambda placed: self._take(agent, placed))

    async def remove(self, agent: AgentRecord, name: str) -> bool:
        """Remove a beacon; False when there is none of that name. Raises as `Log.commit`."""
        key = (agent.agent_id, name)
        async with self._changing:
            return await self._committed(agent, RemoveBeacon(*key), lambda _: self._forget(key))

    async def keep(self, tally: Tally) -> None:
        """Store what a tally added, which is in force already. Raises as `Log.commit`."""
        if added := tally.added():
            await self._store.commit(CountBrought(tuple(added)))

    # -- what the router needs ----------------------------------------------------------------------------------
    async def settled(self) -> None:
        """Return once every beacon whose placing has begun by now is in the index, or is not placed.

        Raises as `Log.read`.
        """
        committing = self._committing
        if committing is not None:
            await committing.wait()
        if self._doubtful:
            async with self._changing:
                await self._read_again()

    def tally(self) -> Tally:
        """Return a tally that goes on from the counts of the day, and moves them."""
        return Tally(self._counts, self._options.beacon_deliveries_per_day)

    def expired(self) -> Sequence[Key]:
        """Return the beacons that expired a while ago and are still here."""
        before = self._clock() - LINGER_US
        return [
            (agent_id, name)
            for agent_id, records in self._records.items()
            for name, record in records.items()
            if not is_in_force(record, before)
        ]

    async def drop_expired(self, keys: Iterable[Key]) -> None:
        """Drop beacons that have expired, once nothing is left to route that came before. Raises as `Log.commit`."""
        async with self._changing:
            for key in await self._store.commit(DropExpired(tuple(keys))):
                self._forget(key)

    # -- changing ------------------------------------------------------------------------------------------------
    async def _committed(self, agent: AgentRecord, unit: Unit[T], take: Callable[[T], None]) -> T:
        """Commit a change of an agent's beacons, and make it known in the same step."""
        done = self._committing = trio.Event()
        try:
            # Shielded: once the writer has the unit, memory must follow the database whether or not the caller stays.
            with trio.CancelScope(shield=True):
                outcome = await self._store.commit(unit)
                take(outcome)
            return outcome
        except OutcomeUnknown:
            self._doubtful.add(agent.agent_id)
            raise
        finally:
            self._committing = None
            done.set()

    def _take(self, agent: AgentRecord, placed: BeaconPlaced | None) -> None:
        """Put a beacon in force that was committed, unless its agent was deleted right after that."""
        if placed is not None and self._agents.get(agent.agent_id) == agent:
            self._put(placed.record)

    def _put(self, record: BeaconRecord) -> None:
        self._note(record)
        beacon = self._meaning(record)
        if beacon is not None:
            self.index.add(beacon)

    def _note(self, record: BeaconRecord) -> None:
        self._records.setdefault(record.agent_id, {})[record.name] = record
        count = Count(record.day, record.delivered, record.overflow)
        self._counts.setdefault((record.agent_id, record.name), count)
        self._left.pop((record.agent_id, record.name), None)

    def _meaning(self, record: BeaconRecord) -> Beacon | None:
        """Return a stored beacon as it is matched; None when this version can make nothing of it."""
        terms = self._options.beacon_terms
        try:
            return beacon_of(record.agent_id, spec_of(record), record.placed_mid, record.expires_at, terms)
        except (msgspec.DecodeError, Unplaceable) as error:
            log.warning("a beacon hears nothing", agent=record.agent_id, beacon=record.name, error=str(error))
            return None

    async def _read_again(self) -> None:
        """Take from the store what became of changes whose outcome is not known."""
        for agent_id in list(self._doubtful):
            records = await self._store.read(Reading(lambda snapshot, of=agent_id: snapshot.beacons(of)))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            for name in set(self.names(agent_id)) - {record.name for record in records}:
                self._forget((agent_id, name))
            if self._agents.get(agent_id) is not None:
                for record in records:
                    self._put(record)
            self._doubtful.discard(agent_id)

    def _forget(self, key: Key) -> None:
        agent_id, name = key
        records = self._records.get(agent_id, {})
        there = records.pop(name, None)
        if not records:
            self._records.pop(agent_id, None)
        if there is not None:
            self._leave(key)
        self.index.remove(key)

    def _leave(self, key: Key) -> None:
        """Let go of what a beacon that is gone has brought, but for what it brought today."""
        day = self._clock() // DAY_US
        if day != self._left_on:
            for left in self._left:
                del self._counts[left]
            self._left.clear()
            self._left_on = day
        count = self._counts[key].on(day)
        if not count.delivered and not count.overflow:
            del self._counts[key]
            return
        self._left[key] = None
        if len(self._left) > MOST_LEFT:
            self._let_go(next(iter(self._left)))

    def _let_go(self, key: Key) -> None:
        del self._left[key], self._counts[key]

    def _forget_agent(self, agent: AgentRecord) -> None:
        """Forget all of a deleted agent: another one of its name begins from nothing."""
        for name in self.names(agent.agent_id):
            self._forget((agent.agent_id, name))
        for key in [key for key in self._left if key[0] == agent.agent_id]:
            self._let_go(key)
