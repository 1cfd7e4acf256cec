"""The stdio form of MCP: lines of JSON-RPC in, lines out, and `postroom.mcp_upstream` between them.

`Bridge` owns the calls under way. Each has a task and a connection of its own, so a wait is in nobody's way, and each
may be cancelled by its client (`notifications/cancelled`): its connection is closed, by which the server learns of it
at once. Nothing but protocol goes to stdout. Other notifications end here, because the server would drop them, and so
do answers of the client, because the server asks nothing.
"""

import os
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import trio

from postroom.mcp_upstream import UNSET, Call, Upstream, parsed

LINE_BYTES = 16 * 1024 * 1024
"""Of one message: far more than the server takes, so that its refusal can name the call. Longer ones are cut."""
READ_BYTES = 65_536

GRACE_SECONDS = 5.0
"""For calls that are under way when stdin closes: answers that need no waiting still come, also from a slow server."""

WAIT_GRACE_SECONDS = 0.5
"""The same for waits, whose time is not up for long: with this they are given up."""

WAITS = frozenset({"wait_for_messages"})
"""The tools that answer late on purpose."""

CANCELLED = "notifications/cancelled"

Lines = Callable[[], Awaitable[bytes | None]]
Write = Callable[[bytes], Awaitable[None]]


class Bridge:
    """One client's conversation with one server."""

    def __init__(self, upstream: Upstream, write: Write, say: Callable[[str], None]) -> None:
        """`say` is told, in a sentence, what stays unanswered at the end."""
        self._upstream = upstream
        self._write = write
        self._say = say
        self._writing = trio.Lock()
        self._under_way: dict[bytes, trio.CancelScope] = {}
        self._waits: set[trio.CancelScope] = set()
        self._unanswered = 0

    async def run(self, next_line: Lines) -> None:
        """Serve until there are no more lines, or nobody reads the answers."""
        async with trio.open_nursery() as nursery:
            while (line := await next_line()) is not None:
                self._take(line, nursery)
            now = trio.current_time()
            nursery.cancel_scope.deadline = now + GRACE_SECONDS
            for wait in self._waits:
                wait.deadline = now + WAIT_GRACE_SECONDS
        if nursery.cancel_scope.cancelled_caught and self._unanswered:
            self._say(
                f"The server was too slow for the end of stdin: {self._unanswered} calls were not answered."
            )

    def _take(self, line: bytes, nursery: trio.Nursery) -> None:
        """Deal with one message. Synchronous: a call is known before the next line may cancel it."""
        call = parsed(line)
        if call is not None and call.method is not UNSET and isinstance(call.id, msgspec.UnsetType):
            if call.method == CANCELLED:
                self._cancel(call)
            return
        if call is not None and call.method is UNSET and not isinstance(call.id, msgspec.UnsetType):
            return
        scope = trio.CancelScope()
        key = None if call is None or isinstance(call.id, msgspec.UnsetType) else _key(call.id)
        if key is not None:
            self._under_way[key] = scope
        if call is not None and call.tool in WAITS:
            self._waits.add(scope)
        else:
            self._unanswered += 1
        nursery.start_soon(self._answer, call, line, key, scope, nursery)

    async def _answer(
        self,
        call: Call | None,
        line: bytes,
        key: bytes | None,
        scope: trio.CancelScope,
        nursery: trio.Nursery,
    ) -> None:
        answer = b""
        with scope:
            answer = await self._upstream.call(call, line)
        if key is not None and self._under_way.get(key) is scope:
            del self._under_way[key]
        if scope in self._waits:
            self._waits.discard(scope)
        else:
            self._unanswered -= 1
        if scope.cancelled_caught:
            return
        async with self._writing:
            try:
                await self._write(answer + b"\n")
            except BrokenPipeError:
                nursery.cancel_scope.cancel()

    def _cancel(self, notification: Call) -> None:
        params = notification.params
        wanted = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(wanted, int | str) and (scope := self._under_way.get(msgspec.json.encode(wanted))):
            scope.cancel()


def _key(number: msgspec.Raw) -> bytes | None:
    """Return a call's id in one spelling (`1` and `"1"` are two), None for what is no id."""
    try:
        return msgspec.json.encode(msgspec.json.decode(number, type=int | str))
    except msgspec.DecodeError:
        return None


class LineReader:
    """The lines of a descriptor, without their ends; empty ones are passed over.

    Read by a thread, because stdin may be anything: a file cannot be waited for, and a terminal must not be made
    non-blocking. `os.read` and not `sys.stdin`: a thread that is left behind in it does not hold a lock at the end.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._skipping = False
        self._ended = False

    async def next_line(self) -> bytes | None:
        """Return the next line, None after the last."""
        searched = 0
        while True:
            end = self._buffer.find(b"\n", searched)
            if end < 0 and len(self._buffer) < LINE_BYTES and not self._ended:
                searched = len(self._buffer)
                piece = await trio.to_thread.run_sync(
                    os.read, self._descriptor, READ_BYTES, abandon_on_cancel=True
                )
                self._ended = not piece
                self._buffer += piece
                continue
            searched = 0
            line = self._cut(end)
            if line:
                return line
            if self._ended and not self._buffer:
                return None

    def _cut(self, end: int) -> bytes:
        """Take a line out of the buffer, up to its end or, without one, what there is. Empty for one to pass over."""
        whole = end >= 0
        line = bytes(self._buffer[: end if whole else len(self._buffer)])
        del self._buffer[: end + 1 if whole else len(self._buffer)]
        skipped, self._skipping = self._skipping, not whole
        return b"" if skipped else line[:LINE_BYTES].strip()


async def write_out(descriptor: int, data: bytes) -> None:
    """Write all of it, in a thread: a client that does not read must not keep us from reading."""
    await trio.to_thread.run_sync(_write_all, descriptor, data, abandon_on_cancel=True)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


async def serve_stdio(
    url: str,
    query: str,
    token: str,
    say: Callable[[str], None],
    *,
    session: str | None = None,
    stdin: int = 0,
    stdout: int = 1,
) -> None:
    """Connect a client on stdin and stdout with a server until stdin closes.

    `query` is that of the endpoint's URL, `session` which of its agent's sessions the client is. Raises `Refused` and
    `Unreachable` when the token or the server is not to be had at the start, `ClientError` for a URL that is none.
    """
    async with Upstream(url, query, token, say, session) as upstream:
        await upstream.check()
        await Bridge(upstream, partial(write_out, stdout), say).run(LineReader(stdin).next_line)
