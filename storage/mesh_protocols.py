"""What the actors may ask of a store about agents on machines: parts of `Tx` and `Snapshot` (`storage.protocols`).

What a unit and a look both need is `MeshReads`, as for the rest of agents' mail (`storage.mail_protocols`).
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from storage.mail_records import AgentRecord, DrainRow
from storage.mesh_records import MachineRecord, PresenceRecord, SentMessage, Unread, WakeTarget

UNREAD_SCANNED = 100_000
"""Rows that counting what is unread looks at, at most: those that have expired are looked at and not counted."""

SENT_RECEIPTS = 10_000
"""Receipts in a list of what was sent, at most, beside those of its last message."""


class MeshReads(Protocol):
    """What is in front of an agent at one moment."""

    def seqs_of_ids(self, inbox_id: int, ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return under which seqs these messages stand in an inbox; those that do not, or are not retained there, are
        left out. Raises `InboxGone`.
        """

    def rows_at(self, inbox_id: int, seqs: Sequence[int]) -> list[DrainRow]:
        """Return these rows, in the order of their seqs; those that are not retained are left out. No body counts in
        their weights. Raises `InboxGone`.
        """

    def unread(
        self, inbox_id: int, after: int, acked: Sequence[tuple[int, int]], now_us: int, limit: int
    ) -> list[Unread]:
        """Count the retained entries above `after` that are not in the runs `acked` and have not expired, by where
        they come from. Counts the first `limit` of them, among at most `UNREAD_SCANNED` rows. Raises `InboxGone`.

        `acked`: runs (low, high), ascending, as in `ReaderRecord`.
        """


class MeshChanges(MeshReads, Protocol):
    """Agents on machines inside a unit."""

    # -- machines and who is there ------------------------------------------------------------------------
    def create_machine(self, name: str, inbox_id: int) -> MachineRecord:
        """Create a machine for the inbox that the same unit has created. `delete_inbox` deletes it.

        Raises `InboxGone`.
        """

    def machine_agents(self, name: str) -> list[tuple[AgentRecord, int | None]]:
        """Return the agents of a machine, in the order of their ids, each with its `gone_at`."""

    def put_presence(self, presence: PresenceRecord) -> None:
        """Store a presence, in place of an agent's older one. `delete_inbox` of its private inbox deletes it.

        Raises `InboxGone` when the agent is gone.
        """

    def touch_presences(self, presences: Iterable[PresenceRecord]) -> None:
        """Move `last_activity_at` of presences forward, and store those of agents that have none; all else of a stored
        one stays. Those of agents that are gone are passed over.
        """

    def put_wake_target(self, target: WakeTarget) -> None:
        """Store a wake target, in place of an agent's older one. `delete_inbox` of its private inbox deletes it.

        Raises `InboxGone` when the agent is gone.
        """

    def drop_wake_target(self, agent_id: str) -> bool:
        """Remove an agent's wake target; False when there is none."""

    # -- receipts -----------------------------------------------------------------------------------------
    def mark_receipts_served(self, inbox_id: int, seqs: Sequence[int], at_us: int) -> None:
        """Note in the receipts of these entries that they were served, where that is not noted yet."""

    def mark_receipts_acked(self, inbox_id: int, seqs: Sequence[int], at_us: int) -> None:
        """Note in the open receipts of these entries that they were acknowledged, and served if that was not noted."""

    def mark_receipts_passed(self, inbox_id: int, after_seq: int, through_seq: int, at_us: int) -> None:
        """Do the same for an acknowledgement by cursor, of the retained entries above `after_seq`, up to `through_seq`.

        Those that have expired by then are noted as expired: nobody said that they were read.
        """

    def remember_sent_log(
        self, sender: int, id: bytes, mid: int, sent_at: int, event_type: str, expires_at: int | None = None
    ) -> None:
        """Note, in the unit that appends it, that the agent with the private inbox `sender` has sent a message.

        The note, and with it the receipts, outlives the message until `forget_seen` forgets it.
        """


class MeshLog(Protocol):
    """Everything of one kind at one moment, for those who keep it in memory, and what an agent has sent."""

    def machines(self) -> list[MachineRecord]:
        """Return every machine, in the order of their names."""

    def presences(self) -> list[PresenceRecord]:
        """Return every presence, in the order of the agents' ids."""

    def wake_targets(self) -> list[WakeTarget]:
        """Return every wake target, in the order of the agents' ids. One whose secret does not open is left out."""

    def sent_by(
        self,
        sender: int,
        before_id: bytes | None,
        limit: int,
        now_us: int,
        receipt_limit: int = SENT_RECEIPTS,
    ) -> list[SentMessage]:
        """Return the newest messages, by id, that the agent with the private inbox `sender` has sent, those before
        `before_id` only; the message with which the receipts pass `receipt_limit` is the last.

        A receipt is also shown as expired where the message had expired before it was acknowledged.
        """
