"""An agent's beacons on its own screen: placed, removed, and tried against what has come, while they are written."""

from typing import Any
from urllib.parse import quote

import msgspec

from storage.mail_records import AgentRecord
from web.auth import Principal
from web.errors import ApiError
from web.http import Answer
from web.pages import units
from web.pages.agents import agent_page, may_speak_for, reached
from web.pages.forms import Form
from web.pages.rendering import SAFETY_HEADERS
from web.pages.screens import Screens
from web.pages.visit import Visit, told
from web.params import from_json, from_object
from web.publish_params import PlaceBeacon, TestBeacon


class BeaconScreens:
    """What the parts of an agent's screen do that are about beacons."""

    def screens(self) -> Screens:
        """Return their routes."""
        agent = "/agents/{agent_id}"
        return Screens(
            pages=(
                ("POST", agent + "/beacons", self.place),
                ("POST", agent + "/beacons/{name}/remove", self.remove),
                ("POST", agent + "/beacon-test", self.test),
            )
        )

    async def place(self, visit: Visit) -> Answer:
        """`POST …/beacons`: one is placed, or another takes its place; 303, or the screen again."""
        agent = _own(visit)
        form = await visit.form()
        try:
            params = from_object(PlaceBeacon, _placed(form))
            placed = await visit.service.beacons.place(
                agent,
                params.spec(params.name),
                visible=_visible(visit, agent),
                ttl_seconds=params.ttl_seconds,
                backfill=params.backfill,
            )
        except Exception as raised:
            return await agent_page(visit, agent, form.shown(), told(raised))
        heard = f"of the last seven days it would have brought {placed.would_have_matched_7d:,}"
        return visit.leave(_path(agent), f"The beacon {placed.name} is in place; {heard}.")

    async def remove(self, visit: Visit) -> Answer:
        """`POST …/beacons/{name}/remove`: 303; what it has brought stays."""
        agent = _own(visit)
        await visit.form()
        name = visit.params["name"]
        if not await visit.service.beacons.remove(agent, name):
            raise ApiError("not_found", "There is no beacon of this name.", field="name")
        return visit.leave(_path(agent), f"The beacon {name} was removed.")

    async def test(self, visit: Visit) -> Answer:
        """`POST …/beacon-test`: what a script of the page asks while a beacon is written; nothing is placed."""
        agent = _own(visit)
        params = from_json(TestBeacon, await visit.json())
        visible = _visible(visit, agent)
        found = await visit.service.beacons.test(agent, params.spec("test"), visible=visible)
        return Answer(200, msgspec.json.encode({"matches": found}), headers=SAFETY_HEADERS)


def _own(visit: Visit) -> AgentRecord:
    """Return the agent of the path. Raises `ApiError` for one that the caller may not speak for."""
    agent = reached(visit, visit.params["agent_id"])
    if not may_speak_for(visit, agent):
        raise ApiError("permission_denied", "This token acts for its own agent only.")
    return agent


def _visible(visit: Visit, agent: AgentRecord) -> frozenset[str] | None:
    """Return the slugs that count: what the caller's token reads; for an administrator, what the agent's tokens do."""
    if not visit.caller.is_admin:
        return visit.caller.visible
    scopes = [Principal(token).visible for token in visit.service.tokens.bound_to(agent.agent_id)]
    if any(scope is None for scope in scopes):
        return None
    return frozenset().union(*(scope for scope in scopes if scope is not None))


def _placed(form: Form) -> dict[str, Any]:
    """Return the body of REST that a form asks for. Raises `ApiError`."""
    members: dict[str, Any] = {
        "name": form.text("name"),
        "about": form.text("about"),
        "inboxes": form.words("inboxes"),
        "types": form.lines("types"),
        "kinds": form.texts("kinds"),
        "require": form.lines("require"),
        "exclude": form.lines("exclude"),
        "min_score": form.number("min_score"),
        "weight": form.number("weight"),
        "backfill": form.number("backfill"),
        "ttl_seconds": units.seconds("ttl_seconds", form.text("ttl_seconds")),
    }
    return {name: value for name, value in members.items() if value not in ("", None, [])}


def _path(agent: AgentRecord) -> str:
    return f"/ui/agents/{quote(agent.agent_id, safe='')}"
