"""What the tests of the web page begin with: a server without sockets, and browsers that are only their cookie."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import trio

from tests.wire.client import Reply
from tests.wire.harness import Wire, wire

LIMIT_SECONDS = 600
"""Of virtual time, for everything here."""

ORIGIN = ("Origin", "http://test")
NAVIGATING = ("Accept", "text/html")
FORM = ("Content-Type", "application/x-www-form-urlencoded")

SURE = {"sure": "yes"}
"""What a form has when it was asked whether it is meant, and it was."""

_TOKEN = re.compile(rb'name="form_token" value="([^"]+)"')


class Browser:
    """A browser of somebody: the cookie that it was given, and the token of its forms."""

    def __init__(self, served: Wire) -> None:
        self.served = served
        self.cookie: str | None = None
        self.form_token = ""

    async def get(self, path: str, *headers: tuple[str, str]) -> Reply:
        """Follow a link."""
        return await self._ask("GET", path, [NAVIGATING, *headers])

    async def post(self, path: str, fields: Mapping[str, str], *headers: tuple[str, str]) -> Reply:
        """Send a form, with the token of the page that was looked at last."""
        return await self.post_all(path, [(name, value) for name, value in fields.items() if value], *headers)

    async def post_all(
        self, path: str, fields: Sequence[tuple[str, str]], *headers: tuple[str, str]
    ) -> Reply:
        """Send a form in which fields may be there several times."""
        shown = dict(fields).get("form_token", self.form_token)
        own = [("form_token", shown), *(pair for pair in fields if pair[0] != "form_token")]
        body = urlencode([pair for pair in own if pair[1]]).encode()
        return await self._ask("POST", path, [NAVIGATING, FORM, *(headers or (ORIGIN,))], body)

    async def sign_in(self, token: str, *headers: tuple[str, str]) -> Reply:
        """Sign in with a token's text, and look at the inboxes."""
        reply = await self.post("/ui/sign-in", {"token": token}, *headers)
        if reply.status == 303:
            await self.get("/ui/inboxes")
        return reply

    async def _ask(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes | None = None
    ) -> Reply:
        if self.cookie is not None:
            headers = [*headers, ("Cookie", f"theme=dark; postroom_session={self.cookie}")]
        async with self.served.connect() as client:
            reply = await client.request(method, path, headers, body)
        given = reply.header("set-cookie")
        if given is not None:
            self.cookie = given.partition(";")[0].partition("=")[2] or None
        shown = _TOKEN.search(reply.body)
        if shown is not None:
            self.form_token = shown[1].decode()
        return reply


class Site:
    """A server with the page, and tokens for it."""

    def __init__(self, served: Wire) -> None:
        self.served = served

    def browser(self) -> Browser:
        """Return a browser that nobody is signed in with."""
        return Browser(self.served)

    async def token(self, kind: Any = "admin", inboxes: list[str] | None = None, **how: Any) -> str:
        """Issue a token and return its text."""
        record, text = self.served.world.tokens.draft(kind, inboxes=inboxes, **how)
        await self.served.world.tokens.create(record)
        return text

    async def admin(self) -> Browser:
        """Return a browser that an administrator is signed in with."""
        browser = self.browser()
        assert (await browser.sign_in(await self.token())).status == 303
        return browser


@asynccontextmanager
async def site(tmp_path: Path, **options: Any) -> AsyncIterator[Site]:
    with trio.fail_after(LIMIT_SECONDS):
        async with wire(tmp_path, pages=True, reading=True, **options) as served:
            yield Site(served)
