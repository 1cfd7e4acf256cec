"""The mail of agents on SQLite: `storage.mail_protocols` as parts of `SqliteTx` and `SqliteSnapshot`.

Delegations only; the statements are in `storage.agents`, `storage.deliveries`, `storage.drains`, `storage.routing`, and
those of `storage.mesh`.
"""

from collections.abc import Sequence

from storage import agents, deliveries, drains, routing
from storage.mail_records import (
    AgentRecord,
    BeaconRecord,
    Content,
    Delivered,
    Drain,
    LogSlice,
    NewDelivery,
    Pending,
    ReaderRecord,
    Receipt,
    Recipient,
    Sent,
)
from storage.mesh import SqliteMeshChanges, SqliteMeshLog, SqliteMeshReads
from storage.sql import Sql


class SqliteMailReads(SqliteMeshReads):
    """What a unit and a look both read."""

    sql: Sql

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return an agent."""
        return agents.agent(self.sql, agent_id)

    def beacons(self, agent_id: str | None = None) -> list[BeaconRecord]:
        """Return the beacons of one agent, or of all."""
        return agents.beacons(self.sql, agent_id)

    def reader(self, inbox_id: int, name: str) -> ReaderRecord | None:
        """Return a reader of an inbox."""
        return drains.reader(self.sql, inbox_id, name)

    def window(self, inbox_id: int, floor: int, limit: int, body_limit: int) -> Drain:
        """Return the first rows above a floor."""
        return drains.window(self.sql, inbox_id, floor, limit, body_limit)

    def seqs_after(self, inbox_id: int, floor: int, limit: int) -> list[int]:
        """Return the first seqs above a floor."""
        return drains.seqs_after(self.sql, inbox_id, floor, limit)

    def next_seq(self, inbox_id: int, after: int) -> int:
        """Return the first retained seq after one."""
        return drains.next_seq(self.sql, inbox_id, after)

    def floor_at(self, inbox_id: int, at_us: int) -> int:
        """Return the seq above which all is later than a moment."""
        return drains.floor_at(self.sql, inbox_id, at_us)

    def deliveries(self, inbox_id: int, seqs: Sequence[int], body_limit: int) -> list[Delivered]:
        """Return what is shown of entries."""
        return drains.deliveries(self.sql, inbox_id, seqs, body_limit)

    def receipts(self, mid: int) -> list[Receipt]:
        """Return what became of a message at its recipients."""
        return deliveries.receipts(self.sql, mid)


class SqliteMailChanges(SqliteMailReads, SqliteMeshChanges):
    """What a unit changes."""

    _now: int

    def undelivered(self, inbox_id: int, mids: Sequence[int]) -> set[int]:
        """Return those of the messages that may still be delivered to an inbox."""
        return deliveries.undelivered(self.sql, inbox_id, mids)

    def copies(self, inbox_id: int, seq: int) -> list[tuple[int, int]]:
        """Return where a message was delivered to."""
        return deliveries.copies(self.sql, inbox_id, seq)

    def deliver(self, inbox_id: int, new: Sequence[NewDelivery]) -> None:
        """Insert deliveries."""
        deliveries.deliver(self.sql, inbox_id, new)

    def put_reader(self, inbox_id: int, name: str, reader: ReaderRecord) -> None:
        """Store a reader."""
        drains.put_reader(self.sql, inbox_id, name, reader)

    def add_recipients(self, mid: int, recipients: Sequence[Recipient]) -> None:
        """Write down to whom a message is sent."""
        deliveries.add_recipients(self.sql, mid, recipients)

    def sent(self, sender: int, key: bytes) -> Sent | None:
        """Return what was answered to a request."""
        return agents.sent(self.sql, sender, key)

    def remember_sent(self, sender: int, key: bytes, sent: Sent) -> None:
        """Remember an answer."""
        agents.remember_sent(self.sql, sender, key, sent)

    def create_agent(self, agent_id: str, inbox_id: int, machine: str | None = None) -> AgentRecord:
        """Create an agent."""
        agent = AgentRecord(agent_id, inbox_id, machine, self._now)
        agents.create(self.sql, agent)
        return agent

    def put_beacon(self, beacon: BeaconRecord) -> None:
        """Store a beacon."""
        agents.put_beacon(self.sql, beacon)

    def drop_beacon(self, agent_id: str, name: str) -> bool:
        """Remove a beacon."""
        return agents.drop_beacon(self.sql, agent_id, name)

    def count_beacon(self, agent_id: str, name: str, day: int, delivered: int, overflow: int) -> None:
        """Count for a beacon."""
        agents.count_beacon(self.sql, agent_id, name, day, delivered, overflow)

    def routed(self, mid: int) -> None:
        """Move the router's cursor forward."""
        routing.routed(self.sql, mid)


class SqliteLogReads(SqliteMeshLog):
    """What the router reads."""

    sql: Sql

    def agents(self) -> list[AgentRecord]:
        """Return every agent."""
        return agents.agents(self.sql)

    def routed_mid(self) -> int:
        """Return up to where the log was routed."""
        return routing.routed_mid(self.sql)

    def last_mid(self) -> int:
        """Return the mid of the last message."""
        return routing.last_mid(self.sql)

    def routable(self, after_mid: int, limit: int) -> LogSlice:
        """Return the next slice of the log."""
        return routing.routable(self.sql, after_mid, limit)

    def routable_before(self, before_mid: int, limit: int) -> LogSlice:
        """Return a slice of the log backwards."""
        return routing.routable_before(self.sql, before_mid, limit)

    def contents(self, mids: Sequence[int], body_limit: int, byte_budget: int) -> list[Content]:
        """Return what is matched of messages."""
        return routing.contents(self.sql, mids, body_limit, byte_budget)

    def pending(self, after: tuple[int, int], through_mid: int, limit: int) -> list[Pending]:
        """Return recipients that are still to be delivered to."""
        return deliveries.pending(self.sql, after, through_mid, limit)
