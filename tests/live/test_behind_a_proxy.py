"""A server behind a reverse proxy: whose address it tells, whom it holds off, and what strangers can make it believe.

The proxy is a real one on a socket of its own, as small as can be: it appends its peer's address to the header that
it was made for, hands on all others as they came, and asks the server from 127.0.0.1. Clients have other addresses of
the loopback (127.0.0.0/8), so each is told apart by the kernel, not by a test.
"""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.live.api import Api
from tests.live.harness import Server
from tests.live.rawhttp import RECEIVE_BYTES, WAIT_SECONDS, Headers, head

LIMIT = 3
"""Wrong tokens of one address in a minute: few, so that a test reaches it at once."""

NEAR, FAR, OTHER = "127.0.0.7", "127.0.0.8", "127.0.0.9"
"""Three clients."""

WRONG = (b"Authorization", b"Bearer prm_agent_wrong")


def exchange(port: int, sent: bytes, source: str) -> bytes:
    """Send bytes from an address of the loopback, and return all that comes back until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), WAIT_SECONDS, (source, 0)) as line:
        line.sendall(sent)
        received = bytearray()
        while data := line.recv(RECEIVE_BYTES):
            received += data
        return bytes(received)


class Proxy:
    """A reverse proxy that writes `X-Forwarded-For` (as nginx does) or `Forwarded`. Leaving it ends it."""

    def __init__(self, server_port: int, header: bytes) -> None:
        self._server_port = server_port
        self._header = header
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT_SECONDS)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                line, (peer, _) = self._listener.accept()
            except OSError:
                return
            with line, suppress(OSError):
                line.settimeout(WAIT_SECONDS)
                line.sendall(exchange(self._server_port, self._appended(line, peer), "127.0.0.1"))

    def _appended(self, line: socket.socket, peer: str) -> bytes:
        """Read a request and return it with the peer appended to the header's last line, or in a line of its own."""
        request = b""
        while b"\r\n\r\n" not in request:
            request += line.recv(RECEIVE_BYTES)
        start, _, body = request.partition(b"\r\n\r\n")
        lines = start.split(b"\r\n")
        named = b"for=%b" % peer.encode() if self._header == b"Forwarded" else peer.encode()
        mine = [n for n, text in enumerate(lines) if text.lower().startswith(self._header.lower() + b":")]
        if mine:
            lines[mine[-1]] += b", " + named
        else:
            lines.append(self._header + b": " + named)
        return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Scene:
    """A server that trusts 127.0.0.1, with one inbox, and a proxy of each kind in front of it."""

    def __init__(self, server: Server, api: Api, proxies: dict[str, Proxy]) -> None:
        self.server = server
        self.api = api
        self.slug = api.inbox()
        self._ports = {name: proxy.port for name, proxy in proxies.items()} | {"none": server.port}

    def send(self, through: str, source: str, *headers: tuple[bytes, bytes]) -> str | None:
        """Send a webhook and return the `source_ip` of the stored message."""
        answer = self._ask(through, source, b"POST", b"/in/" + self.slug.encode(), headers)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        page = self.api.messages(self.slug, limit=1, before=2**40)
        address: str | None = page["messages"][0]["source_ip"]
        return address

    def wrong(self, through: str, source: str, *headers: tuple[bytes, bytes]) -> int:
        """Send a wrong token and return the status."""
        answer = self._ask(through, source, b"GET", b"/v1/me", (WRONG, *headers))
        return int(answer.split(b" ", 2)[1])

    def _ask(self, through: str, source: str, method: bytes, target: bytes, headers: Headers) -> bytes:
        fields = [*headers, (b"Connection", b"close"), (b"Content-Length", b"0")]
        return exchange(self._ports[through], head(method, target, fields), source)


@contextmanager
def behind_proxies(folder: Path) -> Iterator[Scene]:
    """Start everything; the server's configuration is `postroom.toml` in the folder."""
    with ExitStack() as stack:
        config = folder / "postroom.toml"
        config.write_text("trusted_proxies = ['127.0.0.1/32']\n")
        server = Server(folder / "data", auth_failures_per_minute=LIMIT)
        stack.push(server)
        server.start("--config", str(config))
        proxies = {
            name: stack.enter_context(Proxy(server.port, name.encode()))
            for name in ("X-Forwarded-For", "Forwarded")
        }
        yield Scene(server, stack.enter_context(Api(server.url, server.token)), proxies)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with behind_proxies(tmp_path_factory.mktemp("proxied")) as scene:
        yield scene


THROUGH = ("X-Forwarded-For", "Forwarded")


@pytest.mark.parametrize("through", THROUGH)
def test_a_message_tells_the_address_of_its_sender_and_not_the_proxys(at: Scene, through: str) -> None:
    assert at.send(through, NEAR) == NEAR
    assert at.send(through, FAR) == FAR


@pytest.mark.parametrize(
    "spoofed",
    [
        b"203.0.113.9",
        b"for=203.0.113.9",
        b'for="203.0.113.9',
        b"127.0.0.1",
        b"203.0.113.9, 127.0.0.1, 127.0.0.1",
        b"for=127.0.0.1, for=127.0.0.1",
        b"unknown",
        b"",
        b",,,",
        b'"\xff',
        b"1.1.1.1," * 3_000,
    ],
    ids=lambda text: repr(text[:24]),
)
@pytest.mark.parametrize("through", THROUGH)
def test_what_a_sender_writes_into_the_header_itself_is_not_believed(
    at: Scene, through: str, spoofed: bytes
) -> None:
    assert at.send(through, NEAR, (through.encode(), spoofed)) == NEAR
    assert at.send(through, NEAR, (through.upper().encode(), spoofed), (through.encode(), spoofed)) == NEAR


def test_a_header_that_the_proxy_does_not_write_makes_nobody_another(at: Scene) -> None:
    """The proxy hands it on as it came, so all that can be believed is that the proxy asked."""
    assert at.send("X-Forwarded-For", NEAR, (b"Forwarded", b"for=203.0.113.9")) == "127.0.0.1"
    assert at.send("Forwarded", NEAR, (b"X-Forwarded-For", b"203.0.113.9")) == "127.0.0.1"
    assert at.send("X-Forwarded-For", NEAR, (b"X-Real-IP", b"203.0.113.9")) == NEAR


def test_who_is_not_the_proxy_is_not_believed_at_all(at: Scene) -> None:
    for header in ((b"X-Forwarded-For", b"203.0.113.9"), (b"Forwarded", b"for=203.0.113.9")):
        assert at.send("none", NEAR, header) == NEAR


def test_a_client_with_wrong_tokens_holds_off_nobody_else(at: Scene) -> None:
    through = "X-Forwarded-For"
    statuses = [at.wrong(through, NEAR, (b"X-Forwarded-For", b"203.0.113.%d" % n)) for n in range(LIMIT + 2)]
    assert statuses == [401] * LIMIT + [429] * 2
    assert at.wrong("Forwarded", NEAR) == 429, "the same client"
    assert at.wrong("none", NEAR) == 429, "the same client"
    assert at.wrong(through, FAR) == 401
    assert at.wrong("none", OTHER, (b"X-Forwarded-For", NEAR.encode())) == 401
    assert at.api.call("GET", "/me").status_code == 200
    at.server.wait_for_output(NEAR)
    assert sum(NEAR in line for line in at.server.output.splitlines()) == 1
    assert "prm_agent_wrong" not in at.server.output


def test_trust_ends_with_a_reload(tmp_path: Path) -> None:
    with behind_proxies(tmp_path) as at:
        assert at.send("X-Forwarded-For", NEAR) == NEAR
        (tmp_path / "postroom.toml").write_text("trusted_proxies = ['10.0.0.0/8', '::1']\n")
        os.kill(at.server.pid, signal.SIGHUP)
        at.server.wait_for_output("TRUSTED_PROXIES=10.0.0.0/8,::1/128")
        assert at.send("X-Forwarded-For", NEAR) == "127.0.0.1"


def test_addresses_in_answers_are_never_made_of_what_a_proxy_forwards(at: Scene) -> None:
    forwarded = {
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "https",
        "Forwarded": "for=1.1.1.1;host=evil.example;proto=https",
    }
    shown = at.api.ok("GET", f"/inboxes/{at.slug}", headers=forwarded)["ingest_url"]
    assert shown == f"{at.server.url}/in/{at.slug}"
    for nonsense in ("evil.example/x?", 'a"b', "user@evil.example", "a b"):
        shown = at.api.ok("GET", f"/inboxes/{at.slug}", headers={"Host": nonsense})["ingest_url"]
        assert shown == f"http://127.0.0.1:0/in/{at.slug}", "what it was told to listen on"
