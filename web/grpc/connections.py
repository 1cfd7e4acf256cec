"""The connections of the gRPC port: taken from the accept loop, watched, and seen off at the end.

`Links` owns which are live, and ends them from outside. They count against the same limit as those of HTTP.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
import trio
from grpclib.const import Handler as Method

from web.grpc.calls import call_handler, stopping_now
from web.grpc.upstream import Link
from web.options import WebOptions
from web.serve import STOP_GRACE_SECONDS
from web.upstream.connections import IDLE_ENOUGH_SECONDS, TICK_SECONDS, Connections

ANSWER_SECONDS = 0.5
"""At the end: for clients to take what they are told, and again for closing."""

log = structlog.get_logger("postroom.grpc")


class Links:
    """The live connections of one loop of asyncio."""

    def __init__(self, loop: Any, methods: dict[str, Method], options: WebOptions, http: Connections) -> None:
        """`loop` is trio-asyncio's; `http` are the connections that share the limit."""
        self.live: set[Link] = set()
        self._loop = loop
        self._methods = methods
        self._options = options
        self._http = http
        self._changed = trio.Event()

    async def take(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end; to be run by the accept loop, in a task of its own."""
        if self._http.is_full:
            self._http.refused += 1
            return
        sock = socket.socket(fileno=stream.socket.detach())
        handler = call_handler(self._methods)
        link = handler.link = Link(handler, self._options, self._tell)
        self._http.others += 1
        try:
            self._keep_alive(sock)
            await self._loop.run_aio_coroutine(self._loop.connect_accepted_socket(lambda: link, sock))
            self.live.add(link)
            self._tell()
            await link.closed.wait()
        except OSError as error:  # it was gone before it was there
            log.debug("a connection could not be taken", reason=str(error))
        finally:
            link.abort()
            handler.link = None
            if not link.made:
                sock.close()
            self.live.discard(link)
            self._http.others -= 1
            self._tell()

    async def watch(self, look: Callable[[], None]) -> None:
        """End what is idle or takes too long, for ever; call `look` each time. Sleeps while there is no connection."""
        while True:
            if not self.live:
                await self._until(lambda: bool(self.live))
            options = self._options
            await trio.sleep(min(TICK_SECONDS, self._shortest(options) / 4))
            look()
            now = trio.current_time()
            for link in tuple(self.live):
                limit = options.keep_alive_seconds if link.greeted else options.head_timeout_seconds
                if now - link.idle_since >= limit:
                    self._close(link)
                    continue
                for stream in link.streams:
                    if now >= stream.until:
                        stream.expire()

    def make_room(self) -> bool:
        """Close the connection that has been idle longest, of HTTP if there is none here; False when there is none."""
        oldest = min(self.live, key=lambda link: link.idle_since, default=None)
        if oldest is None or trio.current_time() - oldest.idle_since < IDLE_ENOUGH_SECONDS:
            return self._http.shut_down_longest_idle()
        self.live.discard(oldest)  # so that the next one is another
        self._close(oldest)
        return True

    async def end(self) -> None:
        """See the connections off: no more calls, then those under way are told, then all are closed."""
        for link in self.live:
            link.say_goodbye()
        with trio.move_on_after(STOP_GRACE_SECONDS):
            await self._until(lambda: not any(link.streams for link in self.live))
        for link in self.live:
            for stream in link.streams:
                stream.give_up(stopping_now())
        with trio.move_on_after(ANSWER_SECONDS):
            await self._until(lambda: not any(link.streams for link in self.live))
        for link in self.live:
            link.close()
        with trio.move_on_after(ANSWER_SECONDS):
            await self._until(lambda: not self.live)
        for link in self.live:
            link.abort()

    def _close(self, link: Link) -> None:
        link.say_goodbye()
        link.close()

    def _keep_alive(self, sock: socket.socket) -> None:
        """Let the kernel find out when a client that holds a stream open has gone without a word."""
        with suppress(OSError, AttributeError):  # TCP_KEEPIDLE: Linux only
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(self._options.keep_alive_seconds))
            )

    @staticmethod
    def _shortest(options: WebOptions) -> float:
        return min(
            options.keep_alive_seconds,
            options.head_timeout_seconds,
            options.stalled_reader_seconds,
            options.body_timeout_seconds,
        )

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    def _tell(self) -> None:
        if self._changed.statistics().tasks_waiting:
            self._changed.set()
            self._changed = trio.Event()
