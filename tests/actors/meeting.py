"""What the tests of the mesh need: letters between agents, reads of their mail, and what has become of it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.commands import AckedIds, Refusal
from actors.mesh import CheckedIn, CheckIn, Letter, MailCall, MailRead, SentTo
from actors.units import Reading
from storage.mail_records import SELF, AgentRecord, ReaderRecord, Receipt
from tests.actors.world import World, running
from tests.contract.conftest import opens

MIB = 1_048_576

Running = Callable[..., AbstractAsyncContextManager[World]]


def worlds(kind: str, directory: Path) -> Running:
    """Return how to run a world over one store; each time anew over the same data."""
    opened = opens(kind, directory)

    @asynccontextmanager
    async def run(**options: Any) -> AsyncIterator[World]:
        async with opened() as store, running(store, **options) as world:
            yield world

    return run


class Clock:
    """A wall clock that the test moves. `now` in µs."""

    def __init__(self, now: int = 1_700_000_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        """Move on."""
        self.now += round(seconds * 1_000_000)


def letter(text: str = "hello", **fields: Any) -> Letter:
    """Return a note with a text as its payload, as the web layer stores it."""
    body = msgspec.json.encode({"text": text})
    values: dict[str, Any] = {
        "facts": b'{"size":%d,"sender":null}' % len(body),
        "said": b'{"msg_type":"note","event_type":"note"}',
        "body": body,
        "msg_type": "note",
        "reachable": frozenset({"m"}),
        "request": msgspec.json.encode([text, fields.get("to_agent")]),
    }
    return Letter(**{**values, **fields})


async def send(world: World, sender: AgentRecord | None, text: str = "hello", **fields: Any) -> SentTo:
    """Send a note."""
    return await world.mesh.send(sender, letter(text, **fields))


async def refused(world: World, sender: AgentRecord | None, text: str = "hello", **fields: Any) -> Refusal:
    """Return why a note is refused."""
    with pytest.raises(Refusal) as refusal:
        await send(world, sender, text, **fields)
    return refusal.value


async def arrive(world: World, agent: AgentRecord, **fields: Any) -> CheckedIn:
    """Check an agent in."""
    return await world.mesh.check_in(agent, CheckIn(**fields))


async def read(world: World, agent: AgentRecord, *, peek: bool = False, **fields: Any) -> MailRead:
    """Read an agent's mail."""
    values: dict[str, Any] = {"limit": 50, "visible": frozenset(), "body_limit": 65_536, "byte_budget": MIB}
    return await world.mesh.read(agent, MailCall(peek, **{**values, **fields}))


async def plain(world: World, agent: AgentRecord, **fields: Any) -> list[str]:
    """Return what a plain read says."""
    return texts(await read(world, agent, **fields))


async def peek(world: World, agent: AgentRecord, **fields: Any) -> list[str]:
    """Return what a peek says."""
    return texts(await read(world, agent, peek=True, **fields))


def texts(found: MailRead) -> list[str]:
    """Return what messages say, in order."""
    return [msgspec.json.decode(row.body or b"{}").get("text", "") for row in found.rows]


async def ids(world: World, agent: AgentRecord) -> list[bytes]:
    """Return the ids of what an agent has not acknowledged, oldest first."""
    return [row.id for row in (await read(world, agent, peek=True)).rows]


async def ack(world: World, agent: AgentRecord, message_ids: Sequence[bytes]) -> AckedIds:
    """Acknowledge by id."""
    return await world.mesh.ack(agent, message_ids, frozenset())


async def unread(world: World, agent: AgentRecord) -> int:
    """Return how much an agent has not acknowledged."""
    return (await read(world, agent, peek=True)).unread


async def reader(world: World, agent: AgentRecord) -> ReaderRecord:
    """Return how far an agent has come."""
    found = await world.store.read(Reading(lambda snapshot: snapshot.reader(agent.inbox_id, SELF)))
    return found or ReaderRecord()


async def receipts(world: World, sender: AgentRecord) -> list[dict[str, Receipt]]:
    """Return what became of what an agent has sent, the newest first, by recipient."""
    return [dict(line.recipients) for line in await world.mesh.sent(sender, None, 100)]
