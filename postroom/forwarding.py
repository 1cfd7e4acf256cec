"""A stored message sent once more, to another address: as its first sender sent it, as far as that can be.

Method, path, query, headers (their order and duplicates too) and body bytes are the original ones. `host` and
`content-length` are made anew. Left out are headers that belonged to the first connection (RFC 9110, section 7.6.1) and
those whose value was redacted before it was stored; the outcome names them. Redirects are not followed and no
environment proxy is used on loopback: what is tested is the address that was given. So a message whose path may lead
out of that address (`postroom.prefixes`) is not sent at all, rather than with a path that its sender did not write.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

import h11
import httpx
import msgspec

from postroom.client import CONNECT_SECONDS, LOOPBACK_HOSTS, Client, ClientError, Params, segment
from postroom.prefixes import leaves

REDACTED = "[redacted]"
"""What the server stores in place of a credential (surface, section 3)."""

PER_CONNECTION = frozenset(
    {
        b"connection",
        b"expect",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers of one hop. `expect`: nobody waits for the 100 here, the body is at hand."""

OF_THE_NEW_REQUEST = frozenset({b"host", b"content-length"})
"""Headers that are sent with values of their own."""

TOO_LATE = "no complete answer in time"
NOT_FOLLOWED = "a redirect, not followed"
LEADS_OUT = "not sent, its path leads out of the URL"

SPOOLED_BYTES = 1024 * 1024
"""A body is kept in memory to this size, beyond it in a temporary file: bodies go to 1 GiB."""
PIECE_BYTES = 64 * 1024
ANSWER_BYTES = 256 * 1024
"""How much of an answer is read, so that its connection can be used again; nobody looks at the rest."""


class Original(msgspec.Struct, frozen=True):
    """The sender's half of a message, as far as it is sent again."""

    path: str = ""
    query: str = ""
    headers: list[tuple[str, str]] = []
    event_type: str | None = None


class Forwardable(msgspec.Struct, frozen=True):
    """A message as `forward` reads it. `method` is null for what did not come over HTTP: that is sent with POST."""

    inbox: str
    seq: int
    epoch: str
    size: int
    untrusted: Original
    method: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What became of one message. `status` is None when there was no answer; then `error` is a clause that says why.
    It is one with a redirect, too.
    """

    seq: int
    method: str
    path: str
    event_type: str | None
    status: int | None
    error: str | None
    milliseconds: float
    redacted: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def is_success(self) -> bool:
        """Whether the address took it: any 2xx. A redirect says that the message belongs elsewhere."""
        return self.status is not None and 200 <= self.status < 300


class Headers(msgspec.Struct, frozen=True):
    """The headers that are sent, and the names of those that are not."""

    sent: list[tuple[bytes, bytes]]
    redacted: tuple[str, ...]
    left_out: tuple[str, ...]


def headers_to_send(original: list[tuple[str, str]]) -> Headers:
    """Return what is sent of the original headers; values are latin-1, as the server keeps them."""
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in original]
    named = {
        option.strip().lower()
        for name, value in pairs
        if name.lower() == b"connection"
        for option in value.split(b",")
    }
    unwanted = PER_CONNECTION | named
    sent: list[tuple[bytes, bytes]] = []
    redacted: dict[str, None] = {}
    left_out: dict[str, None] = {}
    for name, value in pairs:
        if name.lower() in OF_THE_NEW_REQUEST:
            continue
        if value == REDACTED.encode():
            redacted[name.decode("latin-1")] = None
        elif name.lower() in unwanted:
            left_out[name.decode("latin-1")] = None
        else:
            sent.append((name, value))
    return Headers(sent, tuple(redacted), tuple(left_out))


class Deadline:
    """A time limit for each answer as a whole: httpx limits the time between two pieces of one only, and an answer that
    drips in would never end.

    It listens to httpcore's `trace` extension: for the connection in use, which may be one kept from the message
    before, and for the moment when the request has been sent and the answer is awaited. Use it as a context manager
    around each exchange.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self.has_passed = False

    def __enter__(self) -> Self:
        self.has_passed = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def trace(self, event: str, told: dict[str, Any]) -> None:
        """Take one of httpcore's events."""
        made = told.get("return_value")
        if made is not None and hasattr(made, "get_extra_info"):  # a connection, or the same one inside TLS
            self._socket = made.get_extra_info("socket")
        elif event == "http11.receive_response_headers.started":
            timer = threading.Timer(self._seconds, self._pass)
            timer.daemon = True
            with self._lock:
                self._timer = timer
            timer.start()

    def _pass(self) -> None:
        with self._lock:
            if self._timer is not threading.current_thread():
                return  # the exchange was over in this very moment
            self.has_passed = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it may be closed already, by either side
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it


class Target:
    """The address that messages are sent to. Use it as a context manager.

    Its path comes before each message's own, its query before theirs. `timeout_seconds` is for each whole answer, and
    before it for each piece of a message to be taken. Raises `ClientError` when it is no address.
    """

    def __init__(
        self, url: str, *, timeout_seconds: float, transport: httpx.BaseTransport | None = None
    ) -> None:
        parts = urlsplit(url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.fragment
            or "@" in parts.netloc
        ):
            raise ClientError("--to takes an http:// or https:// URL without user and fragment.")
        try:
            self._url = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ClientError(f"--to is not a URL: {error}.") from error
        path, _, query = self._url.raw_path.partition(b"?")
        self._path = path.rstrip(b"/")
        self._query = query
        self._deadline = Deadline(timeout_seconds)
        self._http = httpx.Client(
            timeout=httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, CONNECT_SECONDS)),
            transport=transport,
            trust_env=self._url.host not in LOOPBACK_HOSTS,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def request_target(self, original: Original) -> bytes:
        """Return path and query of the request, the original ones unchanged to the byte."""
        path = self._path + original.path.encode("latin-1") or b"/"
        query = b"&".join(part for part in (self._query, original.query.encode("latin-1")) if part)
        return path + b"?" + query if query else path

    def refused(self, message: Forwardable) -> Outcome | None:
        """Return what becomes of a message that is not sent, None for one that is.

        With a URL that has no path every path is below it.
        """
        if not self._path or not leaves(message.untrusted.path.encode("latin-1")):
            return None
        return Outcome(
            seq=message.seq,
            method=message.method or "POST",
            path=message.untrusted.path,
            event_type=message.untrusted.event_type,
            status=None,
            error=LEADS_OUT,
            milliseconds=0.0,
            redacted=(),
            left_out=(),
        )

    def send(self, message: Forwardable, body: IO[bytes]) -> Outcome:
        """Send a message, its body from `body`, and return what became of it. Raises nothing of the network's."""
        refused = self.refused(message)
        if refused is not None:
            return refused
        headers = headers_to_send(message.untrusted.headers)
        target = self.request_target(message.untrusted)
        request = httpx.Request(
            message.method or "POST",
            self._url,
            # The length is given: a body that is read from a file would be sent in chunks, unlike the original.
            headers=[*headers.sent, (b"Content-Length", str(message.size).encode())],
            content=_pieces(body),
            extensions={
                "target": target,
                "timeout": self._http.timeout.as_dict(),
                "trace": self._deadline.trace,
            },
        )
        began = time.monotonic()
        with self._deadline:
            status, error = self._exchange(request)
        return Outcome(
            seq=message.seq,
            method=request.method,
            path=target.decode("latin-1"),
            event_type=message.untrusted.event_type,
            status=status,
            error=error,
            milliseconds=round((time.monotonic() - began) * 1000, 1),
            redacted=headers.redacted,
            left_out=headers.left_out,
        )

    def _exchange(self, request: httpx.Request) -> tuple[int | None, str | None]:
        try:
            response = self._http.send(request, stream=True)
            try:
                read = 0
                for piece in response.iter_raw():
                    read += len(piece)
                    if read > ANSWER_BYTES:
                        break
            finally:
                response.close()
        except httpx.TimeoutException:
            return None, TOO_LATE
        except httpx.ConnectError:
            return None, "nobody listens there"
        except (httpx.LocalProtocolError, h11.LocalProtocolError):  # httpcore lets some of h11's through
            return None, "this message cannot be sent as HTTP"
        except httpx.RemoteProtocolError:
            return None, TOO_LATE if self._deadline.has_passed else "it gave no complete HTTP answer"
        except httpx.HTTPError:
            return None, TOO_LATE if self._deadline.has_passed else "the connection broke"
        if (
            self._deadline.has_passed
        ):  # an answer without a length ends with its connection, ended by us or not
            return None, TOO_LATE
        return response.status_code, NOT_FOLLOWED if 300 <= response.status_code < 400 else None


def forward(api: Client, target: Target, message: Forwardable) -> Outcome:
    """Fetch a message's bytes and send it to the target. Raises as `Client.stream` for the fetching half."""
    refused = target.refused(message)
    if refused is not None:
        return refused
    with SpooledTemporaryFile(max_size=SPOOLED_BYTES) as body:
        if message.size:
            route = f"/v1/inboxes/{segment(message.inbox)}/messages/{message.seq}/raw"
            epoch: Params = [("epoch", message.epoch)]
            with api.stream(route, epoch) as pieces:
                for piece in pieces:
                    body.write(piece)
            body.seek(0)
        return target.send(message, body)


def _pieces(body: IO[bytes]) -> Iterator[bytes]:
    while piece := body.read(PIECE_BYTES):
        yield piece
