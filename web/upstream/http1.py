"""Hypercorn's HTTP/1 protocol with our changes: requests as h11 reads them, answers as `web/upstream/exchange.py`
frames them, refusals in our words.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import h11
import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol import H11Protocol
from hypercorn.typing import ConnectionState, H11SendableEvent

from web.errors import ApiError
from web.limits import PEER
from web.replies import CLOSE, EVERY_ANSWER
from web.upstream.exchange import Exchange, scope_of

ERROR_LINGER_SECONDS = 2.0
"""How long a client that broke the protocol is still listened to, so that it can read the answer before the
close."""

CRUMBS_AT_ONCE = 64
"""Pieces of a body that are handed on as one: half a millisecond of work, when each of them is a chunk of one byte."""

CRUMB_PAUSE_SECONDS = 0.001
"""After so many at once, during which everybody else has the loop, and the storage threads have the interpreter: beside
a loop that turns without a rest, and gives the interpreter up for too short a time to be noticed, a commit took 500 ms.
"""

PROTOCOL_ERRORS: dict[int, ApiError] = {
    431: ApiError("headers_too_large", "The request's line and headers are too large."),
}
BAD_REQUEST = ApiError("invalid_argument", "This is not a whole HTTP/1.1 request.")


class Http1(H11Protocol):
    """HTTP/1 that writes an answer's head together with its first bytes, and says in our words what it
    refuses.

    It does not change to HTTP/2: our streams are few, and HTTP/2 has traps of its own here (17). A proxy
    speaks it.

    It is the `web.limits.Peer` of its requests.
    """

    connection: h11.Connection  # never Hypercorn's other kind, which is for WebSockets

    def __init__(self, linger: Callable[[float], Awaitable[None]], *args: Any) -> None:
        super().__init__(*args)
        self.connection_state = ConnectionState({**self.connection_state, PEER: self})
        self.broken = False
        self._linger = linger
        self._exchange: Exchange | None = None
        self._gone = False

    def let_go(self) -> None:
        """Let go of what holds this, when the connection has ended."""
        self.connection_state = ConnectionState({})

    # -- what an exchange asks for ------------------------------------------------------------------------
    @property
    def speaks_chunks(self) -> bool:
        """Whether the client knows bodies whose length is not said in front of them: from HTTP/1.1 on."""
        return (self.connection.their_http_version or b"") >= b"1.1"

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on this connection."""
        return self.connection._cstate.keep_alive

    def close_after(self) -> None:
        """Let no other request follow on this connection."""
        self.connection._cstate.process_keep_alive_disabled()

    def own_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the server's own headers."""
        return self.config.response_headers("h11")

    def begin(self) -> bool:
        """Tell h11 that an answer begins, which it has not written; False when its client broke the protocol meanwhile
        and was told so.
        """
        connection = self.connection
        if connection.their_state is h11.ERROR:
            return False
        connection.client_is_waiting_for_100_continue = False
        connection._cstate.process_event(h11.SERVER, h11.Response)
        return True

    def end(self) -> None:
        """Tell h11 that an answer is whole."""
        if self.connection.their_state is not h11.ERROR:
            self.connection._cstate.process_event(h11.SERVER, h11.EndOfMessage)

    async def write(self, data: bytes) -> None:
        """Send bytes of an answer."""
        await self.send(RawData(data=data))

    async def recycle(self) -> None:
        """Have the connection read its next request, or close it when there can be none."""
        await self._leave_exchange()
        connection = self.connection
        reusable = connection.our_state is h11.DONE and connection.their_state is h11.DONE
        if reusable and not self.context.terminated.is_set():
            connection.start_next_cycle()
            await self.can_read.set()
            await self.send(Updated(idle=True))
        else:
            await self.can_read.set()
            await self.send(Closed())

    async def _leave_exchange(self) -> None:
        if self._exchange is not None:
            exchange, self._exchange = self._exchange, None
            await exchange.leave()

    @property
    def waits_to_be_asked(self) -> bool:
        """Whether the client holds its body back until it is asked for it."""
        return bool(self.connection.they_are_waiting_for_100_continue)

    async def ask_for_body(self) -> None:
        """Tell the client to go on."""
        go_on = h11.InformationalResponse(status_code=100, headers=[])
        await self.send(RawData(data=self._encode(go_on)))

    def when_gone(self, tell: Callable[[], None] | None) -> bool:
        """Have `tell` called when the client of the request under way leaves; True when it has left."""
        return self._exchange is None or self._exchange.when_gone(tell)

    @property
    def has_part_of_a_head(self) -> bool:
        """Whether bytes are here that are not yet a request."""
        return bool(self.connection.trailing_data[0])

    async def handle(self, event: Event) -> None:
        """Take what has arrived. What follows the last request of a connection is thrown away.

        h11 calls it an error of the protocol, and the sender of a request and a stray line break would be
        told 400 for what is being stored.
        """
        if isinstance(event, Closed):
            self._gone = True
            await self.can_read.set()  # a reader that waits for the end of an answer that has none any more
            await self._leave_exchange()
        elif isinstance(event, RawData):
            if event.data and self.connection.their_state is h11.MUST_CLOSE:
                return
            self.connection.receive_data(event.data)
            await self._handle_events()

    def _skip_line_breaks(self) -> None:
        """Drop empty lines in front of a request (RFC 9112, section 2.2): some clients send one after a
        body.
        """
        waiting = self.connection.trailing_data[0]
        if waiting[:1] not in (b"\r", b"\n"):
            return
        self.connection = h11.Connection(
            h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size
        )
        request = waiting.lstrip(b"\r\n")
        if request:
            self.connection.receive_data(request)

    async def _handle_events(self) -> None:
        """Hand on what has arrived. As Hypercorn's, for HTTP alone, and without closing under an answer."""
        crumbs: list[bytes] = []
        while True:
            if self.connection.their_state is h11.IDLE:
                self._skip_line_breaks()
            connection = self.connection
            if connection.their_state is h11.MUST_CLOSE:
                return  # the last request is complete, see `handle`
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError as error:
                error.__traceback__ = (
                    None  # a frame of it holds the error: a cycle, with this connection in it
                )
                if crumbs:
                    await self._hand_on(crumbs)
                await self._refuse(error.error_status_hint)
                return
            if isinstance(event, h11.Data):
                crumbs.append(bytes(event.data))
                if len(crumbs) < CRUMBS_AT_ONCE:
                    continue
            if crumbs:
                await self._hand_on(crumbs)
            if isinstance(event, h11.Request):
                await self.send(Updated(idle=False))
                await self._begin_exchange(event)
            elif event is h11.PAUSED:
                await self.can_read.clear()
                if not self._gone:
                    await self.can_read.wait()
                if self._gone:
                    return
            elif event is h11.NEED_DATA or self._exchange is None:
                return
            elif isinstance(event, h11.EndOfMessage):
                await self._exchange.take(b"", more=False)
            elif not isinstance(event, h11.Data):
                return

    async def _hand_on(self, crumbs: list[bytes]) -> None:
        """Hand pieces of a body on as one, and forget them. Who sends many small ones waits for the others."""
        count = len(crumbs)
        data = crumbs[0] if count == 1 else b"".join(crumbs)
        crumbs.clear()
        if self._exchange is not None:
            await self._exchange.take(data, more=True)
        if count == CRUMBS_AT_ONCE:
            await trio.sleep(CRUMB_PAUSE_SECONDS)

    async def _refuse(self, status_code: int) -> None:
        """Deal with bytes that are no HTTP, or that come after a request whose answer says `Connection:
        close`.
        """
        if self.connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._send_error_response(status_code)
        elif self.connection.our_state is h11.SEND_BODY and self._exchange is not None:
            # An answer is under way. It is finished first; to its handler the client has nothing more to say.
            await self.can_read.clear()
            await self._exchange.interrupt()
            if not self._gone:
                await self.can_read.wait()
        await self.send(Closed())

    async def _begin_exchange(self, request: h11.Request) -> None:
        """Hand a request to the application."""
        scope = scope_of(request, self.client, self.server, self.connection_state)
        self._exchange = exchange = Exchange(self, scope["method"])
        exchange.reach(await self.task_group.spawn_app(self.app, self.config, scope, exchange.app_send))

    def _encode(self, event: H11SendableEvent) -> bytes:
        try:
            return self.connection.send(event)
        except h11.LocalProtocolError:
            # The peer broke the protocol and has been answered; nothing can be said to it any more.
            if self.connection.their_state != h11.ERROR:
                raise
            return b""

    async def _send_error_response(self, status_code: int) -> None:
        """Answer a request that is none. Called by the connection's reader, which stops reading after it."""
        answer = PROTOCOL_ERRORS.get(status_code, BAD_REQUEST).answer()
        headers = [*plain_headers(len(answer.body)), *self.config.response_headers("h11")]
        head = self._encode(h11.Response(status_code=answer.status, headers=headers))
        if head:
            await self.send(RawData(data=head + self._encode(h11.Data(data=answer.body))))
            await self._linger(ERROR_LINGER_SECONDS)


def plain_headers(length: int) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer that is written without the application."""
    return [
        (b"content-type", b"application/json"),
        (b"content-length", str(length).encode()),
        CLOSE,
        *EVERY_ANSWER,
    ]
