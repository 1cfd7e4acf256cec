"""A server whose listening sockets were opened by somebody else, as systemd does it: descriptors from 3 on."""

import shlex
import socket
from pathlib import Path

from tests.postroom.serverproc import START_SECONDS, ServerProcess

FIRST = 3


class ActivatedServer(ServerProcess):
    """A server to which sockets are handed over. `names`: what the supervisor calls them, with colons between; `pid`:
    the process that they are for, its own unless said.
    """

    def __init__(
        self, data_dir: Path, *sockets: socket.socket, names: str = "", pid: str = "$$", **settings: str
    ) -> None:
        super().__init__(data_dir, "--bind", "127.0.0.1:0", **settings)
        ours = [sock.fileno() for sock in sockets]
        assert all(number >= FIRST + len(ours) for number in ours), "the shell would mix them up"
        moves = " ".join(f"{FIRST + n}<&{number} {number}<&-" for n, number in enumerate(ours))
        told = f"LISTEN_PID={pid} LISTEN_FDS={len(ours)} LISTEN_FDNAMES={names}"
        self._command = ["bash", "-c", f"exec env {told} {shlex.join(self._command)} {moves}"]
        self._inherited = tuple(ours)

    def tell(self, address: str) -> None:
        """Give the server a supervisor that wants to be told."""
        self._environment["NOTIFY_SOCKET"] = address

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def until(self, text: str) -> None:
        """Return when it has logged this since it was ready."""
        while True:
            line = self._lines.get(timeout=START_SECONDS)
            assert line is not None, f"it has ended without {text!r}"
            if text in line:
                return

    def rest(self) -> list[str]:
        """Return what it has logged since, once it has ended."""
        return list(iter(self._lines.get, None))
