"""What a live list says of what it does not show: gaps, whatever came behind them; and of a stream that is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Route

from tests.browser.driver import Visitor
from tests.browser.wire import Wire
from tests.live.api import Api, new_slug
from tests.live.harness import Server

Visit = Callable[..., Visitor]

ROWS = 200
BEHIND = 205
"""More messages behind a gap than the list has rows."""

STREAM = "**/stream?*"


def _rows(visitor: Visitor) -> list[int]:
    return visitor.page.eval_on_selector_all(
        "#messages > li .seq", "all => all.map(one => Number(one.textContent))"
    )


def _gaps(visitor: Visitor) -> list[str]:
    return visitor.page.eval_on_selector_all("#messages > .gap", "all => all.map(one => one.textContent)")


def test_a_gap_is_shown_whatever_came_behind_it(browser: Browser, server: Server, api: Api) -> None:
    slug = api.inbox()
    with Wire(server.port) as between:
        visitor = Visitor(browser, between.url)
        visitor.bring(server.token)
        visitor.open(f"/ui/inboxes/{slug}")
        visitor.says("#state", "Live")
        visitor.page.keyboard.press("p")
        between.cut()
        visitor.says("#state", "connecting again")
        for _ in range(5):
            api.send(slug)
        api.ok("POST", f"/inboxes/{slug}:purge")
        for _ in range(BEHIND):
            api.send(slug)
        between.mend()
        visitor.says("#fresh", f"Show {BEHIND} new")
        visitor.page.click("#fresh")
        assert _rows(visitor) == list(range(BEHIND + 5, BEHIND + 7 - ROWS, -1))
        left, gone = _gaps(visitor)
        assert left.startswith(f"{BEHIND - ROWS + 2} messages are left out here")
        assert gone == "Messages 1 to 5 are gone: the inbox keeps no more."
        assert "and a gap" in visitor.text("#announcer")
        visitor.accessible()
        visitor.close()
        visitor.check()


def test_a_list_since_a_time_takes_what_is_received_since_then_alone(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    admin.open(f"/ui/inboxes/{slug}?since=2999-01-01T00:00:00Z")
    admin.says("#state", "Live")
    api.send(slug)
    admin.says("#latest", "1")
    assert _rows(admin) == []
    assert admin.page.is_visible("#nothing")
    admin.open(f"/ui/inboxes/{slug}?since=2020-01-01T00:00:00%2B14:00")
    admin.says("#state", "Live")
    api.send(slug)
    admin.says("#latest", "2")
    assert _rows(admin) == [2, 1]


@pytest.mark.parametrize(
    ("status", "said"),
    [(503, "trying again"), (409, "begun a new life"), (404, "not here any more"), (401, "signed out")],
)
def test_why_a_stream_is_refused_is_asked_for_as_nobody_who_uses_the_page(
    admin: Visitor, api: Api, status: int, said: str
) -> None:
    slug = api.inbox(slug=f"stream-{new_slug()}")
    asked: list[Any] = []

    def refuse(route: Route) -> None:
        asked.append(route.request)
        route.fulfill(status=status)

    admin.page.route(STREAM, refuse)
    try:
        admin.open(f"/ui/inboxes/{slug}")
        admin.says("#state", said)
        why = [one for one in asked if one.method == "HEAD"]
        assert [one.headers["postroom-renewal"] for one in why] == ["1"]
    finally:
        admin.page.unroute(STREAM)
    if status == 503:
        admin.says("#state", "Live")
