"""A small synchronous client of the REST API, for the commands. It knows routes and errors, nothing of terminals.

Answers are returned as the server's own bytes where a caller may want to pass them on unchanged (numbers and
duplicate keys of a sender's JSON survive only so). Nothing is retried: a command says what happened and ends. But for
`drain`, which is for agents: it outlives a restart of the server (`postroom.draining`).

httpx is imported where it is used: what loads this module for its errors alone, as a server does, starts 0.1 s faster.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from postroom.deliveries import Page, page_of
from postroom.sse import Event, EventReader, NoEventStream

if TYPE_CHECKING:
    import httpx

    from postroom.draining import Budget, Drained, Handler

CONNECT_SECONDS = 5.0
"""To reach a server: on one's own machine or network an answer comes at once or not at all."""
READ_SECONDS = 70.0
"""Between two pieces of an answer: longer than the server's own limits (60 s), so that its sentence arrives first."""
SILENCE_SECONDS = 45.0
"""Between two pieces of an event stream: three of the server's heartbeats. A longer silence is a dead connection."""

USER_AGENT = "postroom"
SESSION_HEADER = "Postroom-Session"
"""By which the server knows the sessions of one agent apart (`postroom.session`)."""
JSON_TYPE = "application/json"
EVENTS_TYPE = "text/event-stream"

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


class ClientError(Exception):
    """A command cannot be carried out; the message is one sentence."""


class Unreachable(ClientError):
    """No Postroom server answered. A message that was being sent may or may not have been stored."""


class Broken(Unreachable):
    """A server took the call, and its connection ended before the answer was whole: it may be starting again."""


class Refused(ClientError):
    """The server answered with an error: `status`, `code` and perhaps the `field` it is about (surface, section 9).

    `details`: what the error says besides. `retry_after_seconds`: how long the server asks to wait, if it does.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        field: str | None,
        *,
        details: dict[str, Any] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        about = f" (field {field})" if field else ""
        super().__init__(f"{code}: {message}{about}")
        self.status = status
        self.code = code
        self.field = field
        self.details = details or {}
        self.retry_after_seconds = retry_after_seconds


Params = list[tuple[str, str | int | float | bool | None]]


class Client:
    """A connection to one server. Use it as a context manager."""

    def __init__(
        self,
        url: str,
        token: str | None,
        transport: "httpx.BaseTransport | None" = None,
        *,
        read_seconds: float = READ_SECONDS,
        session: str | None = None,
    ) -> None:
        """`url` is the server's base URL. `token` goes to the API only, never along with a message that is sent.

        `read_seconds`: the longest silence in an answer; no longer to connect, either. `session`: which of its agent's
        sessions this one is, in printable ASCII; None leaves it to the server to tell them apart.
        """
        import httpx

        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        if session:
            self._headers[SESSION_HEADER] = session
        agent = {"User-Agent": USER_AGENT}
        timeout = httpx.Timeout(read_seconds, connect=min(read_seconds, CONNECT_SECONDS))
        try:
            host = httpx.URL(self.url).host
        except httpx.InvalidURL as error:
            raise ClientError(f"{self.url!r} is not a URL: {error}.") from error
        # A proxy of the environment cannot reach this machine's own loopback addresses.
        trust_env = host not in LOOPBACK_HOSTS
        self._http = httpx.Client(timeout=timeout, headers=agent, transport=transport, trust_env=trust_env)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def call(self, method: str, path: str, *, body: object = None, params: Params | None = None) -> bytes:
        """Make one API call (`path` begins with `/v1` or `/agent`) and return the answer's bytes.

        `body`: what becomes JSON, or bytes that are. Raises `Unreachable`, `Refused`.
        """
        raw = body if isinstance(body, bytes) else None
        headers = self._headers | ({"Content-Type": JSON_TYPE} if raw is not None else {})
        with translated(self.url):
            response = self._http.request(
                method,
                self.url + path,
                headers=headers,
                params=params or None,
                content=raw,
                json=body if raw is None else None,
            )
        content = checked(response)
        if response.status_code >= 300 or (content and response.headers.get("content-type") != JSON_TYPE):
            raise self._no_postroom()
        return content

    def json(self, method: str, path: str, *, body: object = None, params: Params | None = None) -> Any:
        """Make one API call and return the decoded answer, None when it is empty."""
        answer = self.call(method, path, body=body, params=params)
        return json.loads(answer) if answer else None

    def readiness(self) -> dict[str, Any]:
        """Return what the server says of itself (`/readyz`), also when it is not ready. Raises `Unreachable`."""
        with translated(self.url):
            response = self._http.get(f"{self.url}/readyz")
        try:
            said = json.loads(response.content)
        except ValueError:
            said = None
        if response.status_code not in (200, 503) or not isinstance(said, dict) or "ready" not in said:
            raise self._no_postroom()
        return said

    def pull(
        self,
        *,
        since: int | None = None,
        ack: int | None = None,
        limit: int | None = None,
        wait_seconds: int | None = None,
    ) -> Page:
        """Read one page of the inbox of this token's agent, from its cursor or above `since`.

        `ack` is applied before. `wait_seconds` (to 60): sleep for so long while there is nothing. Raises as `call`.
        """
        given = {"since": since, "ack": ack, "limit": limit, "timeout_seconds": wait_seconds}
        body = {name: value for name, value in given.items() if value is not None}
        answer = self.call("POST", "/v1/inbox:pull" if wait_seconds is None else "/v1/inbox:wait", body=body)
        try:
            return page_of(answer)
        except ValueError as error:
            raise self._no_postroom() from error

    def drain(
        self, handler: "Handler", budget: "Budget | None" = None, *, wait_seconds: int = 0, **how: Any
    ) -> "Drained":
        """Hand over what is in the inbox of this token's agent and acknowledge it: `postroom.draining.drain`."""
        from postroom.draining import UNLIMITED, drain  # it stands on this module

        return drain(self, handler, budget or UNLIMITED, wait_seconds=wait_seconds, **how)

    def _no_postroom(self) -> Unreachable:
        return Unreachable(f"{self.url} answers, but not as a Postroom server does; is POSTROOM_URL right?")

    @contextmanager
    def stream(self, path: str, params: Params | None = None) -> Iterator[Iterator[bytes]]:
        """Open a streamed answer and give its pieces.

        Raises `Unreachable` (also when the body ends early), `Refused`.
        """
        headers = {**self._headers, "Accept-Encoding": "identity"}
        with (
            translated(self.url),
            self._http.stream("GET", self.url + path, headers=headers, params=params or None) as response,
        ):
            if response.status_code >= 400:
                response.read()
                checked(response)
            yield response.iter_raw()

    @contextmanager
    def events(
        self, path: str, params: Params | None = None
    ) -> Iterator[tuple[EventReader, Iterator[Event]]]:
        """Open an event stream and give its reader and its events, each as it arrives.

        The events end where the server ends the stream. Raises `Unreachable` (also for a connection that breaks or
        falls silent), `Refused`.
        """
        import httpx

        headers = {**self._headers, "Accept": EVENTS_TYPE, "Accept-Encoding": "identity"}
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, read=SILENCE_SECONDS)
        with (
            translated(self.url),
            self._http.stream(
                "GET", self.url + path, headers=headers, params=params or None, timeout=timeout
            ) as response,
        ):
            if response.status_code >= 400:
                response.read()
                checked(response)
            kind = response.headers.get("content-type", "").partition(";")[0].strip()
            if response.status_code != 200 or kind != EVENTS_TYPE:
                raise Unreachable(f"{self.url} answers, but not with a stream of events.")
            reader = EventReader()
            yield reader, self._events_of(reader, response)

    def _events_of(self, reader: EventReader, response: "httpx.Response") -> Iterator[Event]:
        # Translated here as well: only what reading raises is the server's doing, whatever happens between two events.
        with translated(self.url):
            try:
                yield from reader.events(response.iter_raw())
            except NoEventStream as error:
                raise Unreachable(f"{self.url} answers, but not with a stream of events.") from error

    def send(
        self, slug: str, path: str, headers: list[tuple[str, str]], body: bytes, method: str = "POST"
    ) -> "httpx.Response":
        """Send a message to an inbox as any sender would, without a token. Raises `Unreachable`, `Refused`.

        `path` (with its query) is what follows the slug; it is sent as it is, `..` and `//` included.
        """
        import httpx

        with translated(self.url):
            url = httpx.URL(f"{self.url}/in/{segment(slug)}")
            target = url.raw_path + path.encode()
            response = self._http.request(
                method,
                url,
                headers=[(name.encode(), value.encode()) for name, value in headers],
                content=body,
                extensions={"target": target},
            )
        checked(response)
        return response


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turn what httpx raises about a server into one sentence: `Unreachable` (`Broken` where it had been reached), or
    `ClientError` for a bad URL.
    """
    import h11
    import httpx

    try:
        yield
    except httpx.ConnectError as error:
        raise Unreachable(
            f"No server answers at {url}; is `postroom serve` running, and POSTROOM_URL right?"
        ) from error
    except httpx.TimeoutException as error:
        raise Unreachable(f"The server at {url} did not answer in time.") from error
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise ClientError(f"{url!r} is not an http:// or https:// URL.") from error
    except (httpx.LocalProtocolError, h11.LocalProtocolError) as error:  # httpcore lets some of h11's through
        raise ClientError(f"This cannot be sent as HTTP: {error}.") from error
    except httpx.TransportError as error:
        raise Broken(f"The connection to {url} broke before the answer was complete.") from error


def segment(text: str) -> str:
    """Return text as one segment of a path, so that a slug with a slash in it cannot become another route.

    Raises `ClientError` for what cannot stand there, and is no name of anything.
    """
    if text in ("", ".", ".."):
        raise ClientError(f'"{text}" is no name.')
    return quote(text, safe="")


def checked(response: "httpx.Response") -> bytes:
    """Return the content of an answer that has been read. Raises `Refused` for a status from 400 on."""
    if response.status_code < 400:
        return response.content
    code, message, field, details = "error", f"the server answered {response.status_code}.", None, None
    try:
        error = json.loads(response.content)["error"]
        code, message, field = str(error["code"]), str(error["message"]), error.get("field")
        details = error.get("details")
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # an inbox may have its own answer, and a proxy certainly has: the status says enough
    later = response.headers.get("retry-after", "")
    raise Refused(
        response.status_code,
        code,
        message,
        str(field) if field else None,
        details=details if isinstance(details, dict) else None,
        retry_after_seconds=int(later) if later.isascii() and later.isdecimal() else None,
    )
