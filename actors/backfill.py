"""Delivering what came before a beacon was placed: within the beacon's daily limit, and counted for it."""

from collections.abc import Callable, Sequence

from actors.commands import Deliver, Refusal
from actors.in_force import InForce
from actors.registry import Registry
from actors.rules.allowance import DAY_US
from actors.rules.delivery import by_beacons, drafted
from actors.rules.letters import Letter
from actors.rules.matching.scoring import Heard, Match
from storage.errors import InboxGone, OutcomeUnknown
from storage.mail_records import AgentRecord

Past = tuple[Letter, Match]
"""A message that was there already, and how a beacon matches it."""


class Backfill:
    """Brings past messages to agents. `clock` gives µs since the epoch."""

    def __init__(self, registry: Registry, in_force: InForce, clock: Callable[[], int]) -> None:
        self._registry = registry
        self._in_force = in_force
        self._clock = clock

    async def bring(self, agent: AgentRecord, name: str, matches: Sequence[Past]) -> int:
        """Deliver what a beacon matches (given newest first), as much as its limit of today still allows, whenever it
        came; return how many messages the agent did not have.

        Raises `Refusal("not_found")` when the agent was deleted, and as `Registry.ask` and `Log.commit`.
        """
        key, day = (agent.agent_id, name), self._clock() // DAY_US
        tally = self._in_force.tally()
        brought, left = 0, list(matches)
        while left and (room := tally.room(key, day)):
            now, left = left[:room], left[room:]
            # Counted first: what the router brings meanwhile is counted on top of it.
            counted_on = tally.brought(key, day, len(now))
            try:
                new = await self._deliver(agent, now)
            except OutcomeUnknown:
                raise
            except Exception:
                tally.withdrew(key, counted_on, len(now))
                raise
            tally.withdrew(key, counted_on, len(now) - new)
            brought += new
        if left:
            tally.kept_back(key, day, len(left))
        await self._in_force.keep(tally)
        return brought

    async def _deliver(self, agent: AgentRecord, matches: Sequence[Past]) -> int:
        drafts = [drafted(letter.row, by_beacons(Heard(agent.agent_id, match))) for letter, match in matches]
        try:
            seqs = await self._registry.ask(agent.inbox_id, Deliver(tuple(reversed(drafts))))
        except InboxGone:
            raise Refusal("not_found", "There is no such agent.", "agent_id") from None
        return sum(seq is not None for seq in seqs)
