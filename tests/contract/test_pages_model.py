"""Every combination of a page's filters, against a model in plain Python, over random inboxes."""

import itertools
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.protocols import Log
from storage.records import NewEntry, PageQuery
from tests.contract.builders import START_US, See, append, create, drop_before, entry, erase, head, sweep
from tests.contract.conftest import OpenLog

TYPES = ("", "a", "b", "push")
UNIT = 1_000
"""Bytes. Rows weigh about a multiple of this, and budgets end on and between multiples."""

_names = itertools.count()  # one data directory sees all examples of a test


@dataclass(frozen=True)
class Filling:
    """An inbox in the making: its entries, which of them are erased, and where it begins."""

    rows: list[tuple[str, int, int, int, int]]  # type, verdict, µs since the last one, weight, body bytes
    erased: set[int]
    first_seq: int
    swept: int


@st.composite
def fillings(draw: st.DrawFn) -> Filling:
    row = st.tuples(
        st.sampled_from(TYPES),
        st.integers(0, 2),
        st.integers(1, 5),
        st.integers(1, 3),
        st.sampled_from([0, 1_000, 3_000]),
    )
    rows = draw(st.lists(row, max_size=25))
    seqs = st.integers(1, len(rows) + 1)
    return Filling(
        rows, draw(st.sets(seqs, max_size=8)), draw(st.one_of(st.just(1), seqs)), draw(st.integers(0, 30))
    )


def queries(inbox_id: int, latest: int) -> st.SearchStrategy[PageQuery]:
    cursor = st.integers(0, latest + 2)
    moment = st.one_of(st.none(), st.integers(START_US - 2, START_US + 3 * latest + 2))
    return st.builds(
        lambda way, **rest: PageQuery(inbox_id, **way, **rest),
        way=st.one_of(
            st.builds(lambda seq: {"after": seq}, cursor),
            st.builds(lambda seq: {"before": seq}, st.one_of(st.none(), cursor)),
        ),
        limit=st.integers(1, 30),
        types=st.lists(st.sampled_from((*TYPES, "absent")), max_size=3).map(tuple),
        verified=st.one_of(st.none(), st.integers(0, 2)),
        since_us=moment,
        until_us=moment,
        body_limit=st.sampled_from([0, 999, 1_000, 65_536]),
        byte_budget=st.one_of(st.just(1_048_576), st.integers(0, 24).map(lambda n: n * UNIT // 2)),
    )


async def build(log: Log, filling: Filling) -> tuple[int, list[NewEntry]]:
    """Make the inbox; return its id and the entries that are left."""
    id = (await create(log, f"inbox-{next(_names)}")).inbox_id
    entries: list[NewEntry] = []
    at = START_US
    for seq, (event_type, verified, later, weight, body) in enumerate(filling.rows, 1):
        at += later
        facts, said = b"{}", b'"' + b"x" * (weight * UNIT - 4) + b'"'  # exactly a multiple
        entries.append(
            entry(
                seq,
                event_type=event_type,
                verified=verified,
                received_at=at,
                facts=facts,
                said=said,
                body=b"b" * body or None,
            )
        )
    if entries:
        await append(log, id, entries)
    for seq in sorted(filling.erased & {one.seq for one in entries}):
        await erase(log, id, seq)
    left = [one for one in entries if one.seq not in filling.erased]
    dropped = [one for one in left if one.seq < filling.first_seq]
    if filling.first_seq > 1:
        await drop_before(log, id, filling.first_seq, len(dropped), sum(one.size for one in dropped))
        if filling.swept:
            await sweep(log, max_rows=filling.swept)
    return id, left[len(dropped) :]


def expected(entries: list[NewEntry], query: PageQuery) -> tuple[list[tuple[int, bytes, bytes | None]], bool]:
    """Return what the page must have, and whether it is exhausted: `PageQuery` taken literally."""
    if query.after is not None:
        found = [one for one in entries if one.seq > query.after]
    else:
        found = [one for one in reversed(entries) if query.before is None or one.seq < query.before]
    found = [
        one
        for one in found
        if (not query.types or one.event_type in query.types)
        and (query.verified is None or one.verified == query.verified)
        and (query.since_us is None or query.since_us <= one.received_at)
        and (query.until_us is None or one.received_at < query.until_us)
    ]
    rows: list[tuple[int, bytes, bytes | None]] = []
    spent = 0
    for one in found:
        if len(rows) == query.limit or spent > query.byte_budget:
            return rows, False
        body = one.body if one.body is not None and len(one.body) <= query.body_limit else None
        rows.append((one.seq, one.id, body))
        spent += len(one.facts) + len(one.said) + len(body or b"")
    return rows, True


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(filling=fillings(), data=st.data())
async def test_a_page_has_exactly_what_the_model_has(
    open_log: OpenLog, filling: Filling, data: st.DataObject
) -> None:
    async with open_log() as log:
        id, entries = await build(log, filling)
        now = await head(log, id)
        assert (now.live_rows, now.live_bytes) == (len(entries), sum(one.size for one in entries))
        for query in data.draw(st.lists(queries(id, len(filling.rows)), min_size=10, max_size=10)):
            page = await log.read(See(lambda snapshot, query=query: snapshot.page(query)))
            assert page.head == now
            got = [(row.seq, row.id, row.body) for row in page.rows]
            assert (got, page.exhausted) == expected(entries, query), query
