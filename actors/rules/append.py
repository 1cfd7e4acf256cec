"""What appending does to an inbox: numbers, times and duplicates, as one pure function (study, S1).

The number is drawn here, inside the writer's transaction and from the row that it holds, so that duplicates and
failed units consume none. `received_at` is strictly increasing within an inbox: max(now, last + 1 µs); that makes
time filters a range of seqs and a timestamp an exact watermark.
"""

from collections.abc import Mapping, Sequence

import msgspec

from actors.commands import Append, Appended
from storage.records import Head, NewEntry, Seen


class AppendPlan(msgspec.Struct, frozen=True):
    """What is to be written, the head after it, and one outcome per command, in order."""

    head: Head
    entries: list[NewEntry]
    remember: list[tuple[bytes, Seen]]
    outcomes: list[Appended]


def decide(head: Head, seen: Mapping[bytes, Seen], commands: Sequence[Append], now_us: int) -> AppendPlan:
    """Decide a group of appends, in their order.

    `seen` holds what the inbox remembers of the group's dedupe keys, whatever its age; a key seen longer ago than
    the command's window (0: dedupe is off) is as good as new and gets replaced. Two drafts of one group with the
    same key are one message: the second is answered with the first one's place.
    """
    known = dict(seen)
    seq, last_at = head.latest_seq, head.last_at
    rows_bytes = 0
    entries: list[NewEntry] = []
    remember: dict[bytes, Seen] = {}
    outcomes: list[Appended] = []
    for command in commands:
        draft = command.draft
        key = draft.dedupe_key if command.dedupe_window_us else None
        if key is not None:
            first = known.get(key)
            if first is not None and now_us - first.seen_at < command.dedupe_window_us:
                outcomes.append(Appended(first.id, first.seq, duplicate=True))
                continue
        seq += 1
        last_at = now_us if now_us > last_at else last_at + 1
        rows_bytes += draft.size
        entries.append(
            NewEntry(
                seq,
                draft.id,
                last_at,
                draft.size,
                draft.facts,
                draft.said,
                draft.body_kind,
                draft.body,
                draft.body_id,
                draft.event_type,
                draft.verified,
            )
        )
        if key is not None:
            known[key] = remember[key] = Seen(seq, draft.id, now_us)
        outcomes.append(Appended(draft.id, seq, duplicate=False))
    after = msgspec.structs.replace(
        head,
        latest_seq=seq,
        last_at=last_at,
        live_rows=head.live_rows + len(entries),
        live_bytes=head.live_bytes + rows_bytes,
    )
    return AppendPlan(after, entries, list(remember.items()), outcomes)
