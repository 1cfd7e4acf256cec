"""Making an inbox, and setting its provider up: the exact address, what to enter where, and a sample to see it work."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from web.errors import ApiError, invalid
from web.http import Answer
from web.pages import units
from web.pages.calls import at
from web.pages.forms import Filled, Form, nested
from web.pages.providers import BY_PRESET, PROVIDERS, Provider, parts
from web.pages.screens import Screens
from web.pages.visit import Visit, told
from web.verify.registry import canonical, scheme

LONG = tuple(provider.preset for provider in PROVIDERS if provider.preset != "none")[:10]
"""Those that come first in the list, because most people look for one of them."""

KINDS = (("webhook", "Webhooks, from a provider"), ("topic", "A topic, that agents publish to"))


class CreationScreens:
    """The screens of making an inbox."""

    def screens(self) -> Screens:
        """Return their routes."""
        return Screens(
            pages=(
                ("GET", "/new-inbox", self.form),
                ("POST", "/new-inbox", self.create),
                ("GET", "/inboxes/{slug}/setup", self.setup),
                ("POST", "/inboxes/{slug}/sample", self.sample),
            )
        )

    async def form(self, visit: Visit) -> Answer:
        """`GET /ui/new-inbox`: the form."""
        visit.admins_only()
        return _form(visit, Filled(), None)

    async def create(self, visit: Visit) -> Answer:
        """`POST /ui/new-inbox`: 303 to setting it up, which shows token and secret this once; or the form again."""
        visit.admins_only()
        form = await visit.form()
        try:
            made = await visit.call("POST", "/v1/inboxes", _wanted(form))
        except Exception as raised:
            return _form(visit, form.shown("secret"), told(raised))
        path = _setup_path(made["slug"]) if made["kind"] == "webhook" else f"/ui/inboxes/{made['slug']}"
        return visit.leave(path, {"token": made.get("token"), "secret": form.text("secret") or None})

    async def setup(self, visit: Visit) -> Answer:
        """`GET …/setup`: the steps at the provider, with the address to enter."""
        visit.admins_only()
        inbox = await visit.get(at("/v1/inboxes/{}", visit.params["slug"]))
        if inbox["ingest_url"] is None:
            raise ApiError("not_found", "Only inboxes for webhooks are set up at a provider.")
        return visit.page("setup.html", **_setup(inbox), error=None)

    async def sample(self, visit: Visit) -> Answer:
        """`POST …/sample`: a message as the provider would send it, signed here and put through every check."""
        visit.admins_only()
        await visit.form()
        slug = visit.params["slug"]
        try:
            sent = await visit.call("POST", at("/v1/inboxes/{}:sample", slug), {})
        except Exception as raised:
            error = told(raised)
            inbox = await visit.get(at("/v1/inboxes/{}", slug))
            return visit.page("setup.html", status=error.status, **_setup(inbox), error=error)
        if sent["seq"] is None:
            said = "It was a handshake, and was answered."
        else:
            said = f"Stored as message {sent['seq']}: " + (
                "verified." if sent["verified"] else "not verified."
            )
        return visit.leave(_setup_path(slug), f"A sample was sent. {said}")


def _setup_path(slug: str) -> str:
    return f"/ui/inboxes/{quote(slug, safe='')}/setup"


def _form(visit: Visit, values: Filled, error: ApiError | None) -> Answer:
    return visit.page(
        "new_inbox.html",
        status=200 if error is None else error.status,
        values=values,
        error=error,
        kinds=KINDS,
        usual=[BY_PRESET[name] for name in LONG],
        others=[provider for provider in PROVIDERS if provider.preset not in (*LONG, "none")],
        providers=PROVIDERS,
    )


def _wanted(form: Form) -> dict[str, Any]:
    """Return the body of REST that a form asks for: only what was filled in. Raises `ApiError`."""
    members: dict[str, Any] = {
        "slug": form.text("slug"),
        "name": form.text("name"),
        "kind": form.text("kind"),
        "secret": form.text("secret"),
        "signed_url": form.text("signed_url"),
        "on_unverified": form.text("on_unverified"),
        "retention.max_age_seconds": units.seconds(
            "retention.max_age_seconds", form.text("retention.max_age_seconds")
        ),
        "retention.max_messages": units.whole("retention.max_messages", form.text("retention.max_messages")),
        "retention.max_bytes": units.size("retention.max_bytes", form.text("retention.max_bytes")),
    }
    wanted = {name: value for name, value in members.items() if value not in ("", None)}
    if wanted.get("kind") != "topic":
        wanted["verifier"] = form.text("verifier") or "none"
        options = options_of(form)
        if options:
            wanted["verifier_options"] = options
    else:
        wanted.pop("secret", None)
    if form.checked("issue_token"):
        wanted["issue_token"] = True
    if form.checked("search"):
        wanted["search"] = True
    return nested(wanted)


def options_of(form: Form) -> dict[str, Any]:
    """Return the verifier's options, which are written as a JSON object. Raises `ApiError`."""
    text = form.text("verifier_options")
    if not text:
        return {}
    try:
        options = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise invalid(
            "verifier_options", 'Expected a JSON object, such as {"header": "X-My-Secret"}.'
        ) from None
    return options


def _setup(inbox: Mapping[str, Any]) -> dict[str, Any]:
    provider = _provider(inbox["verifier"])
    options = inbox["verifier_options"]
    url = inbox["ingest_url"]
    about = scheme(inbox["verifier"] or "none").about
    in_path = provider.secret == "path" and not options.get("header")  # noqa: S105 - a kind of secret # nosec B105
    return {
        "inbox": inbox,
        "provider": provider,
        "url": f"{url}/SECRET" if in_path else url,
        "in_path": in_path,
        "steps": [parts(step) for step in provider.steps],
        "notes": [parts(note) for note in provider.notes],
        "sampled": about.signs and not about.in_body,
        "loopback": url.startswith(("http://127.", "http://localhost", "http://[::1]")),
        "plain": not url.startswith("https://"),
    }


def _provider(verifier: str | None) -> Provider:
    return BY_PRESET[canonical(verifier or "none")]
