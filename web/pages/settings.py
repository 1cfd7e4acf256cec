"""The settings of an inbox: what it keeps, what it checks, what it answers; its secrets, its readers, its end."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from web.errors import ApiError
from web.http import Answer
from web.pages import units
from web.pages.calls import at
from web.pages.creating import options_of
from web.pages.forms import Filled, Form, nested
from web.pages.inboxes import query_of
from web.pages.providers import PROVIDERS
from web.pages.rendering import escaped_json, visible
from web.pages.screens import Screens
from web.pages.visit import Visit, told

WAS = "was"
"""The field that says what the others were when the form was shown."""

RESPONSE_FIELDS = ("response.status", "response.content_type", "response.body")

POLICIES = (("drop_oldest", "the oldest are dropped"), ("refuse", "new ones are refused"))


class SettingsScreens:
    """The screen of an inbox's settings, and what its buttons do."""

    def screens(self) -> Screens:
        """Return their routes."""
        inbox = "/inboxes/{slug}"
        return Screens(
            pages=(
                ("GET", inbox + "/settings", self.show),
                ("POST", inbox + "/settings", self.change),
                ("POST", inbox + "/secrets", self.put_secret),
                ("POST", inbox + "/secrets/{name}/drop", self.drop_secret),
                ("POST", inbox + "/purge", self.purge),
                ("POST", inbox + "/delete", self.delete),
                ("POST", inbox + "/messages/{seq}/erase", self.erase),
            )
        )

    async def show(self, visit: Visit) -> Answer:
        """`GET …/settings`: the form, filled in."""
        return await _page(visit, None, None)

    async def change(self, visit: Visit) -> Answer:
        """`POST …/settings`: what differs is changed; or the form again."""
        form = await visit.form()
        slug = visit.params["slug"]
        try:
            await visit.call("PATCH", at("/v1/inboxes/{}", slug), _patch(form))
        except Exception as raised:
            return await _page(visit, form.shown(), told(raised))
        return visit.leave(_path(slug, "settings"), "The settings were changed.")

    async def put_secret(self, visit: Visit) -> Answer:
        """`POST …/secrets`: a secret is added, or replaced; then back to where the form was."""
        form = await visit.form()
        slug = visit.params["slug"]
        body = {"name": form.text("name") or "default", "value": form.text("value")}
        back = "setup" if ("back", "setup") in query_of(visit.request) else "settings"
        try:
            put = await visit.call("POST", at("/v1/inboxes/{}/secrets", slug), body)
        except Exception as raised:
            return await _page(visit, None, told(raised), secret=body["name"])
        return visit.leave(_path(slug, back), f"Messages may now be signed with the secret {put['name']}.")

    async def drop_secret(self, visit: Visit) -> Answer:
        """`POST …/secrets/{name}/drop`: signatures made with it fail from now on."""
        visit.admins_only()
        slug, name = visit.params["slug"], visit.params["name"]
        asked = await visit.unsure("retire", name, slug, back=_path(slug, "settings"))
        if asked is not None:
            return asked
        await visit.call("DELETE", at("/v1/inboxes/{}/secrets/{}", slug, name))
        return visit.leave(_path(slug, "settings"), f"The secret {name} was retired.")

    async def purge(self, visit: Visit) -> Answer:
        """`POST …/purge`: every message goes; the numbering stays."""
        visit.admins_only()
        slug = visit.params["slug"]
        asked = await visit.unsure("purge", slug, back=_path(slug, "settings"))
        if asked is not None:
            return asked
        done = await visit.call("POST", at("/v1/inboxes/{}:purge", slug))
        count = done["purged"]
        said = "1 message was dropped." if count == 1 else f"{count:,} messages were dropped."
        return visit.leave(_path(slug, "settings"), said)

    async def delete(self, visit: Visit) -> Answer:
        """`POST …/delete`: the inbox goes, when its name was written to say so."""
        form = await visit.form()
        slug = visit.params["slug"]
        try:
            if form.text("confirm") != slug:
                raise ApiError("invalid_argument", "Write the inbox's slug to delete it.", field="confirm")
            await visit.call("DELETE", at("/v1/inboxes/{}", slug))
        except Exception as raised:
            return await _page(visit, None, told(raised))
        return visit.leave("/ui/inboxes", f"The inbox {slug} was deleted.")

    async def erase(self, visit: Visit) -> Answer:
        """`POST …/messages/{seq}/erase`: the content of one message goes, wherever it was delivered."""
        visit.admins_only()
        slug, seq = visit.params["slug"], visit.params["seq"]
        asked = await visit.unsure("erase", seq, slug, back=_path(slug, f"messages/{quote(seq, safe='')}"))
        if asked is not None:
            return asked
        await visit.call("DELETE", at("/v1/inboxes/{}/messages/{}", slug, seq))
        return visit.leave(f"/ui/inboxes/{quote(slug, safe='')}", f"Message {seq} was erased.")


def _path(slug: str, page: str) -> str:
    return f"/ui/inboxes/{quote(slug, safe='')}/{page}"


async def _page(visit: Visit, values: Filled | None, error: ApiError | None, *, secret: str = "") -> Answer:
    """Return the form with what was filled in, or what is. `secret`: the name of the one that the error is about."""
    visit.admins_only()
    slug = visit.params["slug"]
    inbox = await visit.get(at("/v1/inboxes/{}", slug))
    readers = await visit.get(at("/v1/inboxes/{}/readers", slug))
    return visit.page(
        "settings.html",
        status=200 if error is None else error.status,
        inbox=inbox,
        values=_shown(inbox) if values is None else values,
        readers=readers["readers"],
        policies=POLICIES,
        providers=PROVIDERS,
        private=inbox["kind"] in ("agent", "machine"),
        error=error,
        secret=secret,
        shares=_shares(inbox),
    )


def _shown(inbox: Mapping[str, Any]) -> Filled:
    """Return the fields of a form that is shown, with what they are."""
    values = _values(inbox)
    return Filled({**values, WAS: msgspec.json.encode(values).decode()})


def _values(inbox: Mapping[str, Any]) -> Filled:
    """Return an inbox's settings as the form's fields have them: nothing in them acts or hides."""
    retention, response = inbox["retention"], inbox["response"] or {}
    options = inbox["verifier_options"]
    return Filled(
        {
            "name": visible(inbox["name"]),
            "verifier": inbox["verifier"] or "none",
            "verifier_options": escaped_json(options) if options else "",
            "on_unverified": inbox["on_unverified"],
            "dedupe_window_seconds": units.as_duration(inbox["dedupe_window_seconds"]),
            "signed_url": visible(inbox["signed_url"] or ""),
            "rate_per_minute": "" if inbox["rate_per_minute"] is None else str(inbox["rate_per_minute"]),
            "max_body_bytes": units.as_size(inbox["max_body_bytes"]),
            "retention.max_age_seconds": units.as_duration(retention["max_age_seconds"]),
            "retention.max_messages": ""
            if retention["max_messages"] is None
            else f"{retention['max_messages']:,}",
            "retention.max_bytes": units.as_size(retention["max_bytes"]),
            "retention.policy": retention["policy"],
            "response.status": str(response.get("status", "")),
            "response.content_type": visible(response.get("content_type", "")),
            "response.body": visible(response.get("body", "").replace("\r\n", "\n"), lines=True),
            **({"search": "on"} if inbox["search"] else {}),
        }
    )


def _patch(form: Form) -> dict[str, Any]:
    """Return the merge patch of REST that a form asks for: an empty field is no limit. What is as it was when the form
    was shown is left out: somebody else may have changed it since. Raises `ApiError`.
    """
    members: dict[str, Any] = {
        "name": form.text("name"),
        "search": form.checked("search"),
        "retention.max_age_seconds": units.seconds(
            "retention.max_age_seconds", form.text("retention.max_age_seconds")
        ),
        "retention.max_messages": units.whole("retention.max_messages", form.text("retention.max_messages")),
        "retention.max_bytes": units.size("retention.max_bytes", form.text("retention.max_bytes")),
        "retention.policy": form.text("retention.policy") or "drop_oldest",
    }
    if form.text("verifier"):  # the form of an inbox for webhooks
        members |= {
            "verifier": form.text("verifier"),
            "verifier_options": options_of(form) or None,
            "on_unverified": form.text("on_unverified") or "store",
            "dedupe_window_seconds": units.seconds(
                "dedupe_window_seconds", form.text("dedupe_window_seconds") or "0", least=0
            ),
            "signed_url": form.text("signed_url") or None,
            "rate_per_minute": units.whole("rate_per_minute", form.text("rate_per_minute")),
            "max_body_bytes": units.size("max_body_bytes", form.text("max_body_bytes")),
        }
        status = units.whole("response.status", form.text("response.status"))
        response = {
            "status": status,
            "content_type": form.text("response.content_type") or None,
            "body": form.text("response.body") or None,
        }
        members["response"] = response if any(value is not None for value in response.values()) else None
    was = _was(form)
    return nested(
        {name: value for name, value in members.items() if was is None or _differs(form, was, name)}
    )


def _was(form: Form) -> dict[str, str] | None:
    """Return the fields as the form was shown with them, None when it does not say."""
    try:
        return msgspec.json.decode(form.text(WAS), type=dict[str, str])
    except msgspec.DecodeError:
        return None


def _differs(form: Form, was: Mapping[str, str], name: str) -> bool:
    """Whether a member was filled in otherwise; one that has members has a field for each."""
    fields = RESPONSE_FIELDS if name == "response" else (name,)
    return any(form.text(field) != was.get(field, "").strip() for field in fields)


def _shares(inbox: Mapping[str, Any]) -> list[tuple[str, int, int | None, str]]:
    """Return what is kept beside its limits: name, how much, the limit, and the kind of number."""
    kept, retention = inbox["kept"], inbox["retention"]
    return [
        ("Messages", kept["messages"], retention["max_messages"], "count"),
        ("Bodies", kept["bytes"], retention["max_bytes"], "bytes"),
    ]
