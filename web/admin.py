"""Administration over REST: inboxes, their secrets and content, tokens (surface, section 5). For admin tokens.

Any other valid token gets 403 before anything is looked up, so it learns nothing. A change of an inbox is a command in
its actor's mailbox, decided on the settings in force at that moment. `GET /v1/me` is the one route here for every
token.
"""

import secrets
from collections.abc import Mapping
from functools import partial
from typing import TypeVar

import msgspec

from actors.commands import ChangeInbox, DropSecret, PutSecret
from actors.rules.scope import COMMONS
from actors.service import Service
from storage.clock import wall_clock_us
from storage.records import InboxListing, InboxRecord
from web.errors import ApiError, no_such_inbox
from web.grammar import format_time
from web.hosts import host_of
from web.http import Answer, Request
from web.inbox_params import CreateInbox, SettingsForm
from web.openapi.about import About
from web.openapi.shapes import InboxCreated, Purged, TokenIssued
from web.options import WebOptions
from web.params import (
    ChangeToken,
    CreateToken,
    EraseMessage,
    ListTokens,
    apply_patch,
    check_new_secret,
    check_signed_url,
    decode_create,
    decode_patch,
    from_json,
    from_query,
    json_object,
    new_inbox,
    patch_token,
    secret_record,
)
from web.params import PutSecret as PutSecretForm
from web.reads import principal_of
from web.routes import Route
from web.views import InboxView, SecretView, TokenPage, TokenView, inbox_view, token_view

SLUG_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
"""Without l, o, 0 and 1: a drawn slug may be read aloud or typed."""
SLUG_LENGTH = 20
"""Of 32 letters: 100 random bits, so that the address of an inbox created without a slug cannot be guessed."""

NO_CONTENT = Answer(204)


def draw_slug() -> str:
    """Return an unguessable slug."""
    return "".join(secrets.choice(SLUG_ALPHABET) for _ in range(SLUG_LENGTH))


P = TypeVar("P", bound=msgspec.Struct)


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query string of a route that takes no parameters."""


class Admin:
    """The administration's routes over one service."""

    def __init__(self, service: Service, options: WebOptions) -> None:
        self._service = service
        self._options = options

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for Quart."""
        inbox, token = "/v1/inboxes/{slug}", "/v1/tokens/{token_id}"
        about = partial(About, "Administration", "admin")
        made = about(CreateInbox, InboxCreated, 201, "conflict", merges=True)
        return (
            Route("POST", "/v1/inboxes", self.create_inbox, made),
            Route("GET", inbox, self.show_inbox, about(None, InboxView)),
            Route("PATCH", inbox, self.change_inbox, about(SettingsForm, InboxView, merges=True)),
            Route("DELETE", inbox, self.delete_inbox, about(None, None, 204, "conflict")),
            Route("POST", inbox + ":purge", self.purge, about(None, Purged, name="purge_inbox")),
            Route("POST", inbox + "/secrets", self.put_secret, about(PutSecretForm, SecretView, 201)),
            Route("DELETE", inbox + "/secrets/{name}", self.drop_secret, about(None, None, 204)),
            Route(
                "DELETE",
                inbox + "/messages/{seq}",
                self.erase,
                about(EraseMessage, None, 204, name="erase_message"),
            ),
            Route("POST", "/v1/tokens", self.create_token, about(CreateToken, TokenIssued, 201, "not_found")),
            Route("GET", "/v1/tokens", self.list_tokens, about(ListTokens, TokenPage)),
            Route(
                "PATCH", token, self.change_token, about(ChangeToken, TokenView, 200, "conflict", merges=True)
            ),
            Route("DELETE", token, self.revoke_token, about(None, None, 204, "conflict")),
            Route(
                "GET", "/v1/me", self.me, About("Administration", "token", None, TokenView, name="show_token")
            ),
        )

    # -- inboxes -------------------------------------------------------------------------------------------
    async def create_inbox(self, request: Request) -> Answer:
        """`POST /v1/inboxes`: make an inbox; the answer has, if asked for, the text of a token that reads it."""
        require_admin(request)
        form = decode_create(await request.read_body(), self._options.retention)
        slug = form.slug or draw_slug()
        new = new_inbox(form, slug=slug, default_retention=self._options.retention, now_us=wall_clock_us())
        token, text = None, None
        if form.issue_token:
            token, text = self._service.tokens.draft("agent", inboxes=[slug], name=slug)
        check_signed_url(new.settings, self._options.public_url)
        listing = await self._service.create_inbox(new, token)
        view = msgspec.to_builtins(inbox_view(listing, self._base_url(request)))
        if text is not None:
            view["token"] = text
        return Answer(201, msgspec.json.encode(view))

    async def show_inbox(self, request: Request) -> Answer:
        """`GET /v1/inboxes/{slug}`: show the inbox with all its settings."""
        require_admin(request)
        return await self._inbox_answer(request)

    async def change_inbox(self, request: Request) -> Answer:
        """`PATCH /v1/inboxes/{slug}`: change settings, by merge patch. Any patch, even `{}`, ends the quarantine."""
        require_admin(request)
        patch = decode_patch(await request.read_body())
        inbox = await self._inbox(request)
        retention, public_url = self._options.retention, self._options.public_url
        self._service.registry.lift(inbox.inbox_id)
        await self._service.change_inbox(
            inbox.inbox_id,
            ChangeInbox(lambda record: apply_patch(record, patch, retention, public_url)),
        )
        return await self._inbox_answer(request)

    async def delete_inbox(self, request: Request) -> Answer:
        """`DELETE /v1/inboxes/{slug}`: delete the inbox. The slug is free at once; the rows go in slices."""
        require_admin(request)
        inbox = await self._inbox(request)
        if inbox.slug == COMMONS:
            raise ApiError(
                "conflict", f"{COMMONS} is where agents write to; purge it to empty it.", field="slug"
            )
        await self._service.delete_inbox(inbox.inbox_id)
        return NO_CONTENT

    async def purge(self, request: Request) -> Answer:
        """`POST /v1/inboxes/{slug}:purge`: drop every message, keep the numbering. `purged` is how many there were."""
        require_admin(request)
        dropped = await self._service.purge((await self._inbox(request)).inbox_id)
        return Answer(200, msgspec.json.encode({"purged": dropped}))

    async def put_secret(self, request: Request) -> Answer:
        """`POST …/secrets`: set a secret. Those of other names stay active, so that a rotation loses nothing."""
        require_admin(request)
        form = from_json(PutSecretForm, await request.read_body())
        inbox = await self._inbox(request)
        secret = secret_record(form, wall_clock_us())
        await self._service.change_inbox(inbox.inbox_id, PutSecret(secret, partial(check_new_secret, secret)))
        return Answer(201, msgspec.json.encode(SecretView(secret.name, format_time(secret.added_at))))

    async def drop_secret(self, request: Request) -> Answer:
        """`DELETE …/secrets/{name}`: remove a secret. Signatures made with it fail from the next request on."""
        require_admin(request)
        inbox = await self._inbox(request)
        await self._service.change_inbox(inbox.inbox_id, DropSecret(request.params["name"]))
        return NO_CONTENT

    async def erase(self, request: Request) -> Answer:
        """`DELETE …/messages/{seq}`: erase a message. Its content is gone, its seq stays used."""
        asked = admin_parameters(request, EraseMessage, {"seq": request.params["seq"]})
        inbox = await self._inbox(request)
        await self._service.erase(inbox.inbox_id, asked.seq)
        return NO_CONTENT

    # -- tokens --------------------------------------------------------------------------------------------
    async def create_token(self, request: Request) -> Answer:
        """`POST /v1/tokens`: issue a token. Its text is shown this once."""
        require_admin(request)
        form = from_json(CreateToken, await request.read_body())
        token, text = self._service.tokens.draft(
            form.kind,
            inboxes=form.scope(),
            agent=form.agent,
            machine=form.machine,
            machines=tuple(dict.fromkeys(form.machines)),
            name=form.name,
            expires_at=form.expires_us(),
        )
        view = msgspec.to_builtins(token_view(token))
        await self._service.tokens.create(token)
        return Answer(201, msgspec.json.encode({"token_id": token.token_id, "token": text, **view}))

    async def list_tokens(self, request: Request) -> Answer:
        """`GET /v1/tokens`: list the tokens that are not revoked, the oldest first, without their text."""
        params = admin_parameters(request, ListTokens)
        found = self._service.tokens.page(params.after, params.limit + 1)
        more = len(found) > params.limit
        views = [token_view(token) for token in found[: params.limit]]
        page = TokenPage(views, truncated=more, next_after=views[-1].token_id if more else None)
        return Answer(200, msgspec.json.encode(page))

    async def change_token(self, request: Request) -> Answer:
        """`PATCH /v1/tokens/{token_id}`: change scope, name and expiry of a token, by merge patch."""
        require_admin(request)
        patch = json_object(await request.read_body())
        token = await self._service.tokens.change(
            request.params["token_id"], lambda token: patch_token(token, patch)
        )
        # The book knows of a use that is not written down yet.
        return Answer(200, msgspec.json.encode(token_view(self._service.tokens.get(token.token_id) or token)))

    async def revoke_token(self, request: Request) -> Answer:
        """`DELETE /v1/tokens/{token_id}`: revoke a token. It fails on its next call."""
        require_admin(request)
        await self._service.tokens.revoke(request.params["token_id"])
        return NO_CONTENT

    async def me(self, request: Request) -> Answer:
        """`GET /v1/me`: tell what the calling token is and may read."""
        from_query(NoParameters, request.raw_query)
        token = principal_of(request).token
        return Answer(200, msgspec.json.encode(token_view(self._service.tokens.get(token.token_id) or token)))

    # -- helpers -------------------------------------------------------------------------------------------
    async def _inbox(self, request: Request) -> InboxRecord:
        inbox = await self._service.find(request.params["slug"])
        if inbox is None:
            raise no_such_inbox()
        return inbox

    async def _listing(self, slug: str) -> InboxListing:
        listing = await self._service.show(slug)
        if listing is None:
            raise no_such_inbox()
        return listing

    async def _inbox_answer(self, request: Request) -> Answer:
        listing = await self._listing(request.params["slug"])
        return Answer(200, msgspec.json.encode(inbox_view(listing, self._base_url(request))))

    def _base_url(self, request: Request) -> str:
        """Return where senders reach this server: the configured URL, else what the administrator itself used.

        Only what its own request says (`Host`), never what a proxy, or anybody in its place, adds to it.
        """
        if self._options.public_url:
            return self._options.public_url.rstrip("/")
        host = (request.header(b"host") or b"").decode("latin-1")
        return "http://" + (host if host_of(host) else self._options.bind)


def require_admin(request: Request) -> None:
    """Refuse whoever has no admin token, and any query parameter. Raises as `admin_parameters`."""
    admin_parameters(request, NoParameters)


def admin_parameters(request: Request, takes: type[P], path: Mapping[str, str] | None = None) -> P:
    """Return what the query string and the path's parameters say, for a caller with an admin token.

    Raises `permission_denied` for any other token, before anything is looked at, and `invalid_argument` for parameters
    that the route does not take: a misspelled one must not change what a deletion deletes.
    """
    if not principal_of(request).is_admin:
        raise ApiError("permission_denied", "This needs an admin token.")
    return from_query(takes, request.raw_query, path)
