"""What appending does to an inbox: numbers, times and duplicates, as one pure function (study, S1).

The number is drawn here, inside the writer's transaction and from the row that it holds, so that duplicates and
failed units consume none. `received_at` is strictly increasing within an inbox: max(now, last + 1 µs); that makes
time filters a range of seqs and a timestamp an exact watermark.
"""

from collections.abc import Mapping, Sequence

import msgspec

from actors.commands import Append, Appended, Draft, Once, Refusal
from actors.rules.retention import due_at, refusal
from storage.mail_records import Recipient, Sent
from storage.records import Head, NewEntry, Retention, Seen

KEEP_ALL = Retention()

ONCE_WINDOW_US = 86_400 * 1_000_000
"""For how long a sender's idempotency key means the same request: a day, as delivery ids of webhooks do by default."""

SentKey = tuple[int, bytes]
"""A sender and its key."""


class AppendPlan(msgspec.Struct, frozen=True):
    """What is to be written, the head after it, and one outcome per command, in order.

    `recipients`: to whom entries are sent, by their place in `entries`.
    """

    head: Head
    entries: list[NewEntry]
    remember: list[tuple[bytes, Seen]]
    outcomes: list[Appended | Refusal]
    sent: list[tuple[SentKey, Sent]]
    recipients: list[tuple[int, tuple[Recipient, ...]]]


def decide(
    head: Head,
    seen: Mapping[bytes, Seen],
    commands: Sequence[Append],
    now_us: int,
    retention: Retention = KEEP_ALL,
    sent: Mapping[SentKey, Sent] | None = None,
    inbox_id: int = 0,
) -> AppendPlan:
    """Decide a group of appends, in their order, of the inbox `inbox_id`.

    `seen` holds what the inbox remembers of the group's dedupe keys, whatever its age; a key seen longer ago than
    the command's window (0: dedupe is off) is as good as new and gets replaced. Two drafts of one group with the
    same key are one message: the second is answered with the first one's place. What a full inbox refuses consumes
    no number and is not remembered, so that the provider's next try may succeed. `sent` is the same for what agents
    send once, by the keys of the group.
    """
    known = dict(seen)
    answered = dict(sent or {})
    answers: dict[SentKey, Sent] = {}
    recipients: list[tuple[int, tuple[Recipient, ...]]] = []
    after = head
    entries: list[NewEntry] = []
    remember: dict[bytes, Seen] = {}
    outcomes: list[Appended | Refusal] = []
    for command in commands:
        draft, once = command.draft, command.once
        if once is not None:
            earlier = answered.get((once.sender, once.key))
            if earlier is not None and now_us - earlier.seen_at < ONCE_WINDOW_US:
                outcomes.append(_again(once, earlier))
                continue
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
        after = advanced(after, entry.seq, entry.received_at, entry.size, retention)
        if key is not None:
            known[key] = remember[key] = Seen(entry.seq, draft.id, now_us)
        if draft.delivery is not None or draft.recipients:
            recipients.append((len(entries) - 1, _recipients(inbox_id, draft, entry)))
        appended = Appended(draft.id, entry.seq, duplicate=False)
        if once is not None:
            answer = Sent(once.request, msgspec.json.encode(appended), now_us)
            answered[(once.sender, once.key)] = answers[(once.sender, once.key)] = answer
        outcomes.append(appended)
    return AppendPlan(after, entries, list(remember.items()), outcomes, list(answers.items()), recipients)


def _again(once: Once, earlier: Sent) -> Appended | Refusal:
    """Answer a request whose key its sender has used before."""
    if earlier.request != once.request:
        return Refusal("conflict", "This key was used for another request.", "idempotency_key")
    first = msgspec.json.decode(earlier.answer, type=Appended)
    return Appended(first.id, first.seq, duplicate=True)


def _recipients(inbox_id: int, draft: Draft, entry: NewEntry) -> tuple[Recipient, ...]:
    """Return to whom a message is sent, each once: the inbox itself when it is a private one, those still to come."""
    others = tuple(Recipient(other) for other in dict.fromkeys(draft.recipients) if other != inbox_id)
    if draft.delivery is None:
        return others
    return (Recipient(inbox_id, entry.seq, entry.received_at), *others)


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
        None,
        draft.expires_at,
        draft.delivery,
    )


def advanced(head: Head, seq: int, at: int, size: int, retention: Retention) -> Head:
    """Return the head after one more entry; the first one that an empty inbox keeps also sets when it comes of age."""
    due = head.due_at if head.live_rows else due_at(retention, at)
    return Head(
        head.epoch,
        seq,
        head.first_seq,
        at,
        head.live_rows + 1,
        head.live_bytes + size,
        head.dropped_rows,
        head.dropped_bytes,
        due,
    )
