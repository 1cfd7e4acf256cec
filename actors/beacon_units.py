"""Units of beacons and of routing: placing and removing, counting, forgetting what has expired, how far the log was
routed.
"""

import msgspec

from actors.units import ADMIN_COST
from storage.errors import InboxGone
from storage.mail_records import AgentRecord, BeaconRecord
from storage.protocols import Lane, Tx

Name = tuple[str, str]
"""An agent's id and the name of a beacon of it."""

Counted = tuple[Name, int, int, int]
"""A beacon, a day (days since the epoch), and what is added to its counts of it: delivered, overflow."""


class BeaconPlaced(msgspec.Struct, frozen=True):
    """A beacon that is in force. `last_mid`: the newest message at that moment, which it hears no more."""

    record: BeaconRecord
    last_mid: int


class PlaceBeacon(msgspec.Struct, frozen=True):
    """Store a beacon of an agent, in place of the one of that name. Raises `InboxGone` when the agent was deleted.

    It hears of what comes after it, except that one which takes another's place goes on where that one was: nothing
    that is still to be routed falls between the two, and the day's counts go on.
    """

    agent: AgentRecord
    name: str
    spec: bytes
    ttl_us: int | None
    most: int
    lane: Lane = Lane.ANSWERS
    grows: bool = True

    @property
    def cost(self) -> int:
        """About what it writes, in bytes."""
        return ADMIN_COST + len(self.spec)

    def run(self, tx: Tx) -> BeaconPlaced | None:
        """Store it; None when the agent has as many as it may have."""
        agent_id = self.agent.agent_id
        if tx.agent(agent_id) != self.agent:
            raise InboxGone(f"agent {agent_id}")
        now = tx.now()
        held = {one.name: one for one in tx.beacons(agent_id) if is_in_force(one, now)}
        before = held.get(self.name)
        if before is None and len(held) >= self.most:
            return None
        record = BeaconRecord(
            agent_id,
            self.name,
            self.spec,
            placed_mid=tx.last_mid if before is None else before.placed_mid,
            placed_at=now,
            expires_at=None if self.ttl_us is None else now + self.ttl_us,
        )
        if before is not None:
            counts = {"day": before.day, "delivered": before.delivered, "overflow": before.overflow}
            record = msgspec.structs.replace(record, **counts)
        tx.put_beacon(record)
        return BeaconPlaced(record, tx.last_mid)


class RemoveBeacon(msgspec.Struct, frozen=True):
    """Remove a beacon of an agent, for good and at once."""

    agent_id: str
    name: str
    lane: Lane = Lane.ANSWERS
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> bool:
        """Remove it; False when there is none of that name."""
        return tx.drop_beacon(self.agent_id, self.name)


class DropExpired(msgspec.Struct, frozen=True):
    """Remove those of these beacons that have expired."""

    names: tuple[Name, ...]
    lane: Lane = Lane.HOUSEKEEPING
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> list[Name]:
        """Remove them and return which are gone now: those that were placed anew meanwhile are not."""
        now = tx.now()
        for agent_id in {agent_id for agent_id, _ in self.names}:
            for one in tx.beacons(agent_id):
                if (agent_id, one.name) in self.names and not is_in_force(one, now):
                    tx.drop_beacon(agent_id, one.name)
        return [name for name in self.names if not any(one.name == name[1] for one in tx.beacons(name[0]))]


class CountBrought(msgspec.Struct, frozen=True):
    """Add to the counts of beacons what they brought outside of routing. One that is gone by now is left out."""

    counted: tuple[Counted, ...]
    lane: Lane = Lane.ANSWERS
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> None:
        """Store them."""
        _count(tx, self.counted)


class Routed(msgspec.Struct, frozen=True):
    """Write down up to where the log was routed, together with what the beacons brought until there.

    Never counts as growth: what the router has left behind is what a full store may delete.
    """

    mid: int
    counted: tuple[Counted, ...] = ()
    lane: Lane = Lane.HOUSEKEEPING
    grows: bool = False

    @property
    def cost(self) -> int:
        """About what it writes, in bytes."""
        return ADMIN_COST + 64 * len(self.counted)

    def run(self, tx: Tx) -> None:
        """Store it."""
        tx.routed(self.mid)
        _count(tx, self.counted)


def _count(tx: Tx, counted: tuple[Counted, ...]) -> None:
    for (agent_id, name), day, delivered, overflow in counted:
        tx.count_beacon(agent_id, name, day, delivered, overflow)


def is_in_force(beacon: BeaconRecord, now_us: int) -> bool:
    """Whether a beacon has not expired."""
    return beacon.expires_at is None or now_us < beacon.expires_at
