"""The official conformance suite against the endpoint: Postroom's own front, core and route on a real socket.

The suite cannot send a token, so a layer around the application adds one; nothing else is different from a server. The
store is the one in memory, because the suite asks about the protocol.
"""

import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from tests.actors.world import running
from tests.live.harness import serving
from tests.mcp.fixtures import fixture_tools
from tests.node import MODULES, NODE
from tests.wire.harness import front_of
from web.front import Front
from web.mcp.cancelling import Cancelling
from web.mcp.endpoint import Endpoint
from web.mcp.mailbox import Mailbox
from web.mcp.tools import ToolBox
from web.options import WebOptions
from web.slots import Slots

SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

SUITE_SECONDS = 60
"""For a whole requirement set; it takes about four seconds."""


class WithToken:
    """An ASGI layer that gives every request a token."""

    def __init__(self, app: Front, token: str) -> None:
        self._app = app
        self._header = (b"authorization", f"Bearer {token}".encode())

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], self._header]
        await self._app(scope, receive, send)


@asynccontextmanager
async def endpoint(tmp_path: Path, *, fixtures: bool) -> AsyncIterator[str]:
    """Serve the endpoint, with the fixture tools beside the real ones if asked for; yield its URL."""
    options = WebOptions()
    stopping = trio.Event()
    async with running() as world:
        await world.inbox()
        record, token = world.tokens.draft("agent", inboxes=["demo"])
        await world.tokens.create(record)
        slots = Slots(options.max_streams, options.max_streams_per_inbox)
        cancelling = Cancelling()
        tools = Mailbox(world.service, options, slots, cancelling).tools()
        box = ToolBox((*tools, *fixture_tools()) if fixtures else tools)
        front = front_of(world, tmp_path, options, stopping, mcp=Endpoint(box, options, cancelling))
        async with serving(WithToken(front, token), stopping) as served:
            yield f"{served.url}/mcp"


async def suite(tmp_path: Path, url: str, *arguments: str) -> tuple[int, str]:
    """Run the suite against an endpoint; return its exit code and what it said."""
    command: Sequence[str | Path] = (NODE, SUITE, "server", "--url", url, *arguments)
    with trio.fail_after(SUITE_SECONDS):
        done = await trio.run_process(
            command, cwd=tmp_path, capture_stdout=True, stderr=subprocess.STDOUT, check=False
        )
    return done.returncode, done.stdout.decode()
