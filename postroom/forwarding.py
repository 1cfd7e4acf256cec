"""A stored message sent once more, to another address: as its first sender sent it, as far as that can be.

Method, path, query, headers (their order and duplicates too) and body bytes are the original ones. Left out are headers
that belonged to the first connection (RFC 9110, section 7.6.1), those that describe the new one (`host`,
`content-length`), and those whose value was redacted before it was stored; the outcome names them. Redirects are not
followed and no environment proxy is used on loopback: what is tested is the address that was given.
"""

import time
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import IO, Self
from urllib.parse import urlsplit

import httpx
import msgspec

from postroom.client import CONNECT_SECONDS, LOOPBACK_HOSTS, Client, ClientError, Params, segment

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
    """What became of one message. `status` is None when there was no answer; then `error` is a clause that says why."""

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
        """Whether the address took it: any 2xx or 3xx."""
        return self.status is not None and self.status < 400


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
    unwanted = PER_CONNECTION | OF_THE_NEW_REQUEST | named
    sent: list[tuple[bytes, bytes]] = []
    redacted: dict[str, None] = {}
    left_out: dict[str, None] = {}
    for name, value in pairs:
        if value == REDACTED.encode():
            redacted[name.decode("latin-1")] = None
        elif name.lower() in unwanted:
            left_out[name.decode("latin-1")] = None
        else:
            sent.append((name, value))
    return Headers(sent, tuple(redacted), tuple(left_out))


class Target:
    """The address that messages are sent to. Use it as a context manager.

    Its path comes before each message's own, its query before theirs. Raises `ClientError` when it is none.
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

    def send(self, message: Forwardable, body: IO[bytes]) -> Outcome:
        """Send a message, its body from `body`, and return what became of it. Raises nothing of the network's."""
        headers = headers_to_send(message.untrusted.headers)
        target = self.request_target(message.untrusted)
        request = httpx.Request(
            message.method or "POST",
            self._url,
            # The length is given: a body that is read from a file would be sent in chunks, unlike the original.
            headers=[*headers.sent, (b"Content-Length", str(message.size).encode())],
            content=_pieces(body),
            extensions={"target": target, "timeout": self._http.timeout.as_dict()},
        )
        began = time.monotonic()
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
            return None, "no answer in time"
        except httpx.ConnectError:
            return None, "nobody listens there"
        except httpx.HTTPError as error:
            return None, str(error) or "the connection broke"
        return response.status_code, None


def forward(api: Client, target: Target, message: Forwardable) -> Outcome:
    """Fetch a message's bytes and send it to the target. Raises as `Client.stream` for the fetching half."""
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
