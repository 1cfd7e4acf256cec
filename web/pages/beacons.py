"""An agent's beacons on its own screen: placed, removed, and tried against what has come, while they are written."""

from typing import Any
from urllib.parse import quote

import msgspec

from storage.clock import wall_clock_us
from storage.mail_records import AgentRecord
from web.auth import Principal
from web.decoding import time_argument
from web.errors import ApiError, invalid
from web.http import Answer
from web.pages import units
from web.pages.agents import SECOND_US, Filling, agent_page, may_speak_for, reached
from web.pages.forms import Form
from web.pages.rendering import SAFETY_HEADERS, visible
from web.pages.screens import Screens
from web.pages.visit import Visit, told
from web.params import from_json, from_object
from web.publish_params import PlaceBeacon, TestBeacon

KEEP_END = "keep_end"
"""The box that says that an edited beacon goes out when it would have gone out."""


class Edited(msgspec.Struct, frozen=True):
    """What the form was filled in with when an edit began: of a `BeaconView`, what its fields do not hold as it is."""

    about: str | None = None
    types: list[str] = []
    require: list[str] = []
    exclude: list[str] = []
    expires_at: str | None = None


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
            filled = Filling(form.shown(), tuple(form.texts("kinds")), _was(form).expires_at)
            return await agent_page(visit, agent, filled, told(raised))
        heard = f"of the last seven days it would have brought {placed.would_have_matched_7d:,}"
        return visit.leave(_path(agent), f"The beacon {placed.name} is in place; {heard}.")

    async def remove(self, visit: Visit) -> Answer:
        """`POST …/beacons/{name}/remove`: 303; what it has brought stays."""
        agent = _own(visit)
        name = visit.params["name"]
        asked = await visit.unsure("remove_beacon", name, back=_path(agent))
        if asked is not None:
            return asked
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
    """Return the body of REST that a form asks for. What is in it as it was shown of the beacon that is edited stays as
    it is, to the character. Raises `ApiError`.
    """
    was = _was(form)
    members: dict[str, Any] = {
        "name": form.text("name"),
        "about": was.about
        if was.about is not None and form.text("about") == visible(was.about, lines=True).strip()
        else form.text("about"),
        "inboxes": form.words("inboxes"),
        **{name: _listed(form, name, getattr(was, name)) for name in ("types", "require", "exclude")},
        "kinds": form.texts("kinds"),
        **{name: units.number(name, form.text(name)) for name in ("min_score", "weight", "backfill")},
        "ttl_seconds": _ttl_seconds(form, was.expires_at),
    }
    return {name: value for name, value in members.items() if value not in ("", None, [])}


def _listed(form: Form, name: str, was: list[str]) -> list[str]:
    """Return what a field lists. A comma within an item is told from one between two only in what was left alone."""
    return was if form.text(name) == visible(", ".join(was)).strip() else form.lines(name)


def _ttl_seconds(form: Form, expires_at: str | None) -> int | None:
    """Return after how long the beacon goes out: as written, or when it would have gone out, to the second."""
    written = units.seconds("ttl_seconds", form.text("ttl_seconds"))
    if written is not None or expires_at is None or not form.checked(KEEP_END):
        return written
    left_us = time_argument("ttl_seconds", expires_at) - wall_clock_us()
    if left_us <= 0:
        raise invalid("ttl_seconds", "Its time is over by now. Say after what time it goes out.")
    return max(1, round(left_us / SECOND_US))


def _was(form: Form) -> Edited:
    """Return the beacon that is edited; an empty one when the form says nothing of one."""
    try:
        return msgspec.json.decode(form.text("was"), type=Edited)
    except msgspec.MsgspecError:
        return Edited()


def _path(agent: AgentRecord) -> str:
    return f"/ui/agents/{quote(agent.agent_id, safe='')}"
