"""What everybody in the simulated world has in common: a token, a connection now and then, and no endless patience.

A `Person` acts until the world is over. Whoever asks for something gets an answer in a bounded time, or hears that
there is none; a refusal has a reason that the machine knows of.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from tests.simulation.ports import Refused
from tests.simulation.schedule import chance_of
from tests.simulation.world import Machine
from tests.virtual import pass_time
from tests.wire.client import Client, Reply, head
from tests.wire.mcp_calls import request
from web.grammar import parse_ulid

Field = tuple[str, str]

PATIENCE_SECONDS = 60.0
"""No answer takes longer, a wait's own time aside: with the slowest disk, and its queue."""

HOST = ("Host", "127.0.0.1")
BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)

UNEXCUSED = (503, 507)
"""Refusals for which the server must have a reason: its disk, or that it starts or ends."""


class Person:
    """Somebody with a name, a token, and a source of chance of its own."""

    def __init__(self, machine: Machine, name: str, token: str = "") -> None:
        self.machine = machine
        self.name = name
        self.headers: list[Field] = [HOST]
        if token:
            self.headers.append(("Authorization", f"Bearer {token}"))
        self.chance = chance_of(machine.seed, name)
        self.hangs_up = machine.shape.hang_up
        self.asked_at = 0.0
        self._kept: Client | None = None

    # -- what it does -----------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Act until the world is over."""
        while not self.machine.over.is_set():
            await self.think()
            if not self.machine.over.is_set():
                await self.act()
        await self.let_go()

    async def act(self) -> None:
        """Do one thing."""

    async def think(self) -> None:
        """Let some time pass."""
        await pass_time(self.chance.expovariate(1 / self.machine.shape.think))

    async def finish(self) -> None:
        """When all is quiet: see what is left to see."""

    def note(self, text: str) -> None:
        """Write into the log of the run."""
        self.machine.ledger.note(f"{self.name}: {text}")

    def find(self, text: str) -> None:
        """Take note of something wrong."""
        self.machine.ledger.find(f"{self.name}: {text}")

    # -- asking -----------------------------------------------------------------------------------------------
    async def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        *headers: Field,
        seconds: float = 0.0,
        patiently: bool = False,
    ) -> Reply | None:
        """Ask, and return the answer; None when there is none, and nobody knows what became of it.

        `body`: bytes, or what is sent as JSON. `seconds`: how long the server may let it wait. `patiently`: without
        ever hanging up.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        fields = [*self.headers, *headers]
        if data is not None:
            fields.append(("Content-Length", str(len(data))))
        sent = head(method, target, fields) + (data or b"")
        self.asked_at = trio.current_time()
        leaves = not patiently and self.chance.random() < self.hangs_up
        self.note(f"{method} {target} {_short(data)}{' and hangs up' if leaves else ''}")
        if leaves:
            await self._hang_up(sent)
            return None
        reply = await self._answer(method, sent, seconds)
        if reply is None:
            self.note("no answer")
        else:
            self.note(f"{reply.status} {_short(reply.body)}")
            self._judge(reply)
        return reply

    async def tool(self, name: str, *, seconds: float = 0.0, **arguments: Any) -> tuple[str, Any] | None:
        """Call a tool; return `("", result)`, or the code of its refusal and the text; None without an answer."""
        body = request("tools/call", {"name": name, "arguments": arguments})
        reply = await self.ask("POST", "/mcp", body, ("Content-Type", "application/json"), seconds=seconds)
        if reply is None:
            return None
        if reply.status != 200:
            return reply.code, reply.json["error"]["message"]
        result = reply.json["result"]
        text = result["content"][0]["text"]
        if result["isError"]:
            return str(text.partition(": ")[0]), text
        return "", result["structuredContent"]

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Client | None]:
        """Give a connection: the one that was kept, or a new one; None when nobody listens. It is kept, or closed."""
        client, self._kept = self._kept, None
        try:
            if client is None:
                client = self.machine.network.connect(narrow=self.chance.random() < 0.1)
        except Refused:
            yield None
            return
        try:
            yield client
        except BROKEN:
            await client.aclose()
            raise
        if self._kept is not client:
            await client.aclose()

    async def let_go(self) -> None:
        """Close the connection that was kept."""
        if self._kept is not None:
            await self._kept.aclose()
            self._kept = None

    async def _answer(self, method: str, sent: bytes, seconds: float) -> Reply | None:
        reply: Reply | None = None
        try:
            async with self.line() as client:
                if client is None:
                    return None
                with trio.move_on_after(PATIENCE_SECONDS + seconds) as patience:
                    await client.send(sent)
                    reply = await client.reply(method)
                if patience.cancelled_caught:
                    self.find("waits for an answer in vain")
                elif reply is not None and reply.complete and reply.header("connection") != "close":
                    self._kept = client if self.chance.random() < 0.5 else None
        except BROKEN:
            return None
        return reply if reply is not None and reply.complete else None

    async def _hang_up(self, sent: bytes) -> None:
        """Send a part, or all, and leave after a while."""
        part = sent if self.chance.random() < 0.7 else sent[: self.chance.randrange(len(sent))]
        try:
            async with self.line() as client:
                if client is not None:
                    with trio.move_on_after(self.chance.expovariate(1 / 0.1)):
                        await client.send(part)
                        await trio.sleep_forever()
        except BROKEN:
            return

    def _judge(self, reply: Reply) -> None:
        """Look whether an answer may be given at all."""
        if reply.status >= 400:
            try:
                code = reply.code
            except (KeyError, TypeError, msgspec.DecodeError):
                self.find(f"{reply.status} says nothing: {reply.body[:200]!r}")
                return
            if reply.status in UNEXCUSED and not self.machine.excused:
                self.find(f"{reply.status} {code} for no reason: {reply.body.decode()}")
        if reply.status == 500:
            self.find(f"500: {reply.body.decode()}")


def ulid(text: str) -> bytes:
    """Return the 16 bytes of an id."""
    return parse_ulid(text) or b""


def _short(data: bytes | None) -> str:
    return "" if data is None else repr(data[:160])[1:]
