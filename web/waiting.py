"""Waiting as an operation, for REST and MCP: a forward page, as soon as there is something in it (surface, section 5).

A wait looks at once, and then sleeps on its inbox's actor, holding neither a connection to the store nor a read slot.
It holds a slot, and its place in the pacing of a crowd, until its answer has been sent. It ends early when its client
hangs up, its token is revoked, expires or no longer reads the inbox, the inbox is deleted, the caller cancels it, or
the server stops; the last two are normal answers.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TypeVar

import msgspec
import trio

from actors.feed import Feed, next_page
from actors.service import Service
from actors.tail import TailEntry
from actors.watchers import Watcher
from storage.records import Head, InboxRecord, Page, PageQuery
from web import render
from web.activity import Activity
from web.auth import Principal
from web.errors import no_such_inbox
from web.held import Held
from web.http import WhenGone
from web.limits import ClientGone
from web.options import WebOptions
from web.params import WaitForMessages
from web.private import feed_of
from web.reading import check_cursor, check_epoch
from web.render import PLAIN, Cost
from web.slots import Slots, holder
from web.watching import Access

T = TypeVar("T")


def no_more(_: Watcher) -> AbstractContextManager[None]:
    """Enter nothing."""
    return nullcontext()


class Waited(msgspec.Struct, frozen=True):
    """A wait that has come to its end. `release` gives back what it holds; call it once the answer has been sent."""

    body: bytes
    release: Callable[[], None]


class Waiting:
    """The waits over one service."""

    def __init__(self, service: Service, options: WebOptions, slots: Slots) -> None:
        self.service = service
        self._options = options
        self._slots = slots
        self._activity = Activity(service)

    async def wait(
        self,
        caller: Principal,
        inbox: InboxRecord,
        params: WaitForMessages,
        when_gone: WhenGone,
        *,
        seconds: float | None = None,
        cost: Cost = PLAIN,
        page_bytes: int | None = None,
        also: Callable[[Watcher], AbstractContextManager[None]] = no_more,
    ) -> Waited:
        """Return the first page that has something in it, or an empty one, of at most `page_bytes` as sent.

        `also` is entered with the watcher, for whoever else may end it. `seconds`: how long at most, None for what the
        caller asked for. With `timeout_seconds` 0 it looks once and
        takes no slot. Raises `ApiError` and `ClientGone`; then nothing is held any more.
        """
        limit = page_bytes or self._options.page_bytes
        seconds = params.timeout_seconds if seconds is None else min(seconds, params.timeout_seconds)
        with Held() as held:
            watcher = Watcher(params.types)
            held.enter(closing(watcher))
            held.enter(also(watcher))
            query = params.page_query(
                inbox.inbox_id,
                inline_limit=self._options.inline_body_bytes,
                page_bytes=limit // cost.copies,
            )
            until = trio.current_time() + seconds
            if seconds == 0:
                page, entries = await self._page(caller, inbox, params, watcher, query, until)
            else:
                who = holder("wait", caller.token.token_id, (inbox.slug,))
                held.enter(self._slots.take((inbox.inbox_id,), who))
                held.enter(self._activity.waiting(caller))
                page, entries = await unless_gone(
                    when_gone, lambda: self._page(caller, inbox, params, watcher, query, until)
                )
            body = render.forward_page(
                inbox.slug,
                page,
                after=params.after,
                bodies=params.bodies,
                inline_limit=self._options.inline_body_bytes,
                page_bytes=limit,
                cost=cost,
                entries=entries,
            )
            return Waited(body, held.close)

    async def _page(
        self,
        caller: Principal,
        inbox: InboxRecord,
        params: WaitForMessages,
        watcher: Watcher,
        query: PageQuery,
        until: float,
    ) -> tuple[Page, list[TailEntry]]:
        access = Access(self.service.tokens, caller.token, (inbox.slug,), watcher)

        def check(head: Head) -> None:
            check_epoch(params.epoch, head)
            check_cursor(params.after, head)

        with (
            self.service.tokens.watching(caller.token, watcher),
            feed_of(self.service, caller, inbox, watcher) as feed,
        ):
            return await _next(feed, query, until, access, check)


async def _next(
    feed: Feed, query: PageQuery, until: float, access: Access, check: Callable[[Head], None]
) -> tuple[Page, list[TailEntry]]:
    watcher = feed.watcher
    while True:
        # Nothing awaits between this and the first look of `next_page`, so a change after it wakes the watcher.
        access.check()
        seconds = min(until, access.ends_at) - trio.current_time()
        page, entries = await next_page(feed, query, seconds, check)
        if watcher.ended == "deleted":
            raise no_such_inbox()
        rescoped = watcher.rescoped
        access.check()
        if page.rows or watcher.ended or not rescoped:
            return page, entries


async def unless_gone(when_gone: WhenGone, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work and return its result; raise `ClientGone` as soon as the client has left.

    The connection's own reader ends the work: a task of each wait that listens for that would be a tenth of its memory.
    """
    with trio.CancelScope() as scope:
        if when_gone(scope.cancel):
            scope.cancel()
        try:
            return await work()
        finally:
            when_gone(None)
    raise ClientGone
