"""What the router reads: the log behind its cursor, slice by slice. Looks, which run on the store's threads."""

from collections.abc import Sequence

import msgspec

from actors.rules.matching.texts import TEXT_LIMIT
from storage.mail_records import Content, LogSlice, Pending, Routable
from storage.protocols import Snapshot

SLICE_MESSAGES = 256
"""Messages that are looked at with one read (study, S10)."""

CONTENT_BYTES = 1024 * 1024
"""Content that is read at once, and so held in memory."""

PENDING_PAGE = 4_096
"""Recipients of direct mail that are looked at with one read."""


class Ahead(msgspec.Struct, frozen=True):
    """What stands behind the cursor, up to the message `through`: what may match, and to whom is still to be delivered.

    `last`: the newest message of the log at that moment.
    """

    rows: list[Routable]
    pending: list[Pending]
    through: int
    last: int


def read_ahead(snapshot: Snapshot, after: int, matching: bool) -> Ahead:
    """Return what stands behind the message `after`. Without `matching` that is all of the log, and only those are read
    whom something was sent to.
    """
    last = snapshot.last_mid()
    found = snapshot.routable(after, SLICE_MESSAGES) if matching else LogSlice([], max(after, last), False)
    pending, through = _pending(snapshot, after, found.through)
    return Ahead([row for row in found.rows if row.mid <= through], pending, through, last)


def _pending(snapshot: Snapshot, after: int, through: int) -> tuple[list[Pending], int]:
    """Return to whom messages of the slice are still to be delivered, all of them up to the message returned."""
    found: list[Pending] = []
    place = (after + 1, 0)
    while True:
        page = snapshot.pending(place, through, PENDING_PAGE)
        found += page
        if len(page) < PENDING_PAGE:
            return found, through
        place = (page[-1].mid, page[-1].inbox_id)
        if found[0].mid < page[-1].mid:  # the page may end within the recipients of its last message
            return [one for one in found if one.mid < page[-1].mid], page[-1].mid - 1


def read_pending(snapshot: Snapshot, place: tuple[int, int], through: int) -> list[Pending]:
    """Return a page of those who are still to be given messages up to `through`. `place`: end of the page before."""
    return snapshot.pending(place, through, PENDING_PAGE)


def read_contents(snapshot: Snapshot, mids: Sequence[int]) -> list[Content]:
    """Return what is matched of the first of these messages, as many as are held in memory together."""
    return snapshot.contents(mids, TEXT_LIMIT, CONTENT_BYTES)
