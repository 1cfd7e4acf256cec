"""Reading over REST: lists, pages, single messages, raw bytes (surface, section 5). Handlers from request to answer.

The scope is decided by the slug alone, before anything is looked up. Head and rows come from one snapshot, and the
checks of epoch and cursor are made against that head, so no answer mixes two moments.
"""

import msgspec

from actors.service import Service
from storage.records import INLINE_BODY_BYTES, Head, InboxRecord, StoredMessage
from web import raw, render
from web.auth import Principal
from web.claims import large_kind
from web.errors import ApiError, no_such_inbox, unauthenticated
from web.http import Answer, Request, StreamedAnswer
from web.options import WebOptions
from web.params import MAX_LIMIT, GetMessage, ListInboxes, QueryMessages, from_query
from web.routes import Route
from web.views import InboxPage, inbox_line

NO_SUCH_MESSAGE = "There is no message with this seq in the inbox: it was never there, or is no longer kept."


def principal_of(request: Request) -> Principal:
    """Return the caller; every route below `/v1` has one, because the front authenticates before it dispatches."""
    if request.principal is None:
        raise unauthenticated(sent=False)
    return request.principal


async def readable(service: Service, caller: Principal, slug: str) -> InboxRecord:
    """Return an inbox. Raises the one 404 for every inbox that is absent or not the caller's."""
    inbox = await service.find(slug) if caller.may_read(slug) else None
    if inbox is None:
        raise no_such_inbox()
    return inbox


def check_epoch(asked: str | None, head: Head) -> None:
    """Raise `epoch_changed` when the caller's cursor belongs to another life of the inbox."""
    if asked is not None and asked != head.epoch:
        raise ApiError(
            "epoch_changed",
            "The inbox has begun a new life since; start again with after: 0 and the new epoch.",
            field="epoch",
            details={"epoch": head.epoch},
        )


def check_cursor(after: int | None, head: Head) -> None:
    """Raise `cursor_ahead` for a cursor from the future: it cannot have come from this life of the inbox."""
    if after is not None and after > head.latest_seq:
        raise ApiError(
            "cursor_ahead",
            f"The cursor is ahead of the inbox, whose latest_seq is {head.latest_seq}.",
            field="after",
            details={"latest_seq": head.latest_seq},
        )


class Reads:
    """The read routes over one service."""

    def __init__(self, service: Service, options: WebOptions) -> None:
        self._service = service
        self._options = options
        self._base_url = (options.public_url or "").rstrip("/")

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter."""
        messages = "/v1/inboxes/{slug}/messages"
        return (
            Route("GET", "/v1/inboxes", self.list_inboxes),
            Route("GET", messages, self.query_messages),
            Route("GET", messages + "/{seq}", self.get_message),
            Route("GET", messages + "/{seq}/raw", self.get_raw),
        )

    async def list_inboxes(self, request: Request) -> Answer:
        """`GET /v1/inboxes`: all that a token for named inboxes reads; of an all-inboxes token 100 at a time."""
        token = principal_of(request).token
        params = from_query(ListInboxes, request.raw_query)
        named = None if token.kind == "admin" or token.inboxes is None else token.inboxes
        limit = params.limit or (MAX_LIMIT if named is None else max(len(named), 1))
        found = await self._service.list_inboxes(named, params.after_slug, limit + 1)
        lines = [inbox_line(listing) for listing in found[:limit]]
        more = len(found) > limit
        page = InboxPage(lines, truncated=more, next_after_slug=lines[-1].slug if more else None)
        return Answer(200, msgspec.json.encode(page))

    async def query_messages(self, request: Request) -> Answer:
        """`GET …/messages`: one page, forward or backward."""
        inbox = await self._readable(request)
        params = from_query(QueryMessages, request.raw_query, {"inbox": inbox.slug})
        options = self._options
        page = await self._service.page(
            params.page_query(
                inbox.inbox_id, inline_limit=options.inline_body_bytes, page_bytes=options.page_bytes
            )
        )
        check_epoch(params.epoch, page.head)
        check_cursor(params.after, page.head)
        if params.after is None:
            body = render.backward_page(
                inbox.slug,
                page,
                bodies=params.bodies,
                inline_limit=options.inline_body_bytes,
                page_bytes=options.page_bytes,
            )
        else:
            body = render.forward_page(
                inbox.slug,
                page,
                after=params.after,
                bodies=params.bodies,
                inline_limit=options.inline_body_bytes,
                page_bytes=options.page_bytes,
            )
        return Answer(200, body)

    async def get_message(self, request: Request) -> Answer:
        """`GET …/messages/{seq}`: one message, whole."""
        inbox, head, row = await self._message(request)
        limit = self._options.message_bytes
        large: bytes | None = None
        kind = row.body_kind
        if row.body_id is not None:
            render.refuse_oversized(inbox.slug, row, message_bytes=limit, base_url=self._base_url)
            large, is_json = await self._service.large_body(row.body_id, row.size)
            kind = large_kind(large, is_json)
        body = render.whole_message(
            inbox.slug,
            head.epoch,
            row,
            message_bytes=limit,
            base_url=self._base_url,
            large=large,
            large_kind=kind,
        )
        return Answer(200, body)

    async def get_raw(self, request: Request) -> Answer | StreamedAnswer:
        """`GET …/messages/{seq}/raw`: the received bytes."""
        inbox, _, row = await self._message(request)
        return raw.answer(self._service, request, inbox.slug, row)

    async def _readable(self, request: Request) -> InboxRecord:
        return await readable(self._service, principal_of(request), request.params["slug"])

    async def _message(self, request: Request) -> tuple[InboxRecord, Head, StoredMessage]:
        inbox = await self._readable(request)
        params = from_query(
            GetMessage, request.raw_query, {"inbox": inbox.slug, "seq": request.params["seq"]}
        )
        head, row = await self._service.message(inbox.inbox_id, params.seq, INLINE_BODY_BYTES)
        check_epoch(params.epoch, head)
        if row is None:
            raise ApiError("not_found", NO_SUCH_MESSAGE, field="seq")
        return inbox, head, row
