"""Searching an inbox (surface, section 5): the route, and the operation that pages of people use as well.

Who may read the inbox may search it, and of an agent's private inbox finds what it may see there, row by row, as
`web/private.py` has it for pages. A look of the store takes a bounded time and may have found nothing yet; then another
one follows, behind all others that wait, until there is something to answer or nothing left. Whoever hangs up ends it.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from actors.rules.searching import asking
from actors.service import Service
from storage.records import Head, InboxRecord, StoredMessage
from storage.search_records import SearchQuery
from web import render
from web.auth import Principal
from web.errors import ApiError, invalid
from web.http import Answer, Request
from web.openapi.about import About
from web.openapi.shapes import FoundPage
from web.options import WebOptions
from web.params import DEFAULT_LIMIT, Before, Inbox, Limit, from_query
from web.private import caller_scope, hidden_of, is_partly_hidden
from web.reading import readable
from web.reads import principal_of
from web.routes import Route

MAX_QUESTION_CHARS = 500

SEARCH_OFF = "Search is off for this inbox; an administrator switches it on with its setting search."

_encode = msgspec.json.Encoder().encode


class SearchMessages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/inboxes/{slug}/search`: a message is found that has all that `q` asks for, and a seq below `before`."""

    inbox: Inbox
    q: Annotated[
        str, Meta(max_length=MAX_QUESTION_CHARS, description='Words, "phrases", -without, beginnings*.')
    ]
    before: Before | None = None
    limit: Limit = DEFAULT_LIMIT

    def check(self) -> None:
        """Refuse what cannot be looked for."""
        self.asked()

    def asked(self) -> asking.Asked:
        """Return what is looked for. Raises `ApiError` naming `q`."""
        try:
            return asking.read(self.q)
        except asking.NoQuestion as error:
            raise invalid("q", str(error)) from None


class Searching:
    """Searches over one service."""

    def __init__(self, service: Service, options: WebOptions) -> None:
        self._service = service
        self._options = options

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter."""
        about = About("Reading", "reader", SearchMessages, FoundPage, 200, "conflict")
        return (Route("GET", "/v1/inboxes/{slug}/search", self.search_messages, about),)

    async def search_messages(self, request: Request) -> Answer:
        """`GET …/search`: find messages by their words, newest first."""
        caller = principal_of(request)
        inbox = await readable(self._service, caller, request.params["slug"])
        params = from_query(SearchMessages, request.raw_query, {"inbox": inbox.slug})
        return Answer(200, await self.search(caller, inbox, params))

    async def search(self, caller: Principal, inbox: InboxRecord, params: SearchMessages) -> bytes:
        """Return `{messages, latest_seq, epoch, next_before, indexed_seq}` as JSON, for a caller who may read the
        inbox. Raises `ApiError` `conflict` when search is off there.
        """
        page_bytes = self._options.page_bytes
        asked = params.asked()
        query = SearchQuery(
            inbox.inbox_id, asked.wanted, asked.unwanted, params.before, params.limit, byte_budget=page_bytes
        )
        visible: list[StoredMessage] = []
        while True:
            found = await self._service.search(query)
            if found.indexed_seq is None:
                raise ApiError("conflict", SEARCH_OFF)
            resume = found.resume
            if is_partly_hidden(caller, inbox):
                # Whether more follows is said of what the caller may see: else it says of hidden words that they exist.
                visible += await self._visible(caller, inbox, found.rows)
                if len(visible) <= params.limit and resume is not None and _weight(visible) <= page_bytes:
                    query = msgspec.structs.replace(query, before=resume)
                    continue
                rows = visible[: params.limit]
                resume = rows[-1].seq if len(visible) > params.limit or resume is not None else None
            else:
                rows = found.rows
            if rows or resume is None:
                return page(inbox.slug, found.head, rows, resume, found.indexed_seq, page_bytes)
            query = msgspec.structs.replace(query, before=resume)

    async def _visible(
        self, caller: Principal, inbox: InboxRecord, rows: Sequence[StoredMessage]
    ) -> Sequence[StoredMessage]:
        if not rows:
            return rows
        hidden = await hidden_of(
            self._service, inbox.inbox_id, [row.seq for row in rows], caller_scope(caller)()
        )
        return [row for row in rows if row.seq not in hidden]


def _weight(rows: Sequence[StoredMessage]) -> int:
    """Return how many bytes a page of these has at least; one that is cut by its size says itself where."""
    return sum(len(row.facts) + len(row.said) for row in rows)


def page(
    slug: str,
    head: Head,
    rows: Sequence[StoredMessage],
    resume: int | None,
    indexed_seq: int,
    page_bytes: int,
) -> bytes:
    """Return what was found as JSON, of at most `page_bytes`, but never fewer than one message if there is one.

    `resume`: where looking goes on behind the rows, None when there is nothing.
    """
    sent: list[bytes] = []
    room = page_bytes - len(_tail(head, resume or head.latest_seq, indexed_seq)) - len(_HEAD)
    for row in rows:
        text = render.message(slug, head.epoch, row, bodies=False, inline_limit=0)
        room -= len(text) + 1
        if sent and room < 0:
            resume = rows[len(sent) - 1].seq
            break
        sent.append(text)
    return b"".join((_HEAD, b",".join(sent), _tail(head, resume, indexed_seq)))


_HEAD = b'{"messages":['


def _tail(head: Head, next_before: int | None, indexed_seq: int) -> bytes:
    return b'],"latest_seq":%d,"epoch":%b,"next_before":%b,"indexed_seq":%d}' % (
        head.latest_seq,
        _encode(head.epoch),
        _encode(next_before),
        indexed_seq,
    )
