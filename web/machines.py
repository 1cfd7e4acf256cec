"""The administration of machines over REST: `/v1/machines[/{name}]` (surface, section 7). For admin tokens.

A machine is made with its inbox, which has its broadcasts, and deleted with it, with its agents and their tokens and
its own. An agent is put on a machine when it is made (`POST /v1/agents` with `machine`), and stays there.
"""

from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from actors.machines import machine_slug
from actors.service import Service
from storage.errors import SlugTaken
from storage.mesh_records import MachineRecord
from storage.records import InboxSettings
from web.admin import NO_CONTENT, admin_parameters, require_admin
from web.errors import ApiError
from web.grammar import format_time
from web.http import Answer, Request
from web.openapi.about import About
from web.options import WebOptions
from web.params import MAX_LIMIT, Limit, Name, from_json
from web.routes import Route


class CreateMachine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/machines`."""

    name: Name


class ListMachines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/machines`: those whose names come after `after` are listed, in the order of these."""

    limit: Limit = MAX_LIMIT
    after: Annotated[str, Meta(max_length=64)] = ""


class MachineView(msgspec.Struct, frozen=True):
    """One machine. `agents`: how many are on it."""

    name: str
    inbox: str
    agents: int
    created_at: str


class MachinePage(msgspec.Struct, frozen=True, omit_defaults=True):
    """`GET /v1/machines`, by `name`."""

    machines: list[MachineView]
    truncated: bool = False
    next_after: str | None = None


class MachineRoutes:
    """The routes over one service."""

    def __init__(self, service: Service, options: WebOptions) -> None:
        self._service = service
        self._options = options

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for Quart."""
        about = partial(About, "Administration", "admin")
        made = about(CreateMachine, MachineView, 201, "conflict", "create_machine")
        return (
            Route("POST", "/v1/machines", self.create, made),
            Route("GET", "/v1/machines", self.list_machines, about(ListMachines, MachinePage)),
            Route("GET", "/v1/machines/{name}", self.show, about(None, MachineView, name="show_machine")),
            Route(
                "DELETE", "/v1/machines/{name}", self.delete, about(None, None, 204, name="delete_machine")
            ),
        )

    async def create(self, request: Request) -> Answer:
        """`POST /v1/machines`: make a machine. Its inbox keeps what a new inbox does, and refuses nothing."""
        require_admin(request)
        form = from_json(CreateMachine, await request.read_body())
        settings = InboxSettings(retention=self._options.retention)
        try:
            machine = await self._service.mesh.machines.create(form.name, settings)
        except SlugTaken:
            raise ApiError("conflict", "A machine of this name exists already.", field="name") from None
        return Answer(201, msgspec.json.encode(self._view(machine)))

    async def list_machines(self, request: Request) -> Answer:
        """`GET /v1/machines`: list all machines, by their names."""
        params = admin_parameters(request, ListMachines)
        found = [machine for machine in self._service.mesh.machines.all() if machine.name > params.after]
        more = len(found) > params.limit
        views = [self._view(machine) for machine in found[: params.limit]]
        page = MachinePage(views, truncated=more, next_after=views[-1].name if more else None)
        return Answer(200, msgspec.json.encode(page))

    async def show(self, request: Request) -> Answer:
        """`GET /v1/machines/{name}`: show a machine."""
        require_admin(request)
        machine = self._service.mesh.machines.get(request.params["name"])
        if machine is None:
            raise ApiError("not_found", "There is no such machine.", field="name")
        return Answer(200, msgspec.json.encode(self._view(machine)))

    async def delete(self, request: Request) -> Answer:
        """`DELETE /v1/machines/{name}`: delete a machine. Its tokens and its agents' fail on their next call."""
        require_admin(request)
        await self._service.mesh.machines.delete(request.params["name"])
        return NO_CONTENT

    def _view(self, machine: MachineRecord) -> MachineView:
        agents = len(self._service.mail.agents.on(machine.name))
        return MachineView(machine.name, machine_slug(machine.name), agents, format_time(machine.created_at))
