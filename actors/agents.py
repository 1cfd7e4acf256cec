"""The agent book: every agent in memory, by its id. It alone makes and deletes agents.

An agent lives as long as its private inbox, and the two are made and deleted in one transaction; so are the tokens that
are bound to it. A change is committed first and known in the same synchronous step that follows.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
import trio

from actors.commands import DeleteInbox, Refusal
from actors.directory import Directory
from actors.registry import Registry
from actors.tokens import TokenBook
from actors.units import ADMIN_COST, Reading
from storage.errors import InboxGone
from storage.mail_records import AgentRecord
from storage.protocols import Lane, Log, Tx
from storage.records import InboxRecord, InboxSettings, NewInbox, TokenRecord

PRIVATE_PREFIX = "agent."
"""What the slug of a private inbox begins with; the agent's id follows."""


def private_slug(agent_id: str) -> str:
    """Return the slug of an agent's private inbox."""
    return PRIVATE_PREFIX + agent_id


class CreateAgent(msgspec.Struct, frozen=True):
    """Make an agent with its private inbox, and a token bound to it: all or nothing. Raises `SlugTaken`."""

    agent_id: str
    inbox: NewInbox
    machine: str | None = None
    token: TokenRecord | None = None
    lane: Lane = Lane.ANSWERS
    cost: int = ADMIN_COST
    grows: bool = True

    def run(self, tx: Tx) -> tuple[AgentRecord, InboxRecord]:
        """Create them."""
        inbox = tx.create_inbox(self.inbox)
        agent = tx.create_agent(self.agent_id, inbox.inbox_id, self.machine)
        if self.token is not None:
            tx.put_token(self.token)
        return agent, inbox


class AgentBook:
    """All agents of the server."""

    def __init__(self, log: Log, registry: Registry, directory: Directory, tokens: TokenBook) -> None:
        """From here on `tokens` takes none that is bound to an agent that does not exist."""
        self._log = log
        self._registry = registry
        self._directory = directory
        self.doubts = directory.doubts
        self._tokens = tokens
        self._by_id: dict[str, AgentRecord] = {}
        self._by_inbox: dict[int, AgentRecord] = {}
        self._by_machine: defaultdict[str | None, dict[str, AgentRecord]] = defaultdict(dict)
        self._gone: list[Callable[[AgentRecord], None]] = []
        self._changes = 0
        self.has_machine: Callable[[str], bool] = lambda machine: True
        self.settling = (
            trio.Lock()
        )  # held while an agent is made on a machine, and while a machine is deleted
        tokens.has_agent = self._by_id.__contains__

    async def load(self) -> None:
        """Read every agent from the store; called once, before the first request."""
        for agent in await self._log.read(Reading(lambda snapshot: snapshot.agents())):
            self._take(agent)

    def get(self, agent_id: str) -> AgentRecord | None:
        """Return an agent."""
        return self._by_id.get(agent_id)

    def of_inbox(self, inbox_id: int) -> AgentRecord | None:
        """Return the agent whose private inbox this is."""
        return self._by_inbox.get(inbox_id)

    def all(self) -> list[AgentRecord]:
        """Return every agent, in the order of their ids."""
        return [self._by_id[agent_id] for agent_id in sorted(self._by_id)]

    def on(self, machine: str) -> list[AgentRecord]:
        """Return the agents of a machine, in the order of their ids."""
        known = self._by_machine.get(machine, {})
        return [known[agent_id] for agent_id in sorted(known)]

    def when_gone(self, hear: Callable[[AgentRecord], None]) -> None:
        """Have `hear` called, synchronously, with every agent that is deleted: its beacons are gone from the store."""
        self._gone.append(hear)

    async def create(
        self,
        agent_id: str,
        settings: InboxSettings,
        *,
        machine: str | None = None,
        token: TokenRecord | None = None,
    ) -> AgentRecord:
        """Make an agent, together with a token drafted for it. Raises `SlugTaken` when there is one of this id, and
        `Refusal("not_found")` when there is no such machine.

        Its inbox has the settings given, but never refuses a message (`actors.rules.delivering`).
        """
        if machine is None:
            return await self._create(agent_id, settings, None, token)
        async with self.settling:
            if not self.has_machine(machine):
                raise Refusal("not_found", "There is no such machine.", "machine")
            return await self._create(agent_id, settings, machine, token)

    async def _create(
        self, agent_id: str, settings: InboxSettings, machine: str | None, token: TokenRecord | None
    ) -> AgentRecord:
        kept = msgspec.structs.replace(settings.retention, policy="drop_oldest")
        new = NewInbox(private_slug(agent_id), "agent", "", msgspec.structs.replace(settings, retention=kept))
        # Shielded: once the writer has the unit, memory must follow the database whether or not the caller stays.
        with trio.CancelScope(shield=True):
            with self._in_doubt(), self._tokens.in_doubt():
                agent, inbox = await self._log.commit(CreateAgent(agent_id, new, machine, token))
            self._directory.put(inbox)
            self._take(agent)
            if token is not None:
                self._tokens.took(token)
        return agent

    async def delete(self, agent_id: str) -> None:
        """Delete an agent with its private inbox and its beacons, and revoke its tokens.

        Raises `Refusal("not_found")`, and as `Registry.ask`.
        """
        async with self._tokens.revoking(agent=agent_id) as revoked:
            agent = self._by_id.get(agent_id)
            if agent is None:
                raise Refusal("not_found", "There is no such agent.", "agent_id")
            try:
                with self._in_doubt():
                    await self._registry.ask(agent.inbox_id, DeleteInbox(revoked))
            except InboxGone:
                self._forget(agent)
                raise Refusal("not_found", "There is no such agent.", "agent_id") from None
            self._forget(agent)

    def _in_doubt(self) -> AbstractContextManager[None]:
        return self.doubts.of("agents", self._read_again)

    async def _read_again(self) -> None:
        """Make memory equal to the store, between two changes."""
        stored: list[AgentRecord] = []
        changes = -1
        while changes != self._changes:
            changes = self._changes
            stored = await self._log.read(Reading(lambda snapshot: snapshot.agents()))
        for agent in set(self._by_id.values()).difference(stored):
            self._forget(agent)
        for agent in stored:
            if agent.agent_id not in self._by_id:
                self._take(agent)

    def _take(self, agent: AgentRecord) -> None:
        self._changes += 1
        self._by_id[agent.agent_id] = agent
        self._by_inbox[agent.inbox_id] = agent
        self._by_machine[agent.machine][agent.agent_id] = agent

    def _forget(self, agent: AgentRecord) -> None:
        if self._by_inbox.pop(agent.inbox_id, None) is None:
            return
        self._changes += 1
        del self._by_id[agent.agent_id]
        del self._by_machine[agent.machine][agent.agent_id]
        for hear in self._gone:
            hear(agent)
