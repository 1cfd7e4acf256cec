"""A server on a real socket that is not Postroom: it gives one connection the same bytes, whatever was asked."""

import socket
import threading
from types import TracebackType
from typing import Self

WAIT_SECONDS = 10


class OddServer:
    """Answers one request with `answer` and closes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WAIT_SECONDS)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join(WAIT_SECONDS)
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(WAIT_SECONDS)
            connection.recv(65_536)
            connection.sendall(self._answer)
