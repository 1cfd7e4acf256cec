"""Draining: readers, the rows in front of them, what is shown of a row, and where a moment falls among them."""

from typing import Any

import pytest

from storage.errors import InboxGone
from storage.mail_records import Delivered, Drain, DrainRow, ReaderRecord
from storage.protocols import Log
from storage.records import BodyKind, Verdict
from tests.contract.builders import (
    START_US,
    Do,
    create,
    delete,
    drop_before,
    entry,
    erase,
    fill,
    head,
    large_entry,
    stage,
    sweep_all,
)
from tests.contract.conftest import OpenLog
from tests.contract.mail import DELIVERY, agent, deliver, delivery, put_all, record, see


async def both(log: Log, of: Any) -> Any:
    """Return what a unit and a look find, which must be the same."""
    found = await see(log, of)
    assert await log.commit(Do(of)) == found
    return found


async def window(log: Log, inbox_id: int, floor: int = 0, limit: int = 100, body_limit: int = 0) -> Drain:
    return await both(log, lambda store: store.window(inbox_id, floor, limit, body_limit))


# -- readers ------------------------------------------------------------------------------------------------
async def test_a_reader_is_kept_as_it_was_put(open_log: OpenLog) -> None:
    many = tuple((n * 3, n * 3 + 1) for n in range(5, 4_100))
    async with open_log() as log:
        made = await agent(log)
        assert await both(log, lambda store: store.reader(made.inbox_id, "self")) is None
        await log.commit(Do(lambda tx: tx.put_reader(made.inbox_id, "self", ReaderRecord(1, 2, 3))))
        await log.commit(Do(lambda tx: tx.put_reader(made.inbox_id, "other", ReaderRecord(7))))
        assert await both(log, lambda store: store.reader(made.inbox_id, "self")) == ReaderRecord(1, 2, 3, ())
        await log.commit(Do(lambda tx: tx.put_reader(made.inbox_id, "self", ReaderRecord(4, 5, 6, many))))
    async with open_log() as log:
        assert await both(log, lambda store: store.reader(made.inbox_id, "self")) == ReaderRecord(
            4, 5, 6, many
        )
        assert await both(log, lambda store: store.reader(made.inbox_id, "other")) == ReaderRecord(7)


# -- windows ------------------------------------------------------------------------------------------------
async def test_a_window_has_the_first_rows_above_its_floor_and_says_whether_more_follow(store: Log) -> None:
    source, reader = await create(store), await agent(store)
    mids = await put_all(store, source.inbox_id, [entry(seq) for seq in range(1, 10)])
    await deliver(
        store, reader.inbox_id, [delivery(n, mid, source.inbox_id) for n, mid in enumerate(mids, 1)]
    )

    async def seqs(floor: int, limit: int) -> tuple[list[int], bool]:
        found = await window(store, reader.inbox_id, floor, limit)
        assert found.head == await head(store, reader.inbox_id)
        return [row.seq for row in found.rows], found.has_more

    assert await seqs(0, 4) == ([1, 2, 3, 4], True)
    assert await seqs(5, 4) == ([6, 7, 8, 9], False)
    assert await seqs(6, 4) == ([7, 8, 9], False)
    assert await seqs(9, 4) == ([], False)
    assert await seqs(10**18, 4) == ([], False)
    await erase(store, reader.inbox_id, 4)
    await drop_before(store, reader.inbox_id, 3, rows=2)
    assert await seqs(0, 2) == ([3, 5], True)
    await sweep_all(store)
    assert await seqs(0, 100) == ([3, 5, 6, 7, 8, 9], False)


async def test_a_row_says_what_the_rules_decide_by(store: Log) -> None:
    source, machine, reader = (
        await create(store),
        await create(store, "machine.m", "machine"),
        await agent(store),
    )
    a, b, c = await put_all(
        store, source.inbox_id, [entry(1, body=b"12345"), entry(2, body=None), entry(3, body=b"1" * 99)]
    )
    (d,) = await put_all(store, machine.inbox_id, [entry(1, body=b"12")])
    await put_all(store, reader.inbox_id, [entry(1, delivery=record(1), expires_at=5)])
    await deliver(
        store,
        reader.inbox_id,
        [
            delivery(2, a, source.inbox_id, delivery=record(0.25), expires_at=7),
            delivery(3, b, source.inbox_id),
            delivery(4, c, source.inbox_id, delivery=b'{"via":"x"}'),
            delivery(5, d, machine.inbox_id),
        ],
    )
    await put_all(store, reader.inbox_id, [entry(6, received_at=START_US * 2)])
    own = len(b'{"method":"POST"}') + len(b'{"path":"/1"}')
    found = await window(store, reader.inbox_id, body_limit=50)
    assert found.rows == [
        DrainRow(1, 1.0, 5, "agent.a", "agent", True, own + len(record(1)) + len(b"body of 1")),
        DrainRow(2, 0.25, 7, "demo", "webhook", False, own + len(record(0.25)) + 5),
        DrainRow(3, 0.5, None, "demo", "webhook", False, own + len(DELIVERY)),
        DrainRow(4, 0.0, None, "demo", "webhook", False, own + len(b'{"via":"x"}')),
        DrainRow(5, 0.5, None, "machine.m", "machine", False, own + len(DELIVERY) + 2),
        DrainRow(6, 0.0, None, "agent.a", "agent", True, own + len(b"body of 6")),
    ]
    assert (await window(store, reader.inbox_id, 1, 1, body_limit=4)).rows[0].weight == own + len(
        record(0.25)
    )
    await delete(store, source.inbox_id)
    for _ in range(2):
        found = await window(store, reader.inbox_id)
        assert [row.origin for row in found.rows] == ["agent.a", None, None, None, "machine.m", "agent.a"]
        assert [row.origin_kind for row in found.rows][:2] == ["agent", None]
        await sweep_all(store)
    again = await create(store)
    assert again.slug == "demo"
    assert (await window(store, reader.inbox_id)).rows[1].origin is None, "a new life is another inbox"


# -- one after the other ------------------------------------------------------------------------------------
async def test_the_next_seq_is_the_next_that_is_retained(store: Log) -> None:
    made = await agent(store)

    async def after(seq: int) -> int:
        return await both(store, lambda one: one.next_seq(made.inbox_id, seq))

    assert [await after(0), await after(5)] == [1, 1]
    await fill(store, made.inbox_id, 9)
    await erase(store, made.inbox_id, 4)
    await erase(store, made.inbox_id, 9)
    await drop_before(store, made.inbox_id, 3, rows=2)
    for _ in range(2):
        assert [await after(seq) for seq in (0, 1, 2, 3, 4, 7, 8, 9, 12)] == [3, 3, 3, 5, 5, 8, 10, 10, 10]
        assert await both(store, lambda one: one.seqs_after(made.inbox_id, 0, 3)) == [3, 5, 6]
        assert await both(store, lambda one: one.seqs_after(made.inbox_id, 6, 3)) == [7, 8]
        assert await both(store, lambda one: one.seqs_after(made.inbox_id, 8, 3)) == []
        await sweep_all(store)


async def test_a_moment_falls_between_two_seqs(store: Log) -> None:
    made = await agent(store)

    async def at(us: int) -> int:
        return await both(store, lambda one: one.floor_at(made.inbox_id, START_US + us))

    assert await at(5) == 0
    await put_all(store, made.inbox_id, [entry(seq, received_at=START_US + seq * 10) for seq in range(1, 8)])
    assert [await at(us) for us in (0, 9, 10, 11, 69, 70, 10**9)] == [0, 0, 1, 1, 6, 7, 7]
    await erase(store, made.inbox_id, 5)
    await drop_before(store, made.inbox_id, 3, rows=2)
    for us in range(0, 80, 3):
        floor = await at(us)
        rows = (await window(store, made.inbox_id, floor)).rows
        times = {row.seq: row.seq * 10 for row in (await window(store, made.inbox_id)).rows}
        assert [row.seq for row in rows] == [seq for seq, time in times.items() if time > us]


# -- what is shown ------------------------------------------------------------------------------------------
async def test_a_delivery_is_shown_with_its_message_and_its_home(store: Log) -> None:
    source, reader = await create(store), await agent(store)
    body_id = await store.commit(Do(lambda tx: stage(tx, [b"large"])))
    sent = [
        entry(1, body=b"text", facts=b'{"a":1}', said=b'{"b":2}', event_type="x", verified=Verdict.FAILED),
        large_entry(2, body_id, 5),
        entry(3, body=None),
    ]
    mids = await put_all(store, source.inbox_id, sent)
    new = [
        delivery(1, mids[0], source.inbox_id, size=4, event_type="x", verified=Verdict.FAILED, expires_at=8),
        delivery(2, mids[1], source.inbox_id, size=5),
        delivery(3, mids[2], source.inbox_id, size=0, delivery=record(1)),
    ]
    await deliver(store, reader.inbox_id, new)
    epoch = (await head(store, source.inbox_id)).epoch

    async def shown(seqs: list[int], body_limit: int) -> list[Delivered]:
        return await both(store, lambda one: one.deliveries(reader.inbox_id, seqs, body_limit))

    first, large, empty = await shown([1, 2, 3], 100)
    assert first == Delivered(
        seq=1,
        delivered_at=START_US + 1_000,
        delivery=DELIVERY,
        expires_at=8,
        own=False,
        id=sent[0].id,
        received_at=START_US + 1,
        size=4,
        facts=b'{"a":1}',
        said=b'{"b":2}',
        body_kind=BodyKind.TEXT,
        body=b"text",
        body_id=None,
        event_type="x",
        verified=Verdict.FAILED,
        home="demo",
        home_seq=1,
        home_epoch=epoch,
    )
    large_row = (await window(store, reader.inbox_id, 1, 1, body_limit=100)).rows[0]
    assert large_row.weight == len(large.facts) + len(large.said) + len(DELIVERY), (
        "its body does not come along"
    )
    assert (large.body_kind, large.body, large.body_id, large.home_seq) == (BodyKind.LARGE, None, body_id, 2)
    assert (empty.body_kind, empty.body, empty.delivery) == (BodyKind.EMPTY, None, record(1))
    assert [one.body for one in await shown([1], 3)] == [None]
    assert [one.seq for one in await shown([3, 1, 4_711, 2], 0)] == [3, 1, 2], "in the order asked for"
    assert await shown([], 0) == []
    await delete(store, source.inbox_id)
    await sweep_all(store)
    (first,) = await shown([1], 100)
    assert (first.home, first.home_seq, first.home_epoch, first.body) == (None, 1, epoch, b"text")
    await drop_before(store, reader.inbox_id, 2, rows=1)
    assert [one.seq for one in await shown([1, 2], 0)] == [2]


async def test_many_deliveries_are_shown_at_once(store: Log) -> None:
    made = await agent(store)
    await fill(store, made.inbox_id, 300)
    wanted = list(range(300, 0, -1))
    found = await see(store, lambda snapshot: snapshot.deliveries(made.inbox_id, wanted, 0))
    assert [one.seq for one in found] == wanted


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, inbox_id: store.window(inbox_id, 0, 1, 0),
        lambda store, inbox_id: store.seqs_after(inbox_id, 0, 1),
        lambda store, inbox_id: store.next_seq(inbox_id, 0),
        lambda store, inbox_id: store.floor_at(inbox_id, 0),
        lambda store, inbox_id: store.deliveries(inbox_id, [1], 0),
    ],
)
async def test_an_inbox_that_is_gone_cannot_be_drained(store: Log, ask: Any) -> None:
    made = await agent(store)
    await fill(store, made.inbox_id, 2)
    await delete(store, made.inbox_id)
    with pytest.raises(InboxGone):
        await see(store, lambda snapshot: ask(snapshot, made.inbox_id))
    with pytest.raises(InboxGone):
        await store.commit(Do(lambda tx: ask(tx, made.inbox_id)))
