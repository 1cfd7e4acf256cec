"""Agents: who is there, and what waits for them. Machines, which they are on. One agent, with its beacons."""

from collections.abc import Sequence
from typing import Any, get_args
from urllib.parse import quote

import msgspec

from actors.agents import private_slug
from actors.mesh import RosterLine
from storage.clock import wall_clock_us
from storage.mail_records import AgentRecord
from web.errors import ApiError
from web.grammar import format_time
from web.http import Answer
from web.interests import beacon_view
from web.pages.calls import at
from web.pages.forms import Filled
from web.pages.screens import Screens
from web.pages.visit import Visit, told
from web.publish_params import Kind

SECOND_US = 1_000_000

NO_SUCH_AGENT = "There is no such agent, or this token does not act for it."


class AgentLine(msgspec.Struct, frozen=True):
    """One agent of the list. `says`: what it says of itself, by name."""

    agent_id: str
    machine: str | None
    state: str
    heard_at: str | None
    expires_at: str | None
    unread: int
    says: Sequence[tuple[str, str]]


class Filling(msgspec.Struct, frozen=True):
    """What the form of a beacon is filled in with. `ends_at`: when the beacon that is edited goes out, if it does."""

    values: Filled
    kinds: tuple[str, ...] = ()
    ends_at: str | None = None


class AgentScreens:
    """The screens of agents and machines."""

    def screens(self) -> Screens:
        """Return their routes."""
        agent = "/agents/{agent_id}"
        return Screens(
            pages=(
                ("GET", "/agents", self.list_agents),
                ("POST", "/agents", self.create),
                ("POST", "/machines", self.create_machine),
                ("POST", "/machines/{name}/delete", self.delete_machine),
                ("GET", agent, self.show),
                ("POST", agent + "/delete", self.delete),
            )
        )

    async def list_agents(self, visit: Visit) -> Answer:
        """`GET /ui/agents`: those that the token reaches, with presence and unread mail."""
        return await _list(visit, Filled(), None)

    async def create(self, visit: Visit) -> Answer:
        """`POST /ui/agents`: 303 to the agent; if asked for, with a token that is shown this once."""
        visit.admins_only()
        form = await visit.form()
        agent_id = form.text("agent_id")
        wanted: dict[str, object] = {"agent_id": agent_id, "machine": form.text("machine")}
        if form.checked("issue_token"):
            inboxes = form.words("inboxes")
            wanted |= {"issue_token": True}  # a flag, no token # nosec B105
            wanted |= {"inboxes": "all" if inboxes == ["all"] else inboxes}
        try:
            made = await visit.call(
                "POST", "/v1/agents", {name: value for name, value in wanted.items() if value}
            )
        except Exception as raised:
            return await _list(visit, form.shown(), told(raised))
        note = {"token": made["token"]} if "token" in made else f"The agent {agent_id} was created."
        return visit.leave(_path(agent_id), note)

    async def create_machine(self, visit: Visit) -> Answer:
        """`POST /ui/machines`: 303 to the list."""
        visit.admins_only()
        form = await visit.form()
        try:
            await visit.call("POST", "/v1/machines", {"name": form.text("name")})
        except Exception as raised:
            return await _list(visit, form.shown(), told(raised))
        return visit.leave("/ui/agents", f"The machine {form.text('name')} was created.")

    async def delete_machine(self, visit: Visit) -> Answer:
        """`POST /ui/machines/{name}/delete`: it goes, with its agents and all tokens of both."""
        visit.admins_only()
        name = visit.params["name"]
        asked = await visit.unsure("delete_machine", name, back="/ui/agents")
        if asked is not None:
            return asked
        await visit.call("DELETE", at("/v1/machines/{}", name))
        return visit.leave("/ui/agents", f"The machine {name} was deleted.")

    async def show(self, visit: Visit) -> Answer:
        """`GET /ui/agents/{agent_id}`: presence, mail, beacons, tokens."""
        return await agent_page(visit, reached(visit, visit.params["agent_id"]), Filling(Filled()), None)

    async def delete(self, visit: Visit) -> Answer:
        """`POST /ui/agents/{agent_id}/delete`: it goes, with inbox, beacons and tokens."""
        visit.admins_only()
        agent_id = visit.params["agent_id"]
        asked = await visit.unsure("delete_agent", agent_id, back=_path(agent_id))
        if asked is not None:
            return asked
        await visit.call("DELETE", at("/v1/agents/{}", agent_id))
        return visit.leave("/ui/agents", f"The agent {agent_id} was deleted.")


async def agent_page(visit: Visit, agent: AgentRecord, filled: Filling, error: ApiError | None) -> Answer:
    """Return an agent's screen, with what was filled in for a beacon. Raises `ApiError` when it is gone meanwhile."""
    inbox = private_slug(agent.agent_id)
    mine = may_speak_for(visit, agent)
    lines = await _lines(visit, [agent])
    if not lines:
        raise ApiError("not_found", NO_SUCH_AGENT)
    return visit.page(
        "agent.html",
        status=200 if error is None else error.status,
        a=lines[0],
        inbox=inbox,
        inbox_readable=visit.caller.may_read(inbox),
        made_at=format_time(agent.created_at),
        mine=mine,
        beacons=_beacons(visit, agent) if mine else [],
        tokens=_tokens(visit, agent) if visit.caller.is_admin else [],
        values=filled.values,
        picked=filled.kinds,
        ends_at=filled.ends_at,
        error=error,
        kinds=get_args(Kind),
    )


def reached(visit: Visit, agent_id: str) -> AgentRecord:
    """Return an agent that the caller's token reaches. Raises the one 404 for every other, there or not."""
    agent = visit.service.mail.agents.get(agent_id)
    caller = visit.caller
    if agent is not None:
        own = visit.agent
        machine = caller.machine if own is None else own.machine
        reaches = {machine, *caller.token.machines} - {None}
        if caller.is_admin or agent == own or agent.machine in reaches:
            return agent
    raise ApiError("not_found", NO_SUCH_AGENT)


def may_speak_for(visit: Visit, agent: AgentRecord) -> bool:
    """Whether the caller may see and change an agent's beacons: the agent itself may, and an administrator."""
    return visit.caller.is_admin or visit.caller.agent == agent.agent_id


def _beacons(visit: Visit, agent: AgentRecord) -> list[dict[str, Any]]:
    """Return an agent's beacons as REST shows them."""
    found = visit.service.beacons.list(agent)
    return [msgspec.to_builtins(beacon_view(shown)) for shown in found]


async def _lines(visit: Visit, agents: Sequence[AgentRecord]) -> list[AgentLine]:
    """Return agents as lines of the list."""
    found = await visit.service.mesh.lines(agents, include_stale=True)
    return [_line(line) for line in found]


def _line(line: RosterLine) -> AgentLine:
    presence, card = line.presence, line.presence.card
    age = None if card.status_at is None else max(0, wall_clock_us() - card.status_at) // SECOND_US
    said = {
        "role": card.role,
        "repo": card.repo,
        "caps": ", ".join(card.caps),
        "status": card.status and (card.status if age is None else f"{card.status} ({_ago(age)})"),
    }
    return AgentLine(
        agent_id=line.agent.agent_id,
        machine=line.agent.machine,
        state=line.state,
        heard_at=None if presence.last_activity_at is None else format_time(presence.last_activity_at),
        expires_at=None if presence.expires_at is None else format_time(presence.expires_at),
        unread=line.unread,
        says=[(name, value) for name, value in said.items() if value],
    )


def _ago(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return "just now"


async def _list(visit: Visit, values: Filled, error: ApiError | None) -> Answer:
    machines: list[dict[str, Any]] = []
    if visit.caller.is_admin:
        agents = list(visit.service.mail.agents.all())
        machines = (await visit.get("/v1/machines"))["machines"]
    else:
        own = visit.agent
        machine = visit.caller.machine if own is None else own.machine
        near = {one for one in (machine, *visit.caller.token.machines) if one is not None}
        found = {agent.agent_id: agent for one in near for agent in visit.service.mail.agents.on(one)}
        if own is not None:
            found[own.agent_id] = own
        agents = [found[agent_id] for agent_id in sorted(found)]
    return visit.page(
        "agents.html",
        status=200 if error is None else error.status,
        agents=await _lines(visit, agents[:MAX_LISTED]),
        more=max(0, len(agents) - MAX_LISTED),
        machines=machines,
        values=values,
        error=error,
    )


MAX_LISTED = 200
"""Agents on one page: their unread mail is counted for each. There is no page for more; a machine has some tens."""


def _tokens(visit: Visit, agent: AgentRecord) -> list[dict[str, Any]]:
    return [
        {
            "token_id": token.token_id,
            "name": token.name,
            "inboxes": "all inboxes" if token.inboxes is None else ", ".join(token.inboxes) or "its own mail",
        }
        for token in visit.service.tokens.bound_to(agent.agent_id)
    ]


def _path(agent_id: str) -> str:
    return f"/ui/agents/{quote(agent_id, safe='')}"
