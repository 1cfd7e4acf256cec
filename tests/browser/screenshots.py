"""`make screenshots`: pictures of every screen, written to `docs/img/`, from a server that is made for it."""

import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.driver import PHONE, Visitor, browsing
from tests.browser.scene import company, furnish
from tests.live.api import Api
from tests.live.harness import Server

FOLDER = Path(__file__).parents[2] / "docs" / "img"

PUBLIC_URL = "https://inbox.example.net"
"""What the pictures show as the server's address, whatever port it has while they are taken."""

IN_DARK = ("inbox", "message")
ON_A_PHONE = ("inboxes", "message")


def take(browser: Browser, server: Server, screens: dict[str, str], suffix: str, **profile: object) -> None:
    """Take pictures of some screens."""
    visitor = Visitor(browser, server.url, **profile)
    visitor.bring(server.token)
    for name, path in screens.items():
        page = visitor.open(path)
        page.wait_for_load_state()
        if name == "inbox":
            visitor.says("#state", "Live")
        if page.query_selector("#json"):
            page.wait_for_selector("#json > details")
        if name == "agent":
            page.fill("#f-about", "a memory leak in the worker")
            visitor.says("#backtest-state", "messages")
        visitor.shot(FOLDER / f"{name}{suffix}.png")
        print(f"docs/img/{name}{suffix}.png")
    visitor.close()
    visitor.check()


def main() -> None:
    """Take all of them."""
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(Path(folder) / "data", public_url=PUBLIC_URL) as server,
        Api(server.url, server.token) as api,
        browsing() as browser,
    ):
        screens = dict(furnish(api))
        stranger = Visitor(browser, server.url)
        stranger.open("/ui/sign-in")
        stranger.shot(FOLDER / "sign-in.png")
        stranger.close()
        with company(api):
            take(browser, server, screens, "")
        take(browser, server, {name: screens[name] for name in IN_DARK}, "-dark", color_scheme="dark")
        take(browser, server, {name: screens[name] for name in ON_A_PHONE}, "-phone", viewport=PHONE)


if __name__ == "__main__":
    main()
