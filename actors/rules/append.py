"""What appending does to an inbox: numbers, times and duplicates, as one pure function (study, S1).

The number is drawn here, inside the writer's transaction and from the row that it holds, so that duplicates and
failed units consume none. `received_at` is strictly increasing within an inbox: max(now, last + 1 µs); that makes
time filters a range of seqs and a timestamp an exact watermark.
"""

from collections.abc import Mapping, Sequence

import msgspec

from actors.commands import Append, Appended, Broadcast, Draft, Once, Refusal, Skipped
from actors.rules.retention import due_at, refusal
from storage.mail_records import AgentRecord, Recipient, Sent
from storage.records import Head, NewEntry, Retention, Seen

KEEP_ALL = Retention()

NOBODY = "Nobody else is on this machine, or all have said farewell; nothing was stored."

ONCE_WINDOW_US = 86_400 * 1_000_000
"""For how long a sender's idempotency key means the same request: a day, as delivery ids of webhooks do by default."""

SentKey = tuple[int, bytes]
"""A sender and its key."""

Roster = Sequence[tuple[AgentRecord, int | None]]
"""The agents of a machine in the order of their ids, each with the moment of its farewell, None if it is not gone."""


class AppendPlan(msgspec.Struct, frozen=True):
    """What is to be written, the head after it, and one outcome per command, in order.

    `recipients`: to whom entries are sent, by their place in `entries`. `logged`: in whose list of what it sent they
    are to stand, likewise.
    """

    head: Head
    entries: list[NewEntry]
    remember: list[tuple[bytes, Seen]]
    outcomes: list[Appended | Refusal]
    sent: list[tuple[SentKey, Sent]]
    recipients: list[tuple[int, tuple[Recipient, ...]]]
    logged: list[tuple[int, int]]


class _Audience(msgspec.Struct, frozen=True):
    """To whom a message is sent, each once."""

    recipients: tuple[Recipient, ...]
    names: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()


NOT_ADDRESSED = _Audience(())


def decide(
    head: Head,
    seen: Mapping[bytes, Seen],
    commands: Sequence[Append],
    now_us: int,
    retention: Retention = KEEP_ALL,
    sent: Mapping[SentKey, Sent] | None = None,
    inbox_id: int = 0,
    rosters: Mapping[str, Roster] | None = None,
) -> AppendPlan:
    """Decide a group of appends, in their order, of the inbox `inbox_id`.

    `seen` holds what the inbox remembers of the group's dedupe keys, whatever its age; a key seen longer ago than
    the command's window (0: dedupe is off) is as good as new and gets replaced. Two drafts of one group with the
    same key are one message: the second is answered with the first one's place. What a full inbox refuses consumes
    no number and is not remembered, so that the provider's next try may succeed. `sent` is the same for what agents
    send once, by the keys of the group. `rosters`: who is on the machines of the group's broadcasts.
    """
    known = dict(seen)
    answered = dict(sent or {})
    answers: dict[SentKey, Sent] = {}
    recipients: list[tuple[int, tuple[Recipient, ...]]] = []
    logged: list[tuple[int, int]] = []
    after = head
    entries: list[NewEntry] = []
    remember: dict[bytes, Seen] = {}
    outcomes: list[Appended | Refusal] = []
    for command in commands:
        draft, once = command.draft, command.once
        if once is not None:
            earlier = answered.get((once.sender, once.key))
            again = None if earlier is None else repeated(once, earlier, now_us)
            if again is not None:
                outcomes.append(again)
                continue
        key = draft.dedupe_key if command.dedupe_window_us else None
        if key is not None:
            first = known.get(key)
            if first is not None and now_us - first.seen_at < command.dedupe_window_us:
                outcomes.append(Appended(first.id, first.seq, duplicate=True))
                continue
        heard = None if draft.broadcast is None else _audience(draft.broadcast, rosters or {})
        if heard is not None and not heard.recipients:
            outcomes.append(Refusal("no_recipient", NOBODY))
            continue
        reason = refusal(after, retention, draft.size)
        if reason is not None:
            outcomes.append(Refusal("insufficient_storage", reason))
            continue
        entry = _numbered(after, draft, now_us)
        entries.append(entry)
        if heard is None:
            named = draft.delivery is not None or draft.recipients
            heard = _addressed(inbox_id, draft, entry) if named else NOT_ADDRESSED
        after = advanced(after, entry.seq, entry.received_at, entry.size, retention)
        if key is not None:
            known[key] = remember[key] = Seen(entry.seq, draft.id, now_us)
        if heard.recipients:
            recipients.append((len(entries) - 1, heard.recipients))
        if draft.log_of is not None:
            logged.append((len(entries) - 1, draft.log_of))
        appended = Appended(draft.id, entry.seq, False, heard.names, heard.skipped)
        if once is not None:
            answer = Sent(once.request, msgspec.json.encode(appended), now_us)
            answered[(once.sender, once.key)] = answers[(once.sender, once.key)] = answer
        outcomes.append(appended)
    return AppendPlan(
        after, entries, list(remember.items()), outcomes, list(answers.items()), recipients, logged
    )


def repeated(once: Once, earlier: Sent, now_us: int) -> Appended | Refusal | None:
    """Answer a request whose key its sender has used before; None when that was too long ago to count."""
    if now_us - earlier.seen_at >= ONCE_WINDOW_US:
        return None
    if earlier.request != once.request:
        return Refusal("conflict", "This key was used for another request.", "idempotency_key")
    return msgspec.structs.replace(msgspec.json.decode(earlier.answer, type=Appended), duplicate=True)


def _addressed(inbox_id: int, draft: Draft, entry: NewEntry) -> _Audience:
    """Return to whom a message is sent by name: the inbox itself when it is a private one, those still to come."""
    others = tuple(Recipient(other) for other in dict.fromkeys(draft.recipients) if other != inbox_id)
    if draft.delivery is None:
        return _Audience(others)
    return _Audience((Recipient(inbox_id, entry.seq, entry.received_at), *others))


def _audience(broadcast: Broadcast, rosters: Mapping[str, Roster]) -> _Audience:
    """Return to whom a broadcast goes, as `Broadcast` says."""
    recipients: list[Recipient] = []
    names: list[str] = []
    skipped: list[Skipped] = []
    for agent, gone_at in rosters.get(broadcast.machine, ()):
        if agent.agent_id == broadcast.sender:
            continue
        if gone_at is not None:
            skipped.append(Skipped(agent.agent_id, "gone"))
        elif len(recipients) == broadcast.most:
            skipped.append(Skipped(agent.agent_id, "limit"))
        else:
            recipients.append(Recipient(agent.inbox_id))
            names.append(agent.agent_id)
    return _Audience(tuple(recipients), tuple(names), tuple(skipped))


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
