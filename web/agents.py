"""The administration of agents over REST: `/v1/agents[/{agent_id}]` (surface, section 7). For admin tokens.

An agent is made with its private inbox and, if asked for, its first token, all or nothing; it is deleted with its
inbox, beacons and tokens. Further tokens for it are issued as every other one (`POST /v1/tokens` with `agent`).
"""

from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from actors.agents import private_slug
from actors.service import Service
from storage.errors import SlugTaken
from storage.mail_records import AgentRecord
from storage.records import InboxSettings
from web.admin import NO_CONTENT, admin_parameters, require_admin
from web.errors import ApiError, invalid
from web.grammar import format_time
from web.http import Answer, Request
from web.openapi.about import About
from web.options import WebOptions
from web.params import MAX_LIMIT, CreateToken, Inboxes, Limit, Name, from_json
from web.routes import Route


class CreateAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/agents`. `inboxes`: slugs that the token may read, which need not exist yet, or `"all"`."""

    agent_id: Name
    machine: Name | None = None
    issue_token: bool = False
    inboxes: Inboxes = ()

    def check(self) -> None:
        """Refuse a scope without a token, and one that the token cannot have."""
        if self.inboxes and not self.issue_token:
            raise invalid("inboxes", "This is what the token may read: ask for one with issue_token.")
        self.first_token().check()

    def first_token(self) -> CreateToken:
        """Return the token that is asked for, as `POST /v1/tokens` would be asked."""
        return CreateToken(kind="agent", agent=self.agent_id, inboxes=self.inboxes)


class ListAgents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/agents`: those whose ids come after `after` are listed, in the order of these."""

    limit: Limit = MAX_LIMIT
    after: Annotated[str, Meta(max_length=64)] = ""


class AgentView(msgspec.Struct, frozen=True):
    """One agent."""

    agent_id: str
    inbox: str
    machine: str | None
    created_at: str


class AgentCreated(AgentView, frozen=True, omit_defaults=True):
    """An agent, and id and text of its token if one was asked for; the text is shown this once."""

    token_id: str | UnsetType = UNSET
    token: str | UnsetType = UNSET


class AgentPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """`GET /v1/agents`, by `agent_id`."""

    agents: list[AgentView]
    truncated: bool = False
    next_after: str | None = None


def agent_view(agent: AgentRecord) -> AgentView:
    """Return an agent as its administrator sees it."""
    return AgentView(
        agent.agent_id, private_slug(agent.agent_id), agent.machine, format_time(agent.created_at)
    )


class AgentRoutes:
    """The routes over one service."""

    def __init__(self, service: Service, options: WebOptions) -> None:
        self._service = service
        self._options = options

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for Quart."""
        about = partial(About, "Administration", "admin")
        agent = "/v1/agents/{agent_id}"
        return (
            Route(
                "POST",
                "/v1/agents",
                self.create,
                about(CreateAgent, AgentCreated, 201, "conflict not_found", "create_agent"),
            ),
            Route("GET", "/v1/agents", self.list_agents, about(ListAgents, AgentPage)),
            Route("GET", agent, self.show, about(None, AgentView, name="show_agent")),
            Route("DELETE", agent, self.delete, about(None, None, 204, name="delete_agent")),
        )

    async def create(self, request: Request) -> Answer:
        """`POST /v1/agents`: make an agent; the answer has, if asked for, its token. Its inbox keeps as much as a new
        inbox does, and refuses nothing. A machine that it is put on must exist.
        """
        require_admin(request)
        form = from_json(CreateAgent, await request.read_body())
        settings = InboxSettings(retention=self._options.retention)
        token, text = None, ""
        if form.issue_token:
            scope = form.first_token().scope()
            token, text = self._service.tokens.draft("agent", inboxes=scope, agent=form.agent_id)
        try:
            agent = await self._service.mail.create_agent(
                form.agent_id, settings, machine=form.machine, token=token
            )
        except SlugTaken:
            raise ApiError("conflict", "An agent with this id exists already.", field="agent_id") from None
        issued = {} if token is None else {"token_id": token.token_id, "token": text}
        view = AgentCreated(**msgspec.structs.asdict(agent_view(agent)), **issued)
        return Answer(201, msgspec.json.encode(view))

    async def list_agents(self, request: Request) -> Answer:
        """`GET /v1/agents`: list all agents, by their ids."""
        params = admin_parameters(request, ListAgents)
        found = [agent for agent in self._service.mail.agents.all() if agent.agent_id > params.after]
        more = len(found) > params.limit
        views = [agent_view(agent) for agent in found[: params.limit]]
        page = AgentPage(views, truncated=more, next_after=views[-1].agent_id if more else None)
        return Answer(200, msgspec.json.encode(page))

    async def show(self, request: Request) -> Answer:
        """`GET /v1/agents/{agent_id}`: show an agent."""
        require_admin(request)
        agent = self._service.mail.agents.get(request.params["agent_id"])
        if agent is None:
            raise ApiError("not_found", "There is no such agent.", field="agent_id")
        return Answer(200, msgspec.json.encode(agent_view(agent)))

    async def delete(self, request: Request) -> Answer:
        """`DELETE /v1/agents/{agent_id}`: delete an agent. Its tokens fail on their next call."""
        require_admin(request)
        await self._service.mail.delete_agent(request.params["agent_id"])
        return NO_CONTENT
