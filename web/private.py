"""A private inbox as its own agent reads it by the routes of every inbox: without what the token may not see.

An entry of it is either the agent's own mail or a message from another inbox, and that inbox's scope governs it, at the
moment of reading. Pulls and streams look by `actors.pulling`, which knows; a page of messages is read as every other
one, and looked through here. Nothing is ever missing behind a cursor: a page of which nothing is left is read on from.
"""

from collections.abc import Awaitable, Callable, Iterable

import msgspec

from actors.feed import Feed
from actors.service import Service
from actors.tail import TailEntry
from actors.units import Reading
from actors.watchers import Watcher
from storage.mail_records import AgentRecord
from storage.records import InboxRecord, Page, PageQuery, StoredMessage
from web.auth import PRIVATE_PREFIXES, Principal
from web.errors import ApiError, unauthenticated

Visible = Callable[[], frozenset[str] | None]
"""What a token sees at this moment (`Principal.visible`)."""

Found = tuple[Page, list[TailEntry]]


NOT_AN_AGENT = "This needs a token that is bound to an agent."


def calling_agent(service: Service, caller: Principal) -> AgentRecord:
    """Return the agent that calls. Raises `permission_denied` for a token that is bound to none."""
    if caller.agent is None:
        raise ApiError("permission_denied", NOT_AN_AGENT)
    agent = service.mail.agents.get(caller.agent)
    if agent is None:  # deleted since the call was authenticated, and its tokens with it
        raise unauthenticated(sent=True)
    return agent


def is_partly_hidden(caller: Principal, inbox: InboxRecord) -> bool:
    """Whether the caller may see only some of an inbox that it may read."""
    return inbox.kind == "agent" and not caller.is_admin


def current_scope(service: Service, caller: Principal) -> Visible:
    """Return what says what the caller's token sees, whenever it is asked; nothing once it is revoked."""
    token_id = caller.token.token_id

    def visible() -> frozenset[str] | None:
        token = service.tokens.get(token_id)
        return frozenset() if token is None else Principal(token).visible

    return visible


async def hidden_of(
    service: Service, inbox_id: int, seqs: Iterable[int], visible: frozenset[str] | None
) -> set[int]:
    """Return those entries of a private inbox that are not shown to a token that sees the slugs `visible`."""
    left = set(seqs)
    found = await service.log.read(Reading(lambda snapshot: snapshot.deliveries(inbox_id, sorted(left), 0)))
    return left - {row.seq for row in found if row.own or _sees(visible, row.home)}


async def page_of(service: Service, caller: Principal, inbox: InboxRecord, query: PageQuery) -> Found:
    """Return a page as `Service.page` does, of what the caller may see."""
    if not is_partly_hidden(caller, inbox):
        return await service.page(query)
    return await _seen(service, caller_scope(caller), query, service.page)


def feed_of(service: Service, caller: Principal, inbox: InboxRecord, watcher: Watcher) -> Feed:
    """Return an inbox as `watcher` reads it while it grows, of what the caller may see."""
    if not is_partly_hidden(caller, inbox):
        return service.feed(inbox.inbox_id, watcher)
    return _PrivateFeed(service, inbox.inbox_id, watcher, current_scope(service, caller))


def caller_scope(caller: Principal) -> Visible:
    """Return what says what the caller saw when it called."""
    visible = caller.visible
    return lambda: visible


class _PrivateFeed(Feed):
    __slots__ = ("_service", "_visible")

    def __init__(self, service: Service, inbox_id: int, watcher: Watcher, visible: Visible) -> None:
        super().__init__(service.registry, service.log, inbox_id, watcher)
        self._service = service
        self._visible = visible

    async def read(self, query: PageQuery) -> Found:
        return await _seen(self._service, self._visible, query, super().read)


async def _seen(
    service: Service,
    visible: Visible,
    query: PageQuery,
    read: Callable[[PageQuery], Awaitable[Found]],
) -> Found:
    forward = query.after is not None
    # With a filter, "there is more" is said of what the caller may see: else it tells the types of what it may not.
    is_filtered = bool(query.types) or query.verified is not None
    kept: list[StoredMessage] = []
    first_seq: int | None = None
    while True:
        page, entries = await read(query)
        if entries and not kept:
            return page, entries
        # What retention takes meanwhile is no gap of this page.
        first_seq = page.head.first_seq if first_seq is None else first_seq
        head = msgspec.structs.replace(page.head, first_seq=first_seq)
        seqs = [row.seq for row in page.rows]
        hidden: set[int] = set()
        if seqs and not entries:  # a tail holds the agent's own mail alone
            hidden = await hidden_of(service, query.inbox_id, seqs, visible())
        kept += [row for row in page.rows if row.seq not in hidden]
        if len(kept) > query.limit:
            return Page(head, kept[: query.limit], False), []
        if page.exhausted or not seqs:
            return Page(head, kept, page.exhausted), []
        if kept and not (is_filtered and _weight(kept) <= query.byte_budget):
            return Page(head, kept, False), []
        query = msgspec.structs.replace(query, **{"after" if forward else "before": seqs[-1]})


def _weight(rows: Iterable[StoredMessage]) -> int:
    return sum(len(row.facts) + len(row.said) + len(row.body or b"") for row in rows)


def _sees(visible: frozenset[str] | None, slug: str | None) -> bool:
    if slug is None:
        return False
    return not slug.startswith(PRIVATE_PREFIXES) if visible is None else slug in visible
