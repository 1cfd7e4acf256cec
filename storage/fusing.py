"""Turns of many inboxes as one: what they need is read before them, and what they write is kept until all have run.

A transaction that brings one message to each of thirty inboxes would run eight statements for each of them, and every
statement costs a wait for the interpreter's lock beside a busy loop (engineering study, S6). So neighbouring units that
say what they need (`Needs`) run against a `Fused`: it answers from two reads made for all of them, keeps the rows of
all, and stores them by as few statements as one long turn would take. No savepoint is needed: while they run, nothing
is written. Whatever a unit asks for beyond that, and whatever it raises, ends in `NotFused`: its rows are let go, and
the writer runs it by itself, behind the others, with all that a unit can do.

The rule that nobody can tell: a `Fused` holds at most one unit of an inbox, and is stored before anything else runs.
"""

from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec

from storage import rows
from storage.entries import ENTRY, MESSAGE, SEEN, SEEN_AGAIN, entry_rows, is_mail, message_rows, seen_rows
from storage.errors import Fenced
from storage.records import Head, NewEntry, Seen
from storage.sql import Row, Sql, in_groups, in_shapes, shaped


class Needs(msgspec.Struct, frozen=True, gc=False):
    """What a unit reads that can be fused with others: an inbox's head, and which of its dedupe keys are remembered."""

    inbox_id: int
    keys: tuple[bytes, ...]


class NotFused(Exception):
    """The unit is to be run by itself. Nothing of it is left."""


def needs_of(unit: Any) -> Needs | None:
    """Return what a unit reads when it can be fused with others; None when it says nothing, or that it cannot."""
    needs: Needs | None = getattr(unit, "needs", None)
    return needs


class Fused:
    """What stands in for the store while fusible units run. `mid` is the last message number given out."""

    def __init__(self, sql: Sql, needs: Sequence[Needs], last_mid: int, now: int) -> None:
        """Read what the units need; `now` is the time of all of them. Raises `apsw.Error`."""
        self.mid = last_mid
        self._sql = sql
        self._now = now
        self._heads = _heads(sql, [one.inbox_id for one in needs])
        self._seen = _seen(sql, [(one.inbox_id, key) for one in needs for key in one.keys])
        self._messages: list[Row] = []
        self._entries: list[Row] = []
        self._remembered: list[Row] = []
        self._advanced: list[Row] = []

    def run(self, unit: Any) -> Any:
        """Run a unit and return its result. Raises `NotFused`; then nothing of it is left."""
        kept = (self._messages, self._entries, self._remembered, self._advanced)
        marks, mid = [len(rows) for rows in kept], self.mid
        try:
            return unit.run(self)
        except (
            Exception
        ) as reason:  # crash policy: it is run again by itself, and what it raises then is its caller's
            for rows, mark in zip(kept, marks, strict=True):
                del rows[mark:]
            self.mid = mid
            raise NotFused from reason

    def store(self) -> None:
        """Store what the units have written. Raises `apsw.Error`, and `Fenced` when a head is not what it was."""
        if not self._advanced:
            return
        self._sql.insert(MESSAGE, self._messages)
        self._sql.insert(ENTRY, self._entries)
        self._sql.insert(SEEN, self._remembered, SEEN_AGAIN)
        _advance(self._sql, self._advanced)

    # -- what a unit that can be fused asks of its transaction ------------------------------------------------
    def now(self) -> int:
        """Return the time of these units."""
        return self._now

    def head(self, inbox_id: int) -> Head:
        """Return the head that was read; once, for another unit of the inbox would have to see what this one does."""
        head = self._heads.pop(inbox_id, None)
        if head is None:
            raise NotFused
        return head

    def seen(self, inbox_id: int, keys: Sequence[bytes]) -> dict[bytes, Seen]:
        """Return those of the keys that are remembered; `Needs` has named them."""
        return {key: self._seen[inbox_id, key] for key in keys if (inbox_id, key) in self._seen}

    def append(self, inbox_id: int, epoch: str, entries: Sequence[NewEntry]) -> range:
        """Keep messages and their entries; return their mids."""
        if is_mail(entries) or any(entry.body_id is not None for entry in entries):
            raise NotFused
        first = self.mid + 1
        self.mid += len(entries)
        self._messages += message_rows(inbox_id, epoch, first, entries)
        self._entries += entry_rows(inbox_id, first, entries)
        return range(first, first + len(entries))

    def remember(self, inbox_id: int, keys: Sequence[tuple[bytes, Seen]]) -> None:
        """Keep dedupe keys."""
        self._remembered += seen_rows(inbox_id, keys)

    def advance(self, inbox_id: int, believed: Head, to: Head) -> None:
        """Keep the head that an inbox is to have."""
        if (to.epoch, to.due_at) != (believed.epoch, believed.due_at):
            raise NotFused  # seldom, and the index of what is due would be rewritten with every turn
        self._advanced.append((inbox_id, believed.epoch, believed.latest_seq, *_moving(to)))

    def __getattr__(self, name: str) -> Any:
        """Whatever else a unit asks for, it needs a savepoint."""
        raise NotFused(name)


_MOVING = ("latest_seq", "first_seq", "last_at", "live_rows", "live_bytes", "dropped_rows", "dropped_bytes")
"""The columns of a head that its messages move."""

_moving = attrgetter(*_MOVING)
_BELIEVED = ("inbox_id", "epoch", "latest_seq")

_heads_text = shaped(
    lambda marks: f"SELECT h.inbox_id, {rows.HEAD} FROM inbox_head h WHERE h.inbox_id IN ({marks})"  # noqa: S608 — question marks only # nosec B608
)


@cache
def _seen_text(count: int) -> str:
    keys = ", ".join(["(?, ?)"] * count)
    # CROSS JOIN: each key is looked up, whatever the planner thinks of the table.
    return (
        f"SELECT s.inbox_id, s.key, s.seq, s.id, s.seen_at FROM (VALUES {keys}) AS v CROSS JOIN seen_delivery s"  # noqa: S608 — question marks only # nosec B608
        " ON s.inbox_id = v.column1 AND s.key = v.column2"
    )


@cache
def _advance_text(count: int) -> str:
    width = len(_BELIEVED) + len(_MOVING)
    values = ", ".join([f"({', '.join('?' * width)})"] * count)
    moved = ", ".join(f"{name} = v.column{n}" for n, name in enumerate(_MOVING, len(_BELIEVED) + 1))
    believed = " AND ".join(f"inbox_head.{name} = v.column{n}" for n, name in enumerate(_BELIEVED, 1))
    return f"UPDATE inbox_head SET {moved} FROM (VALUES {values}) AS v WHERE {believed}"  # noqa: S608 — question marks only # nosec B608


def _heads(sql: Sql, inbox_ids: Sequence[int]) -> dict[int, Head]:
    """Return the heads of those inboxes that have one."""
    return {
        inbox_id: Head(*head)
        for group in in_groups(inbox_ids)
        for inbox_id, *head in sql.rows(_heads_text(len(group)), group)
    }


def _seen(sql: Sql, keys: Sequence[tuple[int, bytes]]) -> dict[tuple[int, bytes], Seen]:
    """Return those of the keys that are remembered."""
    return {
        (inbox_id, key): Seen(*seen)
        for group in in_groups(keys)
        for inbox_id, key, *seen in sql.rows(
            _seen_text(len(group)), [value for pair in group for value in pair]
        )
    }


def _advance(sql: Sql, heads: Sequence[Row]) -> None:
    """Replace the heads of as many inboxes, each if it is still the one believed in. Raises `Fenced`."""
    for part in in_shapes(heads):
        if sql.change(_advance_text(len(part)), [value for row in part for value in row]) != len(part):
            raise Fenced("an inbox is no longer where its turn believed it to be")
