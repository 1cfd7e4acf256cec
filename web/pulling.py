"""Draining one's own inbox as an operation: what REST, MCP and gRPC all answer with (surface, section 7).

The caller is an agent, known by its token alone; the inbox is its own. What it may see of it is decided by the scope of
that token at that moment. A page is cut by what it costs as sent, inside the look that makes it: what was not sent must
not count as looked at, or an acknowledgement would pass it.
"""

import time
from collections.abc import Sequence
from contextlib import closing

import msgspec
import trio

from actors.agents import private_slug
from actors.commands import Pulled
from actors.mail import PullCall
from actors.service import Service
from actors.watchers import Watcher
from storage.mail_records import AgentRecord, Delivered
from web.activity import Activity
from web.auth import Principal
from web.diffs import Place, delivery, diff, item
from web.errors import no_such_inbox, unauthenticated
from web.grammar import format_time
from web.held import Held
from web.http import WhenGone
from web.mail_params import PullInbox, ReadInbox, WaitInbox
from web.options import WebOptions
from web.places import Places
from web.private import calling_agent
from web.render import PLAIN, Cost
from web.slots import Slots, holder
from web.waiting import Waited, unless_gone
from web.watching import Access

_HEAD = b'{"items":['
_WIDEST = 2**63 - 1  # a cursor with as many digits as there can be
_SOME_US = 1  # every time has the same length


class PullItem(msgspec.Struct, frozen=True, gc=False):
    """One delivery. `diff` and `delivery` are JSON as REST sends it (surface, section 3)."""

    delivery_seq: int
    diff: bytes
    delivery: bytes


class PullPage(msgspec.Struct, frozen=True):
    """What a pull answers, best first. `cursor`: all up to it is acknowledged; `window_high`: how far may be next."""

    items: Sequence[PullItem]
    cursor: int
    window_high: int
    has_more: bool


def render_pull(page: PullPage) -> bytes:
    """Return `{items, cursor, window_high, has_more}`."""
    return b"".join((_HEAD, _joined(page.items), _pull_tail(page.cursor, page.window_high, page.has_more)))


class Pulling:
    """The reads of private inboxes over one service."""

    def __init__(self, service: Service, options: WebOptions, slots: Slots) -> None:
        self.service = service
        self._options = options
        self._slots = slots
        self._places = Places(service)

    async def pull(
        self,
        caller: Principal,
        params: PullInbox,
        *,
        cost: Cost = PLAIN,
        page_bytes: int | None = None,
    ) -> PullPage:
        """Acknowledge, then return a page of at most `page_bytes` as sent (None: the server's limit), but of at least
        one item if its window has one to show.

        Raises `ApiError`, and as `Service` does.
        """
        agent = calling_agent(self.service, caller)
        limit = self._options.page_bytes if page_bytes is None else page_bytes
        began = time.perf_counter()
        items = await self._items(agent, cost)
        page = _page(items, await self.service.mail.pull(agent, self._call(caller, params, items, limit)))
        self.service.pull_seconds.add(time.perf_counter() - began)
        return page

    async def read(
        self,
        caller: Principal,
        params: ReadInbox,
        *,
        cost: Cost = PLAIN,
        page_bytes: int | None = None,
    ) -> bytes:
        """Return `{items, last_seen, truncated}`: what was delivered after a time, oldest first, acknowledged or not.

        Nothing is marked. `last_seen` is the time to ask with next, null only if nothing ever came.
        """
        agent = calling_agent(self.service, caller)
        items = await self._items(agent, cost)
        limit = self._options.page_bytes if page_bytes is None else page_bytes
        found = await self.service.mail.since(
            agent,
            params.after_us(),
            params.limit,
            caller.visible,
            self._options.inline_body_bytes,
            limit - cost.measure(_HEAD + _read_tail(_SOME_US, False)),
            items.measure,
        )
        tail = _read_tail(found.last_us or None, found.truncated)
        return b"".join((_HEAD, _joined([items.of(row) for row in found.rows]), tail))

    async def wait(self, caller: Principal, params: WaitInbox, when_gone: WhenGone) -> Waited:
        """Return what `pull` does, as soon as there is something to serve, or after `timeout_seconds`.

        The acknowledgement is made at once. With `timeout_seconds` 0 it looks once and takes no slot. Raises `ApiError`
        and `ClientGone`; then nothing is held any more.
        """
        agent = calling_agent(self.service, caller)
        with Held() as held:
            watcher = Watcher()
            held.enter(closing(watcher))
            if params.timeout_seconds == 0:
                page = await self.pull(caller, params)
            else:
                who = holder("pull", caller.token.token_id, (private_slug(agent.agent_id),))
                held.enter(self._slots.take((agent.inbox_id,), who))
                held.enter(self.service.mesh.waiting(agent))
                page = await unless_gone(when_gone, lambda: self._sleep(caller, agent, params, watcher))
            return Waited(render_pull(page), held.close)

    async def _sleep(
        self, caller: Principal, agent: AgentRecord, params: WaitInbox, watcher: Watcher
    ) -> PullPage:
        tokens = self.service.tokens
        items = await self._items(agent, PLAIN)
        call = self._call(caller, params, items, self._options.page_bytes)
        until = trio.current_time() + params.timeout_seconds
        with tokens.watching(caller.token, watcher):
            access = Access(tokens, caller.token, (private_slug(agent.agent_id),), watcher)
            while True:
                # Nothing awaits between this and the first look of `Mail.wait`, so a change after it wakes the watcher.
                access.check()
                token = tokens.get(caller.token.token_id)
                if token is None:
                    raise unauthenticated(sent=True)
                call = msgspec.structs.replace(call, visible=Principal(token).visible)
                seconds = min(until, access.ends_at) - trio.current_time()
                pulled = await self.service.mail.wait(agent, call, watcher, seconds)
                if watcher.ended == "deleted":
                    raise no_such_inbox()
                rescoped = watcher.rescoped
                access.check()
                if pulled.rows or pulled.has_more or watcher.ended or not rescoped:
                    return _page(items, pulled)
                call = msgspec.structs.replace(call, ack=None)

    def _call(self, caller: Principal, params: PullInbox, items: "_Items", page_bytes: int) -> PullCall:
        return PullCall(
            since=params.since,
            ack=params.ack,
            limit=params.limit,
            visible=caller.visible,
            body_limit=self._options.inline_body_bytes,
            byte_budget=page_bytes - items.cost.measure(_HEAD + _pull_tail(_WIDEST, _WIDEST, False)),
            measure=items.measure,
        )

    async def _items(self, agent: AgentRecord, cost: Cost) -> "_Items":
        return _Items(await self._places.of(agent), self._options.inline_body_bytes, cost)


class HeardPulls:
    """Pulls by calls that have no route to count them: those over gRPC. Each is a sign of life of its agent."""

    def __init__(self, pulling: Pulling) -> None:
        self._pulling = pulling
        self._activity = Activity(pulling.service)

    async def pull(self, caller: Principal, params: PullInbox) -> PullPage:
        """Do as `Pulling.pull`."""
        self._activity.heard(caller, f"{caller.token.token_id} gRPC")
        return await self._pulling.pull(caller, params)


class _Items:
    """Deliveries as items, each rendered once: it is measured where it is read, and then sent."""

    def __init__(self, place: Place, inline_limit: int, cost: Cost) -> None:
        self._place = place
        self._inline_limit = inline_limit
        self.cost = cost
        self._comma = cost.measure(b",")
        self._made: dict[int, PullItem] = {}

    def of(self, row: Delivered) -> PullItem:
        """Return a delivery as an item."""
        made = self._made.get(row.seq)
        if made is None:
            shown = diff(row, self._place, inline_limit=self._inline_limit)
            made = self._made[row.seq] = PullItem(row.seq, shown, delivery(row))
        return made

    def measure(self, row: Delivered) -> int:
        """Return what an item costs as sent, in bytes."""
        made = self.of(row)
        return self.cost.measure(item(made.delivery_seq, made.diff, made.delivery)) + self._comma


def _page(items: _Items, pulled: Pulled) -> PullPage:
    return PullPage(
        [items.of(row) for row in pulled.rows], pulled.cursor, pulled.window_high, pulled.has_more
    )


def _joined(items: Sequence[PullItem]) -> bytes:
    return b",".join(item(made.delivery_seq, made.diff, made.delivery) for made in items)


def _pull_tail(cursor: int, window_high: int, has_more: bool) -> bytes:
    return b'],"cursor":%d,"window_high":%d,"has_more":%b}' % (cursor, window_high, _bool(has_more))


def _read_tail(last_us: int | None, truncated: bool) -> bytes:
    last_seen = b"null" if last_us is None else f'"{format_time(last_us)}"'.encode()
    return b'],"last_seen":%b,"truncated":%b}' % (last_seen, _bool(truncated))


def _bool(value: bool) -> bytes:
    return b"true" if value else b"false"
