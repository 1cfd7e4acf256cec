"""What appending does to an inbox: numbers, times and duplicates, as one pure function (study, S1).

The number is drawn here, inside the writer's transaction and from the row that it holds, so that duplicates and
failed units consume none. `received_at` is strictly increasing within an inbox: max(now, last + 1 µs); that makes
time filters a range of seqs and a timestamp an exact watermark.
"""

from collections.abc import Mapping, Sequence

import msgspec

from actors.commands import Append, Appended, Draft, Refusal
from actors.rules.retention import due_at, refusal
from storage.records import Head, NewEntry, Retention, Seen

KEEP_ALL = Retention()


class AppendPlan(msgspec.Struct, frozen=True):
    """What is to be written, the head after it, and one outcome per command, in order."""

    head: Head
    entries: list[NewEntry]
    remember: list[tuple[bytes, Seen]]
    outcomes: list[Appended | Refusal]


def decide(
    head: Head,
    seen: Mapping[bytes, Seen],
    commands: Sequence[Append],
    now_us: int,
    retention: Retention = KEEP_ALL,
) -> AppendPlan:
    """Decide a group of appends, in their order.

    `seen` holds what the inbox remembers of the group's dedupe keys, whatever its age; a key seen longer ago than
    the command's window (0: dedupe is off) is as good as new and gets replaced. Two drafts of one group with the
    same key are one message: the second is answered with the first one's place. What a full inbox refuses consumes
    no number and is not remembered, so that the provider's next try may succeed.
    """
    known = dict(seen)
    after = head
    entries: list[NewEntry] = []
    remember: dict[bytes, Seen] = {}
    outcomes: list[Appended | Refusal] = []
    for command in commands:
        draft = command.draft
        key = draft.dedupe_key if command.dedupe_window_us else None
        if key is not None:
            first = known.get(key)
            if first is not None and now_us - first.seen_at < command.dedupe_window_us:
                outcomes.append(Appended(first.id, first.seq, duplicate=True))
                continue
        reason = refusal(after, retention, draft.size)
        if reason is not None:
            outcomes.append(Refusal("insufficient_storage", reason))
            continue
        entry = _numbered(after, draft, now_us)
        entries.append(entry)
        after = _with(after, entry, retention)
        if key is not None:
            known[key] = remember[key] = Seen(entry.seq, draft.id, now_us)
        outcomes.append(Appended(draft.id, entry.seq, duplicate=False))
    return AppendPlan(after, entries, list(remember.items()), outcomes)


def _numbered(head: Head, draft: Draft, now_us: int) -> NewEntry:
    return NewEntry(
        head.latest_seq + 1,
        draft.id,
        now_us if now_us > head.last_at else head.last_at + 1,
        draft.size,
        draft.facts,
        draft.said,
        draft.body_kind,
        draft.body,
        draft.body_id,
        draft.event_type,
        draft.verified,
    )


def _with(head: Head, entry: NewEntry, retention: Retention) -> Head:
    """Return the head after an entry; the first one that an empty inbox keeps also sets when it comes of age."""
    due = head.due_at if head.live_rows else due_at(retention, entry.received_at)
    return Head(
        head.epoch,
        entry.seq,
        head.first_seq,
        entry.received_at,
        head.live_rows + 1,
        head.live_bytes + entry.size,
        head.dropped_rows,
        head.dropped_bytes,
        due,
    )
