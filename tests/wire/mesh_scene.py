"""What the tests of agents on machines begin with: two machines, agents and tokens, and one way of asking for two.

Every operation is asked for over REST or over MCP, by the same name and arguments, and told in the same shape, so that
a test is a table and runs in both ways.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
import trio

from storage.memory import MemoryStore
from storage.protocols import Log
from storage.records import TokenKind
from tests.wire.client import Reply
from tests.wire.harness import Wire, wire
from tests.wire.mcp_calls import PLAIN, request

Way = Literal["rest", "mcp"]
WAYS: tuple[Way, ...] = ("rest", "mcp")

OPERATIONS = {
    "agent_checkin": ("POST", "/agent/checkin"),
    "agent_checkout": ("POST", "/agent/checkout"),
    "agents_list": ("GET", "/agents"),
    "agent_send": ("POST", "/agent/send"),
    "agent_inbox": ("GET", "/agent/inbox"),
    "agent_ack": ("POST", "/agent/ack"),
    "agent_sent": ("GET", "/agent/sent"),
}
"""By the tool's name: method and path."""

BOX, YARD = "box", "yard"
"""The machines: `ada`, `bob` and `cyd` are on the first, `dan` and `eve` on the other; `sol` is on none."""

ON = {"ada": BOX, "bob": BOX, "cyd": BOX, "dan": YARD, "eve": YARD, "sol": None}

LIMIT_SECONDS = 7_200
"""Of virtual time, for everything here: nothing may hang."""

BEGIN_US = 1_900_000_000_000_000


def now_us() -> int:
    """Return µs since the epoch by the virtual clock of the test."""
    return BEGIN_US + round(trio.current_time() * 1_000_000)


class Refused(Exception):
    """A call was refused. `code` is the same in both ways; `error` is what REST has of it."""

    def __init__(self, code: str, text: str, status: int | None = None, error: Any = None) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.status = status
        self.error = error


class Caller:
    """Somebody with a token."""

    def __init__(self, served: Wire, token_id: str, text: str) -> None:
        self.served = served
        self.token_id = token_id
        self.headers = [("Authorization", f"Bearer {text}")]

    async def call(self, method: str, target: str, body: Any = None, *more: tuple[str, str]) -> Reply:
        """Make one call over REST, on a connection of its own."""
        data = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        async with self.served.connect() as client:
            return await client.request(method, target, [*self.headers, *more], data)

    async def tool(self, name: str, /, *more: tuple[str, str], **arguments: Any) -> Any:
        """Call a tool; return its result."""
        body = request("tools/call", {"name": name, "arguments": arguments})
        async with self.served.connect() as client:
            reply = await client.request("POST", "/mcp", [*PLAIN, *self.headers, *more], body)
        assert reply.status == 200, reply.body
        return reply.json["result"]

    async def do(self, way: Way, operation: str, /, *more: tuple[str, str], **arguments: Any) -> Any:
        """Carry out an operation in one of the two ways and return its answer. Raises `Refused`."""
        if way == "rest":
            return await self._rest(operation, more, arguments)
        result = await self.tool(operation, *more, **arguments)
        [block] = result["content"]
        if result["isError"]:
            code, _, text = block["text"].partition(": ")
            raise Refused(code, text)
        assert msgspec.json.decode(block["text"]) == result["structuredContent"]
        return result["structuredContent"]

    async def _rest(self, operation: str, more: Any, arguments: dict[str, Any]) -> Any:
        method, path = OPERATIONS[operation]
        if method == "GET":
            reply = await self.call(method, f"{path}?{urlencode(_texts(arguments))}", None, *more)
        else:
            reply = await self.call(method, path, arguments, *more)
        if reply.status != 200:
            error = reply.json["error"]
            raise Refused(error["code"], error["message"], reply.status, error)
        return reply.json

    async def code(self, way: Way, operation: str, /, **arguments: Any) -> str:
        """Return the code of the refusal of an operation."""
        try:
            answer = await self.do(way, operation, **arguments)
        except Refused as refused:
            return refused.code
        raise AssertionError(f"it was not refused: {answer}")


class MeshScene:
    """A server with two machines and their agents. `caller` of an agent's id is that agent with a token of its own."""

    def __init__(self, served: Wire) -> None:
        self.served = served
        self.world = served.world
        self._tokens: dict[str, Caller] = {}

    async def token(self, kind: TokenKind, **binding: Any) -> Caller:
        """Issue a token: `agent`, `machine`, `machines`, `inboxes`."""
        inboxes = binding.pop("inboxes", None if kind == "admin" else ())
        token, text = self.world.tokens.draft(kind, inboxes=inboxes, **binding)
        await self.world.tokens.create(token)
        return Caller(self.served, token.token_id, text)

    async def agent(self, agent_id: str) -> Caller:
        """Return an agent, by its one token."""
        if agent_id not in self._tokens:
            self._tokens[agent_id] = await self.token("agent", agent=agent_id)
        return self._tokens[agent_id]

    async def machine(self, name: str = BOX) -> Caller:
        """Return a machine, by its one token."""
        if name not in self._tokens:
            self._tokens[name] = await self.token("machine", machine=name)
        return self._tokens[name]

    async def admin(self) -> Caller:
        """Return the administrator."""
        if "" not in self._tokens:
            self._tokens[""] = await self.token("admin")
        return self._tokens[""]

    async def here(self, way: Way, *agent_ids: str, **card: Any) -> list[Caller]:
        """Check agents in, each with its own token."""
        callers = [await self.agent(agent_id) for agent_id in agent_ids]
        for agent_id, caller in zip(agent_ids, callers, strict=True):
            await caller.do(way, "agent_checkin", agent_id=agent_id, **card)
        return callers

    async def send(self, way: Way, sender: str, to_agent: str, **members: Any) -> str:
        """Send a message from one agent to another, whether that is there or not; return its id."""
        arguments = {"msg_type": "note", "require_alive": False, **members}
        answer = await (await self.agent(sender)).do(way, "agent_send", to_agent=to_agent, **arguments)
        assert answer["delivered_to"] == [to_agent]
        return str(answer["id"])

    async def read(self, way: Way, agent_id: str, **how: Any) -> list[str]:
        """Read an agent's mail; return the ids."""
        answer = await (await self.agent(agent_id)).do(way, "agent_inbox", agent_id=agent_id, **how)
        return [message["id"] for message in answer["messages"]]

    async def ack(self, way: Way, agent_id: str, *ids: str) -> Any:
        """Acknowledge messages of an agent."""
        return await (await self.agent(agent_id)).do(way, "agent_ack", agent_id=agent_id, message_ids=ids)

    async def seen(self, agent_id: str) -> Any:
        """Return an agent's line of the roster, as an administrator sees it: that is nobody's sign of life."""
        roster = await (await self.admin()).do("rest", "agents_list", include_stale=True)
        [line] = [line for line in roster["agents"] if line["agent_id"] == agent_id]
        return line


def _texts(arguments: dict[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else value for name, value in arguments.items()
    }


@asynccontextmanager
async def mesh_scene(
    tmp_path: Path, store: Log | None = None, *, routing: bool = True, waking: bool = False, **options: Any
) -> AsyncIterator[MeshScene]:
    """Run a server with the machines, its agents, and `commons`, on the virtual clock of the test."""
    store = MemoryStore(clock=now_us) if store is None else store
    with trio.fail_after(LIMIT_SECONDS):
        async with wire(
            tmp_path, store=store, reading=True, routing=routing, waking=waking, now=now_us, **options
        ) as served:
            await served.world.inbox("commons", "topic")
            for machine in (BOX, YARD):
                await served.world.machine(machine)
            for agent_id, on in ON.items():
                await served.world.agent(agent_id, on)
            yield MeshScene(served)
