"""One server for these tests, with every door open: gRPC, and a port for metrics."""

import re
from collections.abc import Iterator

import pytest

from tests.live.api import Api
from tests.live.harness import Server
from tests.live.rawhttp import Sender


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose limit of wrong tokens is off: these tests send many."""
    data_dir = tmp_path_factory.mktemp("security") / "data"
    loopback = "127.0.0.1:0"
    with Server(
        data_dir,
        auth_failures_per_minute=0,
        grpc_bind=loopback,
        metrics_bind=loopback,
        log_level="debug",
        wake_allowed_cidrs="192.0.2.0/24",
    ) as running:
        yield running


@pytest.fixture(scope="session")
def api(server: Server) -> Iterator[Api]:
    """The server as its administrator sees it."""
    with Api(server.url, server.token) as client:
        yield client


@pytest.fixture(scope="session")
def sender(server: Server) -> Sender:
    """Senders of the server, who write their requests byte by byte."""
    return Sender(server.url)


@pytest.fixture(scope="session")
def grpc_port(server: Server) -> int:
    """The port of gRPC, as the log names it."""
    server.wait_for_output("gRPC ready")
    found = re.search(r"gRPC ready.*127\.0\.0\.1:(\d+)", server.output)
    assert found is not None
    return int(found[1])
