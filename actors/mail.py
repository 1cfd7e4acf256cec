"""`Mail`: what the web layer asks of agents' private inboxes, in one place.

A pull that acknowledges is a command of the inbox's actor: its transaction moves the cursor and reads the page. A pull
that does not is a look, one snapshot on a reader's thread; how far it served is noted afterwards, and nobody waits for
that. Until the note is stored the running actor's `Live` remembers it, so that the next look counts it.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import trio

from actors import pulling
from actors.agents import AgentBook
from actors.ask import InboxQuarantined, InboxStopped
from actors.commands import Pull, Pulled, Served
from actors.feed import Feed
from actors.pulling import Replay, Sight, Span
from actors.registry import Registry
from actors.rules.draining import Reader
from actors.units import Reading
from actors.watchers import Watcher
from storage.mail_records import SELF, AgentRecord, Delivered
from storage.protocols import Log, Snapshot
from storage.records import InboxSettings, TokenRecord


class PullCall(msgspec.Struct, frozen=True):
    """A pull as its caller asks for it; field meanings as in `actors.commands.Pull`."""

    since: int | None
    ack: int | None
    limit: int | None
    visible: frozenset[str] | None
    body_limit: int
    byte_budget: int
    measure: Callable[[Delivered], int] | None = None


class Mail:
    """Agents and their inboxes."""

    def __init__(
        self, log: Log, registry: Registry, agents: AgentBook, clock: Callable[[], int], max_batch: int
    ) -> None:
        """`clock` gives µs since the epoch. `max_batch`: rows in a pull's window at most; may be changed later."""
        self._log = log
        self._registry = registry
        self._clock = clock
        self.agents = agents
        self.max_batch = max_batch

    async def create_agent(
        self,
        agent_id: str,
        settings: InboxSettings,
        *,
        machine: str | None = None,
        token: TokenRecord | None = None,
    ) -> AgentRecord:
        """Make an agent, together with a token drafted for it. Raises `SlugTaken`, and `Refusal("not_found")` when
        there is no such machine.
        """
        return await self.agents.create(agent_id, settings, machine=machine, token=token)

    async def delete_agent(self, agent_id: str) -> None:
        """Delete an agent, its inbox and its beacons, and revoke its tokens. Raises `Refusal("not_found")`."""
        await self.agents.delete(agent_id)

    # -- pulls ------------------------------------------------------------------------------------------
    async def pull(self, agent: AgentRecord, call: PullCall) -> Pulled:
        """Acknowledge and read a page of an agent's inbox. Raises `InboxGone`, `ReadersBusy`, and as `Registry.ask`."""
        command = Pull(
            call.ack,
            call.since,
            call.limit,
            self.max_batch,
            call.visible,
            call.body_limit,
            call.byte_budget,
            call.measure,
        )
        if call.ack is not None:
            pulled: Pulled = await self._registry.ask(agent.inbox_id, command)
            return pulled
        return await self._look(agent.inbox_id, command)

    async def wait(self, agent: AgentRecord, call: PullCall, watcher: Watcher, seconds: float) -> Pulled:
        """Pull as soon as there is something to serve, or else after `seconds`; the acknowledgement is applied at once.

        A window that serves nothing while more lies beyond it is something. Ends early, with what there is, when the
        watcher is ended or its token has changed. Raises as `pull`.
        """
        deadline = trio.current_time() + seconds
        with self.feed(agent, watcher) as feed:
            while True:
                watcher.rearm()
                feed.attach()
                pulled = await self.pull(agent, call)
                over = watcher.ended or trio.current_time() >= deadline
                if pulled.rows or pulled.has_more or over:
                    return pulled
                call = msgspec.structs.replace(call, ack=None)
                with trio.move_on_at(deadline):
                    await watcher.park()
                if watcher.ended or watcher.rescoped:
                    return pulled

    # -- without the cursor -------------------------------------------------------------------------------
    async def since(
        self,
        agent: AgentRecord,
        after_us: int,
        limit: int,
        visible: frozenset[str] | None,
        body_limit: int,
        byte_budget: int,
        measure: Callable[[Delivered], int] | None = None,
    ) -> Replay:
        """Return what was delivered strictly after a moment (µs), oldest first. Raises `InboxGone`, `ReadersBusy`."""
        sight = Sight(limit, visible, body_limit, byte_budget, measure)
        find = partial(
            pulling.replay, inbox_id=agent.inbox_id, after_us=after_us, sight=sight, now_us=self._clock()
        )
        return await self._log.read(Reading(find))

    async def follow(self, agent: AgentRecord, after: int, sight: Sight) -> Span:
        """Return what stands after a seq, oldest first, for streams. Raises `InboxGone`, `ReadersBusy`."""
        find = partial(pulling.span, inbox_id=agent.inbox_id, after=after, sight=sight, now_us=self._clock())
        return await self._log.read(Reading(find))

    def feed(self, agent: AgentRecord, watcher: Watcher) -> Feed:
        """Return an agent's inbox as `watcher` follows it: attach it before looking, park it when there is nothing."""
        return Feed(self._registry, self._log, agent.inbox_id, watcher)

    # -- looking --------------------------------------------------------------------------------------------
    async def _look(self, inbox_id: int, command: Pull) -> Pulled:
        live = self._registry.running_live(inbox_id)
        noted = 0 if live is None else live.served_high
        pulled, before, after = await self._log.read(
            Reading(partial(_look, inbox_id=inbox_id, call=command, noted=noted, now_us=self._clock()))
        )
        if after.served_high > before.served_high:
            await self._note_served(inbox_id, after.served_high)
        return pulled

    async def _note_served(self, inbox_id: int, high: int) -> None:
        """Have it noted how far a look has served. An inbox that cannot take the note serves it once more."""
        try:
            live = self._registry.live(inbox_id)
            live.served_high = max(live.served_high, high)
            await self._registry.tell(inbox_id, Served(high))
        except (InboxStopped, InboxQuarantined):
            return


def _look(
    snapshot: Snapshot, inbox_id: int, call: Pull, noted: int, now_us: int
) -> tuple[Pulled, Reader, Reader]:
    """Return a page, and the reader before and after it."""
    _, reader = pulling.reader_of(snapshot, inbox_id, SELF)
    reader = pulling.served_up_to(reader, noted)
    pulled, after = pulling.look(snapshot, inbox_id, call, reader, now_us)
    return pulled, reader, after
