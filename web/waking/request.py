"""The request itself: one connection to a checked address, one POST, the status of the answer, and nothing more of it.

HTTP is h11's and TLS trio's; the socket is made here, because every client library resolves the host itself, or leaves
the socket to the garbage collector when it is cancelled within the TLS handshake. Proxies of the environment are not
known here at all.
"""

import ssl
from collections.abc import Sequence
from ipaddress import IPv4Address

import h11
import trio

from web.addresses import Address
from web.waking.addresses import Target
from web.waking.resolving import WakeFailed

Headers = Sequence[tuple[str, str]]

READ_BYTES = 4_096
MAX_ANSWER_BYTES = 65_536
"""Up to the end of the answer's head; any number of interim answers (1xx) may come before it."""

MAX_ADDRESSES = 4
"""Tried one after the other, in equal shares of the time that is left."""


async def post_once(
    target: Target, addresses: Sequence[Address], headers: Headers, body: bytes, tls: ssl.SSLContext | None
) -> int:
    """Send one POST and return the status of the answer; neither its body is read nor a redirect followed.

    `addresses` are the target's, already checked; `headers` without `Host` and lengths; `tls` for an https target. The
    caller bounds the time. Raises `WakeFailed`.
    """
    async with await _connect(addresses[:MAX_ADDRESSES], target.port) as connection:
        stream: trio.abc.Stream = connection
        if tls is not None:
            # The host is verified, not the address: a name that was led elsewhere has no certificate there.
            stream = trio.SSLStream(connection, tls, server_hostname=target.host, https_compatible=True)
        try:
            return await _exchange(stream, target, headers, body)
        except h11.RemoteProtocolError:
            raise WakeFailed("it did not answer in HTTP/1.1") from None
        except trio.BrokenResourceError as error:
            raise WakeFailed(_broken(error)) from None


async def _connect(addresses: Sequence[Address], port: int) -> trio.SocketStream:
    for position, address in enumerate(addresses):
        left = trio.current_effective_deadline() - trio.current_time()
        with trio.move_on_after(max(left, 0) / (len(addresses) - position)):
            try:
                return await _connect_to(address, port)
            except OSError:
                continue
    raise WakeFailed("no connection could be made")


async def _connect_to(address: Address, port: int) -> trio.SocketStream:
    family = trio.socket.AF_INET if isinstance(address, IPv4Address) else trio.socket.AF_INET6
    sock = trio.socket.socket(family, trio.socket.SOCK_STREAM)
    try:
        await sock.connect((str(address), port))  # an address is not resolved
        return trio.SocketStream(sock)
    except BaseException:
        sock.close()
        raise


async def _exchange(stream: trio.abc.Stream, target: Target, headers: Headers, body: bytes) -> int:
    http = h11.Connection(h11.CLIENT)
    request = h11.Request(
        method="POST",
        target=target.path,
        headers=[
            ("Host", target.authority),
            *headers,
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ],
    )
    pieces = [http.send(event) for event in (request, h11.Data(data=body), h11.EndOfMessage())]
    await stream.send_all(b"".join(piece for piece in pieces if piece is not None))
    received = 0
    while True:
        event = http.next_event()
        if isinstance(event, h11.Response):
            return event.status_code
        if isinstance(event, h11.InformationalResponse):
            continue
        if event is not h11.NEED_DATA:
            raise WakeFailed("it did not answer in HTTP/1.1")
        if received > MAX_ANSWER_BYTES:
            raise WakeFailed(f"the head of its answer has more than {MAX_ANSWER_BYTES:,} bytes")
        piece = await stream.receive_some(READ_BYTES)
        received += len(piece)
        http.receive_data(bytes(piece))


def _broken(error: trio.BrokenResourceError) -> str:
    """Say why a stream broke: a refused certificate is for the administrator to mend, so it is named."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate was refused ({cause.verify_message})"
    if isinstance(cause, ssl.SSLError):
        return "TLS failed"
    return "the connection broke"
