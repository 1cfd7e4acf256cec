"""The limits on what comes in: size while reading, bytes in flight, the body's deadline, and how to say no.

`Incoming` is the body of one request; everything that reads a body reads it here, before any framework sees
it (Quart 0.23 no longer stops a chunked body at its limit: field notes, trap 2). `BodiesInFlight` is one for
the whole server and counts bytes that were *received*: seven declared uploads must not close ingest for
everybody (study, S19).

A sender that is refused while it is still sending must be able to read why: the refusal is sent first, then
what still comes is read and thrown away for a bounded time (`Incoming.discard_rest`), and only then is the
connection closed. Closing at once would make the kernel answer the sender's next segment with a reset, which
destroys the refusal.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

import trio
from hypercorn.typing import ASGIReceiveCallable

from web.errors import ApiError

SMALL_BODY_BYTES = 64 * 1024
"""Bodies up to this size may use the reserved part of the bytes in flight."""

SMALL_RESERVE_BYTES = 16 * 1024 * 1024
"""What large bodies may not use (study, S19). At most a quarter of the whole is reserved."""

BUSY_RETRY_SECONDS = 2
"""`Retry-After` when the bytes in flight are used up: bodies arrive within seconds, senders back off by
themselves."""

LINGER_SECONDS = 10.0
"""How long the rest of a refused body is read and thrown away, so that the sender can read the refusal."""

SMALL_REST_BYTES = 64 * 1024
"""A rest that is declared to be no larger is read before the answer, so that the connection can be kept: it
is usually in the buffers already."""

SMALL_REST_SECONDS = 1.0
"""How long such an answer waits for that rest."""


class ClientGone(Exception):
    """The client left before its body was complete. There is nobody to answer, and nothing is stored."""


class BodiesInFlight:
    """The bytes of all bodies that are being received or stored at this moment."""

    def __init__(self, total_bytes: int) -> None:
        self.resize(total_bytes)
        self.small = 0
        self.large = 0

    def resize(self, total_bytes: int) -> None:
        """Set how many there may be; what is in flight already is not touched."""
        self._total = total_bytes
        self._for_large = total_bytes - min(SMALL_RESERVE_BYTES, total_bytes // 4)

    def share(self) -> "Share":
        """Return one request's part, empty at first."""
        return Share(self)


class Share:
    """One request's part of the bytes in flight. A context manager: leaving it gives them back."""

    __slots__ = ("_all", "held")

    def __init__(self, bodies: BodiesInFlight) -> None:
        self._all = bodies
        self.held = 0

    def take(self, count: int) -> None:
        """Count more received bytes. Raises `ApiError` `busy` when there is no room for them."""
        bodies = self._all
        held = self.held + count
        if held <= SMALL_BODY_BYTES:
            if bodies.small + bodies.large + count > bodies._total:
                raise _busy()
            bodies.small += count
        else:
            # A body that grows large takes what it held out of the small ones' part.
            was_small = self.held if self.held <= SMALL_BODY_BYTES else 0
            large = bodies.large + was_small + count
            small = bodies.small - was_small
            if large > bodies._for_large or small + large > bodies._total:
                raise _busy()
            bodies.small, bodies.large = small, large
        self.held = held

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.held <= SMALL_BODY_BYTES:
            self._all.small -= self.held
        else:
            self._all.large -= self.held
        self.held = 0


def _busy() -> ApiError:
    message = "The server is receiving as much as it can hold at this moment; try again."
    return ApiError("busy", message, retry_after=BUSY_RETRY_SECONDS)


PEER = "postroom.peer"
"""Where the state of a request's scope carries the connection's `Peer`."""


class Peer(Protocol):
    """What the connection knows of its client and ASGI has no message for."""

    broken: bool
    """Whether nothing can be sent to it any more. One that has only said that it sends no more may still be reading."""

    @property
    def waits_to_be_asked(self) -> bool:
        """Whether it holds its body back until it is asked for it (`Expect: 100-continue`)."""

    async def ask_for_body(self) -> None:
        """Tell it to go on (100)."""

    def when_gone(self, tell: Callable[[], None] | None) -> bool:
        """Have `tell` called, once, when it leaves before it is answered; None: nobody any more. True: it has left."""


class Incoming:
    """The body of one request, as it arrives.

    `declared` is its Content-Length in bytes, None when there is none. `framed_twice`: Content-Length
    together with Transfer-Encoding, which two servers in a row may read differently (trap 16); such a body
    must not be read. A sender that waits to be asked is asked when the body is first wanted, so that one that is
    refused without it is told at once.
    """

    __slots__ = ("_ended", "_peer", "_receive", "declared", "framed_twice", "received")

    def __init__(
        self,
        headers: Sequence[tuple[bytes, bytes]],
        receive: ASGIReceiveCallable,
        peer: Peer | None = None,
    ) -> None:
        """`peer` is the connection's, None where there is none to ask."""
        declared: int | None = None
        chunked = False
        for name, value in headers:
            if name == b"content-length":
                declared = int(value)  # h11 has checked that it is a number of at most 20 digits
            elif name == b"transfer-encoding":
                chunked = True
        self.declared = declared
        self.framed_twice = chunked and declared is not None
        self.received = 0
        self._receive = receive
        self._peer = peer
        self._ended = not chunked and not declared

    @property
    def ended(self) -> bool:
        """Whether the whole body has been received."""
        return self._ended

    @property
    def broken(self) -> bool:
        """Whether the client can hear nothing any more."""
        return self._peer is not None and self._peer.broken

    @property
    def _held_back(self) -> bool:
        return self._peer is not None and self._peer.waits_to_be_asked

    def when_gone(self, tell: Callable[[], None] | None) -> bool:
        """As `Peer.when_gone`. Of a client whose body has not been read to its end, nothing may be heard."""
        return self._peer is not None and self._peer.when_gone(tell)

    async def next(self) -> bytes:
        """Return the next piece, `b""` at the end. Raises `ClientGone`."""
        if self._peer is not None and self._held_back and not self._ended:
            await self._peer.ask_for_body()
        while not self._ended:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientGone
            data = message.get("body", b"")
            self.received += len(data)
            # The end follows from the length; asking for the empty last message would cost one more task switch.
            if not message.get("more_body", False) or (
                self.received == self.declared and not self.framed_twice
            ):
                self._ended = True
            if data:
                return data
        return b""

    def check_declared(self, limit: int) -> None:
        """Raise `ApiError` `payload_too_large` when the body says of itself that it is larger than `limit`
        bytes.
        """
        if self.declared is not None and self.declared > limit:
            raise _too_large(limit)

    async def next_within(self, limit: int) -> bytes:
        """As `next`; raises `ApiError` `payload_too_large` as soon as more than `limit` bytes have come."""
        data = await self.next()
        if self.received > limit:
            raise _too_large(limit)
        return data

    async def whole(self, limit: int, seconds: float) -> bytes:
        """Return the whole body, for requests that are small by nature.

        Raises `ApiError`: `payload_too_large` over `limit` bytes, `timeout` when it has not come within
        `seconds`, `invalid_argument` when it is framed twice; and `ClientGone`.
        """
        if self.framed_twice:
            raise framed_twice()
        self.check_declared(limit)
        pieces: list[bytes] = []
        with trio.move_on_after(seconds) as deadline:
            while data := await self.next_within(limit):
                pieces.append(data)
        if deadline.cancelled_caught:
            raise too_slow(seconds)
        return b"".join(pieces)

    async def discard_small_rest(self) -> None:
        """Read and throw away a declared rest of at most `SMALL_REST_BYTES`, for at most
        `SMALL_REST_SECONDS`. Nothing of a body that is held back: it was not wanted.
        """
        if self.framed_twice or self.declared is None or self.declared - self.received > SMALL_REST_BYTES:
            return
        if self._held_back:
            return
        with trio.move_on_after(SMALL_REST_SECONDS):
            await self._discard()

    async def discard_rest(self) -> None:
        """Read what still comes and throw it away, to the end or for `LINGER_SECONDS`."""
        with trio.move_on_after(LINGER_SECONDS):
            await self._discard()

    async def _discard(self) -> None:
        try:
            while await self.next():
                pass
        except ClientGone:
            self._ended = True

    async def swallow(self) -> None:
        """Receive until the client is gone or this is cancelled.

        Hypercorn hands over a body through a queue of ten pieces and then reports the end of the stream
        through the same queue; somebody must empty it while the last part of an early answer is being sent.
        """
        while (await self._receive())["type"] != "http.disconnect":
            pass


def framed_twice() -> ApiError:
    """Return 400 for Content-Length together with Transfer-Encoding."""
    return ApiError("invalid_argument", "Send either Content-Length or Transfer-Encoding, not both.")


def too_slow(seconds: float) -> ApiError:
    """Return 408 for a body that did not come in time."""
    return ApiError("timeout", f"The body did not arrive within {seconds:g} seconds.")


def _too_large(limit: int) -> ApiError:
    return ApiError("payload_too_large", f"The body is larger than {limit} bytes.")
