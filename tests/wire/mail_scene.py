"""What the tests of agents' inboxes begin with: agents with tokens, and deliveries seeded through their actors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from actors.commands import AckEach, Deliver, DeliveryDraft, Draft
from actors.units import Reading
from storage.mail_records import AgentRecord
from storage.records import InboxRecord
from tests.actors.drafts import draft
from tests.pulls import Conversation
from tests.wire.client import Reply
from tests.wire.harness import Wire, wire
from tests.wire.scene import LIMIT_SECONDS
from web import claims
from web.verify.model import Judgement

OPEN, CLOSED = "open", "closed"
"""An inbox that the agents' tokens read, and one that they do not."""


class Agent:
    """One agent with a token, as a client of a server without sockets."""

    def __init__(self, served: Wire, record: AgentRecord, token_id: str, text: str) -> None:
        self.served = served
        self.record = record
        self.token_id = token_id
        self.headers = [("Authorization", f"Bearer {text}")]

    async def call(self, method: str, target: str, body: Any = None) -> Reply:
        """Make one call on a connection of its own."""
        data = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        async with self.served.connect() as client:
            return await client.request(method, target, self.headers, data)

    async def pull(self, **params: Any) -> Any:
        """Pull a page; return it."""
        reply = await self.call("POST", "/v1/inbox:pull", params)
        assert reply.status == 200, reply.body
        return reply.json

    async def rescope(self, *inboxes: str) -> None:
        """Give the token other inboxes."""
        await self.served.world.tokens.change(
            self.token_id, lambda token: msgspec.structs.replace(token, inboxes=inboxes)
        )


class MailScene:
    """A server with two inboxes and as many agents as a test makes."""

    def __init__(self, served: Wire, inboxes: dict[str, InboxRecord]) -> None:
        self.served = served
        self.world = served.world
        self.inboxes = inboxes

    async def agent(self, agent_id: str = "me", inboxes: tuple[str, ...] | None = (OPEN,)) -> Agent:
        """Make an agent with a token that reads some inboxes, None for all."""
        record = self.world.agents.get(agent_id) or await self.world.agent(agent_id)
        token, text = self.world.tokens.draft("agent", inboxes=inboxes, agent=agent_id)
        await self.world.tokens.create(token)
        return Agent(self.served, record, token.token_id, text)

    async def message(
        self, slug: str = OPEN, body: bytes = b'{"n": 1}', event_type: str = "push"
    ) -> DeliveryDraft:
        """Append a message to an inbox, as ingest does; return it as a delivery to whom it concerns."""
        inbox = self.inboxes[slug]
        appended = await self.served.service.append(inbox, webhook(body, event_type))
        mids = await self.world.store.read(Reading(lambda snapshot: snapshot.routable(0, 10_000)))
        [mid] = [row.mid for row in mids.rows if (row.inbox_id, row.seq) == (inbox.inbox_id, appended.seq)]
        return DeliveryDraft(mid, event_type, 2, len(body), inbox.inbox_id, None, record(0.5))

    async def deliver(self, agent: Agent, *drafts: DeliveryDraft) -> tuple[int | None, ...]:
        """Deliver messages to an agent, as the router does; return their seqs."""
        seqs: tuple[int | None, ...] = await self.world.registry.ask(agent.record.inbox_id, Deliver(drafts))
        return seqs

    async def seed(self, agent: Agent, conversation: Conversation) -> None:
        """Fill an agent's inbox as a conversation begins."""
        for row in conversation.rows:
            sent = await self.message(OPEN if row.shown else CLOSED)
            sent = msgspec.structs.replace(sent, delivery=record(row.score))
            assert await self.deliver(agent, sent) == (row.seq,)
        if conversation.acked:
            await self.world.registry.ask(agent.record.inbox_id, AckEach(conversation.acked))


def webhook(body: bytes, event_type: str) -> Draft:
    """Return a message as ingest makes it."""
    judgement = Judgement(None, None, event_type, None)
    return msgspec.structs.replace(
        draft(body, event_type=event_type),
        facts=claims.facts("POST", "192.0.2.7", len(body), judgement, "none"),
        said=claims.said(b"/hook", b"", [(b"host", b"test")], judgement),
        body_kind=claims.body_kind(body),
    )


def record(score: float, via: str = "beacon:all") -> bytes:
    """Return a delivery record as it is stored."""
    return msgspec.json.encode({"score": score, "via": via, "also_via": [], "matched_terms": []})


def by_seq(page: Any) -> Any:
    """Return a page with its items by their seqs."""
    return {**page, "items": [item["delivery_seq"] for item in page["items"]]}


@asynccontextmanager
async def mail_scene(
    tmp_path: Path, max_batch: int = 100, *, routing: bool = False, **options: Any
) -> AsyncIterator[MailScene]:
    """Run a server with the inboxes `OPEN` and `CLOSED`, and `commons`; `routing`: with the router."""
    with trio.fail_after(LIMIT_SECONDS):
        async with wire(tmp_path, reading=True, routing=routing, **options) as served:
            served.world.mail.max_batch = max_batch
            inboxes = {slug: await served.inbox(slug) for slug in (OPEN, CLOSED)}
            await served.world.inbox("commons", "topic")
            yield MailScene(served, inboxes)
