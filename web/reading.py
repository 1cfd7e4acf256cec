"""Reads as operations: what REST and MCP both answer with, free of the spelling of either (surface, section 5).

Whoever calls has authenticated and decoded the parameters. The scope is decided by the slug alone, before anything is
looked up. Head and rows come from one snapshot, and the checks of epoch and cursor are made against that head, so no
answer mixes two moments.
"""

import time

from actors.service import Service
from storage.records import INLINE_BODY_BYTES, Head, InboxRecord, StoredMessage
from web import render
from web.auth import Principal
from web.claims import large_kind
from web.errors import ApiError, no_such_inbox
from web.options import WebOptions
from web.params import MAX_LIMIT, GetMessage, QueryMessages
from web.private import hidden_of, is_partly_hidden, page_of
from web.render import PLAIN, Cost
from web.views import InboxPage, inbox_line

NO_SUCH_MESSAGE = "There is no message with this seq in the inbox: it was never there, or is no longer kept."


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


class Reading:
    """The reads over one service."""

    def __init__(self, service: Service, options: WebOptions) -> None:
        self.service = service
        self._options = options

    async def list_inboxes(self, caller: Principal, limit: int | None, after_slug: str) -> InboxPage:
        """Return the inboxes that the caller reads, after a slug.

        Without a `limit`: all that a token for named inboxes reads; of an all-inboxes token `MAX_LIMIT`.
        """
        token = caller.token
        named = None if token.kind == "admin" or token.inboxes is None else token.inboxes
        own = caller.own
        if named is not None:
            named = tuple(dict.fromkeys((*named, *own)))
        limit = limit or (MAX_LIMIT if named is None else max(len(named), 1))
        found = await self.service.list_inboxes(named, after_slug, limit + 1)
        if named is None and own:  # all webhook and topic inboxes, and one more
            found += await self.service.list_inboxes(own[1:], after_slug, 1)
            found.sort(key=lambda listing: listing.record.slug)
        lines = [inbox_line(listing) for listing in found[:limit]]
        more = len(found) > limit
        return InboxPage(lines, truncated=more, next_after_slug=lines[-1].slug if more else None)

    async def query(
        self,
        caller: Principal,
        inbox: InboxRecord,
        params: QueryMessages,
        *,
        cost: Cost = PLAIN,
        page_bytes: int | None = None,
    ) -> bytes:
        """Return one page as JSON, forward or backward, of at most `page_bytes` as sent (None: the server's limit)."""
        began = time.perf_counter()
        body = await self._query(caller, inbox, params, cost, page_bytes)
        self.service.page_seconds.add(time.perf_counter() - began)
        return body

    async def _query(
        self,
        caller: Principal,
        inbox: InboxRecord,
        params: QueryMessages,
        cost: Cost,
        page_bytes: int | None,
    ) -> bytes:
        options = self._options
        limit, inline_limit = page_bytes or options.page_bytes, options.inline_body_bytes
        query = params.page_query(inbox.inbox_id, inline_limit=inline_limit, page_bytes=limit // cost.copies)
        page, entries = await page_of(self.service, caller, inbox, query)
        check_epoch(params.epoch, page.head)
        check_cursor(params.after, page.head)
        if params.after is None:
            return render.backward_page(
                inbox.slug,
                page,
                bodies=params.bodies,
                inline_limit=inline_limit,
                page_bytes=limit,
                cost=cost,
                entries=entries,
            )
        return render.forward_page(
            inbox.slug,
            page,
            after=params.after,
            bodies=params.bodies,
            inline_limit=inline_limit,
            page_bytes=limit,
            cost=cost,
            entries=entries,
        )

    async def stored(
        self, caller: Principal, inbox: InboxRecord, params: GetMessage
    ) -> tuple[Head, StoredMessage]:
        """Return one message as it is stored, with its body unless that is kept in pieces. Raises `ApiError`."""
        head, row = await self.service.message(inbox.inbox_id, params.seq, INLINE_BODY_BYTES)
        check_epoch(params.epoch, head)
        if row is not None and is_partly_hidden(caller, inbox):
            hidden = await hidden_of(self.service, inbox.inbox_id, [row.seq], caller.visible)
            row = None if hidden else row
        if row is None:
            raise ApiError("not_found", NO_SUCH_MESSAGE, field="seq")
        return head, row

    async def whole(
        self, caller: Principal, inbox: InboxRecord, params: GetMessage, *, cost: Cost = PLAIN
    ) -> bytes:
        """Return one message as JSON, with its whole body. Raises `ApiError`, `payload_too_large` among them."""
        head, row = await self.stored(caller, inbox, params)
        limit, base_url = self._options.message_bytes, (self._options.public_url or "").rstrip("/")
        large: bytes | None = None
        kind = row.body_kind
        if row.body_id is not None:
            render.refuse_oversized(inbox.slug, row, message_bytes=limit // cost.copies, base_url=base_url)
            large, is_json = await self.service.large_body(row.body_id, row.size)
            kind = large_kind(large, is_json)
        return render.whole_message(
            inbox.slug,
            head.epoch,
            row,
            message_bytes=limit,
            base_url=base_url,
            large=large,
            large_kind=kind,
            measure=cost.measure,
        )
