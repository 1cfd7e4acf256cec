"""Draining an inbox against a cursor that the server owns (surface, section 7; contract `pull_inbox`). Pure functions.

A reader's state is one number and some exceptions: everything up to `ack_cursor` is acknowledged, and so is what stands
in `acked`, runs of seqs above it that were acknowledged one by one. Serving is another matter: `served_high` says how
far the reader has looked without a break, and bounds what an acknowledgement by cursor may pass. `served` has the runs
of seqs that were handed out one by one (surface, section 8), so that they are not handed out so again; neither moves
any cursor, and a pull takes no notice of them.

A pull is: acknowledge first, then look at a window of rows above the floor. All rows of the window count, also those
that its reader may not see: a filtered row that did not count would be looked at again for ever.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

import msgspec

MAX_RUNS = 4_096
"""Runs of acknowledged seqs above the cursor: whoever acknowledges everything but the oldest message makes one each."""


class Run(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The seqs `low` to `high`, both included."""

    low: int
    high: int


class Reader(msgspec.Struct, frozen=True):
    """Where one reader of an inbox is. `acked`, `served`: runs above `ack_cursor`, ascending, never touching each
    other.
    """

    ack_cursor: int = 0
    served_high: int = 0
    acked: tuple[Run, ...] = ()
    served: tuple[Run, ...] = ()

    def has_acked(self, seq: int) -> bool:
        """Whether a seq is acknowledged, by cursor or by itself."""
        if seq <= self.ack_cursor:
            return True
        if not self.acked:  # as of a reader that acknowledges by cursor alone, which asks this for every row
            return False
        return _among(self.acked, seq)

    def was_served(self, seq: int) -> bool:
        """Whether a seq was handed out, or is acknowledged."""
        return self.has_acked(seq) or _among(self.served, seq)


class Row(msgspec.Struct, frozen=True, gc=False):
    """What draining looks at of an entry: `shown` is whether its reader may see it and it has not expired."""

    seq: int
    score: float
    shown: bool


class Window(msgspec.Struct, frozen=True):
    """What a pull has looked at: `items` are the seqs to serve, best first; `reader` is the state after it."""

    items: tuple[int, ...]
    window_high: int
    has_more: bool
    reader: Reader


NextSeq = Callable[[int], int]
"""Returns the first retained seq after one, or one past the latest when there is none."""


def acknowledge(reader: Reader, ack: int, ahead: Sequence[int], next_seq: NextSeq) -> Reader:
    """Return the reader after an acknowledgement by cursor.

    `ahead`: the first rows above its cursor, as many as a window may have; not needed when no more is acknowledged than
    was served. It goes no further than they do, or than was served; a low or late one changes nothing.
    """
    examined = ahead[-1] if ahead else reader.ack_cursor
    ceiling = max(reader.served_high, examined)
    return fold(advanced(reader, max(reader.ack_cursor, min(ack, ceiling))), next_seq)


def acknowledge_each(reader: Reader, seqs: Iterable[int], next_seq: NextSeq) -> Reader:
    """Return the reader after acknowledgements one by one, of retained seqs. Raises `TooManyRuns`."""
    runs = _joined([*reader.acked, *(Run(seq, seq) for seq in seqs if seq > reader.ack_cursor)])
    folded = fold(msgspec.structs.replace(reader, acked=runs), next_seq)
    if len(folded.acked) > MAX_RUNS:
        raise TooManyRuns(next_seq(folded.ack_cursor))
    return folded


class TooManyRuns(Exception):
    """The reader leaves too many holes; `oldest` is the seq to acknowledge first."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"seq {oldest} is still not acknowledged")
        self.oldest = oldest


def fold(reader: Reader, next_seq: NextSeq) -> Reader:
    """Return the reader with its cursor moved over all that follows it without a break: seqs acknowledged one by one,
    and seqs that are retained no longer.
    """
    cursor, runs = reader.ack_cursor, list(reader.acked)
    while True:
        gone = next_seq(cursor) - 1
        if runs and runs[0].low <= gone + 1:
            cursor = max(gone, runs.pop(0).high)
        elif gone > cursor:
            cursor = gone
        else:
            break
    if cursor == reader.ack_cursor:
        return reader
    return msgspec.structs.replace(
        reader, ack_cursor=cursor, acked=tuple(runs), served=_above(reader.served, cursor)
    )


def advanced(reader: Reader, cursor: int) -> Reader:
    """Return the reader with a higher cursor; runs that it reaches are cut or go."""
    if cursor <= reader.ack_cursor:
        return reader
    return msgspec.structs.replace(
        reader,
        ack_cursor=cursor,
        acked=_above(reader.acked, cursor),
        served=_above(reader.served, cursor),
    )


def mark_served(reader: Reader, seqs: Iterable[int], next_seq: NextSeq) -> Reader:
    """Return the reader after handing out retained seqs one by one. Raises `TooManyRuns`."""
    runs = _joined([*reader.served, *(Run(seq, seq) for seq in seqs if seq > reader.ack_cursor)])
    if len(runs) > MAX_RUNS:
        raise TooManyRuns(next_seq(reader.ack_cursor))
    return msgspec.structs.replace(reader, served=runs)


def passed(reader: Reader, floor: int, *, unserved: bool) -> int:
    """Return how far from `floor` on there is nothing left to hand out: up to the end of acknowledged seqs, and with
    `unserved` also of those that were handed out.
    """
    floor = max(floor, reader.ack_cursor)
    while True:
        after = _end_of(reader.acked, floor + 1)
        if unserved:
            after = max(after, _end_of(reader.served, floor + 1))
        if after <= floor:
            return floor
        floor = after


def look(reader: Reader, since: int | None, rows: Sequence[Row], *, has_more: bool) -> Window:
    """Return the window of a pull.

    `rows`: those above the floor (`floor`), in order, as many as the window may have. Acknowledged rows are left out
    unless `since` asks for them. What was never looked at stays so: a window that begins above it serves, and does not
    raise `served_high`.
    """
    high = rows[-1].seq if rows else reader.ack_cursor
    wanted = [row for row in rows if serves(reader, since, row)]
    wanted.sort(key=lambda row: (-row.score, row.seq))
    if floor(reader, since) <= max(reader.ack_cursor, reader.served_high) and high > reader.served_high:
        reader = msgspec.structs.replace(reader, served_high=high)
    return Window(tuple(row.seq for row in wanted), high, has_more, reader)


def serves(reader: Reader, since: int | None, row: Row) -> bool:
    """Whether a pull serves a row of its window."""
    return row.shown and (since is not None or not reader.has_acked(row.seq))


def fitting(costs: Iterable[tuple[int, int]], budget: int) -> int | None:
    """Return the first seq that does not fit into a budget any more, None when all do.

    `costs`: (seq, bytes) of what is served, in the order of seqs. The first one fits always.
    """
    taken = 0
    for place, (seq, cost) in enumerate(costs):
        taken += cost
        if place and taken > budget:
            return seq
    return None


def floor(reader: Reader, since: int | None) -> int:
    """Return the seq after which a pull looks."""
    return reader.ack_cursor if since is None else since


def _among(runs: tuple[Run, ...], seq: int) -> bool:
    return _end_of(runs, seq) > 0


def _end_of(runs: tuple[Run, ...], seq: int) -> int:
    """Return the end of the run that a seq is in, 0 when it is in none."""
    place = bisect_right(runs, seq, key=lambda run: run.low)
    return runs[place - 1].high if place > 0 and seq <= runs[place - 1].high else 0


def _above(runs: tuple[Run, ...], cursor: int) -> tuple[Run, ...]:
    """Return runs without what is not above a cursor."""
    if not runs or runs[0].low > cursor:
        return runs
    return tuple(Run(max(run.low, cursor + 1), run.high) for run in runs if run.high > cursor)


def _joined(runs: list[Run]) -> tuple[Run, ...]:
    """Return runs in order, those that overlap or touch made one."""
    joined: list[Run] = []
    for run in sorted(runs, key=lambda run: run.low):
        if joined and run.low <= joined[-1].high + 1:
            joined[-1] = Run(joined[-1].low, max(joined[-1].high, run.high))
        else:
            joined.append(run)
    return tuple(joined)
