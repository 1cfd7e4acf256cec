"""`Mesh`: what the web layer asks about agents on machines, in one place: who is there, and the mail between them.

It owns nothing itself. Presences are the roster's, wakes those of `actors.waking`, marks those of each inbox's actor.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from actors import serving
from actors.agents import AgentBook
from actors.commands import AckedIds, AckIds, MarkServed, Skipped
from actors.machines import MachineBook
from actors.mesh_values import CheckedIn, CheckIn, MailCall, MailRead, RosterLine, SentLine, WakeWish
from actors.options import ActorOptions
from actors.pulling import Sight
from actors.registry import Registry
from actors.roster import Roster
from actors.rules.presence import ALIVE, Card, Presence, State, state_of
from actors.rules.scope import Scope, scope_of, seen_by
from actors.sending import Letter, Sending, SentTo
from actors.serving import UNREAD_COUNTED
from actors.tokens import TokenBook
from actors.units import Reading
from actors.waking import CheckUrl, Post, WakeCall, Wakes, calls_nobody, no_wakes
from storage.errors import InboxGone
from storage.mail_records import AgentRecord
from storage.mesh_records import SentMessage, WakeTarget
from storage.protocols import Log, Snapshot

__all__ = [
    "UNREAD_COUNTED",
    "AckedIds",
    "CheckIn",
    "CheckedIn",
    "Letter",
    "MailCall",
    "MailRead",
    "Mesh",
    "Presence",
    "RosterLine",
    "SentLine",
    "SentTo",
    "Skipped",
    "State",
    "WakeCall",
    "WakeWish",
]

READ_ATTEMPTS = 3
"""Reads of two that take each other's messages away; after that an empty answer is as good."""

COUNTED_AT_ONCE = 50
"""Agents whose unread mail is counted with one read."""


Notice = Callable[[WakeTarget], Letter]
"""Makes the message that tells an agent that it is not called any more at a place."""


class Mesh:
    """Agents on machines."""

    def __init__(
        self,
        log: Log,
        registry: Registry,
        agents: AgentBook,
        machines: MachineBook,
        tokens: TokenBook,
        options: ActorOptions,
        clock: Callable[[], int],
        *,
        notice: Notice,
        post: Post = calls_nobody,
        check: CheckUrl = no_wakes,
    ) -> None:
        """`clock` gives µs since the epoch. `post` and `check`: how agents are called, and where they may be."""
        self._log = log
        self._registry = registry
        self._agents = agents
        self._tokens = tokens
        self._clock = clock
        self._notice = notice
        self.machines = machines
        self.presences = Roster(log, agents, clock)
        self.wakes = Wakes(agents, self.presences, self._unread, self._say_off, clock, post=post, check=check)
        self._sending = Sending(
            log, registry, agents, machines, self.presences, options, wakeable=self.wakes.calls
        )

    async def load(self) -> None:
        """Read machines and presences from the store; called once, before the first request, after the agents."""
        await self.machines.load()
        await self.presences.load()

    # -- who is there -------------------------------------------------------------------------------------
    async def check_in(self, agent: AgentRecord, call: CheckIn) -> CheckedIn:
        """Introduce an agent. Raises `Refusal("invalid_argument")` for a wake target that is not allowed, `InboxGone`,
        `ReadersBusy`, and as `Log.commit`.
        """
        target = None
        if call.wake is not None:
            self.wakes.check(call.wake.url)
            target = WakeTarget(agent.agent_id, call.wake.url, call.wake.secret)
        card = Card(call.role, call.repo, call.caps, call.status)
        presence, shared = await self.presences.check_in(agent, card, call.ttl_seconds, call.session, target)
        expires_at = presence.expires_at or 0  # it was just heard of
        return CheckedIn(expires_at, await self._count(agent, seen_by(call.visible)), shared)

    async def check_out(self, agent: AgentRecord) -> None:
        """Say farewell for an agent: it is gone until it checks in again. Raises `InboxGone`, and as `Log.commit`."""
        await self.presences.check_out(agent)
        self.wakes.left(agent)

    def touch(self, agent: AgentRecord, session: str) -> None:
        """Note that an agent was heard of. Synchronous; written down a little later."""
        self.presences.touch(agent, session)

    def waiting(self, agent: AgentRecord) -> AbstractContextManager[None]:
        """Hold a wait in the foreground of an agent."""
        return self.presences.waiting(agent)

    def spend(self, agent: AgentRecord, wake_token: str) -> None:
        """Note that the agent came because it was called with this token; another one is ignored. Call it before the
        agent reads.
        """
        self.wakes.spend(agent, wake_token)

    async def roster(self, machines: Iterable[str] | None, *, include_stale: bool) -> list[RosterLine]:
        """Return the agents of these machines (None: of all), by their ids; stale and gone ones only when asked for.

        Raises `ReadersBusy`.
        """
        if machines is None:
            found = [agent for agent in self._agents.all() if agent.machine is not None]
        else:
            found = [agent for machine in set(machines) for agent in self._agents.on(machine)]
            found.sort(key=lambda agent: agent.agent_id)
        return await self.lines(found, include_stale=include_stale)

    async def lines(self, agents: Iterable[AgentRecord], *, include_stale: bool) -> list[RosterLine]:
        """Return these agents, on a machine or not, in their order; stale and gone ones only when asked for.

        Raises `ReadersBusy`.
        """
        now = self._clock()
        known = [(agent, self.presences.of(agent)) for agent in agents]
        states = {agent.inbox_id: state_of(presence, now) for agent, presence in known}
        shown = [pair for pair in known if include_stale or states[pair[0].inbox_id] in ALIVE]
        lines: list[RosterLine] = []
        for start in range(0, len(shown), COUNTED_AT_ONCE):
            group = shown[start : start + COUNTED_AT_ONCE]
            scopes = [(agent.inbox_id, self._scope(agent)) for agent, _ in group]
            counts = await self._log.read(
                Reading(partial(_count_all, scopes=scopes, now_us=now), slow=len(group) > 1)
            )
            lines += [
                RosterLine(agent, states[agent.inbox_id], presence, counts[agent.inbox_id])
                for agent, presence in group
                if agent.inbox_id in counts
            ]
        return lines

    # -- mail ---------------------------------------------------------------------------------------------
    async def send(self, sender: AgentRecord | None, letter: Letter) -> SentTo:
        """Send durably. Raises `Refusal`: `not_found` (with `details` {alive, near} for an agent), `no_recipient`,
        `invalid_argument`, `conflict`, `payload_too_large`, `insufficient_storage`; else as `Registry.ask`.
        """
        return await self._sending.send(sender, letter)

    async def read(self, agent: AgentRecord, call: MailCall) -> MailRead:
        """Return mail that is not acknowledged, oldest first: when peeking all of it; else what no such read has
        returned before, and mark that as served. Raises `InboxGone`, `ReadersBusy`, `Refusal("conflict")`, and as
        `Registry.ask`.
        """
        sight = Sight(call.limit, call.visible, call.body_limit, call.byte_budget, call.measure)
        for _ in range(READ_ATTEMPTS):
            find = partial(
                serving.look, inbox_id=agent.inbox_id, sight=sight, peek=call.peek, now_us=self._clock()
            )
            found = await self._log.read(Reading(find))
            if call.peek or not found.rows:
                return MailRead(found.rows, found.unread, found.epoch)
            seqs = tuple(row.seq for row in found.rows)
            fresh = set(await self._registry.ask(agent.inbox_id, MarkServed(seqs)))
            rows = [row for row in found.rows if row.seq in fresh]
            if rows:
                break
        return MailRead(rows, found.unread, found.epoch)

    async def ack(self, agent: AgentRecord, ids: Sequence[bytes], visible: frozenset[str] | None) -> AckedIds:
        """Acknowledge messages by their ids. Raises `Refusal("conflict")`, and as `Registry.ask`."""
        acked: AckedIds = await self._registry.ask(agent.inbox_id, AckIds(tuple(ids), visible))
        return acked

    async def sent(self, agent: AgentRecord, before: bytes | None, limit: int) -> list[SentLine]:
        """Return the newest messages that an agent has sent on the mesh, those before an id only. Raises
        `ReadersBusy`.
        """
        find = partial(_sent_by, sender=agent.inbox_id, before=before, limit=limit, now_us=self._clock())
        found = await self._log.read(Reading(find))
        lines = []
        for message in found:
            named = [(self._agents.of_inbox(receipt.inbox_id), receipt) for receipt in message.receipts]
            recipients = sorted((one.agent_id, receipt) for one, receipt in named if one is not None)
            lines.append(SentLine(message.id, message.sent_at, message.event_type, tuple(recipients)))
        return lines

    # -- helpers ------------------------------------------------------------------------------------------
    def _scope(self, agent: AgentRecord) -> Scope:
        return scope_of(self._tokens.bound_to(agent.agent_id))

    async def _unread(self, agent: AgentRecord) -> int:
        """Return how much an agent has not acknowledged, of all that any of its tokens sees."""
        return await self._count(agent, self._scope(agent))

    async def _count(self, agent: AgentRecord, scope: Scope) -> int:
        find = partial(serving.unread, inbox_id=agent.inbox_id, scope=scope, now_us=self._clock())
        return await self._log.read(Reading(find))

    async def _say_off(self, agent: AgentRecord, target: WakeTarget) -> None:
        await self._sending.say(agent, self._notice(target))


def _count_all(snapshot: Snapshot, scopes: Sequence[tuple[int, Scope]], now_us: int) -> dict[int, int]:
    """Return how much is unread, by inbox; without those that are gone."""
    counts = {}
    for inbox_id, scope in scopes:
        try:
            counts[inbox_id] = serving.unread(snapshot, inbox_id, scope, now_us)
        except InboxGone:
            continue
    return counts


def _sent_by(
    snapshot: Snapshot, sender: int, before: bytes | None, limit: int, now_us: int
) -> list[SentMessage]:
    return snapshot.sent_by(sender, before, limit, now_us)
