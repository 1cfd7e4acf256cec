"""A client that listens to a stream in the background, for tests of streams on virtual time."""

import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from tests.wire.client import Client, Reply
from tests.wire.events import Event, EventParser
from tests.wire.scene import Scene

OPENING = "retry: 2000\n"


class Listening:
    """A client that listens: everything it has received, as bytes and as events."""

    def __init__(self, client: Client, reply: Reply) -> None:
        self.client = client
        self.reply = reply
        self.parser = EventParser()
        self.received = b""
        self.events: list[Event] = []
        self.ended = False

    async def run(self) -> None:
        while data := await self.client.data():
            self.received += data
            self.events += self.parser.feed(data)
        self.ended = True

    @property
    def text(self) -> str:
        return self.received.decode()

    @property
    def seqs(self) -> list[int]:
        return [event.json["seq"] for event in self.events if event.name == "message"]

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]


@asynccontextmanager
async def listening(
    at: Scene, target: str = "/v1/inboxes/demo/stream", last_id: str | None = None
) -> AsyncIterator[Listening]:
    """Open a stream and listen to it in the background until the end of the block."""
    headers = at.headers if last_id is None else [*at.headers, ("Last-Event-ID", last_id)]
    async with at.served.connect() as client:
        reply = await client.start(target, headers)
        assert reply.status == 200
        listener = Listening(client, reply)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.run)
            await settled()
            yield listener
            await settled()
            nursery.cancel_scope.cancel()


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


def vector_of(event_id: str) -> Any:
    return json.loads(urlsafe_b64decode(event_id + "=" * (-len(event_id) % 4)))


def farewell(stream: Listening) -> str:
    assert stream.ended
    assert stream.names[-1] == "bye"
    reason: str = stream.events[-1].json["reason"]
    return reason
