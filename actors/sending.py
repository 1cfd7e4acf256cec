"""Sending from agent to agent: to one, by name, or to all that are on a machine.

A message to one is at home in that agent's private inbox, with a receipt. A broadcast is at home in the machine's
inbox, and the turn that appends it reads there who is on the machine: each gets a receipt, in the same transaction, and
by these the router delivers it. Either is one append, and nobody waits for the router.

Whoever names an agent that is not there, or that would not notice, stores nothing, and hears who is alive.
"""

import difflib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from actors.agents import AgentBook
from actors.commands import Append, Appended, Broadcast, Draft, Once, Refusal, Skipped
from actors.fanout import Ticket
from actors.machines import MachineBook
from actors.options import ActorOptions
from actors.publishing import COMPARED_NAMES, NEAR_NAMES, new_id
from actors.registry import Registry
from actors.roster import Roster
from actors.rules import append
from actors.rules.delivery import broadcast, direct
from actors.rules.presence import ALIVE
from actors.units import ADMIN_COST
from storage.errors import InboxGone
from storage.mail_records import AgentRecord
from storage.mesh_records import MachineRecord
from storage.protocols import Lane, Log, Tx
from storage.records import INLINE_BODY_BYTES, BodyKind, Verdict

ADMINISTRATOR = 0
"""Stands for the inbox of a sender who is no agent, where requests are remembered: no inbox has this id."""

INBOX_ID_BYTES = 8
"""Of an inbox's number, behind the hash of a request to it."""

ALIVE_NAMED = 100
"""Agents that are named to somebody whose message could not be sent."""


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, as it is stored, and to whom. `facts` and `said` are JSON objects, `body` is the payload: JSON,
    empty for none.

    `machine`: where it goes, None: the sender's own one. Without `to_agent` to everybody there. `reachable`: the
    machines that the caller may name, None: all. `require_alive`: refuse an agent that would not notice. `key`,
    `request`: as in `actors.publishing.Publication`. `ticket`: as in `actors.commands.Append`.
    """

    facts: bytes
    said: bytes
    body: bytes
    msg_type: str
    machine: str | None = None
    to_agent: str | None = None
    reachable: frozenset[str] | None = frozenset()
    require_alive: bool = True
    key: bytes | None = None
    request: bytes = b""
    ticket: Ticket | None = None


class SentTo(msgspec.Struct, frozen=True):
    """What became of it: the agents that it goes to, by their ids, and those that a broadcast does not go to.

    `duplicate`: it was sent before, by the same request.
    """

    id: bytes
    delivered_to: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    duplicate: bool


class Earlier(msgspec.Struct, frozen=True):
    """Look up what a request was answered with. Without the recipient's life in `once`, any life of it will do."""

    once: Once
    lane: Lane = Lane.ANSWERS
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> Appended | Refusal | None:
        """Return the answer, None when there is none that still counts."""
        once = self.once
        sent = tx.sent(once.sender, once.key)
        if sent is None:
            return None
        if sent.request.startswith(once.request):
            once = msgspec.structs.replace(once, request=sent.request)
        return append.repeated(once, sent, tx.now())


class Sending:
    """Sends for agents, and for administrators. `wakeable` says whether an agent is called when mail comes."""

    def __init__(
        self,
        log: Log,
        registry: Registry,
        agents: AgentBook,
        machines: MachineBook,
        roster: Roster,
        options: ActorOptions,
        wakeable: Callable[[AgentRecord], bool],
    ) -> None:
        self._log = log
        self._registry = registry
        self._agents = agents
        self._machines = machines
        self._roster = roster
        self._options = options
        self._wakeable = wakeable

    async def send(self, sender: AgentRecord | None, letter: Letter) -> SentTo:
        """Send durably. Raises `Refusal` as `Mesh.send` says, and as `Registry.ask`."""
        if len(letter.body) > INLINE_BODY_BYTES:
            raise Refusal(
                "payload_too_large", f"A payload has at most {INLINE_BODY_BYTES:,} bytes.", "payload"
            )
        machine = self._machine(sender, letter)
        if letter.to_agent is None:
            to = Broadcast(
                machine.name, None if sender is None else sender.agent_id, self._options.route_recipients
            )
            draft = _draft(sender, letter, broadcast(), to)
            appended = await self._append(machine.inbox_id, draft, sender, letter)
            return SentTo(appended.id, appended.recipients, appended.skipped, appended.duplicate)
        try:
            agent = self._recipient(sender, letter.to_agent, machine, letter)
        except Refusal:
            there = self._agents.get(letter.to_agent)
            once = _once(sender, letter, None if there is None else there.inbox_id)
            earlier = None if once is None else await self._log.commit(Earlier(once))
            if earlier is None:
                raise
            if isinstance(earlier, Refusal):
                raise earlier from None
            return SentTo(earlier.id, (letter.to_agent,), (), duplicate=True)
        appended = await self._append(agent.inbox_id, _draft(sender, letter, direct()), sender, letter)
        return SentTo(appended.id, (agent.agent_id,), (), appended.duplicate)

    async def say(self, agent: AgentRecord, letter: Letter) -> None:
        """Put a message of the server itself into an agent's inbox. Raises as `Registry.ask`, and `InboxGone`."""
        await self._registry.ask(agent.inbox_id, Append(_draft(None, letter, direct())))

    async def _append(
        self, inbox_id: int, draft: Draft, sender: AgentRecord | None, letter: Letter
    ) -> Appended:
        command = Append(draft, ticket=letter.ticket, once=_once(sender, letter, inbox_id))
        try:
            appended: Appended = await self._registry.ask(inbox_id, command)
        except InboxGone:
            raise Refusal("not_found", "Whom this was sent to was deleted.", "to") from None
        return appended

    # -- whom it goes to ----------------------------------------------------------------------------------
    def _machine(self, sender: AgentRecord | None, letter: Letter) -> MachineRecord:
        """Return the machine that a letter goes to. Raises `Refusal`, in the same words for one that is not there and
        for one that the caller may not name.
        """
        name = letter.machine
        if name is None:
            name = None if sender is None else sender.machine
        if name is None:
            raise Refusal("invalid_argument", "Name the machine: its sender is on none.", "to")
        machine = self._machines.get(name)
        if machine is None or not _reaches(letter, name):
            raise Refusal(
                "not_found", f'There is no machine "{name}", or it is not to be reached from here.', "to"
            )
        return machine

    def _recipient(
        self, sender: AgentRecord | None, name: str, machine: MachineRecord, letter: Letter
    ) -> AgentRecord:
        """Return the agent that a letter goes to. Raises `Refusal("not_found")` with who else is there."""
        agent = self._agents.get(name)
        if agent is None or agent.machine != machine.name:
            elsewhere = agent is not None and agent.machine is not None and _reaches(letter, agent.machine)
            hint = (
                f' It is on "{agent.machine}": name that in `to`.' if agent is not None and elsewhere else ""
            )
            message = f'There is no agent "{name}" on "{machine.name}".{hint}'
            raise self._not_there(sender, name, machine, message)
        if letter.require_alive and self._roster.state(agent) not in ALIVE and not self._wakeable(agent):
            message = f'"{name}" is not there at the moment; send with require_alive=false to have it wait.'
            raise self._not_there(sender, name, machine, message)
        return agent

    def _not_there(
        self, sender: AgentRecord | None, name: str, machine: MachineRecord, message: str
    ) -> Refusal:
        others = [agent for agent in self._agents.on(machine.name) if agent != sender]
        alive = [agent.agent_id for agent in others if self._roster.state(agent) in ALIVE]
        near = _near(name, [agent.agent_id for agent in others if agent.agent_id != name])
        return Refusal("not_found", message, "to_agent", {"alive": alive[:ALIVE_NAMED], "near": near})


def _once(sender: AgentRecord | None, letter: Letter, inbox_id: int | None) -> Once | None:
    """Return what a repeat of this request is known by: a name means who bears it now, not a later life of it. Without
    `inbox_id` nobody bears it.
    """
    if letter.key is None:
        return None
    life = b"" if inbox_id is None else inbox_id.to_bytes(INBOX_ID_BYTES, "big")
    return Once(ADMINISTRATOR if sender is None else sender.inbox_id, letter.key, letter.request + life)


def _reaches(letter: Letter, machine: str) -> bool:
    return letter.reachable is None or machine in letter.reachable


def _near(name: str, known: Sequence[str]) -> list[str]:
    """Return known names that are like one."""
    return difflib.get_close_matches(name, _comparable(name, known), n=NEAR_NAMES)


def _comparable(name: str, known: Sequence[str]) -> Iterable[str]:
    if len(known) <= COMPARED_NAMES:
        return known
    return [other for other in known if other[0] == name[0]][:COMPARED_NAMES]


def _draft(sender: AgentRecord | None, letter: Letter, record: bytes, to: Broadcast | None = None) -> Draft:
    body = letter.body
    return Draft(
        id=new_id(),
        size=len(body),
        facts=letter.facts,
        said=letter.said,
        body_kind=BodyKind.JSON if body else BodyKind.EMPTY,
        body=body or None,
        body_id=None,
        event_type=letter.msg_type,
        verified=Verdict.NONE,
        delivery=record,
        broadcast=to,
        log_of=None if sender is None else sender.inbox_id,
    )
