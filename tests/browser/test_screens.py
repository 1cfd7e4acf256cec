"""What every screen is held to: an accessibility checker finds nothing, in light and in dark; a phone shows it without
scrolling sideways; keys reach what can be done.
"""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.driver import PHONE, Visitor
from tests.browser.scene import SCREENS, furnish
from tests.live.api import Api
from tests.live.harness import Server

Visit = Callable[..., Visitor]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with something on every screen."""
    with Server(tmp_path_factory.mktemp("furnished") / "data") as running:
        with Api(running.url, running.token) as api:
            furnish(api)
        yield running


@pytest.fixture(scope="module")
def light(browser: Browser, furnished: Server) -> Iterator[Visitor]:
    """Somebody at a wide screen with light colours."""
    visitor = Visitor(browser, furnished.url, color_scheme="light")
    visitor.bring(furnished.token)
    yield visitor
    visitor.close()


@pytest.fixture(scope="module")
def phone(browser: Browser, furnished: Server) -> Iterator[Visitor]:
    """Somebody with a phone, and dark colours."""
    visitor = Visitor(browser, furnished.url, color_scheme="dark", viewport=PHONE, has_touch=True)
    visitor.bring(furnished.token)
    yield visitor
    visitor.close()


@pytest.mark.parametrize("name", SCREENS)
def test_a_wide_screen_in_light_colours(light: Visitor, name: str) -> None:
    light.open(SCREENS[name])
    assert light.violations() == []
    light.check()


@pytest.mark.parametrize("name", SCREENS)
def test_a_phone_in_dark_colours(phone: Visitor, name: str) -> None:
    phone.open(SCREENS[name])
    assert phone.violations() == []
    assert phone.page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
    phone.check()


@pytest.mark.parametrize("path", ["/ui/sign-in", "/ui/absent"])
def test_screens_for_strangers(visit: Visit, path: str) -> None:
    visitor = visit()
    visitor.page.goto(path)
    assert visitor.violations() == []


def test_every_control_is_reached_by_tab_and_shows_it(light: Visitor) -> None:
    page = light.open("/ui/inboxes/deploys")
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
