"""No descriptor for another connection: what the log says, and how the server comes back by itself."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import psutil

from tests.live.api import Api
from tests.live.harness import Server

SPARE = 4
"""Descriptors that are left to the server."""
CROWD = 12
"""Connections that nobody uses, more than that."""


def test_a_shortage_of_descriptors_is_told_once_and_passes(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        api.send("demo")  # what is opened on first use is open
        limit = psutil.Process(server.pid).num_fds() + SPARE
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with ExitStack() as held:
            for _ in range(CROWD):
                held.enter_context(socket.create_connection((server.host, server.port)))
            server.wait_for_output("no room for another connection")
            # It lets go of connections on which no request has come, for as long as newcomers wait.
            with Api(server.url, None) as newcomer:
                assert newcomer.post("demo").status_code == 200
        assert server.stop() == 0
        assert server.output.count("no room for another connection") == 1
        assert "Traceback" not in server.output
