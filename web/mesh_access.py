"""Who may act for whom among agents on machines, and what a token reaches there (surface, section 8).

An agent's token acts for its agent, a machine's token for every agent of its machine, an admin's for all. The agents
and machines beyond its reach do not exist for a token: it gets the same answer for what is another's and for what is
not there.
"""

import msgspec

from actors.service import Service
from storage.mail_records import AgentRecord
from web.auth import Principal
from web.errors import ApiError
from web.private import calling_agent

NOT_IN_THE_MESH = "This needs a token of a machine, or of an agent that belongs to one."
OWN_AGENT_ONLY = "This token acts for its own agent only."
OWN_AGENTS_ONLY = "This token acts for the agents of its machine only."


class Member(msgspec.Struct, frozen=True):
    """A caller in the mesh. `agent`: the one that its token is bound to. `machine`: its own one, and `reachable`: all
    whose agents it sees and sends to; None: an admin, who has none and reaches all.
    """

    caller: Principal
    agent: AgentRecord | None
    machine: str | None
    reachable: frozenset[str] | None


def member_of(service: Service, caller: Principal) -> Member:
    """Return the caller as a member of the mesh. Raises `permission_denied` for a token that has no machine."""
    if caller.is_admin:
        return Member(caller, None, None, None)
    agent = None if caller.agent is None else calling_agent(service, caller)
    machine = caller.machine if agent is None else agent.machine
    if machine is None:
        raise ApiError("permission_denied", NOT_IN_THE_MESH)
    return Member(caller, agent, machine, frozenset((machine, *caller.token.machines)))


def is_member(service: Service, caller: Principal) -> bool:
    """Whether a token is bound to a machine, directly or through its agent."""
    agent = None if caller.agent is None else service.mail.agents.get(caller.agent)
    return caller.machine is not None or (agent is not None and agent.machine is not None)


def acting_for(service: Service, member: Member, agent_id: str, field: str = "agent_id") -> AgentRecord:
    """Return the agent that a call names as the one that it is made for.

    Raises `permission_denied` when the token does not act for it, whether or not there is such an agent; for an admin
    `not_found`.
    """
    if member.agent is not None:
        if agent_id != member.agent.agent_id:
            raise ApiError("permission_denied", OWN_AGENT_ONLY, field=field)
        return member.agent
    agent = service.mail.agents.get(agent_id)
    if member.machine is not None:
        if agent is None or agent.machine != member.machine:
            raise ApiError("permission_denied", OWN_AGENTS_ONLY, field=field)
        return agent
    if agent is None:
        raise ApiError("not_found", "There is no such agent.", field=field)
    return agent
