"""`GET …/stream`, `/v1/stream` and `/v1/inbox:stream`: from a request to an open `Stream`, or to a refusal.

Whatever can be refused is refused before the head of the answer, in the shape of every other error. Only a cursor of
another life that comes as `Last-Event-ID` is answered with a stream: an event source would reconnect with it for ever.
"""

from collections.abc import Mapping
from contextlib import closing
from functools import partial

import msgspec

from actors.agents import private_slug
from actors.feed import Feed
from actors.service import Service
from actors.watchers import Watcher
from storage.records import InboxRecord
from web import sse
from web.auth import Principal
from web.errors import ApiError, invalid
from web.held import Held
from web.http import Request, StreamedAnswer
from web.mail_params import StreamInbox
from web.mail_stream import PrivatePlace
from web.openapi.about import About, Group, Media, Who
from web.options import WebOptions
from web.params import StreamInboxes, StreamMessages, from_query
from web.private import calling_agent, current_scope, is_partly_hidden
from web.pulse import Pulse
from web.reading import check_cursor, check_epoch, readable
from web.reads import principal_of
from web.routes import Route
from web.slots import Slots, holder
from web.stream import Place, Stream
from web.watching import Access

HEADERS = ((b"x-accel-buffering", b"no"),)
"""Asks the proxies that know it (nginx) to hand on each event as it comes."""

LAST_EVENT_ID = "Last-Event-ID"

EVENTS = Media(
    sse.CONTENT_TYPE.decode(),
    "Server-sent events, each with an id to resume from. `message`: a message. `gap` `{inbox, after, first_seq}`: those"
    " between were dropped before they could be told. `epoch_changed` `{inbox, epoch}`: the id is of another life of"
    " the inbox; the stream ends. `bye` `{reason, inbox?}`: it ends, by `shutdown`, `inbox_deleted` or `revoked`. After"
    " 15 seconds of silence comes a comment.",
)


class Streams:
    """The routes of streaming over one service."""

    def __init__(self, service: Service, options: WebOptions, slots: Slots, pulse: Pulse) -> None:
        """`pulse` must run, or there are no heartbeats."""
        self._service = service
        self._options = options
        self._slots = slots
        self._pulse = pulse

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the front's plain adapter."""
        reading = partial(_about, "Reading", "reader")
        return (
            Route("GET", "/v1/inboxes/{slug}/stream", self.stream_inbox, reading(StreamMessages)),
            Route("GET", "/v1/stream", self.stream_inboxes, reading(StreamInboxes)),
            Route("GET", "/v1/inbox:stream", self.stream_own, _about("Agents", "agent", StreamInbox)),
        )

    async def stream_inbox(self, request: Request) -> StreamedAnswer:
        """`GET …/stream`: follow the messages of an inbox as they come."""
        caller = principal_of(request)
        inbox = await readable(self._service, caller, request.params["slug"])
        params = from_query(StreamMessages, request.raw_query, {"inbox": inbox.slug})
        return await self._answer(request, caller, (inbox,), params, _resumed(request, inbox))

    async def stream_own(self, request: Request) -> StreamedAnswer:
        """`GET /v1/inbox:stream`: follow what is delivered to the caller's agent as it comes."""
        caller = principal_of(request)
        agent = calling_agent(self._service, caller)
        params = from_query(StreamInbox, request.raw_query)
        inbox = await readable(self._service, caller, private_slug(agent.agent_id))
        return await self._answer(request, caller, (inbox,), params, _resumed(request, inbox))

    async def stream_inboxes(self, request: Request) -> StreamedAnswer:
        """`GET /v1/stream`: follow the messages of several inboxes as they come."""
        caller = principal_of(request)
        params = from_query(StreamInboxes, request.raw_query)
        slugs = dict.fromkeys(params.inboxes)
        inboxes = [await readable(self._service, caller, slug) for slug in slugs]
        last = _last_event_id(request)
        resumed: dict[str, sse.Place] = {}
        if last is not None:
            try:
                resumed = sse.parse_vector_id(last)
            except ValueError:
                raise _not_an_id() from None
        return await self._answer(request, caller, tuple(inboxes), params, resumed)

    async def _answer(
        self,
        request: Request,
        caller: Principal,
        inboxes: tuple[InboxRecord, ...],
        params: StreamMessages | StreamInboxes | StreamInbox,
        resumed: Mapping[str, sse.Place],
    ) -> StreamedAnswer:
        """Return a stream that has looked at every inbox once. Raises `ApiError`, and as `Feed.read`."""
        if not sse.accepts(value for name, value in request.headers if name == b"accept"):
            raise ApiError("not_acceptable", "This address answers with text/event-stream.")
        with Held() as held:
            watcher = Watcher(params.types)
            held.enter(closing(watcher))
            slugs = tuple(inbox.slug for inbox in inboxes)
            who = holder("stream", caller.token.token_id, slugs)
            held.enter(self._slots.take([inbox.inbox_id for inbox in inboxes], who))
            access = self._access(request, caller, slugs, watcher, held)
            places = tuple(
                self._place(caller, inbox, held.enter(self._service.feed(inbox.inbox_id, watcher)))
                for inbox in inboxes
            )
            changed = {
                place: resumed[place.slug]
                for place in places
                if await _begin(place, params, resumed.get(place.slug))
            }
            stream = Stream(
                places,
                watcher,
                access,
                held,
                self._pulse,
                several=isinstance(params, StreamInboxes),
                types=tuple(dict.fromkeys(params.types)),
                bodies=params.bodies,
                inline_limit=self._options.inline_body_bytes,
            )
        if request.method == "HEAD":
            stream.close()
        elif changed:
            stream.open_with_new_lives(changed)
        else:
            stream.open()
        return StreamedAnswer(200, lambda: stream, sse.CONTENT_TYPE, None, HEADERS, sent=stream.close)

    def _access(
        self, request: Request, caller: Principal, slugs: tuple[str, ...], watcher: Watcher, held: Held
    ) -> Access:
        """Return what the caller may still do while it stays; `watcher` hears of changes until `held` is let go of."""
        held.enter(self._service.tokens.watching(caller.token, watcher))
        return Access(self._service.tokens, caller.token, slugs, watcher)

    def _place(self, caller: Principal, inbox: InboxRecord, feed: Feed) -> Place:
        agent = self._service.mail.agents.of_inbox(inbox.inbox_id)
        if agent is None or not is_partly_hidden(caller, inbox):
            return Place(inbox.slug, feed)
        return PrivatePlace(inbox.slug, feed, self._service.mail, agent, current_scope(self._service, caller))


def _about(group: Group, who: Who, takes: type[msgspec.Struct]) -> About:
    refuses = "not_acceptable too_many_waits"
    return About(group, who, takes, EVENTS, refuses=refuses, headers=(LAST_EVENT_ID,))


async def _begin(
    place: Place, params: StreamMessages | StreamInboxes | StreamInbox, resumed: sse.Place | None
) -> bool:
    """Place a stream in one inbox; True when its cursor belongs to another life. What the reader was told last wins
    over the address that it was given first. Raises `epoch_changed` (of the parameter alone) and `cursor_ahead`.
    """
    head = await place.look()
    if resumed is not None:
        epoch, after = resumed
        if epoch != head.epoch:
            place.begin(head, 0)
            return True
        check_cursor(after, head)
        place.begin(head, after)
        return False
    check_epoch(params.epoch, head)
    check_cursor(params.after, head)
    place.begin(head, params.after)
    return False


def _resumed(request: Request, inbox: InboxRecord) -> dict[str, sse.Place]:
    last = _last_event_id(request)
    if last is None:
        return {}
    try:
        return {inbox.slug: sse.parse_single_id(last)}
    except ValueError:
        raise _not_an_id() from None


def _last_event_id(request: Request) -> str | None:
    value = request.header(b"last-event-id")
    return value.decode("latin-1") if value else None


def _not_an_id() -> ApiError:
    return invalid(LAST_EVENT_ID, "This is not the id of an event of this stream.")
