"""One server and one browser for the tests of the page; every test has a profile of its own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.driver import Visitor, browsing
from tests.live.api import Api
from tests.live.harness import Server


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the default settings: use inboxes of your own."""
    with Server(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture(scope="package")
def api(server: Server) -> Iterator[Api]:
    """The server as its administrator sees it."""
    with Api(server.url, server.token) as client:
        yield client


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser. For the package alone: its driver runs an event loop, which other tests would meet."""
    with browsing() as running:
        yield running


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Callable[..., Visitor]]:
    """Give visitors, each with a profile of its own; afterwards nothing may have gone wrong in any of their pages."""
    visitors: list[Visitor] = []

    def come(**profile: Any) -> Visitor:
        visitors.append(Visitor(browser, server.url, **profile))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.close()
    for visitor in visitors:
        visitor.check()


@pytest.fixture(scope="module")
def desk(browser: Browser, server: Server) -> Iterator[Visitor]:
    """A browser profile for all tests of a module: to make one takes longer than most of them."""
    visitor = Visitor(browser, server.url)
    yield visitor
    visitor.close()


@pytest.fixture
def admin(desk: Visitor, server: Server) -> Iterator[Visitor]:
    """An administrator who has just signed in, at a desk that others have left tidy; afterwards nothing may have gone
    wrong.
    """
    desk.bring(server.token)
    yield desk
    desk.tidy()
    desk.check()
