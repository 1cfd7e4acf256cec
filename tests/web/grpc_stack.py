"""The gRPC port on a real socket in this process, over a pulling that a test scripts, and two clients for it.

`Stack.call` is the official client, in a thread; `RawClient` speaks HTTP/2 frame by frame, for what no decent client
sends.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import grpc
import msgspec
import trio
from grpclib.health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.events import ConnectionTerminated, DataReceived, StreamEnded, StreamReset

from tests.actors.world import World, running
from web.auth import Authenticator, Principal
from web.figures import CallFigures
from web.grpc.inbox import PULL_INBOX
from web.grpc.postroom.v1.inbox_pb2 import PullInboxRequest, PullInboxResponse
from web.grpc.serve import serve_grpc
from web.mail_params import PullInbox
from web.options import WebOptions
from web.pulling import PullItem, PullPage
from web.serve import open_listener
from web.upstream.connections import Connections

CALL_SECONDS = 10.0
"""For one call; none of these takes a second."""

EMPTY = PullPage(items=[], cursor=0, window_high=0, has_more=False)

Metadata = Sequence[tuple[str, str | bytes]]


def item(seq: int, diff: bytes = b"{}", **record: Any) -> PullItem:
    """Return an item of a page; `record` are members of its delivery record."""
    whole = {
        "delivery_seq": seq,
        "score": 0.5,
        "via": "direct",
        "also_via": [],
        "matched_terms": [],
        "delivered_at": "2026-01-01T00:00:00.000000Z",
    }
    return PullItem(delivery_seq=seq, diff=diff, delivery=json.dumps(whole | record).encode())


class Scripted:
    """A pulling that answers what a test wants, and notes what it was asked."""

    def __init__(self) -> None:
        self.page = EMPTY
        self.error: Exception | None = None
        self.gate: trio.Event | None = None  # a pull waits for it
        self.asked: list[PullInbox] = []
        self.callers: list[Principal] = []
        self.under_way = 0
        self.most_under_way = 0
        self.cancelled = 0
        self._changed = trio.Event()

    async def pull(self, caller: Principal, params: PullInbox) -> PullPage:
        """Answer as scripted."""
        self.asked.append(params)
        self.callers.append(caller)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self._tell()
        try:
            await trio.lowlevel.checkpoint()
            if self.gate is not None:
                await self.gate.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
            self._tell()
        if self.error is not None:
            raise self.error
        return self.page

    async def until(self, condition: Callable[["Scripted"], bool]) -> None:
        """Return when the condition holds. Fails after five seconds."""
        with trio.fail_after(5):
            while not condition(self):
                await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class Reply(msgspec.Struct):
    """What the official client got."""

    code: str
    message: Any = None
    details: str = ""
    trailers: dict[str, Any] = {}


class Stack:
    """A running gRPC port."""

    def __init__(self, world: World, pulling: Scripted, options: WebOptions, port: int, token: str) -> None:
        self.world = world
        self.pulling = pulling
        self.options = options
        self.port = port
        self.token = token
        self.ready = True
        self.stopping = trio.Event()
        self.ended = trio.Event()
        self.connections = Connections(options)
        self.calls = CallFigures()
        self.channel = self.new_channel()

    def new_channel(self) -> Any:
        """Return a channel with a connection of its own."""
        return grpc.insecure_channel(
            f"127.0.0.1:{self.port}", options=[("grpc.use_local_subchannel_pool", 1)]
        )

    def credentials(self, token: str | None = None) -> list[tuple[str, str | bytes]]:
        """Return the metadata of a call with a token, the agent's unless given."""
        return [("authorization", f"Bearer {token or self.token}")]

    async def call(
        self,
        request: PullInboxRequest | None = None,
        metadata: Metadata | None = None,
        *,
        timeout: float | None = CALL_SECONDS,
        raw: bytes | None = None,
        **more: Any,
    ) -> Reply:
        """Pull with the official client; `raw` are the bytes to send as the message."""
        method = self.channel.unary_unary(
            PULL_INBOX,
            request_serializer=None if raw is not None else PullInboxRequest.SerializeToString,
            response_deserializer=PullInboxResponse.FromString,
        )
        message = raw if raw is not None else request or PullInboxRequest()
        given = self.credentials() if metadata is None else metadata
        return await in_thread(lambda: method(message, metadata=given, timeout=timeout, **more))

    async def health(self, service: str = "") -> Reply:
        """Ask the health service."""
        method = self.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        )
        return await in_thread(lambda: method(HealthCheckRequest(service=service), timeout=CALL_SECONDS))

    async def connections_end(self) -> None:
        """Return when no connection is left. Fails after five seconds."""
        with trio.fail_after(5):
            while self.connections.others:
                await trio.lowlevel.checkpoint()

    async def raw(self, *, buffers: int | None = None) -> "RawClient":
        """Open a connection for frames; `buffers` are the bytes that the kernel keeps for it."""
        with trio.fail_after(5):
            return await RawClient.connect(self.port, buffers)


async def in_thread(work: Callable[[], Any]) -> Reply:
    """Run a call of the official client in a thread."""

    def run() -> Reply:
        try:
            return Reply("OK", work())
        except grpc.RpcError as error:
            trailers = {pair.key: pair.value for pair in error.trailing_metadata() or ()}
            return Reply(error.code().name, None, error.details(), trailers)

    return await trio.to_thread.run_sync(run)


@asynccontextmanager
async def grpc_stack(**options: Any) -> AsyncIterator[Stack]:
    """Serve gRPC over a scripted pulling; `options` are those of `WebOptions`."""
    async with running() as world:
        record, token = world.tokens.draft("agent", inboxes=None)
        await world.tokens.create(record)
        async with served(world, Scripted(), token, **options) as stack:
            yield stack


@asynccontextmanager
async def served(world: World, pulling: Any, token: str, **options: Any) -> AsyncIterator[Stack]:
    """Serve gRPC over any pulling; `token` is what calls carry. Leaving is an orderly end, which must be soon."""
    web = WebOptions(bind="127.0.0.1:0", **options)
    with open_listener(web) as listening:
        stack = Stack(world, pulling, web, listening.getsockname()[1], token)

        async def serve(*, task_status: trio.TaskStatus[None]) -> None:
            await serve_grpc(
                pulling,
                Authenticator(world.tokens, web),
                web,
                listening=listening,
                connections=stack.connections,
                calls=stack.calls,
                ready=lambda: stack.ready,
                stopping=stack.stopping,
                task_status=task_status,
            )
            stack.ended.set()

        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            try:
                yield stack
            finally:
                stack.stopping.set()
                with trio.fail_after(5, shield=True):
                    await stack.ended.wait()
                    await trio.to_thread.run_sync(stack.channel.close)
            assert stack.connections.others == 0


class RawClient:
    """An HTTP/2 client that sends what it is told to. What has come is in `data`, `headers`, `resets`, by stream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        config = H2Configuration(
            client_side=True,
            header_encoding="utf-8",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.h2 = H2Connection(config=config)
        self.data: dict[int, bytes] = {}
        self.headers: dict[int, dict[str, str]] = {}
        self.resets: dict[int, int] = {}
        self.finished: set[int] = set()
        self.goodbye = False
        self.closed = False
        self.acknowledges = True  # whether it makes room for more data

    @classmethod
    async def connect(cls, port: int, buffers: int | None = None) -> Self:
        sock = trio.socket.socket()
        if buffers is not None:
            for option in (trio.socket.SO_RCVBUF, trio.socket.SO_SNDBUF):
                sock.setsockopt(trio.socket.SOL_SOCKET, option, buffers)
        await sock.connect(("127.0.0.1", port))
        client = cls(trio.SocketStream(sock))
        client.h2.initiate_connection()
        await client.flush()
        return client

    async def flush(self, more: bytes = b"") -> None:
        """Send what h2 has, and bytes of one's own after it."""
        await self.stream.send_all(self.h2.data_to_send() + more)

    def head(self, *extra: tuple[str, str], path: str = PULL_INBOX, token: str | None = None) -> Any:
        """Return the headers of a call; `extra` stand at the end."""
        return [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "test"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            *([("authorization", f"Bearer {token}")] if token else []),
            *extra,
        ]

    async def begin(self, headers: Any, message: bytes | None = b"", *, end: bool = True) -> int:
        """Send a call with a message (None: without one) and return its stream."""
        stream_id: int = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, headers, end_stream=message is None and end)
        if message is not None:
            framed = b"\x00" + len(message).to_bytes(4, "big") + message
            self.h2.send_data(stream_id, framed, end_stream=end)
        await self.flush()
        return stream_id

    async def status(self, stream_id: int) -> tuple[str, str]:
        """Wait for the end of a call; return its status and message (`reset` and the code when it was reset)."""
        await self.until(lambda: stream_id in self.finished or stream_id in self.resets or self.closed)
        if stream_id not in self.finished:
            return ("closed", "") if self.closed else ("reset", str(self.resets[stream_id]))
        headers = self.headers[stream_id]
        return headers.get("grpc-status", ""), headers.get("grpc-message", "")

    async def until(self, condition: Callable[[], bool]) -> None:
        """Read until the condition holds. Fails after five seconds."""
        with trio.fail_after(5):
            while not condition():
                await self._read()

    async def _read(self) -> None:
        try:
            data = await self.stream.receive_some(65_536)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            self.closed = True
            return
        for event in self.h2.receive_data(bytes(data)):
            stream_id = getattr(event, "stream_id", 0) or 0
            if isinstance(event, DataReceived):
                self.data[stream_id] = self.data.get(stream_id, b"") + (event.data or b"")
                if self.acknowledges:
                    self.h2.acknowledge_received_data(event.flow_controlled_length or 0, stream_id)
            elif isinstance(event, StreamEnded):
                self.finished.add(stream_id)
            elif isinstance(event, StreamReset):
                self.resets[stream_id] = int(event.error_code or 0)
            elif isinstance(event, ConnectionTerminated):
                self.goodbye = True
                self.h2.state_machine.state = (
                    ConnectionState.CLIENT_OPEN
                )  # calls under way go on, h2 thinks not
            elif hasattr(event, "headers"):
                self.headers.setdefault(stream_id, {}).update(dict(event.headers))
        with trio.move_on_after(1):  # it may not be read any more
            try:
                await self.flush()
            except trio.BrokenResourceError:
                return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await trio.aclose_forcefully(self.stream)


async def all_at_once(work: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Do several things at a time."""
    async with trio.open_nursery() as nursery:
        for one in work:
            nursery.start_soon(one)
