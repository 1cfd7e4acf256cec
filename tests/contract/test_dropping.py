"""Entries leave an inbox: one erased, a prefix dropped, the rubbish swept in slices."""

import pytest
import trio

from storage.protocols import Log
from storage.records import PageQuery
from tests.contract.builders import (
    Do,
    See,
    append,
    create,
    delete,
    drop_before,
    entry,
    erase,
    fill,
    head,
    page,
    seqs,
    sweep,
    sweep_all,
)


# -- erase ----------------------------------------------------------------------------------------------
async def test_an_erased_entry_is_nowhere_and_its_number_stays_used(store: Log) -> None:
    inbox = await create(store)
    entries = await fill(store, inbox.inbox_id, 4)
    assert await erase(store, inbox.inbox_id, 2) == entries[1].size
    assert await seqs(store, inbox.inbox_id) == [1, 3, 4]
    assert await seqs(store, inbox.inbox_id, before=None) == [4, 3, 1]
    assert await seqs(store, inbox.inbox_id, types=("push",)) == [1, 3, 4]
    _, row = await store.read(See(lambda snapshot: snapshot.message(inbox.inbox_id, 2, 100)))
    assert row is None
    await append(store, inbox.inbox_id, [entry(5)])
    assert await seqs(store, inbox.inbox_id) == [1, 3, 4, 5]


async def test_erasing_what_is_not_there_is_none(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 3)
    await erase(store, inbox.inbox_id, 2)
    for seq in (0, 2, 4, 2**40):
        assert await erase(store, inbox.inbox_id, seq) is None
    before = await head(store, inbox.inbox_id)
    assert (before.live_rows, before.dropped_rows) == (2, 1)


async def test_an_empty_message_is_erased_with_size_zero(store: Log) -> None:
    inbox = await create(store)
    await append(store, inbox.inbox_id, [entry(1, body=None)])
    assert await erase(store, inbox.inbox_id, 1) == 0
    assert await seqs(store, inbox.inbox_id) == []


async def test_a_dropped_entry_cannot_be_erased(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 4)
    await drop_before(store, inbox.inbox_id, 3, rows=2)
    assert await erase(store, inbox.inbox_id, 1) is None
    await sweep_all(store)
    assert await erase(store, inbox.inbox_id, 1) is None
    assert await erase(store, inbox.inbox_id, 3) is not None


async def test_every_entry_may_be_erased_and_the_inbox_goes_on(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 3)
    for seq in (1, 2, 3):
        await erase(store, inbox.inbox_id, seq)
    found = await page(store, inbox.inbox_id)
    assert (found.rows, found.exhausted, found.head.latest_seq) == ([], True, 3)
    await append(store, inbox.inbox_id, [entry(4)])
    assert await seqs(store, inbox.inbox_id) == [4]


# -- drop_before ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("swept", [False, True])
async def test_dropped_entries_are_nowhere_before_and_after_they_are_swept(store: Log, swept: bool) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 6)
    await drop_before(store, inbox.inbox_id, 4, rows=3)
    if swept:
        await sweep_all(store)
    id = inbox.inbox_id
    assert (await head(store, id)).first_seq == 4
    assert await seqs(store, id) == [4, 5, 6]
    assert await seqs(store, id, after=1, limit=2) == [4, 5]
    assert await seqs(store, id, before=None) == [6, 5, 4]
    assert await seqs(store, id, before=4) == []
    assert await seqs(store, id, before=2) == []
    assert await seqs(store, id, types=("push",)) == [4, 5, 6]
    assert await seqs(store, id, verified=1, before=None) == [6, 5, 4]
    assert (await page(store, id, before=None, limit=3)).exhausted
    for seq in (1, 3):
        _, row = await store.read(See(lambda snapshot, seq=seq: snapshot.message(id, seq, 100)))
        assert row is None
    _, row = await store.read(See(lambda snapshot: snapshot.message(id, 4, 100)))
    assert row is not None


@pytest.mark.parametrize("swept", [False, True])
async def test_an_inbox_that_was_emptied_goes_on_counting(store: Log, swept: bool) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 3)
    await drop_before(store, inbox.inbox_id, 4, rows=3)
    if swept:
        await sweep_all(store)
    found = await page(store, inbox.inbox_id)
    assert (found.rows, found.exhausted) == ([], True)
    assert (found.head.first_seq, found.head.latest_seq) == (4, 3)
    await append(store, inbox.inbox_id, [entry(4)])
    assert await seqs(store, inbox.inbox_id) == [4]
    await sweep_all(store)
    assert await seqs(store, inbox.inbox_id) == [4]


# -- sweep ----------------------------------------------------------------------------------------------
async def test_an_empty_store_has_nothing_to_sweep(store: Log) -> None:
    swept = await sweep(store)
    assert (swept.rows, swept.bytes, swept.more) == (0, 0, False)


async def test_what_can_be_read_is_never_swept(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 5)
    assert await sweep_all(store) == [await sweep(store)]
    assert await seqs(store, inbox.inbox_id) == [1, 2, 3, 4, 5]


async def test_a_dropped_prefix_is_swept_in_slices_of_rows(store: Log) -> None:
    inbox = await create(store)
    entries = await fill(store, inbox.inbox_id, 25)
    await drop_before(store, inbox.inbox_id, 21, rows=20)
    slices = await sweep_all(store, max_rows=6)
    assert all(1 <= one.rows <= 6 for one in slices[:-1])
    assert slices[-1].rows <= 6
    assert sum(one.rows for one in slices) == 20
    assert sum(one.bytes for one in slices) == sum(one.size for one in entries[:20])
    assert [one.more for one in slices] == [True] * (len(slices) - 1) + [False]
    assert await seqs(store, inbox.inbox_id) == [21, 22, 23, 24, 25]
    again = await sweep(store)
    assert (again.rows, again.more) == (0, False)


async def test_a_slice_stops_at_its_bytes_but_has_one_row_at_least(store: Log) -> None:
    inbox = await create(store)
    await append(store, inbox.inbox_id, [entry(seq, body=b"x" * 1_000) for seq in range(1, 11)])
    await drop_before(store, inbox.inbox_id, 11, rows=10, size=10_000)
    first = await sweep(store, max_bytes=1)
    assert (first.rows, first.more) == (1, True)
    second = await sweep(store, max_bytes=3_000)
    assert 1 <= second.rows <= 4
    await sweep_all(store)
    assert (await sweep(store)).rows == 0


async def test_the_holes_of_erased_entries_do_not_stop_a_sweep(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 9)
    for seq in (1, 2, 3, 6):
        await erase(store, inbox.inbox_id, seq)
    await drop_before(store, inbox.inbox_id, 9, rows=4)
    slices = await sweep_all(store, max_rows=2)
    assert sum(one.rows for one in slices) >= 4  # what remembers the holes may count as rows, too
    assert await seqs(store, inbox.inbox_id) == [9]


async def test_dropping_may_go_on_while_a_sweep_is_under_way(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 9)
    await drop_before(store, inbox.inbox_id, 5, rows=4)
    assert (await sweep(store, max_rows=2)).more
    await drop_before(store, inbox.inbox_id, 8, rows=3)
    slices = await sweep_all(store, max_rows=2)
    assert sum(one.rows for one in slices) == 5
    assert await seqs(store, inbox.inbox_id) == [8, 9]


async def test_a_deleted_inbox_is_swept_in_slices_and_others_are_left_alone(store: Log) -> None:
    gone = await create(store, "gone")
    kept = await create(store, "kept")
    await fill(store, gone.inbox_id, 20)
    await fill(store, kept.inbox_id, 3)
    await delete(store, gone.inbox_id)
    slices = await sweep_all(store, max_rows=6)
    assert len(slices) >= 4
    assert all(one.rows <= 6 for one in slices)
    assert sum(one.rows for one in slices) >= 20
    assert await seqs(store, kept.inbox_id) == [1, 2, 3]
    again = await sweep(store)
    assert (again.rows, again.more) == (0, False)


async def test_several_inboxes_are_swept_in_turn(store: Log) -> None:
    inboxes = [await create(store, f"inbox-{n}") for n in range(5)]
    for n, inbox in enumerate(inboxes):
        await fill(store, inbox.inbox_id, 4)
        if n % 2:
            await delete(store, inbox.inbox_id)
        else:
            await drop_before(store, inbox.inbox_id, 4, rows=3)
    slices = await sweep_all(store, max_rows=3)
    assert sum(one.rows for one in slices) >= 3 * 3 + 2 * 4
    for inbox in inboxes[::2]:
        assert await seqs(store, inbox.inbox_id) == [4]


async def test_a_page_keeps_its_head_and_rows_together_while_a_prefix_is_dropped(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 30)
    done = trio.Event()

    async def drop() -> None:
        for seq in range(2, 31):
            await drop_before(store, inbox.inbox_id, seq, rows=1)
            await store.commit(Do(lambda tx: tx.sweep(1, 1), grows=False))
        done.set()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drop)
            while not done.is_set():
                found = await store.read(
                    See(lambda snapshot: snapshot.page(PageQuery(inbox.inbox_id, 100, after=0)))
                )
                assert [row.seq for row in found.rows] == list(range(found.head.first_seq, 31))
