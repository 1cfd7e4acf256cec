"""Agents' mail for the actor tests: messages at home in one inbox, delivered to another, and pulls of it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.ask import InboxStopped
from actors.commands import Append, Deliver, DeliveryDraft, Draft, Pulled
from actors.mail import PullCall
from actors.units import Reading
from storage.mail_records import SELF, AgentRecord, ReaderRecord
from storage.records import InboxSettings, NewInbox
from tests.actors.drafts import draft
from tests.actors.world import World

MIB = 1_048_576
OPEN = "open"
CLOSED = "closed"
"""Slugs of two inboxes that messages come from: the reader of these tests may read the first one only."""

SCOPE = frozenset({OPEN})


def record(score: float, via: str = "beacon:b") -> bytes:
    """Return a delivery record."""
    return msgspec.json.encode({"score": score, "via": via, "also_via": [], "matched_terms": []})


def call(**fields: Any) -> PullCall:
    """Return a pull with these fields, of a reader with the scope of these tests."""
    values: dict[str, Any] = {
        "since": None,
        "ack": None,
        "limit": None,
        "visible": SCOPE,
        "body_limit": 16_384,
        "byte_budget": MIB,
    }
    return PullCall(**{**values, **fields})


async def origins(world: World) -> dict[str, int]:
    """Make the inboxes that messages come from, and return their ids by slug."""
    made = {}
    for slug in (OPEN, CLOSED):
        listing = await world.service.create_inbox(NewInbox(slug, "webhook", "", InboxSettings()))
        made[slug] = listing.record.inbox_id
    return made


async def publish(world: World, origin: int, one: Draft | None = None) -> int:
    """Append a message and return its mid."""
    before = await world.service.log.read(Reading(lambda snapshot: snapshot.last_mid()))
    await world.registry.ask(origin, Append(one or draft()))
    return before + 1


def delivered(mid: int, origin: int, *, score: float = 0.5, **fields: Any) -> DeliveryDraft:
    """Return a delivery of a message."""
    values: dict[str, Any] = {
        "event_type": "",
        "verified": 2,
        "size": 2,
        "expires_at": None,
        "delivery": record(score),
    }
    return DeliveryDraft(mid=mid, origin=origin, **{**values, **fields})


async def deliver(
    world: World,
    agent: AgentRecord,
    origin: int,
    *,
    score: float = 0.5,
    one: Draft | None = None,
    **fields: Any,
) -> int:
    """Publish a message and deliver it; return its seq."""
    mid = await publish(world, origin, one)
    (seq,) = await world.registry.ask(
        agent.inbox_id, Deliver((delivered(mid, origin, score=score, **fields),))
    )
    assert seq is not None
    return int(seq)


async def seed(world: World, agent: AgentRecord, scores: Sequence[tuple[float, bool]]) -> dict[str, int]:
    """Deliver one row for each score; those that are not shown come from the closed inbox."""
    made = await origins(world)
    for score, shown in scores:
        await deliver(world, agent, made[OPEN if shown else CLOSED], score=score)
    return made


async def reader(world: World, agent: AgentRecord) -> ReaderRecord:
    """Return how far an agent has come, once everything that was posted to its inbox is done."""
    await settled(world, agent)
    found = await world.service.log.read(Reading(lambda snapshot: snapshot.reader(agent.inbox_id, SELF)))
    return found or ReaderRecord()


async def settled(world: World, agent: AgentRecord) -> None:
    """Wait until the inbox's actor has done what was posted to it before."""
    try:
        await world.registry.ask(agent.inbox_id, Deliver(()))
    except InboxStopped:
        return


def seqs(pulled: Pulled) -> tuple[int, ...]:
    """Return the seqs of a page, in the order of presentation."""
    return tuple(row.seq for row in pulled.rows)
