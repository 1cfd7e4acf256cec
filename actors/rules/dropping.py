"""What taking messages out of an inbox does to its head: purge and erase. Pure.

`latest_seq` never moves back, so a cursor that pointed anywhere before stays meaningful: a reader behind
`first_seq` is told of a gap.
"""

import msgspec

from storage.records import Head


def purged(head: Head) -> Head:
    """Return the head after every message was dropped: nothing kept, the counter where it was."""
    return msgspec.structs.replace(
        head,
        first_seq=head.latest_seq + 1,
        live_rows=0,
        live_bytes=0,
        dropped_rows=head.dropped_rows + head.live_rows,
        dropped_bytes=head.dropped_bytes + head.live_bytes,
        due_at=None,
    )


def erased(head: Head, size: int) -> Head:
    """Return the head after one kept message of `size` bytes lost its content. Its seq stays used."""
    return msgspec.structs.replace(
        head,
        live_rows=head.live_rows - 1,
        live_bytes=head.live_bytes - size,
        dropped_rows=head.dropped_rows + 1,
        dropped_bytes=head.dropped_bytes + size,
    )
