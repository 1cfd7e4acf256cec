"""Looking at a private inbox: what a pull, a replay and a stream each find there, in one snapshot or inside a turn.

The rules (`actors/rules/draining.py`) decide; this module fetches what they decide by. A row is seen when its origin
may be read and it has not expired; content is read only of rows that are served. A page never passes its budget, so a
window may end early, before the row that would not fit: that one must not count as looked at.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec

from actors.commands import AckEach, AckedEach, Pull, Pulled, Refusal
from actors.rules import draining
from actors.rules.draining import Reader, Row, Run
from actors.rules.scope import Scope, seen_by
from storage.mail_protocols import MailChanges, MailReads
from storage.mail_records import Delivered, DrainRow, ReaderRecord
from storage.records import Head

ROW_BYTES = 512
"""What a row takes in a page besides its own bytes: names, times, numbers, and the inbox that it comes from."""

GROWTH = 16
"""How many bytes a byte may become in a page at the very most: six in JSON for a control character, another seven in
the text copy of an MCP result. Rows that fit even so need not be measured."""

GROUP_ROWS = 16
"""Rows whose content is read at a time while it is measured, so that not much more is read than fits."""

SCAN_ROWS = 1_000
"""Rows that a replay looks at before it stops: a reader that may see few of many rows gets its page after that."""

SCAN_WINDOW = 100
"""Rows that it looks at in one step, at least."""


# -- pulls --------------------------------------------------------------------------------------------------
def look(reads: MailReads, inbox_id: int, call: Pull, reader: Reader, now_us: int) -> tuple[Pulled, Reader]:
    """Return the page of a pull whose acknowledgement, if any, was applied, and the reader after it."""
    limit = call.max_batch if call.limit is None else min(call.limit, call.max_batch)
    drain = reads.window(inbox_id, draining.floor(reader, call.since), limit, call.body_limit)
    scope = seen_by(call.visible)
    rows = [Row(row.seq, row.score, shown(row, scope, now_us)) for row in drain.rows]
    served = [
        found for found, row in zip(drain.rows, rows, strict=True) if draining.serves(reader, call.since, row)
    ]
    page, end = page_of(reads, inbox_id, call, served)
    has_more = drain.has_more
    if end is not None:
        rows, has_more = [row for row in rows if row.seq < end], True
    window = draining.look(reader, call.since, rows, has_more=has_more)
    by_seq = {one.seq: one for one in page}
    best_first = [by_seq[seq] for seq in window.items if seq in by_seq]
    pulled = Pulled(best_first, window.reader.ack_cursor, window.window_high, has_more, drain.head.epoch)
    return pulled, window.reader


def pull(tx: MailChanges, inbox_id: int, call: Pull, now_us: int) -> Pulled:
    """Carry out a pull: acknowledge, look, and store the reader when that has changed it."""
    record, reader = reader_of(tx, inbox_id, call.reader)
    after = reader
    if call.ack is not None:
        # What was served may be acknowledged in any case; the rows ahead matter only for more than that.
        late = call.ack > reader.served_high
        ahead = tx.seqs_after(inbox_id, reader.ack_cursor, call.max_batch) if late else []
        after = draining.acknowledge(reader, call.ack, ahead, partial(tx.next_seq, inbox_id))
        tx.mark_receipts_passed(inbox_id, reader.ack_cursor, after.ack_cursor, now_us)
    pulled, after = look(tx, inbox_id, call, after, now_us)
    put_reader(tx, inbox_id, call.reader, record, reader, after)
    return pulled


def note_served(tx: MailChanges, inbox_id: int, name: str, high: int, latest_seq: int) -> None:
    """Store how far a reader has looked without a break."""
    record, reader = reader_of(tx, inbox_id, name)
    put_reader(tx, inbox_id, name, record, reader, served_up_to(reader, min(high, latest_seq)))


def served_up_to(reader: Reader, high: int) -> Reader:
    """Return a reader that was served up to a seq, or further."""
    return reader if high <= reader.served_high else msgspec.structs.replace(reader, served_high=high)


def ack_each(tx: MailChanges, inbox_id: int, command: AckEach, head: Head, now_us: int) -> AckedEach:
    """Acknowledge one by one. Raises `Refusal("conflict")`, which has changed nothing."""
    record, reader = reader_of(tx, inbox_id, command.reader)
    acked: list[int] = []
    already: list[int] = []
    unknown: list[int] = []
    for seq in dict.fromkeys(command.seqs):
        if not head.first_seq <= seq <= head.latest_seq or tx.next_seq(inbox_id, seq - 1) != seq:
            unknown.append(seq)
        else:
            (already if reader.has_acked(seq) else acked).append(seq)
    with refusing_holes():
        after = draining.acknowledge_each(reader, acked, partial(tx.next_seq, inbox_id))
    put_reader(tx, inbox_id, command.reader, record, reader, after)
    tx.mark_receipts_acked(inbox_id, acked, now_us)
    return AckedEach(tuple(acked), tuple(already), tuple(unknown), after.ack_cursor)


# -- readers ------------------------------------------------------------------------------------------------
def reader_of(reads: MailReads, inbox_id: int, name: str) -> tuple[ReaderRecord, Reader]:
    """Return a reader as stored and as the rules know it; one that is not there has read nothing."""
    record = reads.reader(inbox_id, name) or ReaderRecord()
    acked = tuple(Run(low, high) for low, high in record.acked)
    served = tuple(Run(low, high) for low, high in record.served)
    return record, Reader(record.ack_cursor, record.served_high, acked, served)


def put_reader(
    tx: MailChanges, inbox_id: int, name: str, record: ReaderRecord, before: Reader, after: Reader
) -> None:
    """Store a reader if it has changed. `record`: as it was stored before."""
    if after == before:
        return
    changed = ReaderRecord(
        after.ack_cursor, after.served_high, record.start_seq, as_pairs(after.acked), as_pairs(after.served)
    )
    tx.put_reader(inbox_id, name, changed)


def as_pairs(runs: Sequence[Run]) -> tuple[tuple[int, int], ...]:
    """Return runs as the store has them."""
    return tuple((run.low, run.high) for run in runs)


@contextmanager
def refusing_holes() -> Iterator[None]:
    """Refuse what leaves a reader with too many holes. Raises `Refusal("conflict")`."""
    try:
        yield
    except draining.TooManyRuns as refused:
        raise Refusal(
            "conflict", f"Too many messages are left out; acknowledge the oldest one first, {refused.oldest}."
        ) from refused


# -- rows in order ------------------------------------------------------------------------------------------
class Sight(msgspec.Struct, frozen=True):
    """How a private inbox is looked at: `limit` rows at most; the rest is as in `Pull`."""

    limit: int
    visible: frozenset[str] | None
    body_limit: int
    byte_budget: int
    measure: Callable[[Delivered], int] | None = None


class Span(msgspec.Struct, frozen=True):
    """What was found after a seq, oldest first. Everything up to `through` was looked at; `more`: rows lie beyond."""

    head: Head
    rows: list[Delivered]
    through: int
    more: bool


def span(reads: MailReads, inbox_id: int, after: int, sight: Sight, now_us: int) -> Span:
    """Return the first rows after a seq that are seen, whether or not they were acknowledged.

    It ends with a full page, with the inbox, or when `SCAN_ROWS` rows were looked at.
    """
    scope = seen_by(sight.visible)
    found: list[DrainRow] = []
    through, scanned = after, 0
    step = max(sight.limit, SCAN_WINDOW)
    while True:
        drain = reads.window(inbox_id, through, step, sight.body_limit)
        for row in drain.rows:
            through = row.seq
            if shown(row, scope, now_us):
                found.append(row)
                if len(found) == sight.limit:
                    break
        scanned += len(drain.rows)
        last = drain.rows[-1].seq if drain.rows else through
        more = drain.has_more or through < last
        if not more or len(found) == sight.limit or scanned >= SCAN_ROWS:
            break
    page, end = page_of(reads, inbox_id, sight, found)
    if end is None:
        return Span(drain.head, page, through, more)
    return Span(drain.head, page, page[-1].seq, True)


class Replay(msgspec.Struct, frozen=True):
    """What came after a moment, oldest first. `last_us`: the moment to ask after next. `truncated`: there is more."""

    head: Head
    rows: list[Delivered]
    last_us: int
    truncated: bool


def replay(reads: MailReads, inbox_id: int, after_us: int, sight: Sight, now_us: int) -> Replay:
    """Return the first rows that were delivered strictly after a moment; no two were delivered at the same one."""
    found = span(reads, inbox_id, reads.floor_at(inbox_id, after_us), sight, now_us)
    last_us = found.rows[-1].delivered_at if found.rows else after_us
    if found.more and not (found.rows and found.rows[-1].seq == found.through):
        # Many rows in a row are hidden from this reader: it goes on behind them.
        passed = reads.deliveries(inbox_id, [found.through], 0)
        last_us = max([last_us, *(one.delivered_at for one in passed)])
    return Replay(found.head, found.rows, last_us, found.more)


# -- both ---------------------------------------------------------------------------------------------------
def shown(row: DrainRow, scope: Scope, now_us: int) -> bool:
    """Whether a reader sees a row: it is its own mail or comes from an inbox in its scope, and has not expired."""
    if row.expires_at is not None and row.expires_at <= now_us:
        return False
    return row.own or scope.sees(row.origin, row.origin_kind)


def page_of(
    reads: MailReads, inbox_id: int, sight: Pull | Sight, served: Sequence[DrainRow]
) -> tuple[list[Delivered], int | None]:
    """Return the content of those rows that fit into a page, and the seq of the first one that does not."""
    weights = [(row.seq, ROW_BYTES + row.weight) for row in served]
    measure, budget = sight.measure, sight.byte_budget
    if measure is None or sum(GROWTH * weight for _, weight in weights) <= budget:
        end = draining.fitting(weights, budget)
        fit = [seq for seq, _ in weights if end is None or seq < end]
        return reads.deliveries(inbox_id, fit, sight.body_limit), end
    page: list[Delivered] = []
    seqs = [row.seq for row in served]

    def costs() -> Iterator[tuple[int, int]]:
        for start in range(0, len(seqs), GROUP_ROWS):
            for one in reads.deliveries(inbox_id, seqs[start : start + GROUP_ROWS], sight.body_limit):
                page.append(one)
                yield one.seq, measure(one)

    end = draining.fitting(costs(), budget)
    return [one for one in page if end is None or one.seq < end], end
