"""What the actors may ask of a store about agents and their mail: parts of `Tx` and `Snapshot` (`storage.protocols`).

What a unit and a look both need is `MailReads`, so that a pull is written once and runs in either. The parts about
machines, presence and receipts are in `storage.mesh_protocols`.
"""

from collections.abc import Sequence
from typing import Protocol

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
from storage.mesh_protocols import MeshChanges, MeshLog, MeshReads


class MailReads(MeshReads, Protocol):
    """Agents, readers and private inboxes at one moment."""

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return an agent."""

    def beacons(self, agent_id: str | None = None) -> list[BeaconRecord]:
        """Return the beacons of one agent, or of all, in the order of agents and names. Expired ones are among them."""

    def reader(self, inbox_id: int, name: str) -> ReaderRecord | None:
        """Return a reader of an inbox, None when there is none of that name."""

    def window(self, inbox_id: int, floor: int, limit: int, body_limit: int) -> Drain:
        """Return the first `limit` retained rows with `seq` > `floor`, in order. Raises `InboxGone`.

        No content is read. The weights count bodies of at most `body_limit` bytes; whoever cuts the window by them
        then knows that there is more.
        """

    def seqs_after(self, inbox_id: int, floor: int, limit: int) -> list[int]:
        """Return the first `limit` retained seqs above `floor`. Raises `InboxGone`."""

    def next_seq(self, inbox_id: int, after: int) -> int:
        """Return the first retained seq above `after`, one past the latest when there is none. Raises `InboxGone`."""

    def floor_at(self, inbox_id: int, at_us: int) -> int:
        """Return the floor above which every row, and below which none, is later than a moment. Raises `InboxGone`."""

    def deliveries(self, inbox_id: int, seqs: Sequence[int], body_limit: int) -> list[Delivered]:
        """Return what is shown of these entries, in the order given; those that are not retained are left out. Bodies
        come along when they are inline and at most `body_limit` bytes. Raises `InboxGone`.
        """

    def receipts(self, mid: int) -> list[Receipt]:
        """Return what became of a message at those whom it was sent to, in the order of their inboxes."""


class MailChanges(MailReads, MeshChanges, Protocol):
    """Agents, readers and private inboxes inside a unit."""

    @property
    def last_mid(self) -> int:
        """The mid of the newest message, those of this transaction included: what is appended next is greater."""

    # -- one inbox's turn ---------------------------------------------------------------------------------
    def undelivered(self, inbox_id: int, mids: Sequence[int]) -> set[int]:
        """Return those of these messages that may be delivered to an inbox: neither delivered nor at home there, not
        erased there after they were, and not erased or swept where they are at home.
        """

    def copies(self, inbox_id: int, seq: int) -> list[tuple[int, int]]:
        """Return where a message that is at home in this entry was delivered to and can still be read: inbox ids with
        its seq in each. None of an entry that was itself delivered.
        """

    def deliver(self, inbox_id: int, deliveries: Sequence[NewDelivery]) -> None:
        """Insert deliveries of messages that `undelivered` has named, and fill in the receipts that wait for them.

        The caller advances the head, as for `append`. Nothing of this unit is stored when one was delivered before.
        """

    def put_reader(self, inbox_id: int, name: str, reader: ReaderRecord) -> None:
        """Store a reader, in place of the one of that name. Raises `InboxGone`."""

    # -- sending ------------------------------------------------------------------------------------------
    def add_recipients(self, mid: int, recipients: Sequence[Recipient]) -> None:
        """Write down, in the unit that appends it, to whom a message is sent. The router serves those without a seq."""

    def sent(self, sender: int, key: bytes) -> Sent | None:
        """Return what was answered to a sender's request with this key, whatever its age.

        A sender is known by the id of its own inbox, which is never used again: an agent that is made anew under an
        old name has sent nothing yet.
        """

    def remember_sent(self, sender: int, key: bytes, sent: Sent) -> None:
        """Remember an answer, in place of an older one to the same key. `forget_seen` forgets it when it is old."""

    # -- agents -------------------------------------------------------------------------------------------
    def create_agent(self, agent_id: str, inbox_id: int, machine: str | None = None) -> AgentRecord:
        """Create an agent for the private inbox that the same unit has created. `delete_inbox` deletes it, its beacons
        and its readers. Raises `InboxGone`.
        """

    def put_beacon(self, beacon: BeaconRecord) -> None:
        """Store a beacon, in place of one of the same name. Raises `InboxGone` when its agent is gone."""

    def drop_beacon(self, agent_id: str, name: str) -> bool:
        """Remove a beacon; False when there is none of that name."""

    def count_beacon(self, agent_id: str, name: str, day: int, delivered: int, overflow: int) -> None:
        """Add to a beacon's counts of a day; a later day than the stored one begins at zero, an earlier one counts as
        that. Nothing happens when there is no such beacon.
        """

    # -- routing ------------------------------------------------------------------------------------------
    def routed(self, mid: int) -> None:
        """Store how far the log was routed. It never moves back."""


class LogReads(MeshLog, Protocol):
    """The log of all messages at one moment, for the router and for those who ask what it would have done."""

    def agents(self) -> list[AgentRecord]:
        """Return every agent, in the order of their ids."""

    def routed_mid(self) -> int:
        """Return the mid up to which the log was routed, as far as that was stored."""

    def last_mid(self) -> int:
        """Return the mid of the last message of the log, whether or not it still exists."""

    def routable(self, after_mid: int, limit: int) -> LogSlice:
        """Look at the `limit` messages that follow a mid and return those that may be matched against beacons: at home
        in a live webhook, topic or machine inbox, and neither erased nor swept there.

        `through` of the last slice is `last_mid`.
        """

    def routable_before(self, before_mid: int, limit: int) -> LogSlice:
        """Look at the `limit` messages in front of a mid, newest first, as `routable` does."""

    def contents(self, mids: Sequence[int], body_limit: int, byte_budget: int) -> list[Content]:
        """Return what is matched of messages, in the order of their mids, bodies cut after `body_limit` bytes (at most
        256 KiB). Those that are gone are left out; the one that passes `byte_budget` is the last.
        """

    def pending(self, after: tuple[int, int], through_mid: int, limit: int) -> list[Pending]:
        """Return the first recipients, by mid and inbox, whom a message up to `through_mid` has still to reach.

        `after`: mid and inbox id of the last one of the page before; (mid + 1, 0) begins behind a mid. Recipients whose
        inbox was deleted are left out.
        """
