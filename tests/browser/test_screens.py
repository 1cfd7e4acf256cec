"""What every screen is held to: an accessibility checker finds nothing, in light and in dark; a phone shows it without
scrolling sideways; keys reach what can be done.
"""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.driver import PHONE, WIDE, Visitor
from tests.browser.scene import SCREENS, company, furnish
from tests.live.api import Api, new_slug
from tests.live.harness import Server

Visit = Callable[..., Visitor]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with something on every screen, and with somebody who waits."""
    with (
        Server(tmp_path_factory.mktemp("furnished") / "data") as running,
        Api(running.url, running.token) as api,
    ):
        furnish(api)
        with company(api):
            yield running


@pytest.fixture(scope="module")
def resident(browser: Browser, furnished: Server) -> Iterator[Visitor]:
    """Its administrator, who stays for all of these tests."""
    visitor = Visitor(browser, furnished.url)
    visitor.bring(furnished.token)
    yield visitor
    visitor.close()


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_accessible_on_a_wide_display_and_on_a_phone(resident: Visitor, name: str) -> None:
    page = resident.page
    page.set_viewport_size(WIDE)
    resident.open(SCREENS[name])
    resident.accessible()
    page.set_viewport_size(PHONE)
    resident.accessible()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
    resident.check()


@pytest.mark.parametrize("path", ["/ui/sign-in", "/ui/absent"])
def test_screens_for_strangers_are_accessible(visit: Visit, path: str) -> None:
    visitor = visit()
    visitor.page.goto(path)
    visitor.accessible()


def test_what_is_not_there_is_told_on_an_accessible_screen(resident: Visitor) -> None:
    resident.page.goto("/ui/inboxes/absent")
    resident.accessible()


def test_screens_of_a_token_that_is_no_admin_s_are_accessible(visit: Visit, api: Api) -> None:
    agent_id = new_slug()[:40]
    api.ok("POST", "/agents", {"agent_id": agent_id}, status=201)
    visitor = visit()
    visitor.bring(api.agent([], agent=agent_id))
    for path in (
        "/ui/inboxes",
        f"/ui/inboxes/agent.{agent_id}",
        "/ui/agents",
        f"/ui/agents/{agent_id}",
        "/ui/token",
    ):
        visitor.open(path)
        visitor.accessible()


def test_every_control_is_reached_by_tab_and_shows_it(resident: Visitor) -> None:
    resident.page.set_viewport_size(WIDE)
    page = resident.open("/ui/inboxes/deploys")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => {
                const one = document.activeElement;
                const style = getComputedStyle(one);
                const words = one === document.body ? "" : (one.id || one.textContent || one.ariaLabel).trim();
                return {words, outline: parseFloat(style.outlineWidth), line: style.outlineStyle};
            }"""
        )
        if not at["words"] or at["words"] in seen[:1]:
            break  # once around
        seen.append(at["words"])
        assert at["outline"] >= 2, at
        assert at["line"] != "none", at
    for wanted in ("Skip to the content", "Inboxes", "f-q", "f-types", "f-verified", "Search", "hold"):
        assert wanted in seen


def test_colours_follow_the_system_and_the_switch_and_are_kept(visit: Visit, furnished: Server) -> None:
    visitor = visit(color_scheme="dark")
    page = visitor.page
    page.goto("/ui/sign-in")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.select_option("[data-theme-switch]", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    assert page.input_value("[data-theme-switch]") == "dark"
    page.locator("main h1").click()
    page.keyboard.press("d")
    assert page.input_value("[data-theme-switch]") == "auto"


def test_without_scripts_messages_are_read_all_the_same(visit: Visit, furnished: Server, api: Api) -> None:
    slug = api.inbox()
    api.send(slug, b'{"n": 1}')
    visitor = visit(java_script_enabled=False)
    visitor.bring(str(api.token))
    visitor.open(f"/ui/inboxes/{slug}/messages/1")
    assert '{"n": 1}' in visitor.text("#body")
    assert "Copy" not in visitor.text("main")
