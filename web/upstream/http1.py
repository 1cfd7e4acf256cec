"""Hypercorn's HTTP/1 protocol with our changes: one write for a small answer, refusals in our words."""

from collections.abc import Awaitable, Callable
from typing import Any

import h11
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol import H11Protocol
from hypercorn.protocol.events import Body, EndBody, Request, Response
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.typing import ConnectionState, H11SendableEvent

from web.errors import ApiError
from web.limits import PEER
from web.replies import CLOSE, EVERY_ANSWER

ERROR_LINGER_SECONDS = 2.0
"""How long a client that broke the protocol is still listened to, so that it can read the answer before the
close."""

HEAD_END_BYTES = len(b"\r\n")
"""The empty line at the end of a head."""

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

    def __init__(self, linger: Callable[[float], Awaitable[None]], *args: Any) -> None:
        super().__init__(*args)
        self.connection_state = ConnectionState({**self.connection_state, PEER: self})
        self.broken = False
        self._linger = linger
        self._held = b""
        self._gone = False

    async def stream_send(self, event: StreamEvent) -> None:
        """Write what a stream sends; the head waits for the first piece of the body or for the end."""
        if isinstance(event, Response) and event.status_code >= 200:
            headers = list(event.headers)
            if self.keep_alive_requests >= self.config.keep_alive_max_requests:
                headers.append((b"connection", b"close"))
            head = self._encode(h11.Response(headers=headers, status_code=event.status_code))
            # The server's own headers past h11, which looks at each for 2 µs.
            self._held = head[:-HEAD_END_BYTES] + self._own_lines() if head else b""
            if CLOSE in headers:
                await self._write(b"")
        elif isinstance(event, Body):
            await self._write(self._encode(h11.Data(data=event.data)))
        elif isinstance(event, EndBody):
            await self._write(self._encode(h11.EndOfMessage()))
        else:
            await super().stream_send(event)

    def _own_lines(self) -> bytes:
        """Return the lines of the server's own headers, and the end of the head."""
        return b"%b\r\n" % b"".join([b"%b: %b\r\n" % pair for pair in self.config.response_headers("h11")])

    @property
    def waits_to_be_asked(self) -> bool:
        """Whether the client holds its body back until it is asked for it."""
        return bool(self.connection.they_are_waiting_for_100_continue)

    async def ask_for_body(self) -> None:
        """Tell the client to go on."""
        go_on = h11.InformationalResponse(status_code=100, headers=[])
        await self.send(RawData(data=self._encode(go_on)))

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
        elif isinstance(event, RawData) and event.data and self.connection.their_state is h11.MUST_CLOSE:
            return
        await super().handle(event)

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
        while True:
            if self.connection.their_state is h11.IDLE:
                self._skip_line_breaks()
            connection = self.connection
            if connection.their_state is h11.MUST_CLOSE:
                return  # the last request is complete, see `handle`
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError as error:
                await self._refuse(error.error_status_hint)
                return
            if isinstance(event, h11.Request):
                await self.send(Updated(idle=False))
                await self._create_stream(event)
            elif event is h11.PAUSED:
                await self.can_read.clear()
                if not self._gone:
                    await self.can_read.wait()
                if self._gone:
                    return
            elif self.stream is None or event is h11.NEED_DATA:
                return
            elif isinstance(event, h11.Data):
                await self.stream.handle(Body(stream_id=STREAM_ID, data=event.data))
            elif isinstance(event, h11.EndOfMessage):
                await self.stream.handle(EndBody(stream_id=STREAM_ID))
            else:
                return

    async def _refuse(self, status_code: int) -> None:
        """Deal with bytes that are no HTTP, or that come after a request whose answer says `Connection:
        close`.
        """
        if self.connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._send_error_response(status_code)
        elif self.connection.our_state is h11.SEND_BODY and isinstance(self.stream, HTTPStream):
            # An answer is under way. It is finished first; to its handler the client has nothing more to say.
            await self.can_read.clear()
            await self.stream.app_put({"type": "http.disconnect"})
            if not self._gone:
                await self.can_read.wait()
        await self.send(Closed())

    async def _create_stream(self, request: h11.Request) -> None:
        """Hand a request to the application. As Hypercorn's, without the search of every header for a
        WebSocket.
        """
        self.stream = HTTPStream(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )

    def _encode(self, event: H11SendableEvent) -> bytes:
        try:
            return self.connection.send(event)
        except h11.LocalProtocolError:
            # The peer broke the protocol and has been answered; nothing can be said to it any more.
            if self.connection.their_state != h11.ERROR:
                raise
            return b""

    async def _write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        if data:
            await self.send(RawData(data=data))

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
