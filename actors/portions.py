"""What the router delivers together, before its cursor moves."""

from collections import defaultdict, deque

from actors.agents import AgentBook
from actors.commands import DeliveryDraft
from actors.rules.allowance import Tally
from actors.rules.delivery import addressed
from actors.rules.scope import Scope, scope_of
from actors.tokens import TokenBook
from storage.mail_records import Pending, Routable


class Portion:
    """Deliveries that are made together, by recipient and in the order of the log, with what the beacons count for it.

    Agents and scopes are those of the moment at which they are first asked for.
    """

    def __init__(self, agents: AgentBook, tokens: TokenBook, tally: Tally) -> None:
        self._agents = agents
        self._tokens = tokens
        self._hearers: dict[str, tuple[int, Scope] | None] = {}
        self.tally = tally
        self.outbox: defaultdict[int, list[DeliveryDraft]] = defaultdict(list)
        self.size = 0

    def may_hear(self, agent_id: str, row: Routable) -> bool:
        """Whether a message may be routed to an agent to whom it was not sent: `address` comes first."""
        hearer = self._hearer(agent_id)
        if hearer is None:
            return False
        inbox_id, scope = hearer
        outgoing = self.outbox.get(inbox_id)
        return scope.covers(row.slug, row.kind) and not (outgoing and outgoing[-1].mid == row.mid)

    def deliver_to(self, agent_id: str, draft: DeliveryDraft) -> None:
        """Add a delivery to an agent that may hear of it."""
        hearer = self._hearer(agent_id)
        if hearer is not None:
            self._add(hearer[0], draft)

    def address(self, pending: deque[Pending], through: int) -> None:
        """Add what was sent to somebody, up to a message, and take it off the list."""
        while pending and pending[0].mid <= through:
            one = pending.popleft()
            self._add(one.inbox_id, addressed(one))

    def _add(self, inbox_id: int, draft: DeliveryDraft) -> None:
        self.outbox[inbox_id].append(draft)
        self.size += 1

    def _hearer(self, agent_id: str) -> tuple[int, Scope] | None:
        """Return an agent's inbox and what it may be routed; None when there is no such agent."""
        if agent_id not in self._hearers:
            agent = self._agents.get(agent_id)
            scope = scope_of(self._tokens.bound_to(agent_id))
            self._hearers[agent_id] = None if agent is None else (agent.inbox_id, scope)
        return self._hearers[agent_id]
