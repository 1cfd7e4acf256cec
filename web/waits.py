"""`GET /v1/inboxes/{slug}/wait`: a forward page, as soon as there is something in it (surface, section 5).

A wait looks at once, and then sleeps on its inbox's actor, holding neither a connection to the store nor a read slot.
It holds a slot, and its place in the pacing of a crowd, until its answer has been sent. It ends early when its client
hangs up, its token is revoked, expires or no longer reads the inbox, the inbox is deleted, or the server stops; only
the last is a normal answer.
"""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TypeVar

import trio

from actors.feed import Feed, next_page
from actors.service import Service
from actors.watchers import Watcher
from storage.records import Head, InboxRecord, Page
from web import render
from web.auth import Principal
from web.errors import no_such_inbox
from web.http import Answer, Request
from web.limits import ClientGone
from web.options import WebOptions
from web.params import WaitForMessages, from_query
from web.reads import check_cursor, check_epoch, principal_of, readable
from web.routes import Route
from web.slots import Slots
from web.watching import Access

T = TypeVar("T")


class Waits:
    """The route of waiting over one service."""

    def __init__(self, service: Service, options: WebOptions, slots: Slots) -> None:
        self._service = service
        self._options = options
        self._slots = slots

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter."""
        return (Route("GET", "/v1/inboxes/{slug}/wait", self.wait),)

    async def wait(self, request: Request) -> Answer:
        """Answer with the first page that has something in it, or an empty one. Raises `ClientGone`."""
        caller = principal_of(request)
        inbox = await readable(self._service, caller, request.params["slug"])
        params = from_query(WaitForMessages, request.raw_query, {"inbox": inbox.slug})
        await request.read_body()  # of no use, but in the way of hearing that the client has left
        with ExitStack() as held:
            watcher = Watcher(params.types)
            held.callback(watcher.close)
            if params.timeout_seconds == 0:
                page = await self._page(caller, inbox, params, watcher)
            else:
                held.enter_context(self._slots.take((inbox.inbox_id,)))
                page = await unless_gone(request, lambda: self._page(caller, inbox, params, watcher))
            body = render.forward_page(
                inbox.slug,
                page,
                after=params.after,
                bodies=params.bodies,
                inline_limit=self._options.inline_body_bytes,
                page_bytes=self._options.page_bytes,
            )
            return Answer(200, body, sent=held.pop_all().close)

    async def _page(
        self, caller: Principal, inbox: InboxRecord, params: WaitForMessages, watcher: Watcher
    ) -> Page:
        access = Access(self._service.tokens, caller.token, (inbox.slug,), watcher)
        with (
            self._service.tokens.watching(caller.token, watcher),
            self._service.feed(inbox.inbox_id, watcher) as feed,
        ):
            return await self._next(feed, inbox, params, access)

    async def _next(self, feed: Feed, inbox: InboxRecord, params: WaitForMessages, access: Access) -> Page:
        options = self._options
        until = trio.current_time() + params.timeout_seconds
        query = params.page_query(
            inbox.inbox_id, inline_limit=options.inline_body_bytes, page_bytes=options.page_bytes
        )

        def check(head: Head) -> None:
            check_epoch(params.epoch, head)
            check_cursor(params.after, head)

        watcher = feed.watcher
        while True:
            # Nothing awaits between this and the first look of `next_page`, so a change after it wakes the watcher.
            access.check()
            seconds = min(until, access.ends_at) - trio.current_time()
            page = await next_page(feed, query, seconds, check)
            if watcher.ended == "deleted":
                raise no_such_inbox()
            rescoped = watcher.rescoped
            access.check()
            if page.rows or watcher.ended or not rescoped:
                return page


async def unless_gone(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work and return its result; raise `ClientGone` as soon as the client has left."""
    result: T
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:

        async def leave() -> None:
            await request.until_gone()
            nursery.cancel_scope.cancel()

        nursery.start_soon(leave)
        done = False
        try:
            result = await work()
            done = True
        except Exception as error:  # told to the caller below: a nursery would wrap it into a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        try:
            raise failure
        finally:
            failure = None  # a frame that holds its own exception is a cycle
    if not done:
        raise ClientGone
    return result
