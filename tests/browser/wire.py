"""A wire between browser and server that can be cut: every connection through it ends, and none comes about."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

PIECE = 65_536


class Wire:
    """A TCP proxy on the loopback, in threads of its own. `url` is what the browser opens."""

    def __init__(self, port: int) -> None:
        """`port` is the server's."""
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._cut = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Only a shutdown wakes a thread that sleeps in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End everything, and let nothing through."""
        with self._lock:
            self._cut = True
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._cut = False

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._port))
                self._open |= {near, far}
            threading.Thread(target=self._both, args=(near, far), daemon=True).start()

    def _both(self, near: socket.socket, far: socket.socket) -> None:
        back = threading.Thread(target=self._carry, args=(far, near), daemon=True)
        back.start()
        self._carry(near, far)
        back.join()
        for one in (near, far):
            with self._lock:
                self._open.discard(one)
            one.close()

    def _carry(self, here: socket.socket, there: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(PIECE):
                there.sendall(data)
        with contextlib.suppress(OSError):
            there.shutdown(socket.SHUT_WR)
