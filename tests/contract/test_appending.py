"""Entries are appended densely and come back byte for byte."""

import pytest
import trio

from storage.errors import NotStored
from storage.protocols import Log
from storage.records import BodyKind, StoredMessage, Verdict
from tests.contract.builders import (
    START_US,
    Do,
    See,
    append,
    create,
    entry,
    fill,
    head,
    head_after,
    message_id,
    page,
    put,
    seqs,
)

EVERY_BYTE = bytes(range(256)) * 4


async def test_a_new_inbox_has_an_empty_head(store: Log) -> None:
    inbox = await create(store)
    found = await head(store, inbox.inbox_id)
    assert (found.latest_seq, found.first_seq, found.last_at) == (0, 1, 0)
    assert (found.live_rows, found.live_bytes, found.dropped_rows, found.dropped_bytes) == (0, 0, 0, 0)
    assert await seqs(store, inbox.inbox_id) == []


async def test_an_entry_comes_back_byte_for_byte(store: Log) -> None:
    inbox = await create(store)
    written = entry(
        1,
        body=EVERY_BYTE,
        facts=b'{ "method" : "PUT" }',
        said='{"path":"/ü/\\u0000"}'.encode(),
        body_kind=BodyKind.BYTES,
        event_type="pull_request.öffnen",
        verified=Verdict.FAILED,
    )
    await append(store, inbox.inbox_id, [written])
    _, read = await store.read(See(lambda snapshot: snapshot.message(inbox.inbox_id, 1, 65_536)))
    assert read == StoredMessage(
        seq=1,
        id=written.id,
        received_at=START_US + 1,
        size=len(EVERY_BYTE),
        facts=b'{ "method" : "PUT" }',
        said='{"path":"/ü/\\u0000"}'.encode(),
        body_kind=BodyKind.BYTES,
        body=EVERY_BYTE,
        body_id=None,
        event_type="pull_request.öffnen",
        verified=Verdict.FAILED,
    )
    assert (await page(store, inbox.inbox_id, body_limit=65_536)).rows == [read]


@pytest.mark.parametrize("count", [1, 2, 3, 31, 32, 33, 64, 100])
async def test_a_group_of_any_size_is_dense_and_in_order(store: Log, count: int) -> None:
    inbox = await create(store)
    first = await fill(store, inbox.inbox_id, count)
    second = await append(store, inbox.inbox_id, [entry(count + 1), entry(count + 2)])
    rows = (await page(store, inbox.inbox_id, body_limit=1_000)).rows
    assert [row.seq for row in rows] == list(range(1, count + 3))
    assert [(row.id, row.body) for row in rows] == [(one.id, one.body) for one in (*first, *second)]


async def test_the_head_is_what_the_unit_made_of_it(store: Log) -> None:
    inbox = await create(store)
    before = await head(store, inbox.inbox_id)
    entries = await fill(store, inbox.inbox_id, 3)
    after = await head(store, inbox.inbox_id)
    assert after == head_after(before, entries)
    assert after.live_bytes == sum(len(one.body or b"") for one in entries)


async def test_an_empty_body_is_none(store: Log) -> None:
    inbox = await create(store)
    await append(store, inbox.inbox_id, [entry(1, body=None)])
    (row,) = (await page(store, inbox.inbox_id, body_limit=1_000)).rows
    assert (row.size, row.body_kind, row.body, row.body_id) == (0, BodyKind.EMPTY, None, None)


@pytest.mark.parametrize(("limit", "comes"), [(0, False), (9, False), (10, True), (11, True)])
async def test_a_body_comes_along_only_within_the_limit(store: Log, limit: int, comes: bool) -> None:
    inbox = await create(store)
    await append(store, inbox.inbox_id, [entry(1, body=b"0123456789")])
    (row,) = (await page(store, inbox.inbox_id, body_limit=limit)).rows
    _, alone = await store.read(See(lambda snapshot: snapshot.message(inbox.inbox_id, 1, limit)))
    assert row == alone
    assert row.body == (b"0123456789" if comes else None)
    assert row.size == 10


async def test_a_message_that_is_not_there_is_none_beside_its_head(store: Log) -> None:
    inbox = await create(store)
    await fill(store, inbox.inbox_id, 2)
    for seq in (0, 3, 2**62):
        found, row = await store.read(See(lambda snapshot, seq=seq: snapshot.message(inbox.inbox_id, seq, 0)))
        assert (found.latest_seq, row) == (2, None)


async def test_inboxes_do_not_see_each_others_entries(store: Log) -> None:
    one = await create(store, "one")
    two = await create(store, "two")
    await fill(store, one.inbox_id, 3)
    await fill(store, two.inbox_id, 2)
    assert await seqs(store, one.inbox_id) == [1, 2, 3]
    assert await seqs(store, two.inbox_id) == [1, 2]


async def test_one_message_id_is_stored_once(store: Log) -> None:
    inbox = await create(store)
    id = message_id()
    await append(store, inbox.inbox_id, [entry(1, id=id)])
    with pytest.raises(NotStored):
        await append(store, inbox.inbox_id, [entry(2, id=id)])
    assert await seqs(store, inbox.inbox_id) == [1]
    assert (await head(store, inbox.inbox_id)).latest_seq == 1


async def test_a_seq_that_is_taken_is_not_overwritten(store: Log) -> None:
    inbox = await create(store)
    (first,) = await fill(store, inbox.inbox_id, 1)
    with pytest.raises(NotStored):
        await store.commit(
            Do(lambda tx: tx.append(inbox.inbox_id, tx.head(inbox.inbox_id).epoch, [entry(1, body=b"other")]))
        )
    (row,) = (await page(store, inbox.inbox_id, body_limit=100)).rows
    assert (row.id, row.body) == (first.id, first.body)


async def test_a_unit_sees_what_it_did_itself(store: Log) -> None:
    inbox = await create(store)

    def twice(tx):
        put(tx, inbox.inbox_id, [entry(1)])
        between = tx.head(inbox.inbox_id).latest_seq
        put(tx, inbox.inbox_id, [entry(2)])
        return between, tx.head(inbox.inbox_id).latest_seq

    assert await store.commit(Do(twice)) == (1, 2)
    assert await seqs(store, inbox.inbox_id) == [1, 2]


async def test_one_unit_may_change_several_inboxes(store: Log) -> None:
    one = await create(store, "one")
    two = await create(store, "two")

    def both(tx):
        put(tx, one.inbox_id, [entry(1)])
        put(tx, two.inbox_id, [entry(1), entry(2)])

    await store.commit(Do(both))
    assert [await seqs(store, one.inbox_id), await seqs(store, two.inbox_id)] == [[1], [1, 2]]


async def test_head_and_rows_of_a_look_are_of_one_moment(store: Log) -> None:
    inbox = await create(store)
    done = trio.Event()

    async def write() -> None:
        for seq in range(1, 41):
            await append(store, inbox.inbox_id, [entry(seq)])
        done.set()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            while not done.is_set():
                found = await page(store, inbox.inbox_id)
                assert [row.seq for row in found.rows] == list(range(1, found.head.latest_seq + 1))
