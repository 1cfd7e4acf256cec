"""Changing the in-memory store: `MemoryTx` keeps `storage.protocols.Tx`.

What it does for agents' mail is in `storage.memory_mail`, how it is undone in `storage.memory_journal`.
"""

import heapq
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from storage.errors import Fenced, NotStored, SlugTaken
from storage.mail_records import Receipt
from storage.memory_mail import MemoryMailChanges
from storage.memory_search import MemorySearchChanges
from storage.memory_state import MemoryBody, MemoryEntry, MemoryInbox, MemoryMessage, MemoryState
from storage.records import (
    CHUNK_BYTES,
    Head,
    InboxRecord,
    InboxSettings,
    NewEntry,
    NewInbox,
    OldEntry,
    Secret,
    Seen,
    Swept,
    TokenRecord,
)

EPOCH_BYTES = 8
"""An epoch is opaque and random; 64 bits, as 16 hexadecimal digits, so that two lives never share one."""


class MemoryTx(MemoryMailChanges, MemorySearchChanges):
    """The store inside one unit. `undo` takes back everything that was done through it."""

    def __init__(self, state: MemoryState, now: int) -> None:
        super().__init__()
        self._state = state
        self._now = now

    def now(self) -> int:
        """Return the server clock in µs; the same value throughout one unit."""
        return self._now

    # -- reading what a decision needs ------------------------------------------------------------------
    def head(self, inbox_id: int) -> Head:
        """Return the inbox's head. Raises `InboxGone`."""
        return self._state.live(inbox_id).head

    def inbox(self, inbox_id: int) -> InboxRecord:
        """Return the inbox's record with its secrets. Raises `InboxGone`."""
        return self._state.live(inbox_id).record

    def seen(self, inbox_id: int, keys: Sequence[bytes]) -> dict[bytes, Seen]:
        """Return, of these dedupe keys, those that the inbox remembers, whatever their age."""
        remembered = self._state.live(inbox_id).seen
        return {key: remembered[key] for key in keys if key in remembered}

    def oldest(self, inbox_id: int, from_seq: int, limit: int) -> list[OldEntry]:
        """Return the first entries from a seq on, in their order."""
        rows = self._state.live(inbox_id).rows
        seqs = heapq.nsmallest(limit, (seq for seq in rows if seq >= from_seq))
        return [OldEntry(seq, rows[seq].received_at, rows[seq].message.size) for seq in seqs]

    # -- one inbox's turn -------------------------------------------------------------------------------
    def append(self, inbox_id: int, epoch: str, entries: Sequence[NewEntry]) -> range:
        """Insert messages and their home entries, adopt staged bodies that they refer to; return their mids, in order.

        Raises `NotStored` when a `body_id` is not staged, `ValueError` when a seq or a message id is taken.
        """
        inbox = self._state.live(inbox_id)
        if epoch != inbox.head.epoch:
            raise Fenced(f"inbox {inbox_id} has a new epoch")
        for entry in entries:
            if entry.seq in inbox.rows or entry.id in self._state.message_ids:
                raise ValueError(f"inbox {inbox_id} has entry {entry.seq} or its message already")
            if entry.body_id is not None:
                self._adopt(entry.body_id)
            self._set(self._state, "last_mid", self._state.last_mid + 1)
            row = _stored(entry, self._state.last_mid, inbox_id, epoch)
            self._insert(inbox.rows, entry.seq, row)
            self._insert(self._state.messages, row.message.mid, row.message)
            self._insert(self._state.message_ids, entry.id, row.message.mid)
        return range(self._state.last_mid - len(entries) + 1, self._state.last_mid + 1)

    def remember(self, inbox_id: int, keys: Sequence[tuple[bytes, Seen]]) -> None:
        """Remember dedupe keys, replacing older ones of the same key."""
        inbox = self._state.live(inbox_id)
        for key, seen in keys:
            self._insert(inbox.seen, key, seen)

    def advance(self, inbox_id: int, believed: Head, to: Head) -> None:
        """Replace the head by compare-and-set on epoch and `latest_seq` of `believed`. Raises `Fenced`."""
        inbox = self._state.inboxes.get(inbox_id)
        if inbox is None or not inbox.alive:
            raise Fenced(f"inbox {inbox_id} does not exist any more")
        if (inbox.head.epoch, inbox.head.latest_seq) != (believed.epoch, believed.latest_seq):
            raise Fenced(f"inbox {inbox_id} is at {inbox.head.latest_seq}, not {believed.latest_seq}")
        self._set(inbox, "head", to)

    def erase(self, inbox_id: int, seq: int) -> int | None:
        """Delete one entry, and its message when this was its last; return its size, None if absent.

        Nothing remembers the hole here: the twin has no `verify` that would ask.
        """
        inbox = self._state.live(inbox_id)
        row = inbox.rows.get(
            seq
        )  # also one that this very unit has appended, which the head does not know yet
        if row is None or seq < inbox.head.first_seq:
            return None
        self._delete_row(inbox_id, inbox, row)
        mid = row.message.mid
        if not row.home and mid in self._state.messages:
            receipts = self._state.receipts.setdefault(mid, {})
            if inbox_id not in receipts:
                self._insert(
                    receipts, inbox_id, Receipt(inbox_id, seq, row.received_at, None, None, self._now)
                )
        return row.message.size

    def drop_before(self, inbox_id: int, seq: int) -> None:
        """Note that entries below `seq` are rubbish for `sweep`."""
        inbox = self._state.live(inbox_id)
        self._set(inbox, "dropped_below", max(seq, inbox.dropped_below))
        self._insert(self._state.to_sweep, inbox_id, None)

    # -- administration ---------------------------------------------------------------------------------
    def create_inbox(self, new: NewInbox) -> InboxRecord:
        """Create an inbox with a new id and a new random epoch. Raises `SlugTaken`."""
        if new.slug in self._state.slugs:
            raise SlugTaken(new.slug)
        self._state.last_inbox_id += 1
        inbox_id = self._state.last_inbox_id
        record = InboxRecord(
            inbox_id, new.slug, new.kind, new.name, self._now, new.settings, _oldest_first(new.secrets)
        )
        inbox = MemoryInbox(record, Head(epoch=secrets.token_hex(EPOCH_BYTES)))
        self._switch(inbox, new.settings.search)
        self._insert(self._state.inboxes, inbox_id, inbox)
        self._insert(self._state.slugs, new.slug, inbox_id)
        return record

    def change_inbox(self, inbox_id: int, name: str, settings: InboxSettings) -> None:
        """Replace name and settings. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        self._set(inbox, "record", replace(inbox.record, name=name, settings=settings))
        self._switch(inbox, settings.search)

    def delete_inbox(self, inbox_id: int) -> None:
        """Free the slug, hide the inbox from everything, leave its rows to `sweep`. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        self._remove(self._state.slugs, inbox.record.slug)
        self._set(inbox, "alive", False)
        self._switch(inbox, on=False)
        self._set(inbox, "dropped_below", inbox.head.latest_seq + 1)
        self._leave_agent(inbox_id, inbox)
        self._insert(self._state.to_sweep, inbox_id, None)

    def put_secret(self, inbox_id: int, secret: Secret) -> None:
        """Add a secret or replace the one of the same name. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        others = tuple(kept for kept in inbox.record.secrets if kept.name != secret.name)
        self._set(inbox, "record", replace(inbox.record, secrets=_oldest_first((*others, secret))))

    def drop_secret(self, inbox_id: int, name: str) -> bool:
        """Remove a secret; False when there is none of that name. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        others = tuple(kept for kept in inbox.record.secrets if kept.name != name)
        if len(others) == len(inbox.record.secrets):
            return False
        self._set(inbox, "record", replace(inbox.record, secrets=others))
        return True

    def put_token(self, token: TokenRecord) -> None:
        """Insert a token or replace the one with the same `token_id`."""
        self._insert(self._state.tokens, token.token_id, token)

    def touch_tokens(self, used: Iterable[tuple[str, int]]) -> None:
        """Move `last_used_at` of tokens forward; tokens that are not there are passed over."""
        for token_id, at in used:
            token = self._state.tokens.get(token_id)
            if token is not None and (token.last_used_at is None or token.last_used_at < at):
                self._insert(self._state.tokens, token_id, replace(token, last_used_at=at))

    # -- large bodies -----------------------------------------------------------------------------------
    def stage_body(self) -> int:
        """Return a new `body_id`, never used before."""
        self._state.last_body_id += 1
        body_id = self._state.last_body_id
        self._insert(self._state.bodies, body_id, MemoryBody(self._state.start))
        return body_id

    def put_chunk(self, body_id: int, n: int, data: bytes) -> None:
        """Add piece `n` (from 0, without holes) of a staged body. Raises `NotStored` when it is not."""
        if len(data) > CHUNK_BYTES:
            raise ValueError(f"a piece has at most {CHUNK_BYTES} bytes, not {len(data)}")
        body = self._staged(body_id)
        if n != len(body.pieces):
            raise NotStored(f"piece {n} of body {body_id} does not follow {len(body.pieces)} pieces")
        body.pieces.append(bytes(data))
        self._note(body.pieces.pop)

    def discard_body(self, body_id: int) -> None:
        """Drop a staged body and its pieces; nothing happens when it was adopted or swept."""
        body = self._state.bodies.get(body_id)
        if body is not None and body.staged_in is not None:
            self._remove(self._state.bodies, body_id)

    # -- housekeeping -----------------------------------------------------------------------------------
    def sweep(self, max_rows: int, max_bytes: int, *, routed_only: bool = False) -> Swept:
        """Delete one slice of what nobody can read any more; a row is an entry or a staged body."""
        rows = swept_bytes = 0
        for size, remove in self._rubbish(self._state.routed_mid if routed_only else None):
            if rows == max_rows or (rows and swept_bytes + size > max_bytes):
                return Swept(rows, swept_bytes, more=True)
            remove()
            rows += 1
            swept_bytes += size
        return Swept(rows, swept_bytes, more=False)

    def forget_seen(self, before_us: int, max_rows: int) -> int:
        """Forget keys of deliveries, then of what was sent, then the notes of sent messages that are gone, each oldest
        first. At most `max_rows` rows; returns how many.
        """
        old = (
            (seen.seen_at, inbox_id, key)
            for inbox_id, inbox in self._state.inboxes.items()
            for key, seen in inbox.seen.items()
            if seen.seen_at < before_us
        )
        oldest = heapq.nsmallest(max_rows, old)
        for _, inbox_id, key in oldest:
            self._remove(self._state.inboxes[inbox_id].seen, key)
        sent = ((one.seen_at, key) for key, one in self._state.sent.items() if one.seen_at < before_us)
        answers = heapq.nsmallest(max_rows - len(oldest), sent)
        for _, answered in answers:
            self._remove(self._state.sent, answered)
        forgotten = len(oldest) + len(answers)
        return forgotten + self._forget_sent(before_us, max_rows - forgotten)

    def _rubbish(self, routed_mid: int | None) -> Iterable[tuple[int, Callable[[], None]]]:
        """Yield what is to be swept, each as its size and how to remove it.

        An inbox without rubbish left is taken off the list on the way, and a deleted one ends there. One whose next row
        waits for the router is passed over.
        """
        state = self._state
        for body_id, body in list(state.bodies.items()):
            if body.staged_in is not None and body.staged_in < state.start:
                size = sum(map(len, body.pieces))
                yield size, partial(self._remove, state.bodies, body_id)
        for inbox_id in sorted(state.to_sweep):
            inbox = state.inboxes[inbox_id]
            for seq in range(inbox.swept_below, inbox.dropped_below):
                row = inbox.rows.get(seq)
                if row is not None and routed_mid is not None and row.message.mid > routed_mid:
                    break
                if row is not None:
                    yield row.message.size, partial(self._delete_row, inbox_id, inbox, row)
                self._set(inbox, "swept_below", seq + 1)
            else:
                self._remove(state.to_sweep, inbox_id)
                if not inbox.alive:
                    self._remove(state.inboxes, inbox_id)
                    for sender, key in [one for one in state.sent if one[0] == inbox_id]:
                        self._remove(state.sent, (sender, key))
                    self._forget_sender(inbox_id)

    # -- changes that can be taken back -----------------------------------------------------------------
    def _staged(self, body_id: int) -> MemoryBody:
        body = self._state.bodies.get(body_id)
        if body is None or body.staged_in is None:
            raise NotStored(f"body {body_id} is not staged")
        return body

    def _adopt(self, body_id: int) -> None:
        self._set(self._staged(body_id), "staged_in", None)

    def _delete_row(self, inbox_id: int, inbox: MemoryInbox, row: MemoryEntry) -> None:
        """Remove an entry, what hangs on it, and its message when this was its last."""
        state, message = self._state, row.message
        self._entry_dropped(inbox_id, inbox, row)
        self._unindex(inbox, row.seq)
        self._remove(inbox.rows, row.seq)
        if row.home:
            self._forget_pending(message.mid)
        else:
            self._remove(state.delivered[message.mid], inbox_id)
        if state.home_entry(message) is None and not state.delivered.get(message.mid):
            self._remove(state.messages, message.mid)
            self._remove(state.message_ids, message.id)
            self._message_gone(message)
            if message.body_id is not None:
                self._remove(state.bodies, message.body_id)


def _oldest_first(of: Iterable[Secret]) -> tuple[Secret, ...]:
    return tuple(sorted(of, key=lambda secret: (secret.added_at, secret.name)))


def _stored(new: NewEntry, mid: int, inbox_id: int, epoch: str) -> MemoryEntry:
    """Return an entry with its message as they are kept; an empty body is no body."""
    message = MemoryMessage(
        mid,
        new.id,
        inbox_id,
        new.seq,
        epoch,
        new.received_at,
        new.size,
        new.facts,
        new.said,
        new.body_kind,
        new.body or None,
        new.body_id,
    )
    origin = inbox_id if new.origin is None else new.origin
    return MemoryEntry(
        new.seq,
        message,
        new.received_at,
        new.event_type,
        new.verified,
        True,
        origin,
        new.expires_at,
        new.delivery,
    )
