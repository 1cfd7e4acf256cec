"""The turn: what an actor sends to the writer, and what comes back (study, section 2).

A decision is never split between actor and writer. The actor hands over the commands it drained together with the
head it believes in; `Turn.run` is executed by the writer inside its transaction, on the rows themselves, and is
all or nothing. The actor has at most one turn in flight and applies the result in one synchronous step.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from actors import pulling, serving
from actors.commands import (
    AckEach,
    AckIds,
    Append,
    ChangeInbox,
    Command,
    DeleteInbox,
    Deliver,
    DropSecret,
    Erase,
    MarkServed,
    Pull,
    Purge,
    PutSecret,
    Refusal,
    Retain,
    Served,
)
from actors.rules import append, delivering, dropping, retention
from storage.errors import Fenced, InboxGone
from storage.fusing import Needs
from storage.mail_records import NewDelivery
from storage.protocols import Lane, Tx
from storage.records import Head, InboxRecord, NewEntry, Retention

ROW_OVERHEAD_BYTES = 1_024
"""About what one entry costs besides its body: headers, index rows, the dedupe key."""

DELIVERY_BYTES = 256
"""About what one delivery costs: an entry, its index rows and its delivery record."""

GROWING = (Append, Deliver)
"""Commands that store something new: a full store refuses them, and all others run."""


class TurnResult(msgspec.Struct, frozen=True):
    """What a turn did: the head after it, one outcome per command (a value or an exception), what is new: `entries` of
    messages that are at home here, and `deliveries`.

    `head` is None when the inbox was deleted by this turn. `record` is set when name, settings or secrets changed.
    `retention` is the one in force after it. `dropped`: rows were left for the sweep; `aged`: entries that retention
    has dropped; `more`: another turn has more to drop, whether or not commands come.
    """

    head: Head | None
    outcomes: list[Any]
    entries: list[NewEntry]
    record: InboxRecord | None
    retention: Retention
    dropped: bool = False
    more: bool = False
    deliveries: Sequence[NewDelivery] = ()
    aged: int = 0


class Turn(msgspec.Struct, frozen=True):
    """The commands of one turn, in mailbox order, and what their actor believes: head and retention (None: it is cold).

    Without commands it is a turn of dropping alone, in the housekeeping lane.
    """

    inbox_id: int
    believed: Head | None
    commands: tuple[Command, ...]
    retention: Retention | None = None
    lane: Lane = Lane.ANSWERS

    @property
    def cost(self) -> int:
        """About how many bytes the turn writes; for pulls, about how many it reads."""
        return sum(map(_cost, self.commands))

    @property
    def grows(self) -> bool:
        """Whether it stores messages. A turn without them runs on a full disk, too."""
        return any(isinstance(command, GROWING) for command in self.commands)

    @property
    def needs(self) -> Needs | None:
        """What the turn reads when it is one of plain messages alone, which the writer fuses with those of others."""
        if self.believed is None or self.retention is None or not self.commands:
            return None
        keys: set[bytes] = set()
        for command in self.commands:
            if not isinstance(command, Append) or not _is_plain(command):
                return None
            if command.dedupe_window_us and command.draft.dedupe_key is not None:
                keys.add(command.draft.dedupe_key)
        return Needs(self.inbox_id, tuple(keys))

    def run(self, tx: Tx) -> TurnResult:
        """Decide and write. Raises `Fenced` when the believed head is not the stored one, and `InboxGone`."""
        stored = tx.head(self.inbox_id)
        believed = self.believed
        if believed is not None and (believed.epoch, believed.latest_seq) != (
            stored.epoch,
            stored.latest_seq,
        ):
            raise Fenced
        kept = self.retention or tx.inbox(self.inbox_id).settings.retention
        work = _Work(tx, self.inbox_id, stored, kept)
        for run in _runs(self.commands):
            work.perform(run)
        more = work.let_go()
        if work.head is not None and work.head != stored:
            tx.advance(self.inbox_id, stored, work.head)
        record = tx.inbox(self.inbox_id) if work.record_changed and work.head is not None else None
        return TurnResult(
            work.head,
            work.outcomes,
            work.entries,
            record,
            work.retention,
            work.left_rows,
            more,
            work.deliveries,
            work.aged,
        )


def lane_of(commands: Sequence[Command]) -> Lane:
    """Return the lane in which a turn with these commands waits: somebody's answer goes first."""
    if not commands:
        return Lane.HOUSEKEEPING
    deliveries = all(isinstance(command, Deliver) for command in commands)
    return Lane.DELIVERIES if deliveries else Lane.ANSWERS


def _is_plain(command: Append) -> bool:
    """Whether a message is stored in its inbox and nowhere else: no mail, no large body, no key of its sender."""
    draft = command.draft
    return (
        command.once is None
        and draft.body_id is None
        and draft.delivery is None
        and draft.broadcast is None
        and draft.log_of is None
        and not draft.recipients
    )


def _cost(command: Command) -> int:
    match command:
        case Append():
            return ROW_OVERHEAD_BYTES + (len(command.draft.body) if command.draft.body else 0)
        case Deliver():
            return DELIVERY_BYTES * len(command.drafts)
        case Pull():
            return ROW_OVERHEAD_BYTES * command.max_batch
    return 0


def _runs(commands: tuple[Command, ...]) -> Iterator[list[Command]]:
    """Split into runs that are decided together: neighbouring appends; everything else one by one."""
    appends: list[Command] = []
    for command in commands:
        if isinstance(command, Append):
            appends.append(command)
            continue
        if appends:
            yield appends
            appends = []
        yield [command]
    if appends:
        yield appends


class _Work:
    """The state of a turn while it is carried out."""

    def __init__(self, tx: Tx, inbox_id: int, head: Head, retention: Retention) -> None:
        self.tx = tx
        self.inbox_id = inbox_id
        self.head: Head | None = head
        self.retention = retention
        self.left_rows = False
        self.outcomes: list[Any] = []
        self.entries: list[NewEntry] = []
        self.deliveries: list[NewDelivery] = []
        self.record_changed = False
        self.aged = 0

    def perform(self, run: list[Command]) -> None:
        if self.head is None:  # deleted by an earlier command of this very turn
            self.outcomes.extend(InboxGone() for _ in run)
        elif isinstance(run[0], Append):
            self._append(self.head, run)
        else:
            try:
                self.outcomes.append(self._one(self.head, run[0]))
            except Refusal as refusal:
                self.outcomes.append(refusal)

    def _append(self, head: Head, run: list[Command]) -> None:
        appends = [command for command in run if isinstance(command, Append)]
        keys = {
            command.draft.dedupe_key
            for command in appends
            if command.dedupe_window_us and command.draft.dedupe_key is not None
        }
        seen = self.tx.seen(self.inbox_id, list(keys)) if keys else {}
        onces = {(once.sender, once.key) for command in appends if (once := command.once) is not None}
        found = {of: self.tx.sent(*of) for of in onces} if onces else {}
        sent = {of: answer for of, answer in found.items() if answer is not None}
        machines = {to.machine for command in appends if (to := command.draft.broadcast) is not None}
        rosters = {machine: self.tx.machine_agents(machine) for machine in machines}
        now = self.tx.now()
        plan = append.decide(head, seen, appends, now, self.retention, sent, self.inbox_id, rosters)
        if plan.entries:
            mids = self.tx.append(self.inbox_id, head.epoch, plan.entries)
            if plan.remember:
                self.tx.remember(self.inbox_id, plan.remember)
            for place, recipients in plan.recipients:
                self.tx.add_recipients(mids[place], recipients)
            for place, sender in plan.logged:
                one = plan.entries[place]
                self.tx.remember_sent_log(
                    sender, one.id, mids[place], one.received_at, one.event_type, one.expires_at
                )
            for (sender, key), answer in plan.sent:
                self.tx.remember_sent(sender, key, answer)
            self.head = plan.head
            self.entries.extend(plan.entries)
        self.outcomes.extend(plan.outcomes)

    def _deliver(self, head: Head, command: Deliver) -> tuple[int | None, ...]:
        tx, drafts = self.tx, command.drafts
        undelivered = tx.undelivered(self.inbox_id, [draft.mid for draft in drafts])
        plan = delivering.decide(head, undelivered, drafts, tx.now(), self.retention)
        if plan.deliveries:
            tx.deliver(self.inbox_id, plan.deliveries)
            self.head = plan.head
            self.deliveries.extend(plan.deliveries)
        return plan.seqs

    def _retain(self, head: Head, kept: Retention) -> None:
        """Put another retention in force: the oldest entry may come of age at another time."""
        self.retention = kept
        oldest = self.tx.oldest(self.inbox_id, head.first_seq, 1)
        due = retention.due_at(kept, oldest[0].received_at if oldest else None)
        self.head = msgspec.structs.replace(head, due_at=due)

    def let_go(self) -> bool:
        """Drop what is over the limits, a bounded number of entries; True when more is left to drop."""
        head = self.head
        if head is None or not retention.wanted(head, self.retention, self.tx.now()):
            return False
        oldest = self.tx.oldest(self.inbox_id, head.first_seq, retention.DROP_ROWS + 1)
        drop = retention.plan(head, oldest, self.retention, self.tx.now())
        self.head = drop.head
        if drop.rows:
            self.tx.drop_before(self.inbox_id, drop.head.first_seq)
            self.left_rows = True
            self.aged = drop.rows
        return drop.more

    def _one(self, head: Head, command: Command) -> Any:
        """Carry out one change that is no append and return its outcome; a `Refusal` has changed nothing."""
        tx, inbox_id = self.tx, self.inbox_id
        match command:
            case Deliver():
                return self._deliver(head, command)
            case Pull():
                return pulling.pull(tx, inbox_id, command, tx.now())
            case Served(high, reader):
                return pulling.note_served(tx, inbox_id, reader, high, head.latest_seq)
            case AckEach():
                return pulling.ack_each(tx, inbox_id, command, head, tx.now())
            case MarkServed():
                return serving.mark_served(tx, inbox_id, command, tx.now())
            case AckIds():
                return serving.ack_ids(tx, inbox_id, command, tx.now())
            case ChangeInbox(change):
                before = tx.inbox(inbox_id)
                name, settings = change(before)
                tx.change_inbox(inbox_id, name, settings)
                self.left_rows |= before.settings.search and not settings.search
                self.record_changed = True
                self._retain(head, settings.retention)
                return tx.inbox(inbox_id)
            case PutSecret(secret, check):
                check(tx.inbox(inbox_id))
                tx.put_secret(inbox_id, secret)
                self.record_changed = True
                return tx.inbox(inbox_id)
            case DropSecret(name):
                if not tx.drop_secret(inbox_id, name):
                    raise Refusal("not_found", "There is no secret of this name.", "name")
                self.record_changed = True
                return tx.inbox(inbox_id)
            case Purge():
                self.head = dropping.purged(head)
                tx.drop_before(inbox_id, self.head.first_seq)
                self.left_rows = True
                return head.live_rows
            case Erase(seq):
                kept = seq >= head.first_seq  # a refusal must leave what was delivered elsewhere as it is
                if kept and (copies := tx.copies(inbox_id, seq)):
                    return tuple(copies)
                size = tx.erase(inbox_id, seq) if kept else None
                if size is None:
                    raise Refusal("not_found", "There is no message with this seq.", "seq")
                self.head = dropping.erased(head, size)
                self.left_rows = True
                return ()
            case Retain():
                return None  # every turn lets go of what is too much at its end
            case DeleteInbox(revoked):
                tx.delete_inbox(inbox_id)
                for token in revoked:
                    tx.put_token(token)
                self.head = None
                self.left_rows = True
                return None
        raise TypeError(f"not a command: {type(command).__name__}")
