"""Makes what the tests of agents on machines need, as `mail` does for agents' mail."""

from typing import Any

from storage.mail_records import Receipt, Recipient
from storage.mesh_records import MachineRecord, PresenceRecord, SentMessage, WakeTarget
from storage.protocols import Log, Tx
from storage.secret import SecretBytes
from tests.contract.builders import START_US, Do, entry, head_after, new_inbox
from tests.contract.mail import DELIVERY, delivery, give, see

LATER_US = 10 * START_US
"""Long after every message of these tests, and after the clock of the machine that runs them."""


def make_machine(tx: Tx, name: str = "m") -> MachineRecord:
    """Create a machine with its inbox, as one unit does."""
    inbox = tx.create_inbox(new_inbox(f"machine.{name}", "machine"))
    return tx.create_machine(name, inbox.inbox_id)


async def machine(log: Log, name: str = "m") -> MachineRecord:
    return await log.commit(Do(lambda tx: make_machine(tx, name)))


def presence(agent_id: str = "a", **fields: Any) -> PresenceRecord:
    values: dict[str, Any] = {
        "agent_id": agent_id,
        "card": b'{"role":"builder"}',
        "last_activity_at": START_US,
        "ttl_seconds": 300,
    }
    return PresenceRecord(**{**values, **fields})


def wake(agent_id: str = "a", secret: bytes | None = b"whsec", **fields: Any) -> WakeTarget:
    kept = None if secret is None else SecretBytes(secret)
    return WakeTarget(agent_id, "https://example.com/wake", kept, **fields)


def plain(target: WakeTarget) -> tuple[Any, ...]:
    """Return a wake target as something that can be compared."""
    secret = None if target.secret is None else target.secret.reveal()
    return target.agent_id, target.url, secret, target.failures, target.off_at


def send(tx: Tx, sender: int, home: int, others: list[int], **fields: Any) -> int:
    """Append a message that `sender` sends and note it, as a turn does; return its mid. At home in a recipient's inbox
    unless `others` are all who get it, who wait for the router. It comes `seq` µs after the epoch, before all marks.
    """
    head = tx.head(home)
    seq = head.latest_seq + 1
    new = entry(seq, **{"received_at": seq, "event_type": "note", "delivery": DELIVERY, **fields})
    (mid,) = tx.append(home, head.epoch, [new])
    tx.advance(home, head, head_after(head, [new]))
    recipients = [Recipient(other) for other in others]
    if tx.inbox(home).kind == "agent":
        recipients.append(Recipient(home, new.seq, new.received_at))
    tx.add_recipients(mid, recipients)
    tx.remember_sent_log(sender, new.id, mid, new.received_at, new.event_type, new.expires_at)
    return mid


def route(tx: Tx, mid: int, home: int, to: int, expires_at: int | None = None) -> int:
    """Deliver a message to a recipient, as the router has it done; return the seq that it has there."""
    seq = tx.head(to).latest_seq + 1
    give(tx, to, [delivery(seq, mid, home, delivered_at=seq, size=len(b"body of 1"), expires_at=expires_at)])
    return seq


async def receipt(log: Log, mid: int, inbox_id: int) -> Receipt | None:
    """Return what became of a message at one recipient."""
    found = await see(log, lambda snapshot: snapshot.receipts(mid))
    return next((one for one in found if one.inbox_id == inbox_id), None)


async def times(log: Log, mid: int, inbox_id: int) -> tuple[int | None, int | None, int | None]:
    """Return when a message was served, acknowledged and expired at one recipient."""
    found = await receipt(log, mid, inbox_id)
    assert found is not None
    return found.served_at, found.acked_at, found.expired_at


async def sent_by(
    log: Log, sender: int, before: bytes | None = None, limit: int = 100, **more: Any
) -> list[SentMessage]:
    values = {"now_us": START_US, **more}
    found: list[SentMessage] = await see(
        log, lambda snapshot: snapshot.sent_by(sender, before, limit, **values)
    )
    return found
