"""The roster: who of the agents is there, in memory. It alone changes presences.

What an agent says of itself and its farewell are committed before they are answered, and known in the same synchronous
step that follows: whom a broadcast goes to is read from what is stored. That an agent was heard of is noted in memory,
and written down by the housekeeper once in a while (study, S20): a crash makes agents stale a little earlier. Sessions
and waits are of this process alone.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import msgspec
import trio

from actors.agents import AgentBook
from actors.rules import presence
from actors.rules.presence import (
    NEVER_SEEN,
    Arrived,
    Card,
    Event,
    Heard,
    Left,
    Presence,
    State,
    WaitBegan,
    WaitEnded,
)
from actors.rules.sessions import Sessions
from actors.units import ADMIN_COST, Reading
from storage.mail_records import AgentRecord
from storage.mesh_records import PresenceRecord, WakeTarget
from storage.protocols import Lane, Log, Tx

FLUSHED_AT_ONCE = 200
"""Presences that are written down in one unit: about 2 ms of the writer's time."""

_encode = msgspec.json.Encoder().encode
_card = msgspec.json.Decoder(Card)


class PutPresence(msgspec.Struct, frozen=True):
    """Store a presence together with the wake target that goes with it, None: without one. It must work on a full disk.

    Raises `InboxGone` when the agent is gone.
    """

    presence: PresenceRecord
    target: WakeTarget | None = None
    lane: Lane = Lane.ANSWERS
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> None:
        """Store them."""
        tx.put_presence(self.presence)
        if self.target is None:
            tx.drop_wake_target(self.presence.agent_id)
        else:
            tx.put_wake_target(self.target)


class PutTarget(msgspec.Struct, frozen=True):
    """Store what became of a wake target. Raises `InboxGone` when the agent is gone."""

    target: WakeTarget
    lane: Lane = Lane.HOUSEKEEPING
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> None:
        """Store it."""
        tx.put_wake_target(self.target)


class TouchPresences(msgspec.Struct, frozen=True):
    """Write down when agents were last heard of, for many of them together."""

    presences: tuple[PresenceRecord, ...]
    lane: Lane = Lane.HOUSEKEEPING
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> None:
        """Store the times."""
        tx.touch_presences(self.presences)


class Roster:
    """The presence of every agent that was ever heard of, by its inbox: an agent that is made anew is another one."""

    def __init__(self, log: Log, agents: AgentBook, clock: Callable[[], int]) -> None:
        """`clock` gives µs since the epoch."""
        self._log = log
        self._agents = agents
        self._clock = clock
        self._presences: dict[int, Presence] = {}
        self._targets: dict[int, WakeTarget] = {}
        self._sessions: dict[int, Sessions] = {}
        self._heard: set[int] = set()
        self._changing: dict[int, trio.Lock] = {}
        agents.when_gone(self._forget)

    async def load(self) -> None:
        """Read every presence from the store; called once, before the first request, after the agents."""
        presences, targets = await self._log.read(
            Reading(lambda snapshot: (snapshot.presences(), snapshot.wake_targets()))
        )
        for stored in presences:
            agent = self._agents.get(stored.agent_id)
            if agent is not None:
                self._presences[agent.inbox_id] = Presence(
                    _card.decode(stored.card), stored.last_activity_at, stored.ttl_seconds, stored.gone_at
                )
        for target in targets:
            agent = self._agents.get(target.agent_id)
            if agent is not None:
                self._targets[agent.inbox_id] = target

    def of(self, agent: AgentRecord) -> Presence:
        """Return what is known of an agent."""
        return self._presences.get(agent.inbox_id, NEVER_SEEN)

    def target(self, agent: AgentRecord) -> WakeTarget | None:
        """Return where an agent is called when mail waits for it; None: nowhere."""
        return self._targets.get(agent.inbox_id)

    def state(self, agent: AgentRecord) -> State:
        """Return what that means now."""
        return presence.state_of(self.of(agent), self._clock())

    # -- what is heard ------------------------------------------------------------------------------------
    async def check_in(
        self, agent: AgentRecord, card: Card, ttl_seconds: int, session: str, target: WakeTarget | None
    ) -> tuple[Presence, bool]:
        """Introduce an agent durably, with where it wants to be woken; return its presence, and whether another session
        speaks for it, too. Its status counts as said now. Raises `InboxGone`, and as `Log.commit`.
        """
        now = self._clock()
        card = msgspec.structs.replace(card, status_at=None if card.status is None else now)
        arrived = await self._change(agent, Arrived(now, card, ttl_seconds), target)
        return arrived, self._session(agent, session)

    async def check_out(self, agent: AgentRecord) -> None:
        """Say farewell for an agent, durably; nobody wakes it any more. Raises `InboxGone`, and as `Log.commit`."""
        await self._change(agent, Left(self._clock()), None)
        self._sessions.pop(agent.inbox_id, None)

    def touch(self, agent: AgentRecord, session: str) -> None:
        """Note that an agent was heard of, in one of its sessions; nothing of one that is gone. Synchronous."""
        if self.of(agent).gone_at is not None:
            return
        self._note(agent, Heard(self._clock()))
        self._heard.add(agent.inbox_id)
        self._session(agent, session)

    @contextmanager
    def waiting(self, agent: AgentRecord) -> Iterator[None]:
        """Hold a wait in the foreground."""
        self._note(agent, WaitBegan())
        try:
            yield
        finally:
            self._note(agent, WaitEnded())

    def _note(self, agent: AgentRecord, event: Event) -> Presence:
        noted = presence.apply(self.of(agent), event)
        if self._agents.of_inbox(agent.inbox_id) is not None:  # else it was deleted meanwhile
            self._presences[agent.inbox_id] = noted
        return noted

    async def _change(self, agent: AgentRecord, event: Event, target: WakeTarget | None) -> Presence:
        """Commit a change, then know it. One at a time for each agent, so that memory keeps the order of the store."""
        # Shielded: once the writer has the unit, memory must follow the database whether or not the caller stays.
        async with self._lock(agent):
            with trio.CancelScope(shield=True):
                stored = _record(agent, presence.apply(self.of(agent), event))
                with self._in_doubt(agent):
                    await self._log.commit(PutPresence(stored, target))
                self._know(agent, target)
                noted = self._note(agent, event)
        return noted

    async def change_target(self, agent: AgentRecord, believed: WakeTarget, target: WakeTarget) -> bool:
        """Write down what became of a target; False when it is in force no more. Raises `InboxGone`, and as
        `Log.commit`.
        """
        async with self._lock(agent):
            if self._targets.get(agent.inbox_id) is not believed:
                return False
            with trio.CancelScope(shield=True):
                with self._in_doubt(agent):
                    await self._log.commit(PutTarget(target))
                self._know(agent, target)
            return True

    def _in_doubt(self, agent: AgentRecord) -> AbstractContextManager[None]:
        return self._agents.doubts.of(("presence", agent.inbox_id), partial(self._read_again, agent))

    async def _read_again(self, agent: AgentRecord) -> None:
        """Take what the store has of an agent; its waits, and when it was last heard of, are known here."""
        async with self._lock(agent):
            presences, targets = await self._log.read(
                Reading(lambda snapshot: (snapshot.presences(), snapshot.wake_targets()))
            )
            if self._agents.of_inbox(agent.inbox_id) != agent:
                return  # it was deleted meanwhile
            known = self.of(agent)
            for stored in presences:
                if stored.agent_id == agent.agent_id:
                    heard_at = max(stored.last_activity_at, known.last_activity_at or 0)
                    self._presences[agent.inbox_id] = Presence(
                        _card.decode(stored.card), heard_at, stored.ttl_seconds, stored.gone_at, known.waits
                    )
            self._know(agent, next((one for one in targets if one.agent_id == agent.agent_id), None))

    def _know(self, agent: AgentRecord, target: WakeTarget | None) -> None:
        self._targets.pop(agent.inbox_id, None)
        if target is not None and self._agents.of_inbox(agent.inbox_id) is not None:
            self._targets[agent.inbox_id] = target

    def _lock(self, agent: AgentRecord) -> trio.Lock:
        return self._changing.setdefault(agent.inbox_id, trio.Lock())

    def _session(self, agent: AgentRecord, session: str) -> bool:
        """Note a call of a session; return whether another one of this agent is live."""
        known = self._sessions.setdefault(agent.inbox_id, Sessions())
        return known.called(session, self._clock(), self.of(agent).ttl_seconds)

    def _forget(self, agent: AgentRecord) -> None:
        self._presences.pop(agent.inbox_id, None)
        self._targets.pop(agent.inbox_id, None)
        self._sessions.pop(agent.inbox_id, None)
        self._changing.pop(agent.inbox_id, None)
        self._heard.discard(agent.inbox_id)

    # -- writing down -------------------------------------------------------------------------------------
    async def flush(self) -> None:
        """Write down who was heard of since the last time; nothing when nobody was. Raises as `Log.commit`."""
        while self._heard:
            some = [self._heard.pop() for _ in range(min(FLUSHED_AT_ONCE, len(self._heard)))]
            agents = [agent for inbox_id in some if (agent := self._agents.of_inbox(inbox_id)) is not None]
            try:
                await self._log.commit(
                    TouchPresences(tuple(_record(agent, self.of(agent)) for agent in agents))
                )
            except BaseException:
                self._heard.update(agent.inbox_id for agent in agents)  # the next time, then
                raise


def _record(agent: AgentRecord, known: Presence) -> PresenceRecord:
    heard_at = known.last_activity_at
    if heard_at is None:
        raise ValueError("nothing is stored of an agent that was never heard of")
    return PresenceRecord(agent.agent_id, _encode(known.card), heard_at, known.ttl_seconds, known.gone_at)
