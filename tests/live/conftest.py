"""One server for all black-box tests that do not need one of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.api import SECRET, Api
from tests.live.harness import Server
from tests.live.rawhttp import Sender


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the default settings, shared by everybody: use inboxes of your own.

    But for one: the tests of refusals send more wrong tokens than any address may.
    """
    with Server(tmp_path_factory.mktemp("server") / "data", auth_failures_per_minute=0) as running:
        yield running


@pytest.fixture(scope="session")
def api(server: Server) -> Iterator[Api]:
    """The shared server as its administrator sees it."""
    with Api(server.url, server.token) as client:
        yield client


@pytest.fixture
def ten(api: Api) -> str:
    """An inbox of the shared server with the messages 1 to 10."""
    slug = api.inbox()
    for n in range(10):
        api.send(slug, b'{"n":%d}' % n)
    return slug


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Api]:
    """A server of one's own, as its administrator sees it: for what concerns the server as a whole."""
    with Server(tmp_path / "data") as running, Api(running.url, running.token) as client:
        yield client


@pytest.fixture(scope="session")
def sender(server: Server) -> Sender:
    """Senders of the shared server, who write their requests byte by byte."""
    return Sender(server.url)


@pytest.fixture(scope="session")
def mixed(api: Api) -> str:
    """An inbox with push 1, ping 2 (forged), push 3, issues 4, push 5 (forged) and ping 6."""
    slug = api.github_inbox()
    for event, secret in (
        ("push", SECRET),
        ("ping", "wrong"),
        ("push", SECRET),
        ("issues", SECRET),
        ("push", "wrong"),
        ("ping", SECRET),
    ):
        api.github(slug, event, secret=secret).raise_for_status()
    return slug
