"""Agents on machines on SQLite: `storage.mesh_protocols` as parts of `SqliteTx` and `SqliteSnapshot`.

Delegations only; the statements are in `storage.mesh_roster`, `storage.mesh_receipts`, `storage.mesh_reads`.
"""

from collections.abc import Iterable, Sequence

from storage import mesh_reads, mesh_receipts, mesh_roster
from storage.mail_records import AgentRecord, DrainRow
from storage.mesh_protocols import SENT_RECEIPTS
from storage.mesh_records import MachineRecord, PresenceRecord, SentMessage, Unread, WakeTarget
from storage.sealing import Seal
from storage.sql import Sql


class SqliteMeshReads:
    """What a unit and a look both read."""

    sql: Sql

    def seqs_of_ids(self, inbox_id: int, ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return under which seqs messages stand in an inbox."""
        return mesh_reads.seqs_of_ids(self.sql, inbox_id, ids)

    def rows_at(self, inbox_id: int, seqs: Sequence[int]) -> list[DrainRow]:
        """Return rows by their seqs."""
        return mesh_reads.rows_at(self.sql, inbox_id, seqs)

    def unread(
        self, inbox_id: int, after: int, acked: Sequence[tuple[int, int]], now_us: int, limit: int
    ) -> list[Unread]:
        """Count what is unread by where it comes from."""
        return mesh_reads.unread(self.sql, inbox_id, after, acked, now_us, limit)


class SqliteMeshChanges:
    """What a unit changes."""

    sql: Sql
    _seal: Seal
    _now: int

    def create_machine(self, name: str, inbox_id: int) -> MachineRecord:
        """Create a machine."""
        machine = MachineRecord(name, inbox_id, self._now)
        mesh_roster.create_machine(self.sql, machine)
        return machine

    def machine_agents(self, name: str) -> list[tuple[AgentRecord, int | None]]:
        """Return the agents of a machine, and which of them are gone."""
        return mesh_roster.machine_agents(self.sql, name)

    def put_presence(self, presence: PresenceRecord) -> None:
        """Store a presence."""
        mesh_roster.put_presence(self.sql, presence)

    def touch_presences(self, presences: Iterable[PresenceRecord]) -> None:
        """Move times of activity forward."""
        mesh_roster.touch_presences(self.sql, presences)

    def put_wake_target(self, target: WakeTarget) -> None:
        """Store a wake target."""
        mesh_roster.put_wake_target(self.sql, self._seal, target)

    def drop_wake_target(self, agent_id: str) -> bool:
        """Remove a wake target."""
        return mesh_roster.drop_wake_target(self.sql, agent_id)

    def mark_receipts_served(self, inbox_id: int, seqs: Sequence[int], at_us: int) -> None:
        """Note that entries were served."""
        mesh_receipts.mark_served(self.sql, inbox_id, seqs, at_us)

    def mark_receipts_acked(self, inbox_id: int, seqs: Sequence[int], at_us: int) -> None:
        """Note that entries were acknowledged one by one."""
        mesh_receipts.mark_acked(self.sql, inbox_id, seqs, at_us)

    def mark_receipts_passed(self, inbox_id: int, after_seq: int, through_seq: int, at_us: int) -> None:
        """Note that entries were acknowledged by a cursor."""
        mesh_receipts.mark_passed(self.sql, inbox_id, after_seq, through_seq, at_us)

    def remember_sent_log(
        self, sender: int, id: bytes, mid: int, sent_at: int, event_type: str, expires_at: int | None = None
    ) -> None:
        """Note that an agent has sent a message."""
        mesh_receipts.remember(self.sql, sender, id, mid, sent_at, event_type, expires_at)


class SqliteMeshLog:
    """What is read as a whole, and what was sent."""

    sql: Sql
    _seal: Seal

    def machines(self) -> list[MachineRecord]:
        """Return every machine."""
        return mesh_roster.machines(self.sql)

    def presences(self) -> list[PresenceRecord]:
        """Return every presence."""
        return mesh_roster.presences(self.sql)

    def wake_targets(self) -> list[WakeTarget]:
        """Return every wake target that can be used."""
        return mesh_roster.wake_targets(self.sql, self._seal)

    def sent_by(
        self,
        sender: int,
        before_id: bytes | None,
        limit: int,
        now_us: int,
        receipt_limit: int = SENT_RECEIPTS,
    ) -> list[SentMessage]:
        """Return what an agent has sent, newest first."""
        return mesh_receipts.sent_by(self.sql, sender, before_id, limit, now_us, receipt_limit)
