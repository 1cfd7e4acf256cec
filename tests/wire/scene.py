"""What the tests of waits and streams begin with: a server without sockets, one inbox, and a token that reads it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from storage.clock import wall_clock_us
from storage.records import InboxRecord, TokenRecord
from tests.actors.drafts import draft
from tests.wire.client import Reply, head
from tests.wire.harness import Wire, wire

LIMIT_SECONDS = 600
"""Of virtual time, for everything here: nothing may hang."""


class Scene:
    """A server with one inbox and one token that reads it."""

    token: TokenRecord
    headers: list[tuple[str, str]]

    def __init__(self, served: Wire, inbox: InboxRecord) -> None:
        self.served = served
        self.inbox = inbox

    async def send(self, event_type: str = "", inbox: InboxRecord | None = None, body: bytes = b"{}") -> int:
        """Append a message, as ingest does."""
        appended = await self.served.service.append(inbox or self.inbox, draft(body, event_type=event_type))
        return appended.seq

    async def epoch(self, slug: str = "demo") -> str:
        """Return the epoch of an inbox."""
        listing = await self.served.service.show(slug)
        assert listing is not None
        return listing.head.epoch

    def target(self, **params: Any) -> str:
        """Return the request target of a wait."""
        query = "&".join(f"{name}={value}" for name, value in {"after": 0, **params}.items())
        return f"/v1/inboxes/demo/wait?{query}"

    def get(self, target: str, *headers: tuple[str, str]) -> bytes:
        """Return the bytes of a request."""
        return head("GET", target, [*self.headers, *headers])

    async def rescope(self, inboxes: tuple[str, ...] | None) -> None:
        """Give the token other inboxes, None for all."""
        await self.served.world.tokens.change(
            self.token.token_id, lambda token: msgspec.structs.replace(token, inboxes=inboxes)
        )

    async def new_token(self, inboxes: list[str] | None, *, lifetime_seconds: float | None = None) -> None:
        """Make a token and call with it from here on."""
        now_us = wall_clock_us()
        expires_at = None if lifetime_seconds is None else now_us + int(lifetime_seconds * 1_000_000)
        tokens = self.served.world.tokens
        self.token, text = tokens.draft("agent", inboxes=inboxes, expires_at=expires_at)
        await tokens.create(self.token)
        self.headers = [("Authorization", f"Bearer {text}")]

    async def wait(self, **params: Any) -> Reply:
        """Wait on a connection of its own."""
        async with self.served.connect() as client:
            return await client.request("GET", self.target(**params), self.headers)


@asynccontextmanager
async def scene(tmp_path: Path, **options: Any) -> AsyncIterator[Scene]:
    with trio.fail_after(LIMIT_SECONDS):
        async with wire(tmp_path, reading=True, **options) as served:
            at = Scene(served, await served.inbox("demo"))
            await at.new_token(["demo"])
            yield at
