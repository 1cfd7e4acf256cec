"""What a program that embeds the server can do without HTTP: make inboxes, append, wait, read.

The same operations as the routes of `docs/api.md`, with the same parameters, answers and refusals, as an administrator.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from hashlib import blake2b
from typing import Annotated, Any, TypeVar, cast

import msgspec
import trio
from msgspec import Meta

from actors.ask import InboxStopped
from actors.commands import Draft
from actors.feed import next_page
from actors.service import Service
from actors.watchers import Watcher
from postroom.server import Started
from storage.clock import wall_clock_us
from storage.records import BodyKind, Head, InboxRecord, TokenRecord, Verdict
from web import render
from web.admin import Admin
from web.appending import append_draft
from web.auth import Principal
from web.claims import Said, body_kind
from web.decoding import from_object
from web.errors import ApiError, invalid, no_such_inbox
from web.faults import as_api_error
from web.grammar import ulid_text
from web.http import Answer, Request
from web.ingest import DEDUPE_KEY_BYTES, new_id
from web.params import GetMessage, QueryMessages, WaitForMessages
from web.published import published_facts
from web.reading import Reading, check_cursor, check_epoch, readable

Line = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class AppendMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said of a message that is appended from within."""

    content_type: Line | None = None
    event_type: Line | None = None
    delivery_id: Line | None = None


class Appended(msgspec.Struct, frozen=True):
    """Where a message is; that of the first one when it was a duplicate."""

    id: str
    seq: int
    duplicate: bool


Method = TypeVar("Method", bound=Callable[..., Any])


def told(method: Method) -> Method:
    """Count a method's calls, and let it raise what goes wrong as `ApiError`, whichever part that comes from.

    A defect stays what it is. A call that outlives the server is cut off: nobody is left to answer it.
    """

    @wraps(method)
    async def telling(self: "Server", *args: Any, **kwargs: Any) -> Any:
        with self._call():
            try:
                return await method(self, *args, **kwargs)
            except Exception as error:
                refusal = as_api_error(error)
                if isinstance(error, InboxStopped) and self._service.registry.watching_ended:
                    refusal = ApiError("shutting_down", "The server is ending; nothing was done.")
                if refusal is None or refusal is error:
                    raise
                raise refusal from error
        # Only a cancelled scope ends like this.
        raise ApiError("shutting_down", "The server has ended meanwhile; whether this was done is not known.")

    return cast(Method, telling)


class Server:
    """The server inside an `async with postroom.open(…)`. After the block every call is refused: `shutting_down`.

    `url`: where it listens, empty when it does not. `admin_token`: the text of a token that was made at this start,
    because the data directory is new; None at every other start.
    """

    def __init__(self, started: Started, stopping: trio.Event) -> None:
        """Take what runs. Once `stopping` is set, nothing is begun any more."""
        self._stopping = stopping
        self._under_way: set[trio.CancelScope] = set()
        self._cut_off = False
        self._quiet = trio.Event()
        self._service: Service = started.service
        self._options = started.web
        self._reading = Reading(started.service, started.web)
        self._admin = Admin(started.service, started.web)
        # Never stored: no request can carry it.
        self._caller = Principal(TokenRecord("", b"", "admin", None, created_at=wall_clock_us()))
        self.url = started.url
        self.admin_token = started.founded.admin_token

    @told
    async def create_inbox(self, slug: str, *, exist_ok: bool = False, **settings: Any) -> dict[str, Any]:
        """Make an inbox and return it as `POST /v1/inboxes` does, which says what the `settings` are.

        With `exist_ok`, an inbox that is there already is returned as it is. Raises `ApiError`.
        """
        if exist_ok and await self._service.find(slug) is not None:
            request = self._request("GET", b"")
            request.params["slug"] = slug
            return _object(await self._admin.show_inbox(request))
        body = msgspec.json.encode({**settings, "slug": slug})
        return _object(await self._admin.create_inbox(self._request("POST", body)))

    @told
    async def append(self, slug: str, body: bytes | str, **said: str) -> Appended:
        """Append a message to a webhook inbox, durably: when this returns, it is synced to the disk.

        `said`: `content_type`, `event_type`, `delivery_id`. A delivery id that the inbox has taken within its
        `dedupe_window_seconds` makes the message a duplicate, whoever sent the first. The message counts as unsigned
        (`verified` is null), and the inbox's verifier and rate do not concern it. Raises `ApiError`.
        """
        claims = from_object(AppendMessage, said)
        inbox = await self._inbox(slug)
        if inbox.kind != "webhook":
            raise invalid("slug", "Only an inbox of the kind webhook takes messages like this.")
        content = body.encode() if isinstance(body, str) else bytes(body)
        limit = min(self._options.max_body_bytes, inbox.settings.max_body_bytes or len(content))
        if len(content) > limit:
            raise ApiError("payload_too_large", f"The body is larger than {limit} bytes.")
        appended = await append_draft(
            self._service, inbox, _draft(inbox, claims, content), lambda: io.BytesIO(content)
        )
        return Appended(ulid_text(appended.id), appended.seq, appended.duplicate)

    @told
    async def query(self, slug: str, **parameters: Any) -> dict[str, Any]:
        """Return a page as `GET …/messages` does: forward from `after`, or backward from `before` or the newest.

        Raises `ApiError`.
        """
        params = from_object(QueryMessages, {**parameters, "inbox": slug})
        return _decoded(await self._reading.query(self._caller, await self._inbox(slug), params))

    @told
    async def wait(self, slug: str, **parameters: Any) -> dict[str, Any]:
        """Return a page as `GET …/wait` does: what comes after `after`, as soon as there is something, or else an empty
        one after `timeout_seconds` (30; to 60) or when the server ends.

        Takes no slot of MAX_STREAMS. Raises `ApiError`.
        """
        params = from_object(WaitForMessages, {**parameters, "inbox": slug})
        inbox = await self._inbox(slug)
        options, watcher = self._options, Watcher(params.types)

        def check(head: Head) -> None:
            check_epoch(params.epoch, head)
            check_cursor(params.after, head)

        query = params.page_query(
            inbox.inbox_id, inline_limit=options.inline_body_bytes, page_bytes=options.page_bytes
        )
        try:
            with self._service.feed(inbox.inbox_id, watcher) as feed:
                page, entries = await next_page(feed, query, params.timeout_seconds, check)
            if watcher.ended == "deleted":
                raise no_such_inbox()
            return _decoded(
                render.forward_page(
                    inbox.slug,
                    page,
                    after=params.after,
                    bodies=params.bodies,
                    inline_limit=options.inline_body_bytes,
                    page_bytes=options.page_bytes,
                    entries=entries,
                )
            )
        finally:
            watcher.close()

    @told
    async def message(self, slug: str, seq: int, **parameters: Any) -> dict[str, Any]:
        """Return one message with its body, as `GET …/messages/{seq}` does. Raises `ApiError`."""
        params = from_object(GetMessage, {**parameters, "inbox": slug, "seq": seq})
        return _decoded(await self._reading.whole(self._caller, await self._inbox(slug), params))

    @told
    async def body(self, slug: str, seq: int, **parameters: Any) -> bytes:
        """Return a message's bytes as they came, whatever they are. Raises `ApiError`."""
        params = from_object(GetMessage, {**parameters, "inbox": slug, "seq": seq})
        _, row = await self._reading.stored(self._caller, await self._inbox(slug), params)
        if row.body_id is None:
            return row.body or b""
        body, _ = await self._service.large_body(row.body_id, row.size)
        return body

    async def until_quiet(self) -> None:
        """Return when the server stops and no call is under way any more."""
        await self._stopping.wait()
        if self._under_way:
            await self._quiet.wait()

    def cut_off(self) -> None:
        """End the calls that are still under way, and refuse others: the server has ended, in order or not."""
        self._cut_off = True
        for scope in self._under_way:
            scope.cancel()

    @contextmanager
    def _call(self) -> Iterator[None]:
        if self._cut_off or self._stopping.is_set():
            raise ApiError("shutting_down", "The server has ended; nothing was done.")
        with trio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                yield
            finally:
                self._under_way.discard(scope)
                if self._stopping.is_set() and not self._under_way:
                    self._quiet.set()

    async def _inbox(self, slug: str) -> InboxRecord:
        return await readable(self._service, self._caller, slug)

    def _request(self, method: str, body: bytes) -> Request:
        async def read_body() -> bytes:
            return body

        host = self.url.removeprefix("http://") or self._options.bind
        headers = [(b"host", host.encode())]
        return Request(method, b"/v1/inboxes", b"", headers, None, read_body, self._caller)


def _draft(inbox: InboxRecord, claims: AppendMessage, content: bytes) -> Draft:
    said = Said(
        path="",
        query="",
        headers=[],
        content_type=claims.content_type,
        delivery_id=claims.delivery_id,
        event_type=claims.event_type,
    )
    kind = body_kind(content)
    key = None
    if claims.delivery_id is not None and inbox.settings.dedupe_window_seconds:
        key = blake2b(claims.delivery_id.encode(), digest_size=DEDUPE_KEY_BYTES).digest()
    return Draft(
        id=new_id(),
        size=len(content),
        facts=published_facts(None, len(content)),
        said=msgspec.json.encode(said),
        body_kind=kind,
        body=(content or None) if kind != BodyKind.LARGE else None,
        body_id=None,
        event_type=claims.event_type or "",
        verified=Verdict.NONE,
        dedupe_key=key,
    )


def _object(answer: Answer) -> dict[str, Any]:
    return _decoded(answer.body)


def _decoded(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(body)
    return found
