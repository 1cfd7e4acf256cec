"""The HTTP edge on a real socket, over actors and the store in memory: what the tests of the work-arounds stand on."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from storage.records import InboxSettings, NewInbox
from tests.actors.world import World, running
from tests.live.harness import Serving, serving
from tests.wire.harness import front_of
from web.front import Front
from web.http import Answer, Request
from web.options import WebOptions
from web.routes import Route

MIB = 1024 * 1024


class Stack:
    """The edge over actors and the store in memory, on a socket."""

    def __init__(self, world: World, front: Front, served: Serving) -> None:
        self.world = world
        self.front = front
        self.served = served
        self.connect = served.connect

    async def admin(self) -> tuple[str, str]:
        record, text = self.world.tokens.draft("admin", inboxes=None)
        await self.world.tokens.create(record)
        return ("Authorization", f"Bearer {text}")


@asynccontextmanager
async def stack(
    tmp_path: Path, *, administration: Sequence[Route] = (), hot: Sequence[Route] = (), **options: Any
) -> AsyncIterator[Stack]:
    stopping = trio.Event()
    async with running() as world:
        await world.service.create_inbox(NewInbox("demo", "webhook", "", InboxSettings()))
        front = front_of(
            world, tmp_path, WebOptions(**options), stopping, hot=hot, administration=administration
        )
        async with serving(front, stopping, **options) as served:
            yield Stack(world, front, served)


async def echo(request: Request) -> Answer:
    return Answer(200, await request.read_body() or b"nothing")


ECHO = (Route("POST", "/v1/echo", echo), Route("GET", "/v1/echo", echo))


async def flood(scope: Any, receive: Any, send: Any) -> None:
    """Answer with far more than the buffers of a connection hold."""
    if scope["type"] != "http":
        raise NotImplementedError  # how an application says that it has no lifespan
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64):
        await send({"type": "http.response.body", "body": bytes(MIB), "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
