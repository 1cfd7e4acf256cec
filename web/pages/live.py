"""Event streams for the page: those of REST, by session instead of by header, and ended with the session."""

import msgspec

from actors.feed import Feed
from actors.service import Service
from actors.watchers import Watcher
from storage.records import Head, InboxRecord
from web.auth import Principal
from web.errors import unauthenticated
from web.held import Held
from web.http import Request, StreamedAnswer
from web.mail_stream import PrivatePlace
from web.options import WebOptions
from web.pages import gate
from web.pages.rendering import SAFETY_HEADERS
from web.pages.sessions import Session, Sessions
from web.pages.visit import Visit
from web.private import current_scope, is_partly_hidden
from web.pulse import Pulse
from web.slots import Slots
from web.stream import Place
from web.streams import Streams
from web.watching import Access


class SessionAccess(Access):
    """Access for as long as a session lasts. It is looked at whenever the stream wakes, for its heartbeat at the
    latest.
    """

    __slots__ = ("_session", "_sessions")

    def __init__(
        self,
        sessions: Sessions,
        session: Session,
        service: Service,
        caller: Principal,
        slugs: tuple[str, ...],
        watcher: Watcher,
    ) -> None:
        super().__init__(service.tokens, caller.token, slugs, watcher)
        self._sessions = sessions
        self._session = session

    def check(self) -> None:
        """Raise as `Access.check`; also when the session is over."""
        super().check()
        if self._sessions.caller_of(self._session) is None:
            raise unauthenticated(sent=True)


class ListedPlace(Place):
    """A place whose reader has a list of everything: one that was at 0 has seen an empty inbox, and misses what has
    come and gone since as much as any other does.
    """

    __slots__ = ()

    def begin(self, head: Head, after: int | None) -> None:
        """Start after a cursor, None for now."""
        super().begin(head, after)
        self.first_seq = 1


class ListedPrivatePlace(PrivatePlace):
    """The same of a private inbox, as its own agent sees it."""

    __slots__ = ()

    def begin(self, head: Head, after: int | None) -> None:
        """Start after a cursor, None for now."""
        super().begin(head, after)
        self.first_seq = 1


class PageStreams(Streams):
    """The streams of one service for the sessions of its page."""

    def __init__(
        self, sessions: Sessions, service: Service, options: WebOptions, slots: Slots, pulse: Pulse
    ) -> None:
        super().__init__(service, options, slots, pulse)
        self._sessions = sessions

    async def of(self, visit: Visit) -> StreamedAnswer:
        """Return the stream of the inbox that the path names."""
        answer = await self.stream_inbox(visit.request)
        return msgspec.structs.replace(answer, headers=(*answer.headers, *SAFETY_HEADERS))

    def _place(self, caller: Principal, inbox: InboxRecord, feed: Feed) -> Place:
        agent = self._service.mail.agents.of_inbox(inbox.inbox_id)
        if agent is None or not is_partly_hidden(caller, inbox):
            return ListedPlace(inbox.slug, feed)
        scope = current_scope(self._service, caller)
        return ListedPrivatePlace(inbox.slug, feed, self._service.mail, agent, scope)

    def _access(
        self, request: Request, caller: Principal, slugs: tuple[str, ...], watcher: Watcher, held: Held
    ) -> Access:
        super()._access(request, caller, slugs, watcher, held)
        found = gate.find(self._sessions, request)
        if found is None:
            raise unauthenticated(sent=True)
        session = found[0]
        held.enter(self._sessions.watching(session, watcher))
        return SessionAccess(self._sessions, session, self._service, caller, slugs, watcher)
