"""Tokens: all of them for an administrator, one's own for everybody else."""

from datetime import UTC, datetime, timedelta
from typing import Any

from web.errors import ApiError
from web.http import Answer
from web.pages import units
from web.pages.calls import at
from web.pages.forms import Filled, Form
from web.pages.inboxes import query_of
from web.pages.screens import Screens
from web.pages.visit import Visit, told

KINDS = (
    ("agent", "Agent: reads inboxes"),
    ("machine", "Machine: acts for its agents"),
    ("admin", "Admin: may do everything"),
)


class TokenScreens:
    """The screens of tokens."""

    def screens(self) -> Screens:
        """Return their routes."""
        return Screens(
            pages=(
                ("GET", "/tokens", self.list_tokens),
                ("POST", "/tokens", self.create),
                ("POST", "/tokens/{token_id}/revoke", self.revoke),
                ("GET", "/token", self.own),
            )
        )

    async def list_tokens(self, visit: Visit) -> Answer:
        """`GET /ui/tokens`: what is not revoked, and a form for another one."""
        return await _page(visit, Filled(), None)

    async def create(self, visit: Visit) -> Answer:
        """`POST /ui/tokens`: 303; its text is shown this once."""
        visit.admins_only()
        form = await visit.form()
        try:
            made = await visit.call("POST", "/v1/tokens", _wanted(form))
        except Exception as raised:
            return await _page(visit, form.shown(), told(raised))
        return visit.leave("/ui/tokens", {"token": made["token"], "token_id": made["token_id"]})

    async def revoke(self, visit: Visit) -> Answer:
        """`POST /ui/tokens/{token_id}/revoke`: it fails on its next call, and its sessions end."""
        visit.admins_only()
        token_id = visit.params["token_id"]
        token = visit.service.tokens.get(token_id)
        called = None if token is None else token.name
        asked = await visit.unsure("revoke", called or token_id[-6:], back="/ui/tokens")
        if asked is not None:
            return asked
        try:
            await visit.call("DELETE", at("/v1/tokens/{}", token_id))
        except Exception as raised:
            return await _page(visit, Filled(), told(raised))
        return visit.leave("/ui/tokens", "The token was revoked.")

    async def own(self, visit: Visit) -> Answer:
        """`GET /ui/token`: what the token is that this browser is signed in with."""
        return visit.page("token.html", token=await visit.get("/v1/me"))


async def _page(visit: Visit, values: Filled, error: ApiError | None) -> Answer:
    visit.admins_only()
    after = dict(query_of(visit.request)).get("after", "")
    found = await visit.get("/v1/tokens", [("after", after)] if after else [])
    return visit.page(
        "tokens.html",
        status=200 if error is None else error.status,
        tokens=found["tokens"],
        next=found.get("next_after"),
        own=visit.session.token_id,
        kinds=KINDS,
        agents=[agent.agent_id for agent in visit.service.mail.agents.all()],
        machines=[machine.name for machine in visit.service.mesh.machines.all()],
        values=values,
        error=error,
    )


def _wanted(form: Form) -> dict[str, Any]:
    """Return the body of REST that a form asks for. Raises `ApiError`."""
    inboxes: list[str] | str = form.words("inboxes")
    wanted: dict[str, Any] = {
        "kind": form.text("kind"),
        "inboxes": "all" if inboxes == ["all"] else inboxes,
        "agent": form.text("agent"),
        "machine": form.text("machine"),
        "machines": form.words("machines"),
        "name": form.text("name"),
    }
    lifetime = units.seconds("expires_at", form.text("expires_at"))
    if lifetime is not None:
        try:
            ends = datetime.now(UTC) + timedelta(seconds=lifetime)
        except OverflowError:
            raise ApiError("invalid_argument", "That is too far away.", field="expires_at") from None
        wanted["expires_at"] = ends.isoformat()
    return {name: value for name, value in wanted.items() if value}
