"""Deliveries: once per message and inbox, kept as long as an inbox has them; recipients of direct mail."""

import pytest

from storage.errors import BodyGone, Fenced, UnitFailed
from storage.mail_records import Pending, Receipt, Recipient
from storage.protocols import Log, Tx
from storage.records import BodyKind, Verdict
from tests.contract.builders import (
    START_US,
    Do,
    See,
    create,
    delete,
    drop_before,
    entry,
    erase,
    head,
    large_entry,
    page,
    seqs,
    stage,
    sweep_all,
)
from tests.contract.conftest import OpenLog
from tests.contract.mail import DELIVERY, agent, deliver, delivery, give, head_with, put_all, record, see

ALL = 1 << 40


async def undelivered(log: Log, inbox_id: int, mids: list[int]) -> set[int]:
    return await log.commit(Do(lambda tx: tx.undelivered(inbox_id, mids)))


async def copies(log: Log, inbox_id: int, seq: int) -> list[tuple[int, int]]:
    return await log.commit(Do(lambda tx: tx.copies(inbox_id, seq)))


# -- once ---------------------------------------------------------------------------------------------------
async def test_messages_are_numbered_through_all_inboxes_without_holes(store: Log) -> None:
    one, two = await create(store, "one"), await create(store, "two")
    assert await put_all(store, one.inbox_id, [entry(1), entry(2)]) == [1, 2]

    def half(tx: Tx) -> None:
        assert list(tx.append(two.inbox_id, tx.head(two.inbox_id).epoch, [entry(1)])) == [3]
        assert tx.last_mid == 3
        raise RuntimeError

    with pytest.raises(UnitFailed):
        await store.commit(Do(half))
    assert await store.commit(Do(lambda tx: tx.last_mid)) == 2
    assert await put_all(store, two.inbox_id, [entry(1)]) == [3]
    assert await see(store, lambda snapshot: snapshot.last_mid()) == 3


async def test_a_delivery_is_an_entry_of_its_inbox_that_came_when_it_was_delivered(store: Log) -> None:
    source, reader = await create(store), await agent(store)
    sent = [entry(seq, body=b"x" * seq, event_type="push") for seq in (1, 2)]
    mids = await put_all(store, source.inbox_id, sent)
    new = [
        delivery(n, mid, source.inbox_id, size=n, event_type="push", verified=Verdict.VERIFIED)
        for n, mid in enumerate(mids, 1)
    ]
    await deliver(store, reader.inbox_id, new)
    found = await page(store, reader.inbox_id, body_limit=100)
    assert [(row.seq, row.id, row.body, row.received_at) for row in found.rows] == [
        (n, one.id, one.body, START_US + n * 1_000) for n, one in enumerate(sent, 1)
    ]
    assert (found.head.latest_seq, found.head.live_bytes) == (2, 3)
    assert await seqs(store, reader.inbox_id, since_us=START_US + 1_001) == [2]
    assert await seqs(store, reader.inbox_id, types=("push",)) == [1, 2]


async def test_a_message_is_delivered_to_an_inbox_once(store: Log) -> None:
    source, one, two = await create(store), await agent(store, "a"), await agent(store, "b")
    first, second = await put_all(store, source.inbox_id, [entry(1), entry(2)])
    assert await undelivered(store, one.inbox_id, [first, second, 4_711]) == {first, second}
    assert await undelivered(store, source.inbox_id, [first]) == set(), "it is at home there"
    assert await undelivered(store, one.inbox_id, []) == set()
    await deliver(store, one.inbox_id, [delivery(1, first, source.inbox_id)])
    assert await undelivered(store, one.inbox_id, [first, second, first]) == {second}
    assert await undelivered(store, two.inbox_id, [first, second]) == {first, second}
    with pytest.raises(UnitFailed):
        await deliver(
            store,
            one.inbox_id,
            [delivery(2, second, source.inbox_id), delivery(3, first, source.inbox_id)],
        )
    assert await seqs(store, one.inbox_id) == [1]
    assert await undelivered(store, one.inbox_id, [first, second]) == {second}


async def test_many_messages_are_delivered_and_found_at_once(store: Log) -> None:
    source, reader = await create(store), await agent(store)
    mids = await put_all(store, source.inbox_id, [entry(seq) for seq in range(1, 301)])
    await deliver(
        store,
        reader.inbox_id,
        [delivery(n, mid, source.inbox_id) for n, mid in enumerate(mids, 1) if n <= 290],
    )
    assert await undelivered(store, reader.inbox_id, mids) == set(mids[290:])
    assert (await head(store, reader.inbox_id)).latest_seq == 290


async def test_a_message_that_was_erased_or_swept_at_home_is_delivered_no_more(store: Log) -> None:
    source, one, two = await create(store), await agent(store, "a"), await agent(store, "b")
    mids = await put_all(store, source.inbox_id, [entry(seq) for seq in range(1, 6)])
    await deliver(store, one.inbox_id, [delivery(n, mid, source.inbox_id) for n, mid in enumerate(mids, 1)])
    await erase(store, source.inbox_id, 5)
    await drop_before(store, source.inbox_id, 4, rows=3)
    assert await undelivered(store, two.inbox_id, mids) == set(mids[:4]), "dropped, and still there"
    await sweep_all(store)
    assert await undelivered(store, two.inbox_id, mids) == {mids[3]}
    await delete(store, source.inbox_id)
    await sweep_all(store)
    assert await undelivered(store, two.inbox_id, mids) == set()
    assert await seqs(store, one.inbox_id) == [1, 2, 3, 4, 5], "retention of their home took none of them"


async def test_the_copies_of_a_message_are_where_it_can_still_be_read(store: Log) -> None:
    source = await create(store)
    readers = [await agent(store, name) for name in "abcd"]
    _, second = await put_all(store, source.inbox_id, [entry(1), entry(2)])
    for reader in readers:
        await deliver(store, reader.inbox_id, [delivery(1, second, source.inbox_id)])
    await erase(store, readers[1].inbox_id, 1)
    await drop_before(store, readers[2].inbox_id, 2, rows=1)
    await delete(store, readers[3].inbox_id)
    assert await copies(store, source.inbox_id, 2) == [(readers[0].inbox_id, 1)]
    assert await copies(store, source.inbox_id, 1) == [], "delivered to nobody"
    assert await copies(store, source.inbox_id, 3) == [], "not there"
    assert await copies(store, readers[0].inbox_id, 1) == [], "delivered, not at home"


async def test_a_delivery_by_somebody_who_believes_in_an_old_head_is_fenced(store: Log) -> None:
    source, reader = await create(store), await agent(store)
    first, second = await put_all(store, source.inbox_id, [entry(1), entry(2)])
    old = await head(store, reader.inbox_id)
    await deliver(store, reader.inbox_id, [delivery(1, first, source.inbox_id)])

    def late(tx: Tx) -> None:
        new = [delivery(5, second, source.inbox_id)]
        tx.deliver(reader.inbox_id, new)
        tx.advance(reader.inbox_id, old, head_with(old, new))

    with pytest.raises(Fenced):
        await store.commit(Do(late))
    assert await seqs(store, reader.inbox_id) == [1]
    assert await undelivered(store, reader.inbox_id, [second]) == {second}


# -- lives --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("home_first", [True, False])
async def test_a_message_with_a_large_body_goes_with_its_last_entry(
    open_log: OpenLog, home_first: bool
) -> None:
    async with open_log() as log:
        source, reader = await create(log), await agent(log)
        body_id = await log.commit(Do(lambda tx: stage(tx, [b"abc", b"de"])))
        (mid,) = await put_all(log, source.inbox_id, [large_entry(1, body_id, 5)])
        await deliver(log, reader.inbox_id, [delivery(1, mid, source.inbox_id, size=5)])
        first, last = [source, reader] if home_first else [reader, source]
        await delete(log, first.inbox_id)
        await sweep_all(log)
        (row,) = (await page(log, last.inbox_id)).rows
        assert row.body_kind == BodyKind.LARGE
        assert await log.read(See(lambda snapshot: snapshot.body(body_id, 5))) == b"abcde"
    async with open_log() as log:
        await drop_before(log, last.inbox_id, 2, rows=1)
        await sweep_all(log)
        with pytest.raises(BodyGone):
            await log.read(See(lambda snapshot: snapshot.body(body_id, 5)))


async def test_erasing_a_delivery_leaves_the_message_where_it_is_at_home(store: Log) -> None:
    source, reader = await create(store), await agent(store)
    (mid,) = await put_all(store, source.inbox_id, [entry(1, body=b"kept")])
    await deliver(store, reader.inbox_id, [delivery(1, mid, source.inbox_id)])
    assert await erase(store, reader.inbox_id, 1) is not None
    assert await seqs(store, reader.inbox_id) == []
    assert (await page(store, source.inbox_id, body_limit=9)).rows[0].body == b"kept"


@pytest.mark.parametrize("then", ["at once", "swept"])
async def test_an_erased_delivery_does_not_come_again(store: Log, then: str) -> None:
    """A router that crashed reads on a little before where it was."""
    source, one, two = await create(store), await agent(store, "a"), await agent(store, "b")
    (mid,) = await put_all(store, source.inbox_id, [entry(1)])
    for reader in (one, two):
        await deliver(store, reader.inbox_id, [delivery(1, mid, source.inbox_id)])
    await erase(store, one.inbox_id, 1)
    if then == "swept":
        await drop_before(store, one.inbox_id, 2, rows=0)
        await sweep_all(store)
    assert await undelivered(store, one.inbox_id, [mid]) == set()
    assert await copies(store, source.inbox_id, 1) == [(two.inbox_id, 1)]
    assert await pending(store) == []
    await erase(store, two.inbox_id, 1)
    await erase(store, source.inbox_id, 1)
    assert await see(store, lambda snapshot: snapshot.receipts(mid)) == [], "nothing is left of it"


# -- sending ------------------------------------------------------------------------------------------------
async def test_mail_to_an_agent_itself_carries_its_delivery_record_at_home(store: Log) -> None:
    reader = await agent(store)
    await put_all(store, reader.inbox_id, [entry(1), entry(2, delivery=record(0.9), expires_at=77), entry(3)])
    found = await see(store, lambda snapshot: snapshot.deliveries(reader.inbox_id, [1, 2, 3], 0))
    assert [(one.delivery, one.expires_at, one.own) for one in found] == [
        (None, None, True),
        (record(0.9), 77, True),
        (None, None, True),
    ]


async def send(log: Log, first: int, others: list[int], **fields: object) -> int:
    """Append a message to the first recipient's inbox and write down all of them; return its mid."""

    def run(tx: Tx) -> int:
        believed = tx.head(first)
        new = entry(believed.latest_seq + 1, delivery=DELIVERY, **fields)
        (mid,) = tx.append(first, believed.epoch, [new])
        tx.advance(first, believed, head_with(believed, [delivery(new.seq, mid, first, size=new.size)]))
        tx.add_recipients(mid, [Recipient(first, new.seq, new.received_at), *map(Recipient, others)])
        return mid

    return await log.commit(Do(run))


async def pending(log: Log, after: tuple[int, int] = (0, 0), through: int = ALL, limit: int = 100):
    return await see(log, lambda snapshot: snapshot.pending(after, through, limit))


async def test_recipients_wait_for_the_router_and_are_told_apart_from_those_who_have_it(
    open_log: OpenLog,
) -> None:
    async with open_log() as log:
        a, b, c = [(await agent(log, name)).inbox_id for name in "abc"]
        one = await send(log, a, [c, b], event_type="note", verified=Verdict.NONE, body=b"hi", expires_at=9)
        two = await send(log, b, [a])
        assert (one, two) == (1, 2)
        expected = [Pending(one, to, a, "note", Verdict.NONE, 2, 9, DELIVERY) for to in sorted((b, c))]
        assert (await pending(log))[:2] == expected
        assert [(at.mid, at.inbox_id) for at in await pending(log)] == [(one, b), (one, c), (two, a)]
    async with open_log() as log:
        assert [(at.mid, at.inbox_id) for at in await pending(log, limit=2)] == [(one, b), (one, c)]
        assert [(at.mid, at.inbox_id) for at in await pending(log, (one, b))] == [(one, c), (two, a)]
        assert [(at.mid, at.inbox_id) for at in await pending(log, (two, 0))] == [(two, a)]
        assert [at.mid for at in await pending(log, through=one)] == [one, one]
        await deliver(log, b, [delivery(2, one, b, size=2)])
        assert [(at.mid, at.inbox_id) for at in await pending(log)] == [(one, c), (two, a)]
        assert await see(log, lambda snapshot: snapshot.receipts(one)) == [
            Receipt(a, 1, START_US + 1, None, None, None),
            Receipt(b, 2, START_US + 2_000, None, None, None),
            Receipt(c, None, None, None, None, None),
        ]
        assert await log.commit(Do(lambda tx: tx.receipts(4_711))) == []


async def test_a_delivery_that_is_undone_is_still_to_be_made(store: Log) -> None:
    a, b = [(await agent(store, name)).inbox_id for name in "ab"]
    mid = await send(store, a, [b])

    def half(tx: Tx) -> None:
        give(tx, b, [delivery(1, mid, b)])
        assert tx.receipts(mid)[1].seq == 1
        raise RuntimeError

    with pytest.raises(UnitFailed):
        await store.commit(Do(half))
    assert [at.inbox_id for at in await pending(store)] == [b]


async def receivers(log: Log, mid: int) -> list[int]:
    return [one.inbox_id for one in await see(log, lambda snapshot: snapshot.receipts(mid))]


async def test_nobody_waits_who_is_gone(store: Log) -> None:
    a, b, c = [(await agent(store, name)).inbox_id for name in "abc"]
    first = await send(store, a, [b, c])
    second = await send(store, a, [b, c])
    await deliver(store, b, [delivery(1, first, b)])
    await delete(store, b)
    assert [(at.mid, at.inbox_id) for at in await pending(store)] == [(first, c), (second, c)]
    await sweep_all(store)
    assert [(at.mid, at.inbox_id) for at in await pending(store)] == [(first, c), (second, c)]
    assert await receivers(store, first) == [a, c]


@pytest.mark.parametrize("how", ["erased", "dropped"])
async def test_what_leaves_its_home_is_waited_for_no_more(store: Log, how: str) -> None:
    a, b, c = [(await agent(store, name)).inbox_id for name in "abc"]
    read = await send(store, a, [b, c])
    unread = await send(store, a, [b, c])
    await deliver(store, b, [delivery(1, read, b)])
    if how == "erased":
        for seq in (1, 2):
            await erase(store, a, seq)
    else:
        await drop_before(store, a, 3, rows=2)
        assert len(await pending(store)) == 3, "still there"
        await sweep_all(store)
    assert await pending(store) == []
    assert await receivers(store, read) == [a, b]
    assert await receivers(store, unread) == [], "they went with its last entry"
    assert await seqs(store, b) == [1]
