"""Hypercorn's connection under our eyes, and all of them together: idle times, stalled sends, the end from outside.

`Connections` is the only one that ends a connection from outside its own task. It knows when a connection became idle
and when its present send began, and nothing of its protocol.
"""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import h11
import structlog
import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from web.errors import ApiError
from web.options import WebOptions
from web.upstream.http1 import Http1, plain_headers
from web.upstream.receiving import AppTasks

RECEIVE_BYTES = 64 * 1024
"""Read at once. A head may exceed what h11 calls incomplete by as much before anybody sees it."""

SEND_PIECE_BYTES = 64 * 1024
"""What must be taken by the client within `stalled_reader_seconds`: a slow reader may be slow (3 KiB/s), not
stopped."""

TICK_SECONDS = 1.0
"""How often connections are looked at for idleness and stalled sends: only those that are idle or sending, because
looking at 5,000 that wait, each of them cold in the processor's cache, cost half a percent of a core."""

IDLE_ENOUGH_SECONDS = 1.0
"""Only a connection that has been idle for so long gives its descriptor to a newcomer: a younger one may have its
request on the way."""

OVERLOAD_LINGER_SECONDS = 0.5
"""The same for a connection over the limit; short, as there may be many."""

NEVER = float("inf")
"""When something began that is not going on: it never becomes too old."""

OVERLOADED = ApiError("busy", "The server has as many connections as it takes.")
STOPPING = ApiError("shutting_down", "The server is shutting down; try again.")

log = structlog.get_logger("postroom.web")


class Connections:
    """The live connections. It owns their idle times and their end from outside; it never touches their
    protocol.
    """

    def __init__(self, options: WebOptions) -> None:
        self._options = options
        self.live: set[Connection] = set()
        self._timed: set[Connection] = set()  # those that are idle or sending
        self.evicted = 0
        self.refused = 0
        self.others = 0  # connections of another port, which count against the same limit
        self._changed = trio.Event()

    @property
    def limit(self) -> int:
        """How many connections may be open at once."""
        return self._options.max_connections

    @property
    def is_full(self) -> bool:
        """Whether no more may be opened now."""
        return len(self.live) + self.others >= self.limit

    async def watch(self) -> None:
        """Shut down idle connections, slow heads and stalled readers, for ever."""
        while True:
            keep_alive_seconds = self._options.keep_alive_seconds
            head_timeout_seconds = self._options.head_timeout_seconds
            stalled_reader_seconds = self._options.stalled_reader_seconds
            shortest = min(stalled_reader_seconds, keep_alive_seconds, head_timeout_seconds)
            await trio.sleep(min(TICK_SECONDS, shortest / 4))
            now = trio.current_time()
            for connection in self._timed:
                if (
                    now - connection.idle_since >= keep_alive_seconds
                    or now - connection.head_since >= head_timeout_seconds
                ):
                    connection.shut_down()
                elif now - connection.send_began >= stalled_reader_seconds:
                    self.evicted += 1
                    connection.shut_down()

    def add(self, connection: "Connection") -> None:
        """Take a connection that begins."""
        self.live.add(connection)
        self._tell()

    def discard(self, connection: "Connection") -> None:
        """Let go of a connection that has ended."""
        self.live.discard(connection)
        self._timed.discard(connection)
        self._tell()

    def note(self, connection: "Connection") -> None:
        """Take note of what a connection has begun or ended: being idle, or a send."""
        if connection.idle_since == NEVER and connection.send_began == NEVER:
            self._timed.discard(connection)
        elif connection in self.live:
            self._timed.add(connection)

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
        for connection in self._timed:
            if connection.idle_since != NEVER:
                connection.shut_down()

    def shut_down_longest_idle(self) -> bool:
        """Shut down the connection that has waited longest for a request; False when none has waited long enough."""
        oldest = min(self._timed, key=lambda connection: connection.idle_since, default=None)
        if oldest is None or trio.current_time() - oldest.idle_since < IDLE_ENOUGH_SECONDS:
            return False
        self._timed.discard(oldest)  # so that the next one is another
        oldest.shut_down()
        return True

    def shut_down_all(self) -> None:
        """Shut down every connection, whatever it is doing."""
        for connection in self.live:
            connection.shut_down()


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
        self.head_since = NEVER  # when the head that is awaited, or only half here, was begun
        self.send_began = NEVER

    def shut_down(self) -> None:
        """End the connection from another task: a blocked send or receive of its own raises at once (S17)."""
        with suppress(OSError):  # it is closed, or the peer was faster
            self.stream.socket.shutdown(socket.SHUT_RDWR)

    async def run(self) -> None:
        """Serve the connection to its end."""
        connections = self.connections
        try:
            if self.context.terminated.is_set():
                await self._refuse(STOPPING)
                return
            if connections.is_full:
                connections.refused += 1
                await self._refuse(OVERLOADED)
                return
            connections.add(self)
            sock = self.stream.socket
            client = parse_socket_addr(sock.family, sock.getpeername())
            server = parse_socket_addr(sock.family, sock.getsockname())
            async with AppTasks() as self._task_group:
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
                self.idle_since = self.head_since = trio.current_time()
                connections.note(self)
                await self._read_data()
        except* OSError:
            pass  # the peer has gone; whoever is concerned has been told through the protocol
        except* Exception:
            # A bug in the protocol ends this connection, not the server with all the others.
            log.exception("a connection failed")
        finally:
            try:
                await self._close()
            finally:
                self._let_go()
                connections.discard(self)  # last: who waits for that may look for what is still open

    def _let_go(self) -> None:
        """Let go of the protocol, which holds this as well.

        The collector seldom looks at what has lived for a while, and each pair would keep until then what it has
        received, up to 128 KiB of a head: 500 unfinished ones of 60 KiB took 20 MiB more with each generation.
        """
        protocol: Http1 | None = vars(self).pop("protocol", None)  # a connection that was refused has none
        if protocol is not None:
            protocol.let_go()

    async def protocol_send(self, event: Event) -> None:
        """Carry out what the protocol asks for. As Hypercorn's, but watched, and idleness is a time, not a
        task.
        """
        if isinstance(event, RawData):
            data = event.data[self._write_now(event.data) :]
            if data:
                await self._send(data)
        elif isinstance(event, Closed):
            await self._close()
            await self.protocol.handle(Closed())
        elif isinstance(event, Updated):
            self.idle_since = trio.current_time() if event.idle else NEVER
            self.head_since = NEVER
            self.connections.note(self)
            if event.idle and self.context.terminated.is_set():
                self.shut_down()

    async def _read_data(self) -> None:
        # As Hypercorn's, without a deadline around each read (trap 18): it costs a cancel scope and never ends.
        while True:
            try:
                data = bytes(await self.stream.receive_some(RECEIVE_BYTES))
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                self.protocol.broken = True
                break
            await self.protocol.handle(RawData(data))
            if not data:
                break
            # Still idle: what came is no whole head. Its time begins with its first bytes, not with each of them.
            if self.idle_since != NEVER and self.head_since == NEVER and self.protocol.has_part_of_a_head:
                self.head_since = trio.current_time()
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

    def _write_now(self, data: bytes) -> int:
        """Hand to the kernel what it takes at once, and return how much that is.

        Nearly always it takes all, and then there is nothing to wait for, to shield or to watch: half of what a
        heartbeat costs, and a pass through the scheduler less for every answer. What goes wrong here goes wrong
        again, and is dealt with, in `_send`.
        """
        stream: object = self.stream  # Hypercorn believes that it is one of TLS
        if self.send_lock.locked() or not isinstance(stream, trio.SocketStream):
            return 0
        try:
            return os.write(stream.socket.fileno(), data[:SEND_PIECE_BYTES])
        except OSError:
            return 0

    async def _send(self, data: bytes) -> None:
        try:
            # Before anybody else runs: nothing may come between the two parts of `data`.
            self.send_lock.acquire_nowait()
        except trio.WouldBlock:
            await self.send_lock.acquire()
        try:
            view = memoryview(data)
            with trio.CancelScope(shield=True):
                for start in range(0, len(data), SEND_PIECE_BYTES):
                    self.send_began = trio.current_time()
                    self.connections.note(self)
                    await self.stream.send_all(view[start : start + SEND_PIECE_BYTES])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.protocol.broken = True
            await self.protocol.handle(Closed())
        finally:
            self.send_lock.release()
            self.send_began = NEVER
            self.connections.note(self)

    async def _refuse(self, error: ApiError) -> None:
        answer = error.answer()
        writer = h11.Connection(h11.SERVER)
        headers = [*plain_headers(len(answer.body)), *answer.headers]
        head = writer.send(h11.Response(status_code=answer.status, headers=headers))
        try:
            await self.stream.send_all(head + answer.body)
        except trio.BrokenResourceError:
            return
        await self.linger(OVERLOAD_LINGER_SECONDS)
