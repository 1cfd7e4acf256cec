"""Who sends webhooks, and who disturbs: senders with delivery ids that try again, and clients that never finish."""

import hashlib
import hmac
from typing import NamedTuple

import msgspec
import trio

from tests.simulation.people import BROKEN, HOST, Person, ulid
from tests.simulation.ports import Refused
from tests.simulation.world import Machine
from tests.virtual import pass_time
from tests.wire.client import Reply, head

HOOKS, PLAIN = "hooks", "plain"
"""The inboxes: what comes to the first is signed and has delivery ids; the second takes anything."""

SECRET = b"correct-horse"
TYPES = ("push", "ping", "issue")
TRIES = 4
LARGE_BYTES = 70_000
"""Larger than what is kept in the message's own row, and small enough to stay in memory."""

NUISANCE_SECONDS = 45.0


class Hook(NamedTuple):
    """One webhook, as often as it is sent."""

    slug: str
    delivery: str
    kind: str
    body: bytes


class Sender(Person):
    """Sends webhooks; tries again when it does not know what became of one, and sends old ones again now and then."""

    def __init__(self, machine: Machine, name: str) -> None:
        super().__init__(machine, name)
        self._sent: list[Hook] = []
        self._count = 0

    async def act(self) -> None:
        """Send one."""
        if self._sent and self.chance.random() < 0.2:
            hook = self.chance.choice(self._sent)
        else:
            hook = self._made()
            self._sent.append(hook)
        for _ in range(TRIES):
            reply = await self._post(hook)
            if (reply is not None and reply.status < 500) or self.chance.random() < 0.3:
                return
            await pass_time(self.chance.expovariate(1.0))

    def _made(self) -> Hook:
        self._count += 1
        name = f"{self.name}-{self._count}"
        filling = "x" * (
            LARGE_BYTES if self.chance.random() < 0.04 else self.chance.choice((0, 0, 10, 4_000))
        )
        body = msgspec.json.encode({"name": name, "filling": filling})
        slug = self.chance.choice((HOOKS, HOOKS, PLAIN))
        return Hook(slug, name, self.chance.choice(TYPES), body)

    async def _post(self, hook: Hook) -> Reply | None:
        signature = hmac.digest(SECRET, hook.body, hashlib.sha256).hex()
        reply = await self.ask(
            "POST",
            f"/in/{hook.slug}",
            hook.body,
            ("X-GitHub-Event", hook.kind),
            ("X-GitHub-Delivery", hook.delivery),
            ("X-Hub-Signature-256", f"sha256={signature}"),
        )
        if reply is None:
            return None
        if reply.status == 200:
            one = ulid(reply.json["id"])
            self.machine.promises.taken(self.name, hook.slug, one, reply.json["seq"])
            if hook.slug == HOOKS:
                self.machine.promises.once(self.name, "", hook.delivery, one)
        elif not (reply.status in (503, 507) or (reply.status == 404 and self.machine.shape.deleting)):
            self.find(f"a webhook was refused: {reply.status} {reply.body.decode()}")
        return reply


class Nuisance(Person):
    """Begins and does not finish; does not read what it has asked for; shows tokens that there are not."""

    async def act(self) -> None:
        """Disturb."""
        how = self.chance.choice(
            (self._half_a_head, self._half_a_body, self._drip, self._stranger, self._deaf)
        )
        try:
            await how()
        except (*BROKEN, Refused):
            self.note("was cut off")

    async def _half_a_head(self) -> None:
        self.note("sends half a head")
        await self._send_and_stay(b"POST /in/plain HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half")

    async def _half_a_body(self) -> None:
        self.note("sends half a body")
        body = b"x" * self.chance.choice((1, 100, LARGE_BYTES))
        fields = [HOST, ("Content-Length", str(len(body) + 1))]
        await self._send_and_stay(head("POST", "/in/plain", fields) + body)

    async def _drip(self) -> None:
        self.note("lets a body drip")
        async with self.line() as client:
            if client is None:
                return
            await client.send(head("POST", "/in/plain", [HOST, ("Content-Length", "1000")]))
            for _ in range(self.chance.randint(1, 40)):
                await client.send(b"x")
                await pass_time(1.0)

    async def _stranger(self) -> None:
        reply = await self.ask(
            "GET", f"/v1/inboxes/{HOOKS}/messages?after=0", None, ("Authorization", "Bearer prm_agent_none")
        )
        if reply is not None and reply.status not in (401, 503):
            self.find(f"a stranger was answered {reply.status}")

    async def _deaf(self) -> None:
        self.note("does not read")
        async with self.machine.network.connect(narrow=True) as client:
            with trio.move_on_after(self.chance.uniform(1, NUISANCE_SECONDS)):
                for _ in range(20):  # answers enough to fill the connection
                    await client.send(head("GET", "/no-such-page", [HOST]))
                await trio.sleep_forever()

    async def _send_and_stay(self, data: bytes) -> None:
        async with self.line() as client:
            if client is not None:
                await client.send(data)
                with trio.move_on_after(self.chance.uniform(1, NUISANCE_SECONDS)):
                    await client.until_closed()
