"""Messages, their home entries and their dedupe keys as rows: the statements that insert them, and the values bound."""

from collections.abc import Sequence

from storage.records import NewEntry, Seen
from storage.sql import Row

MESSAGE = (
    "INSERT INTO message (mid, id, home_inbox, home_seq, home_epoch, received_at, size, body_kind, body_id,"
    " facts, said, body)"
)
ENTRY = "INSERT INTO entry (inbox_id, seq, mid, received_at, event_type, verified, size, home, origin)"
ENTRY_OF_MAIL = ENTRY.replace("origin)", "origin, expires_at, delivery)")
SEEN = "INSERT INTO seen_delivery (inbox_id, key, seen_at, seq, id)"
SEEN_AGAIN = (
    "ON CONFLICT (inbox_id, key)"
    " DO UPDATE SET seen_at = excluded.seen_at, seq = excluded.seq, id = excluded.id"
)
"""What follows the values of `SEEN`: a key that was remembered is replaced."""


def message_rows(inbox_id: int, epoch: str, first_mid: int, entries: Sequence[NewEntry]) -> list[Row]:
    """Return the rows for `MESSAGE`; an empty body is NULL."""
    return [
        (
            mid, e.id, inbox_id, e.seq, epoch, e.received_at, e.size, e.body_kind, e.body_id,
            e.facts, e.said, e.body or None,
        )
        for mid, e in enumerate(entries, first_mid)
    ]  # fmt: skip


def entry_rows(inbox_id: int, first_mid: int, entries: Sequence[NewEntry]) -> list[Row]:
    """Return the rows for `ENTRY`."""
    return [
        (inbox_id, e.seq, mid, e.received_at, e.event_type, e.verified, e.size, 1, e.origin or inbox_id)
        for mid, e in enumerate(entries, first_mid)
    ]


def is_mail(entries: Sequence[NewEntry]) -> bool:
    """Whether one of them has what `ENTRY_OF_MAIL` stores besides: the end of its time, a delivery record."""
    return any(e.delivery is not None or e.expires_at is not None for e in entries)


def seen_rows(inbox_id: int, keys: Sequence[tuple[bytes, Seen]]) -> list[Row]:
    """Return the rows for `SEEN`."""
    return [(inbox_id, key, seen.seen_at, seen.seq, seen.id) for key, seen in keys]
