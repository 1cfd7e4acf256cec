"""Every work-around of the libraries below us, in one place: the symptom, what is done, the test that keeps
it.

Versions: Hypercorn 0.18, h11 0.16, Quart 0.22 with quart-trio 0.12, Quart 0.23 with quart-trio 0.13, trio
0.35. Traps are numbered as in the field notes; S17 is the engineering study's. The tests are in
`tests/live/test_upstream_traps.py` and `tests/live/test_leaks.py`.

- Trap 2: Quart 0.23 does not stop a chunked body at its limit. `web/limits.py` reads every body before Quart
  does. `test_a_chunked_body_is_stopped_at_the_limit_before_quart_sees_it`.
- Trap 3: quart-trio cancels the task in which Hypercorn recycles the connection, which then never closes.
  `shield_last_send`. `test_connection_close_is_kept_at_once`, `test_requests_leave_no_descriptor_open`.
- Trap 4, S17: Hypercorn shields `send_all` without a deadline; a client that stops reading hangs its stream
  and the shutdown. `listen` (TCP_USER_TIMEOUT) and `Connections.watch`.
  `test_a_reader_that_stops_is_evicted`, `test_a_stalled_reader_does_not_delay_the_shutdown`.
- Trap 5: a crash in Quart's own nursery leaves HTTP answering. Nothing runs there; `postroom/server.py` nests
  the actors around us. `test_nothing_runs_in_the_nursery_of_quart`.
- Trap 15: `request.path` is decoded, `//` answers 308. `web/routes.py` matches raw paths and Quart sees a
  template. `test_raw_paths_decide_the_route`.
- Trap 16: Content-Length together with Transfer-Encoding is accepted. `web/limits.py`.
  `test_a_body_framed_twice_is_refused`.
- Trap 18: `read_timeout` also ends a client that waits for its answer. It is not set; bodies have a deadline
  of their own, heads that of an idle connection. `test_a_slow_body_gets_408`,
  `test_a_slow_head_is_closed_as_idle`.
- Trap 20: `hypercorn.trio.serve` returns normally on KeyboardInterrupt. `web/serve.py` holds the accept loop.
  `test_a_signal_ends_the_server_in_order`.
- Hypercorn hands a body over through a queue of ten pieces, and the end of the stream through the same: an
  early answer to a longer body deadlocks. `Incoming.swallow` empties it.
  `test_a_refused_upload_can_read_the_refusal`.
- Hypercorn answers a broken request without a body and resets the connection. `Http1._send_error_response`.
  `test_a_head_over_every_limit_gets_431`.
- Bytes after a request whose answer says `Connection: close` make Hypercorn close in the middle of that answer.
  `Http1._refuse`. `test_bytes_after_the_last_request_do_not_cut_its_answer`.
- An exception that escapes one connection ends the server. `Connection.run`.
  `test_a_bug_in_one_connection_does_not_end_the_others`.
- Hypercorn writes an answer in three pieces and starts and ends a timer task for each request; one write and
  no task do. `Http1.stream_send`, `Connection.protocol_send`. `test_a_small_answer_is_one_write`.
"""

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain
from typing import Any

import h11
import structlog
import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol import H11Protocol
from hypercorn.protocol.events import Body, EndBody, Request, Response
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.typing import ASGISendCallable, ASGISendEvent, ConnectionState, H11SendableEvent
from hypercorn.utils import parse_socket_addr

from web.errors import ApiError
from web.options import WebOptions
from web.replies import CLOSE, EVERY_ANSWER

RECEIVE_BYTES = 64 * 1024
"""Read at once. A head may exceed what h11 calls incomplete by as much before anybody sees it."""

SEND_PIECE_BYTES = 64 * 1024
"""What must be taken by the client within `stalled_reader_seconds`: a slow reader may be slow (3 KiB/s), not
stopped."""

TICK_SECONDS = 1.0
"""How often connections are looked at for idleness and stalled sends: 8,192 of them cost 0.4 ms."""

ERROR_LINGER_SECONDS = 2.0
"""How long a client that broke the protocol is still listened to, so that it can read the answer before the
close."""

OVERLOAD_LINGER_SECONDS = 0.5
"""The same for a connection over the limit; short, as there may be many."""

STOP_GRACE_SECONDS = 1.0
"""After that a connection that still blocks the shutdown is shut down from outside (S17)."""

log = structlog.get_logger("postroom.web")

PROTOCOL_ERRORS: dict[int, ApiError] = {
    431: ApiError("headers_too_large", "The request's line and headers are too large."),
}
BAD_REQUEST = ApiError("invalid_argument", "This is not a whole HTTP/1.1 request.")
OVERLOADED = ApiError("busy", "The server has as many connections as it takes.")


def listen(host: str, port: int, *, backlog: int, stalled_reader_seconds: float) -> socket.socket:
    """Return our own listening socket, port 0 for a free one. Raises `OSError` when the address cannot be
    had.

    `TCP_USER_TIMEOUT`, which accepted sockets inherit, lets the kernel give up on a peer that acknowledges
    nothing.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux only
            milliseconds = int(stalled_reader_seconds * 1000)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        listener.bind((host, port))
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def shield_last_send(send: ASGISendCallable) -> ASGISendCallable:
    """Return a `send` that shields the last message of an answer from cancellation (trap 3).

    In it Hypercorn recycles or closes the connection; quart-trio cancels its task in the middle of that. The
    shield needs no deadline of its own: `Connections.watch` ends a send that stalls.
    """

    async def shielded(message: ASGISendEvent) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            with trio.CancelScope(shield=True):
                await send(message)
        else:
            await send(message)

    return shielded


class Connections:
    """The live connections. It owns their idle times and their end from outside; it never touches their
    protocol.
    """

    def __init__(self, options: WebOptions) -> None:
        self.limit = options.max_connections
        self._keep_alive_seconds = options.keep_alive_seconds
        self._stalled_reader_seconds = options.stalled_reader_seconds
        self.live: set[Connection] = set()
        self.evicted = 0
        self._changed = trio.Event()

    async def watch(self) -> None:
        """Shut down idle connections and stalled readers, for ever."""
        tick = min(TICK_SECONDS, self._stalled_reader_seconds / 4, self._keep_alive_seconds / 4)
        while True:
            await trio.sleep(tick)
            now = trio.current_time()
            for connection in self.live:
                if now - connection.idle_since >= self._keep_alive_seconds:
                    connection.shut_down()
                elif now - connection.send_began >= self._stalled_reader_seconds:
                    self.evicted += 1
                    connection.shut_down()

    def add(self, connection: "Connection") -> None:
        """Take a connection that begins."""
        self.live.add(connection)
        self._tell()

    def discard(self, connection: "Connection") -> None:
        """Let go of a connection that has ended."""
        self.live.discard(connection)
        self._tell()

    async def wait_until(self, condition: Callable[[int], bool]) -> None:
        """Return when the number of live connections is such that the condition holds."""
        while not condition(len(self.live)):
            await self._changed.wait()

    async def wait_until_none(self) -> None:
        """Return when no connection is left."""
        await self.wait_until(lambda count: count == 0)

    def _tell(self) -> None:
        if self._changed.statistics().tasks_waiting:
            self._changed.set()
            self._changed = trio.Event()

    def shut_down_idle(self) -> None:
        """Shut down every connection that waits for a request."""
        for connection in self.live:
            if connection.idle_since != NEVER:
                connection.shut_down()

    def shut_down_all(self) -> None:
        """Shut down every connection, whatever it is doing."""
        for connection in self.live:
            connection.shut_down()


NEVER = float("inf")
"""When something began that is not going on: it never becomes too old."""


class Connection(TCPServer):
    """One connection: Hypercorn's, under the eyes of `Connections`.

    Its `run` and `protocol_send` replace Hypercorn's: no timer task for each request, sends that can be
    watched, and `Http1` in place of the plain HTTP/1 protocol. TLS is not ours: a proxy ends it.
    """

    protocol: "Http1"  # type: ignore[assignment]  # has what TCPServer uses of a ProtocolWrapper

    def __init__(self, connections: Connections, *args: Any) -> None:
        super().__init__(*args)
        self.connections = connections
        self.idle_since = NEVER
        self.send_began = NEVER

    def shut_down(self) -> None:
        """End the connection from another task: a blocked send or receive of its own raises at once (S17)."""
        with suppress(OSError):  # it is closed, or the peer was faster
            self.stream.socket.shutdown(socket.SHUT_RDWR)

    async def run(self) -> None:
        """Serve the connection to its end."""
        connections = self.connections
        try:
            if len(connections.live) >= connections.limit or self.context.terminated.is_set():
                await self._refuse()
                return
            connections.add(self)
            sock = self.stream.socket
            client = parse_socket_addr(sock.family, sock.getpeername())
            server = parse_socket_addr(sock.family, sock.getsockname())
            async with TaskGroup() as self._task_group:
                self.protocol = Http1(
                    self.linger,
                    self.app,
                    self.config,
                    self.context,
                    self._task_group,
                    ConnectionState(self.state),
                    False,
                    client,
                    server,
                    self.protocol_send,
                )
                self.idle_since = trio.current_time()
                await self._read_data()
        except* OSError:
            pass  # the peer has gone; whoever is concerned has been told through the protocol
        except* Exception:
            # A bug in the protocol ends this connection, not the server with all the others.
            log.exception("a connection failed")
        finally:
            connections.discard(self)
            await self._close()

    async def protocol_send(self, event: Event) -> None:
        """Carry out what the protocol asks for. As Hypercorn's, but watched, and idleness is a time, not a
        task.
        """
        if isinstance(event, RawData):
            async with self.send_lock:
                try:
                    with trio.CancelScope(shield=True):
                        await self._send(event.data)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    await self.protocol.handle(Closed())
                finally:
                    self.send_began = NEVER
        elif isinstance(event, Closed):
            await self._close()
            await self.protocol.handle(Closed())
        elif isinstance(event, Updated):
            self.idle_since = trio.current_time() if event.idle else NEVER
            if event.idle and self.context.terminated.is_set():
                self.shut_down()

    async def _read_data(self) -> None:
        # As Hypercorn's, without a deadline around each read (trap 18): it costs a cancel scope and never ends.
        while True:
            try:
                data = bytes(await self.stream.receive_some(RECEIVE_BYTES))
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                break
            await self.protocol.handle(RawData(data))
            if not data:
                break
        await self.protocol.handle(Closed())

    async def linger(self, seconds: float) -> None:
        """Say that nothing more comes, then read and throw away until the client closes, for a bounded time.

        To be called where the connection's own reading has stopped: in its reader task.
        """
        with trio.move_on_after(seconds):
            try:
                await self.stream.send_eof()
                while await self.stream.receive_some(RECEIVE_BYTES):
                    pass
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                return

    async def _send(self, data: bytes) -> None:
        if len(data) <= SEND_PIECE_BYTES:
            self.send_began = trio.current_time()
            await self.stream.send_all(data)
            return
        view = memoryview(data)
        for start in range(0, len(data), SEND_PIECE_BYTES):
            self.send_began = trio.current_time()
            await self.stream.send_all(view[start : start + SEND_PIECE_BYTES])

    async def _refuse(self) -> None:
        answer = OVERLOADED.answer()
        writer = h11.Connection(h11.SERVER)
        headers = [*_plain_headers(len(answer.body)), *answer.headers]
        head = writer.send(h11.Response(status_code=answer.status, headers=headers))
        try:
            await self.stream.send_all(head + answer.body)
        except trio.BrokenResourceError:
            return
        await self.linger(OVERLOAD_LINGER_SECONDS)


class Http1(H11Protocol):
    """HTTP/1 that writes an answer's head together with its first bytes, and says in our words what it
    refuses.

    It does not change to HTTP/2: our streams are few, and HTTP/2 has traps of its own here (17). A proxy
    speaks it.
    """

    def __init__(self, linger: Callable[[float], Awaitable[None]], *args: Any) -> None:
        super().__init__(*args)
        self._linger = linger
        self._held = b""

    async def stream_send(self, event: StreamEvent) -> None:
        """Write what a stream sends; the head waits for the first piece of the body or for the end."""
        if isinstance(event, Response) and event.status_code >= 200:
            headers = list(chain(event.headers, self.config.response_headers("h11")))
            if self.keep_alive_requests >= self.config.keep_alive_max_requests:
                headers.append((b"connection", b"close"))
            self._held = self._encode(h11.Response(headers=headers, status_code=event.status_code))
            if CLOSE in headers:
                await self._write(b"")
        elif isinstance(event, Body):
            await self._write(self._encode(h11.Data(data=event.data)))
        elif isinstance(event, EndBody):
            await self._write(self._encode(h11.EndOfMessage()))
        else:
            await super().stream_send(event)

    async def _handle_events(self) -> None:
        """Hand on what has arrived. As Hypercorn's, for HTTP alone, and without closing under an answer."""
        connection = self.connection
        while True:
            if connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await self.send(RawData(data=self._encode(go_on)))
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
                await self.can_read.wait()
            elif self.stream is None or event is h11.NEED_DATA:
                return
            elif isinstance(event, h11.Data):
                await self.stream.handle(Body(stream_id=STREAM_ID, data=event.data))
            elif isinstance(event, h11.EndOfMessage):
                await self.stream.handle(EndBody(stream_id=STREAM_ID))
            else:
                return

    async def _refuse(self, status_code: int) -> None:
        """Deal with bytes that are no HTTP, or that come after a request whose answer says `Connection: close`."""
        if self.connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._send_error_response(status_code)
        elif self.connection.our_state is h11.SEND_BODY and isinstance(self.stream, HTTPStream):
            # An answer is under way. It is finished first; to its handler the client has nothing more to say.
            await self.can_read.clear()
            await self.stream.app_put({"type": "http.disconnect"})
            await self.can_read.wait()
        await self.send(Closed())

    async def _create_stream(self, request: h11.Request) -> None:
        """Hand a request to the application. As Hypercorn's, without the search of every header for a WebSocket."""
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
        headers = [*_plain_headers(len(answer.body)), *self.config.response_headers("h11")]
        head = self._encode(h11.Response(status_code=answer.status, headers=headers))
        if head:
            await self.send(RawData(data=head + self._encode(h11.Data(data=answer.body))))
            await self._linger(ERROR_LINGER_SECONDS)


def _plain_headers(length: int) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", b"application/json"),
        (b"content-length", str(length).encode()),
        CLOSE,
        *EVERY_ANSWER,
    ]
