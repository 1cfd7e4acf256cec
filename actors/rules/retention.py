"""How much an inbox keeps: age, count and bytes, as pure functions (surface, section 5; study, section 3).

An inbox loses its own oldest entries only, so what is kept is always a run up to `latest_seq`, and a reader behind it
is told of a gap. Dropping here means moving `first_seq`, which takes effect for every reader at once; the rows go
later, in slices. Age always drops. Count and bytes either drop (`drop_oldest`) or refuse what is new (`refuse`), in
which case nothing that was accepted is lost. The newest message is never dropped for its size: an inbox that can hold
nothing helps nobody.
"""

from collections.abc import Sequence

import msgspec

from storage.records import Head, OldEntry, Retention

DROP_ROWS = 500
"""Entries that one turn drops at most: reading their keys takes 0.2 ms. A turn appends at most 64, so it keeps up."""

SECOND_US = 1_000_000


class Drop(msgspec.Struct, frozen=True):
    """What to drop. `head` is the one after it; `more`: as much again may be waiting."""

    head: Head
    rows: int
    more: bool


def refusal(head: Head, retention: Retention, size: int) -> str | None:
    """Return why an inbox with the policy `refuse` does not take another message of `size` bytes, or None."""
    if retention.policy != "refuse":
        return None
    if retention.max_messages is not None and head.live_rows >= retention.max_messages:
        return "This inbox keeps as many messages as it may and takes no more until some are removed."
    if retention.max_bytes is not None and head.live_bytes + size > retention.max_bytes:
        return "This inbox keeps as many bytes as it may and takes no more until some are removed."
    return None


def due_at(retention: Retention, oldest_received_at: int | None) -> int | None:
    """Return when (µs) the oldest entry comes of age, None when it never does or there is none."""
    if retention.max_age_seconds is None or oldest_received_at is None:
        return None
    return oldest_received_at + retention.max_age_seconds * SECOND_US


def wanted(head: Head, retention: Retention, now_us: int) -> bool:
    """Whether there is something to drop, judged from the head alone."""
    return (head.due_at is not None and head.due_at <= now_us) or _over(
        retention, head.live_rows, head.live_bytes
    )


def plan(head: Head, oldest: Sequence[OldEntry], retention: Retention, now_us: int) -> Drop:
    """Decide which of the oldest entries go.

    `oldest` are the first `DROP_ROWS` + 1 that exist from `head.first_seq` on, or all if there are fewer.
    """
    rows, size = head.live_rows, head.live_bytes
    dropped = 0
    for entry in oldest[:DROP_ROWS]:
        due = due_at(retention, entry.received_at)
        if not (due is not None and due <= now_us) and not _over(retention, rows, size):
            break
        dropped += 1
        rows -= 1
        size -= entry.size
    following = oldest[dropped] if dropped < len(oldest) else None
    after = msgspec.structs.replace(
        head,
        first_seq=head.latest_seq + 1 if following is None else following.seq if dropped else head.first_seq,
        live_rows=rows,
        live_bytes=size,
        dropped_rows=head.dropped_rows + dropped,
        dropped_bytes=head.dropped_bytes + head.live_bytes - size,
        due_at=due_at(retention, None if following is None else following.received_at),
    )
    return Drop(after, dropped, more=dropped == DROP_ROWS and following is not None)


def _over(retention: Retention, rows: int, size: int) -> bool:
    if retention.policy != "drop_oldest" or rows <= 1:
        return False
    return (retention.max_messages is not None and rows > retention.max_messages) or (
        retention.max_bytes is not None and size > retention.max_bytes
    )
