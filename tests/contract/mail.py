"""Makes what the tests of agents' mail need, as `builders` does for inboxes: agents, deliveries, readers, beacons."""

from collections.abc import Sequence
from typing import Any

from storage.mail_records import AgentRecord, BeaconRecord, NewDelivery
from storage.protocols import Log, Tx
from storage.records import Head, NewEntry, Verdict
from tests.contract.builders import START_US, Do, See, entry, head_after, new_inbox

DELIVERY = b'{"score":0.5,"via":"beacon:b","also_via":[],"matched_terms":[]}'


def record(score: float) -> bytes:
    """Return a delivery record with that score."""
    return b'{"score":%g,"via":"direct","also_via":[],"matched_terms":[]}' % score


def make_agent(tx: Tx, agent_id: str = "a", machine: str | None = None) -> AgentRecord:
    """Create an agent with its private inbox, as one unit does."""
    inbox = tx.create_inbox(new_inbox(f"agent.{agent_id}", "agent"))
    return tx.create_agent(agent_id, inbox.inbox_id, machine)


async def agent(log: Log, agent_id: str = "a", machine: str | None = None) -> AgentRecord:
    return await log.commit(Do(lambda tx: make_agent(tx, agent_id, machine)))


def delivery(seq: int, mid: int, origin: int, **fields: Any) -> NewDelivery:
    """Return a delivery, come `seq` ms after `START_US`."""
    values: dict[str, Any] = {
        "seq": seq,
        "mid": mid,
        "delivered_at": START_US + seq * 1_000,
        "event_type": "push",
        "verified": Verdict.VERIFIED,
        "size": len(b"body of 1"),
        "origin": origin,
        "expires_at": None,
        "delivery": DELIVERY,
    }
    return NewDelivery(**{**values, **fields})


def head_with(head: Head, new: Sequence[NewDelivery]) -> Head:
    """Return the head that an inbox has once these deliveries were made."""
    entries = [entry(one.seq, size=one.size, received_at=one.delivered_at) for one in new]
    return head_after(head, entries)


def give(tx: Tx, inbox_id: int, new: Sequence[NewDelivery]) -> None:
    """Deliver and advance the head, as a turn does."""
    head = tx.head(inbox_id)
    tx.deliver(inbox_id, new)
    tx.advance(inbox_id, head, head_with(head, new))


async def deliver(log: Log, inbox_id: int, new: Sequence[NewDelivery]) -> None:
    await log.commit(Do(lambda tx: give(tx, inbox_id, new)))


async def put_all(log: Log, inbox_id: int, entries: Sequence[NewEntry]) -> list[int]:
    """Append entries, advance the head, and return their mids."""

    def run(tx: Tx) -> list[int]:
        head = tx.head(inbox_id)
        mids = tx.append(inbox_id, head.epoch, entries)
        tx.advance(inbox_id, head, head_after(head, entries))
        return list(mids)

    return await log.commit(Do(run))


async def see(log: Log, of: Any) -> Any:
    """Return what a function of a snapshot returns."""
    return await log.read(See(of))


def beacon(agent_id: str, name: str = "b", **fields: Any) -> BeaconRecord:
    values: dict[str, Any] = {
        "agent_id": agent_id,
        "name": name,
        "spec": b'{"name":"b","about":"deploys"}',
        "placed_mid": 3,
        "placed_at": START_US,
    }
    return BeaconRecord(**{**values, **fields})
