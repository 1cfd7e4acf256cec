"""Headless Chromium, Debian's, driven over its own protocol; and what every screen is held to, whatever the test.

A `Visitor` is one browser profile with one tab. It notes every message of the console that is an error, every exception
of a script, and every request to another host; `check` fails on any of them.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from tests.node import MODULES

WAIT_MS = 10_000
"""For anything that the page does by itself. Nothing here takes a second; the rest is for a busy machine."""

WIDE = {"width": 1200, "height": 800}
PHONE = {"width": 390, "height": 844}

AXE = MODULES / "axe-core" / "axe.min.js"
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOUR_TAGS = ["cat.color"]
AXE_RUN = """
    async ([tags]) => {
        const options = {resultTypes: ["violations"], runOnly: {type: "tag", values: tags}};
        return (await axe.run(document, options)).violations;
    }
"""

FLAGS = [
    "--disable-dev-shm-usage",  # containers give little of it
    "--disable-background-networking",
    "--disable-gpu",  # where there is none, its process costs all the same
    *(["--no-sandbox"] if os.geteuid() == 0 else []),  # it refuses to sandbox for root
]


def chromium() -> str:
    """Return the program. `make` installs it where it is missing."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found is not None, "Chromium is missing: run the tests by `make test`, or install it"
    return found


@contextmanager
def browsing() -> Iterator[Browser]:
    """Run a browser."""
    # Its driver makes an event loop of asyncio's. In a process that has imported trio-asyncio, which other tests do,
    # that would be one of trio's unless a policy is set.
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
            try:
                yield browser
            finally:
                browser.close()
    finally:
        asyncio.set_event_loop_policy(None)


class Visitor:
    """Somebody with a browser. `url` is the server's."""

    def __init__(self, browser: Browser, url: str, **profile: Any) -> None:
        self.url = url
        options = {"viewport": WIDE, "base_url": url, "locale": "en-GB", "timezone_id": "UTC", **profile}
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(WAIT_MS)
        self.page: Page = self.context.new_page()
        self.troubles: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.troubles.append(f"exception: {error}"))
        self.page.on("request", self._asked)
        self.page.on("dialog", self._questioned)
        self.questions: list[str] = []

    def close(self) -> None:
        """Close the profile. Chromium may never answer to that while a page is on its way to another address."""
        for page in self.context.pages:
            page.goto("about:blank")
        self.context.close()

    def tidy(self) -> None:
        """Leave one empty tab in which nobody is signed in. What `check` looks at stays."""
        for page in self.context.pages[1:]:
            page.close()
        self.page.goto("about:blank")
        self.page.emulate_media(color_scheme="null")
        self.page.set_viewport_size(WIDE)
        self.context.clear_cookies()
        self.questions.clear()

    def bring(self, token: str) -> None:
        """Be signed in already: the form was sent without a browser, which takes a second less."""
        answer = httpx.post(
            f"{self.url}/ui/sign-in", data={"token": token}, headers={"Origin": self.url}, trust_env=False
        )
        assert answer.status_code == 303, answer.text
        value = answer.cookies["postroom_session"]
        self.context.add_cookies(
            [
                {
                    "name": "postroom_session",
                    "value": value,
                    "domain": "127.0.0.1",
                    "path": "/ui",
                    "httpOnly": True,
                    "sameSite": "Strict",
                }
            ]
        )

    def sign_in(self, token: str) -> None:
        """Sign in, and see the inboxes."""
        self.page.goto("/ui/sign-in")
        self.page.fill("#token", token)
        self.page.click("main button")
        self.page.wait_for_url("**/ui/inboxes")

    def open(self, path: str) -> Page:
        """Open a page that must be there."""
        answer = self.page.goto(path)
        assert answer is not None
        assert answer.status == 200, f"{path}: {answer.status}"
        return self.page

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return self.page.inner_text(selector)

    def says(self, selector: str, text: str) -> None:
        """Wait until an element says something."""
        self.page.wait_for_selector(selector, state="attached")
        self.page.wait_for_function(
            "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)",
            arg=[selector, text],
        )

    def check(self) -> None:
        """Fail when anything went wrong since the last time and nobody looked at it."""
        troubles, self.troubles = self.troubles, []
        assert troubles == []

    def accessible(self) -> None:
        """Fail when an accessibility checker finds anything on the page as it is, in light or in dark colours."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        for colours, tags in (("light", AXE_TAGS), ("dark", COLOUR_TAGS)):
            self.page.emulate_media(color_scheme=colours)
            assert self._violations(tags) == [], f"in {colours} colours, at {self.page.url}"

    def _violations(self, tags: list[str]) -> list[str]:
        return [
            f"{one['impact']}: {one['id']} ({one['help']}) at {node['target']}: {node.get('failureSummary', '')}"
            for one in self.page.evaluate(AXE_RUN, [tags])
            for node in one["nodes"]
        ]

    def shot(self, file: Path) -> None:
        """Take a picture of the page."""
        self.page.screenshot(path=file)

    def _heard(self, message: ConsoleMessage) -> None:
        # A refusal that a test asks for is a line in the console as well.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.troubles.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.troubles.append(f"a request to elsewhere: {request.url}")

    def _questioned(self, dialog: Any) -> None:
        self.questions.append(dialog.message)
        dialog.accept()
