"""A server on a real socket that answers by a script: the first connection gets the first answer, and so on.

It keeps what it was asked. After the script it accepts nobody, so a client that comes back once more finds no server.
"""

import socket
import threading
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

import msgspec

WAIT_SECONDS = 10


class Asked(msgspec.Struct, frozen=True):
    """One request. `target` is as it stood in the request line; header names are as they came."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def params(self) -> dict[str, list[str]]:
        """The query's parameters."""
        return parse_qs(urlsplit(self.target).query)


def answer(body: bytes, kind: str = "application/json", status: str = "200 OK") -> bytes:
    """Return a whole answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def events(*texts: str) -> bytes:
    """Return an event stream that ends with its connection; each text is written as it is."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"
    return (head + "".join(texts)).encode()


def event(name: str, data: str, event_id: str = "") -> str:
    """Return one event of a stream."""
    lines = [f"event: {name}", *(f"data: {line}" for line in data.split("\n"))]
    if event_id:
        lines.append(f"id: {event_id}")
    return "\n".join(lines) + "\n\n"


class ScriptedServer:
    """Gives each connection the next answer and closes it. Listens on a free port, unless one is given."""

    def __init__(self, *answers: bytes, port: int = 0) -> None:
        self._answers = answers
        self._port = port
        self.asked: list[Asked] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._listener.settimeout(WAIT_SECONDS)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self._thread.join(WAIT_SECONDS)

    def _serve(self) -> None:
        for scripted in self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # the test has ended before its script
            with connection:
                connection.settimeout(WAIT_SECONDS)
                self.asked.append(_read(connection))
                connection.sendall(scripted)
        self._listener.close()


def _read(connection: socket.socket) -> Asked:
    with connection.makefile("rb") as incoming:
        method, target, _ = incoming.readline().decode("latin-1").split(" ", 2)
        headers = []
        while line := incoming.readline().decode("latin-1").rstrip("\r\n"):
            name, _, value = line.partition(":")
            headers.append((name, value.strip()))
        length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
        return Asked(method, target, headers, incoming.read(length))
