"""What the tests of routing need: messages of webhooks and agents, beacons, and what has come into whose inbox."""

from collections.abc import Callable
from typing import Any

import msgspec
import trio

from actors.beacons import BeaconBook, Placed
from actors.commands import Append, Draft
from actors.lookback import LookBack
from actors.options import ActorOptions
from actors.publishing import Publication, Published
from actors.rules.matching.beacons import Spec
from actors.units import Reading
from storage.clock import wall_clock_us
from storage.mail_records import AgentRecord
from storage.records import BodyKind, InboxSettings, NewInbox, Verdict
from tests.actors.drafts import draft
from tests.actors.world import World
from tests.virtual import pass_time

LIMIT = 10_000


class Got(msgspec.Struct, frozen=True):
    """One entry of a private inbox, as far as routing decides it. `mail`: what the message was about."""

    mail: str
    via: str
    also_via: tuple[str, ...] = ()


async def hook(world: World, inbox_id: int, text: str, event_type: str = "push") -> None:
    """Have a webhook come."""
    body = msgspec.json.encode({"text": text})
    received = msgspec.structs.replace(
        draft(body, event_type=event_type), said=b'{"content_type":"application/json"}'
    )
    await world.registry.ask(inbox_id, Append(received))


def note(sender: str, text: str, **fields: Any) -> Publication:
    """Return a note with a text, as the web layer stores it."""
    body = text.encode()
    return Publication(
        facts=msgspec.json.encode({"size": len(body), "sender": sender}),
        said=msgspec.json.encode({"subject": "", "tags": (), "kind": "note", "salience": 0.5}),
        body=body,
        kind="note",
        **fields,
    )


async def publish(world: World, sender: AgentRecord, text: str, **fields: Any) -> Published:
    """Publish a note."""
    return await world.publishing.publish(sender, note(sender.agent_id, text, **fields))


async def place(
    world: World, agent: AgentRecord, name: str = "b", about: str | None = None, **wishes: Any
) -> Placed:
    """Place a beacon with everything visible."""
    call = {key: wishes.pop(key) for key in ("ttl_seconds", "backfill") if key in wishes}
    return await world.beacons.place(agent, Spec(name, about, **wishes), visible=None, **call)


def book_with(world: World, look_back: LookBack) -> BeaconBook:
    """Return a book that looks back in its own way."""
    return BeaconBook(
        world.store, world.registry, world.agents, world.tokens, ActorOptions(), wall_clock_us, look_back
    )


async def reader(
    world: World, agent_id: str, inboxes: tuple[str, ...] | None = None, machine: str | None = None
) -> AgentRecord:
    """Make an agent with a token for these inboxes (None: all), on a machine that is made if need be."""
    if machine is not None and world.machines.get(machine) is None:
        await world.machines.create(machine, InboxSettings())
    token, _ = world.tokens.draft("agent", inboxes=inboxes, agent=agent_id)
    return await world.mail.create_agent(agent_id, InboxSettings(), machine=machine, token=token)


async def commons(world: World) -> int:
    """Make the topic inbox that messages without an address go to."""
    made = await world.service.create_inbox(NewInbox("commons", "topic", "", InboxSettings()))
    return made.record.inbox_id


async def got(world: World, agent: AgentRecord) -> list[Got]:
    """Return what has come into an agent's inbox, in order."""
    found = await world.store.read(
        Reading(
            lambda snapshot: snapshot.deliveries(
                agent.inbox_id, snapshot.seqs_after(agent.inbox_id, 0, LIMIT), 65_536
            )
        )
    )
    rows = []
    for row in found:
        record = msgspec.json.decode(row.delivery or b"{}")
        body = (row.body or b"").decode()
        text = msgspec.json.decode(row.body)["text"] if row.body_kind == BodyKind.JSON else body
        rows.append(Got(text, record.get("via", ""), tuple(record.get("also_via", ()))))
    return rows


async def mail(world: World, agent: AgentRecord) -> list[str]:
    """Return what the messages in an agent's inbox are about, in order."""
    return [one.mail for one in await got(world, agent)]


async def routed(world: World) -> None:
    """Wait until the router has come to the end of the log."""
    last = await world.store.read(Reading(lambda snapshot: snapshot.last_mid()))
    await until(lambda: world.router.routed_mid >= last)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other tasks bring about."""
    with trio.fail_after(5):
        while not condition():
            await pass_time(0.001)


def webhook(text: str = "", event_type: str = "push") -> Draft:
    """Return a webhook that its inbox has not numbered yet."""
    return msgspec.structs.replace(draft(text.encode(), event_type=event_type), verified=Verdict.VERIFIED)
