"""The machine book: every machine in memory, by its name. It alone makes and deletes machines.

A machine lives as long as the inbox of its broadcasts, and the two are made and deleted in one transaction; so are the
tokens that act for it. Its agents go before it. An agent is only made on a machine that exists: both happen under the
agent book's lock.
"""

from contextlib import AbstractContextManager, suppress

import msgspec
import trio

from actors.agents import AgentBook
from actors.commands import DeleteInbox, Refusal
from actors.directory import Directory
from actors.registry import Registry
from actors.tokens import TokenBook
from actors.units import ADMIN_COST, Reading
from storage.errors import InboxGone
from storage.mesh_records import MachineRecord
from storage.protocols import Lane, Log, Tx
from storage.records import InboxRecord, InboxSettings, NewInbox

MACHINE_PREFIX = "machine."
"""What the slug of a machine's inbox begins with; the machine's name follows."""


def machine_slug(name: str) -> str:
    """Return the slug of the inbox of a machine's broadcasts."""
    return MACHINE_PREFIX + name


class CreateMachine(msgspec.Struct, frozen=True):
    """Make a machine with its inbox: both or neither. Raises `SlugTaken`."""

    name: str
    inbox: NewInbox
    lane: Lane = Lane.ANSWERS
    cost: int = ADMIN_COST
    grows: bool = True

    def run(self, tx: Tx) -> tuple[MachineRecord, InboxRecord]:
        """Create them."""
        inbox = tx.create_inbox(self.inbox)
        return tx.create_machine(self.name, inbox.inbox_id), inbox


class MachineBook:
    """All machines of the server."""

    def __init__(
        self, log: Log, registry: Registry, directory: Directory, tokens: TokenBook, agents: AgentBook
    ) -> None:
        """From here on no agent is made, and no token taken, for a machine that does not exist."""
        self._log = log
        self._registry = registry
        self._directory = directory
        self._tokens = tokens
        self._agents = agents
        self._by_name: dict[str, MachineRecord] = {}
        self._by_inbox: dict[int, MachineRecord] = {}
        self._changes = 0
        tokens.has_machine = self._by_name.__contains__
        agents.has_machine = self._by_name.__contains__

    async def load(self) -> None:
        """Read every machine from the store; called once, before the first request."""
        for machine in await self._log.read(Reading(lambda snapshot: snapshot.machines())):
            self._take(machine)

    def get(self, name: str) -> MachineRecord | None:
        """Return a machine."""
        return self._by_name.get(name)

    def of_inbox(self, inbox_id: int) -> MachineRecord | None:
        """Return the machine whose inbox this is."""
        return self._by_inbox.get(inbox_id)

    def all(self) -> list[MachineRecord]:
        """Return every machine, in the order of their names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    async def create(self, name: str, settings: InboxSettings) -> MachineRecord:
        """Make a machine. Raises `SlugTaken` when there is one of this name.

        Its inbox has the settings given, but never refuses a message, as an agent's does not.
        """
        kept = msgspec.structs.replace(settings.retention, policy="drop_oldest")
        new = NewInbox(machine_slug(name), "machine", "", msgspec.structs.replace(settings, retention=kept))
        # Shielded: once the writer has the unit, memory must follow the database whether or not the caller stays.
        with trio.CancelScope(shield=True):
            with self._in_doubt():
                machine, inbox = await self._log.commit(CreateMachine(name, new))
            self._directory.put(inbox)
            self._take(machine)
        return machine

    async def delete(self, name: str) -> None:
        """Delete a machine with its agents and its inbox, and revoke its tokens and theirs.

        Raises `Refusal("not_found")`, and as `Registry.ask`; then some of its agents may be gone already.
        """
        async with self._agents.settling:
            machine = self._by_name.get(name)
            if machine is None:
                raise _no_such_machine()
            for agent in self._agents.on(name):
                with suppress(Refusal):  # somebody else has deleted it meanwhile
                    await self._agents.delete(agent.agent_id)
            async with self._tokens.revoking(machine=name) as revoked:
                try:
                    with self._in_doubt():
                        await self._registry.ask(machine.inbox_id, DeleteInbox(revoked))
                except InboxGone:
                    self._forget(machine)
                    raise _no_such_machine() from None
                self._forget(machine)

    def _in_doubt(self) -> AbstractContextManager[None]:
        return self._directory.doubts.of("machines", self._read_again)

    async def _read_again(self) -> None:
        """Make memory equal to the store, between two changes."""
        stored: list[MachineRecord] = []
        changes = -1
        while changes != self._changes:
            changes = self._changes
            stored = await self._log.read(Reading(lambda snapshot: snapshot.machines()))
        for machine in set(self._by_name.values()).difference(stored):
            self._forget(machine)
        for machine in stored:
            if machine.name not in self._by_name:
                self._take(machine)

    def _take(self, machine: MachineRecord) -> None:
        self._changes += 1
        self._by_name[machine.name] = machine
        self._by_inbox[machine.inbox_id] = machine

    def _forget(self, machine: MachineRecord) -> None:
        if self._by_inbox.pop(machine.inbox_id, None) is not None:
            self._changes += 1
            del self._by_name[machine.name]


def _no_such_machine() -> Refusal:
    return Refusal("not_found", "There is no such machine.", "machine")
