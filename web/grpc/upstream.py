"""grpclib's connection and stream, bounded and watched: what they let a stranger do to a server, and the remedies.

Seen with grpclib 0.4.9, h2 4.4 and trio-asyncio 0.16. The tests are `tests/web/test_grpc_traps.py`
and `test_grpc_serving.py`, and `tests/live/test_grpc.py` for the log.

| upstream | here |
|---|---|
| a frame of an unknown type raises `NotImplementedError`, although such frames must be ignored | ignored |
| an exception in a callback of the loop ends the loop, and with it the server (trio-asyncio) | `note_failure` logs it |
| a header that is not ASCII raises through the transport | read as latin-1 |
| `…-bin` metadata that are not base64 raise before a call is answered, which it never is | `calls.USED` |
| a message may have 4 GiB, and is collected in memory | `MAX_MESSAGE_BYTES` |
| h2 collects a frame of up to 16 MiB before it finds it too large | `MAX_COLLECTED_BYTES` |
| an empty DATA frame counts as the end of the request | left out |
| nothing bounds frames that lead nowhere: calls that are reset at once, PING, SETTINGS, PRIORITY | `frames.MAX_OWED` |
| nothing bounds how long a request may take to arrive, or an answer to be taken | `BoundStream.until` |
| answers to PING are buffered without end for a client that does not read | who does not read is not read from |
| a stream that is reset before its task has begun is never released | `calls.CallHandler` does it |
| a deadline that has passed already is an error of the application, with a trace in the log | `calls.guarded` |
| the future of `trio_as_aio` is a cycle that holds the page | `bridge.Bridge` |
| asyncio's transport holds a method of its own, and is a cycle | taken from it at its end |
| grpclib keeps asyncio's own `current_task`, which from Python 3.12 on knows no loop of trio-asyncio | replaced |
| on Python 3.12 and 3.13 importing trio-asyncio warns of a class that 3.14 has no more | imported here, in silence |
| hpack logs every header at level debug, tokens too | `postroom.logs.QUIET_LOGGERS` |
| h2 sends nothing any more on open streams once it has said GOAWAY | the frame is written past it |
"""

import asyncio
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import grpclib.utils
import structlog
import trio
from grpclib import protocol
from grpclib.config import Configuration
from grpclib.server import Stream
from grpclib.utils import Wrapper
from h2.config import H2Configuration
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event
from h2.exceptions import FrameTooLargeError, ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from web.errors import ApiError
from web.grpc.frames import OwingConnection
from web.options import WebOptions

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from trio_asyncio import open_loop

grpclib.utils._current_task = asyncio.current_task

MAX_MESSAGE_BYTES = 4 * 1024
"""One message of a client. A request to pull has at most 33 bytes; reflection and health ask for names."""

MAX_STREAMS = 32
"""Calls under way on one connection, each with a page in memory; clients keep more of them back by themselves."""

SEND_PIECE_BYTES = 64 * 1024
"""What must be taken by the client within `stalled_reader_seconds`, as on the HTTP side."""

MAX_COLLECTED_BYTES = 16_384 + 9
"""The largest frame that we have agreed to, with its head. No part of one is larger."""

NEVER = float("inf")

CONFIGURATION = Configuration(_keepalive_time=None)
"""Dead peers are the kernel's business (`web/grpc/connections.py`)."""

H2_CONFIGURATION = H2Configuration(
    client_side=False,
    header_encoding="latin-1",
    validate_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_inbound_headers=False,
    normalize_outbound_headers=False,
)
"""grpclib's own choice, but for the encoding."""

__all__ = ["NEVER", "BoundStream", "Link", "bound", "note_failure", "open_loop"]

log = structlog.get_logger("postroom.grpc")


def note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what failed in a callback: a bug. The connection that it concerns ends; the loop and all others go on."""
    log.error("a callback failed", said=context.get("message"), exc_info=context.get("exception"))


class BoundStream(protocol.Stream):
    """The HTTP/2 stream of one call. On trio's clock: `deadline` is the client's, `until` is when what is under way
    takes too long. `verdict` is what the client is told when the call is ended from outside (`give_up`).
    """

    connection: "BoundConnection"
    deadline = NEVER
    until = NEVER
    verdict: ApiError | None = None
    task: asyncio.Task[None] | None = None
    _sending = False

    async def recv_data(self, size: int) -> bytes:
        """Return so many bytes of the request, none at its end. Raises `ApiError` for a message that is too large."""
        if size > MAX_MESSAGE_BYTES:
            raise ApiError(
                "payload_too_large", f"A message may have {MAX_MESSAGE_BYTES} bytes, and this has {size}."
            )
        with self._under_way(self.connection.options.body_timeout_seconds):
            return await super().recv_data(size)

    async def send_headers(self, headers: list[tuple[str, str]], end_stream: bool = False) -> None:
        """Send headers or trailers."""
        with self._under_way(self.connection.options.stalled_reader_seconds, sending=True):
            await super().send_headers(headers, end_stream)
        if end_stream:  # it is answered
            self.connection.pay()

    async def send_data(self, data: bytes, end_stream: bool = False) -> None:
        """Send a message, in pieces that are watched one by one."""
        for start in range(0, len(data), SEND_PIECE_BYTES):
            end = start + SEND_PIECE_BYTES
            with self._under_way(self.connection.options.stalled_reader_seconds, sending=True):
                await super().send_data(data[start:end], end_stream and end >= len(data))
            self.connection.pay()

    @contextmanager
    def _under_way(self, seconds: float, *, sending: bool = False) -> Iterator[None]:
        self._sending = sending
        self.until = min(trio.current_time() + seconds, NEVER if sending else self.deadline)
        try:
            yield
        finally:
            self.until = NEVER

    def expire(self) -> None:
        """End what takes too long. Who does not read gets a reset, without an answer that it would not read either;
        when not even that would be taken, the connection ends: it is no proxy's whose other clients go on.
        """
        self.until = NEVER
        if not self._sending:
            self.give_up(ApiError("timeout", "The request did not arrive in time."))
        elif self.connection.write_ready.is_set():
            if self.closable:
                self.reset_nowait(ErrorCodes.CANCEL)
            self.give_up(None)
        else:
            self._transport.abort()

    def give_up(self, verdict: ApiError | None) -> None:
        """End the call; the client is told the verdict, if there is one."""
        self.verdict = verdict
        if self.task is not None:
            self.task.cancel()


def bound(stream: Stream[Any, Any]) -> BoundStream:
    """Return what is below the stream that a method is given."""
    return cast(BoundStream, stream._stream)


class BoundConnection(protocol.Connection):
    """grpclib's connection, which makes our streams."""

    def __init__(
        self, connection: OwingConnection, transport: asyncio.Transport, options: WebOptions
    ) -> None:
        super().__init__(connection, transport, config=CONFIGURATION.__for_server__())
        self.options = options
        self.pay = connection.pay

    def create_stream(self, *, stream_id: int | None = None, wrapper: Wrapper | None = None) -> BoundStream:
        """Return a stream of ours."""
        return BoundStream(self, self._connection, self._transport, stream_id=stream_id, wrapper=wrapper)


class Link(protocol.H2Protocol):
    """One client's connection. `closed` is set when it has ended. `on_change` is called, synchronously, when it has
    ended and when no call is under way any more.
    """

    connection: BoundConnection

    def __init__(
        self, handler: protocol.AbstractHandler, options: WebOptions, on_change: Callable[[], None]
    ) -> None:
        super().__init__(handler, CONFIGURATION, H2_CONFIGURATION)
        self.closed = trio.Event()
        self.greeted = False  # whether it has sent a frame: that it speaks HTTP/2
        self.idle_since = trio.current_time()
        self.leaving = False  # whether it was told to make no more calls
        self._options = options
        self.on_change = on_change
        self._transport: asyncio.Transport | None = None

    @property
    def made(self) -> bool:
        """Whether it has begun, and so owns its socket."""
        return hasattr(self, "connection")

    @property
    def streams(self) -> list[BoundStream]:
        """The calls under way."""
        return cast(list[BoundStream], list(self.processor.streams.values()))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: as grpclib's, with windows that are as small as HTTP/2 has them, because requests are."""
        self._transport = cast(asyncio.Transport, transport)
        self.state = state = OwingConnection(config=H2_CONFIGURATION)
        limits = {
            SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: self._options.header_bytes,
            SettingCodes.ENABLE_PUSH: 0,
        }
        state.local_settings = Settings(client=False, initial_values=limits)
        state.decoder.max_header_list_size = self._options.header_bytes
        state.initiate_connection()
        self.connection = BoundConnection(state, self._transport, self._options)
        self.connection.flush()
        self.processor = protocol.EventsProcessor(self.handler, self.connection)
        self._known = frozenset(self.processor.processors)

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent. A client that breaks the protocol is told by GOAWAY, and that was it."""
        try:
            events = self.connection.feed(data)
            if len(self.state.incoming_buffer._data) > MAX_COLLECTED_BYTES:
                raise FrameTooLargeError("a frame is larger than was agreed to")
        except ProtocolError:
            self.connection.flush()
            self.processor.close("Protocol error")
            return
        self.greeted = self.greeted or bool(events)
        self.connection.flush()
        for event in events:
            if type(event) in self._known and not _is_empty(event):
                self.processor.process(event)
        self.connection.flush()

    def pause_writing(self) -> None:
        """Stop reading as well, or answers to what it sends would pile up."""
        super().pause_writing()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on, in both directions."""
        super().resume_writing()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End: calls under way are cancelled."""
        super().connection_lost(exc)
        vars(self._transport).pop("_read_ready_cb", None)
        self._transport = None
        self.closed.set()
        self.on_change()

    def say_goodbye(self) -> None:
        """Tell the client to make no more calls here; those under way go on."""
        if self.leaving or self.connection.is_closing():
            return
        self.leaving = True
        last = self.state.highest_inbound_stream_id
        goodbye = GoAwayFrame(stream_id=0, last_stream_id=last, error_code=ErrorCodes.NO_ERROR)
        cast(asyncio.Transport, self._transport).write(goodbye.serialize())

    def close(self) -> None:
        """Close, after what has been written; calls under way are cancelled."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


def _is_empty(event: Event) -> bool:
    return isinstance(event, DataReceived) and event.flow_controlled_length == 0
