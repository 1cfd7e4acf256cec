"""Large bodies: staged in pieces, adopted by one message, discarded, gone."""

import os

import pytest

from storage.errors import BodyGone, NotStored
from storage.protocols import Lane, Log, Tx
from storage.records import CHUNK_BYTES, BodyKind
from tests.contract.builders import (
    Do,
    See,
    append,
    create,
    delete,
    drop_before,
    entry,
    erase,
    head,
    large_entry,
    page,
    put,
    seqs,
    stage,
    sweep,
    sweep_all,
)
from tests.contract.conftest import OpenLog

PIECES = [bytes([n]) * CHUNK_BYTES for n in range(3)] + [b"the end"]
WHOLE = b"".join(PIECES)


async def staged(log: Log, pieces: list[bytes]) -> int:
    """Stage a body, one unit for each piece, as an upload does."""
    body_id = await log.commit(Do(lambda tx: stage(tx, pieces[:1]), Lane.BODIES))
    for n, piece in enumerate(pieces[1:], 1):
        await log.commit(Do(lambda tx, n=n, piece=piece: tx.put_chunk(body_id, n, piece), Lane.BODIES))
    return body_id


async def adopted(log: Log, inbox_id: int, seq: int, pieces: list[bytes]) -> int:
    """Append a message with a large body and return the body's id."""
    body_id = await staged(log, pieces)
    await append(log, inbox_id, [large_entry(seq, body_id, sum(map(len, pieces)))])
    return body_id


async def whole(log: Log, body_id: int, size: int) -> bytes:
    return await log.read(See(lambda snapshot: snapshot.body(body_id, size), slow=True))


async def piece(log: Log, body_id: int, n: int) -> bytes:
    return await log.read(See(lambda snapshot: snapshot.chunk(body_id, n), slow=True))


async def assert_gone(log: Log, body_id: int, size: int) -> None:
    with pytest.raises(BodyGone):
        await piece(log, body_id, 0)
    with pytest.raises(BodyGone):
        await whole(log, body_id, size)


async def test_a_large_body_is_read_whole_and_in_pieces(store: Log) -> None:
    inbox = await create(store)
    body_id = await adopted(store, inbox.inbox_id, 1, PIECES)
    (row,) = (await page(store, inbox.inbox_id, body_limit=1 << 30)).rows
    assert (row.body, row.body_id, row.size, row.body_kind) == (None, body_id, len(WHOLE), BodyKind.LARGE)
    assert await whole(store, body_id, len(WHOLE)) == WHOLE
    assert [await piece(store, body_id, n) for n in range(len(PIECES))] == PIECES
    for n in (len(PIECES), 2**40):
        with pytest.raises(BodyGone):
            await piece(store, body_id, n)


async def test_a_body_of_random_bytes_is_kept_byte_for_byte(store: Log) -> None:
    inbox = await create(store)
    data = os.urandom(2 * CHUNK_BYTES + 1)
    cut = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    assert await whole(store, await adopted(store, inbox.inbox_id, 1, cut), len(data)) == data


@pytest.mark.parametrize("size", [len(WHOLE) - 1, len(WHOLE) + 1, 0])
async def test_a_body_that_is_not_of_the_size_asked_for_is_gone(store: Log, size: int) -> None:
    inbox = await create(store)
    body_id = await adopted(store, inbox.inbox_id, 1, PIECES)
    with pytest.raises(BodyGone):
        await whole(store, body_id, size)


async def test_a_body_that_never_was_is_gone(store: Log) -> None:
    await assert_gone(store, 4_711, 10)


async def test_a_body_is_adopted_once(store: Log) -> None:
    inbox = await create(store)
    body_id = await adopted(store, inbox.inbox_id, 1, [b"large"])
    with pytest.raises(NotStored):
        await append(store, inbox.inbox_id, [large_entry(2, body_id, 5)])
    assert await seqs(store, inbox.inbox_id) == [1]
    assert (await head(store, inbox.inbox_id)).latest_seq == 1
    assert await whole(store, body_id, 5) == b"large"


async def test_two_entries_of_a_group_do_not_share_a_body(store: Log) -> None:
    inbox = await create(store)
    body_id = await staged(store, [b"large"])
    with pytest.raises(NotStored):
        await append(store, inbox.inbox_id, [large_entry(1, body_id, 5), large_entry(2, body_id, 5)])
    assert await seqs(store, inbox.inbox_id) == []
    await append(store, inbox.inbox_id, [large_entry(1, body_id, 5)])
    assert await whole(store, body_id, 5) == b"large"


async def test_a_body_that_was_never_staged_is_not_adopted(store: Log) -> None:
    inbox = await create(store)
    with pytest.raises(NotStored):
        await append(store, inbox.inbox_id, [entry(1), large_entry(2, 4_711, 5)])
    assert await seqs(store, inbox.inbox_id) == []


async def test_a_unit_that_fails_gives_its_body_back(store: Log) -> None:
    inbox = await create(store)
    body_id = await staged(store, [b"large"])

    def fail(tx: Tx) -> None:
        put(tx, inbox.inbox_id, [large_entry(1, body_id, 5)])
        raise RuntimeError

    with pytest.raises(NotStored):
        await store.commit(Do(fail))
    await append(store, inbox.inbox_id, [large_entry(1, body_id, 5)])
    assert await whole(store, body_id, 5) == b"large"


async def test_a_group_mixes_small_and_large_bodies(store: Log) -> None:
    inbox = await create(store)
    one, two = await staged(store, [b"one"]), await staged(store, [b"twofold"])
    await append(
        store, inbox.inbox_id, [entry(1), large_entry(2, one, 3), entry(3), large_entry(4, two, 7), entry(5)]
    )
    rows = (await page(store, inbox.inbox_id)).rows
    assert [row.body_id for row in rows] == [None, one, None, two, None]
    assert [await whole(store, one, 3), await whole(store, two, 7)] == [b"one", b"twofold"]


async def test_a_discarded_body_is_gone(store: Log) -> None:
    inbox = await create(store)
    body_id = await staged(store, PIECES)
    await store.commit(Do(lambda tx: tx.discard_body(body_id), grows=False))
    await assert_gone(store, body_id, len(WHOLE))
    with pytest.raises(NotStored):
        await append(store, inbox.inbox_id, [large_entry(1, body_id, len(WHOLE))])
    with pytest.raises(NotStored):
        await store.commit(Do(lambda tx: tx.put_chunk(body_id, len(PIECES), b"late")))


async def test_discarding_an_adopted_or_absent_body_does_nothing(store: Log) -> None:
    inbox = await create(store)
    body_id = await adopted(store, inbox.inbox_id, 1, PIECES)
    for id in (body_id, 4_711):
        await store.commit(Do(lambda tx, id=id: tx.discard_body(id), grows=False))
    assert await whole(store, body_id, len(WHOLE)) == WHOLE


async def test_an_adopted_body_takes_no_more_pieces(store: Log) -> None:
    inbox = await create(store)
    body_id = await adopted(store, inbox.inbox_id, 1, [b"large"])
    with pytest.raises(NotStored):
        await store.commit(Do(lambda tx: tx.put_chunk(body_id, 1, b"more")))
    assert await whole(store, body_id, 5) == b"large"


async def test_a_piece_is_not_put_twice(store: Log) -> None:
    inbox = await create(store)
    body_id = await staged(store, [b"one"])
    with pytest.raises(NotStored):
        await store.commit(Do(lambda tx: tx.put_chunk(body_id, 0, b"two")))
    await append(store, inbox.inbox_id, [large_entry(1, body_id, 3)])
    assert await whole(store, body_id, 3) == b"one"


async def test_body_ids_are_never_used_again(open_log: OpenLog) -> None:
    used: list[int] = []
    for _ in range(2):
        async with open_log() as log:
            inbox = await create(log)
            used.append(await staged(log, [b"discarded"]))
            await log.commit(Do(lambda tx: tx.discard_body(used[-1]), grows=False))
            used.append(await adopted(log, inbox.inbox_id, 1, [b"adopted"]))
            used.append(await staged(log, [b"left behind"]))
            await delete(log, inbox.inbox_id)
            await sweep_all(log)
    assert len(set(used)) == len(used)


async def test_an_erased_message_takes_its_body_along(store: Log) -> None:
    inbox = await create(store)
    body_id = await adopted(store, inbox.inbox_id, 1, PIECES)
    assert await erase(store, inbox.inbox_id, 1) == len(WHOLE)
    await sweep_all(store)
    await assert_gone(store, body_id, len(WHOLE))


async def test_a_dropped_message_takes_its_body_along_when_it_is_swept(store: Log) -> None:
    inbox = await create(store)
    dropped = await adopted(store, inbox.inbox_id, 1, PIECES)
    kept = await adopted(store, inbox.inbox_id, 2, [b"kept"])
    await drop_before(store, inbox.inbox_id, 2, rows=1, size=len(WHOLE))
    await sweep_all(store)
    await assert_gone(store, dropped, len(WHOLE))
    assert await whole(store, kept, 4) == b"kept"


async def test_a_deleted_inbox_takes_its_bodies_along_when_it_is_swept(store: Log) -> None:
    inbox = await create(store)
    other = await create(store, "other")
    gone = await adopted(store, inbox.inbox_id, 1, PIECES)
    kept = await adopted(store, other.inbox_id, 1, [b"kept"])
    await delete(store, inbox.inbox_id)
    await sweep_all(store)
    await assert_gone(store, gone, len(WHOLE))
    assert await whole(store, kept, 4) == b"kept"


async def test_bodies_left_behind_by_an_earlier_start_are_swept(open_log: OpenLog) -> None:
    async with open_log() as log:
        inbox = await create(log)
        left = await staged(log, PIECES)
        kept = await adopted(log, inbox.inbox_id, 1, [b"kept"])
        assert (await sweep(log)).rows == 0
    async with open_log() as log:
        fresh = await staged(log, [b"fresh"])
        await sweep_all(log)
        await assert_gone(log, left, len(WHOLE))
        with pytest.raises(NotStored):
            await append(log, inbox.inbox_id, [large_entry(2, left, len(WHOLE))])
        assert await whole(log, kept, 4) == b"kept"
        await append(log, inbox.inbox_id, [large_entry(2, fresh, 5)])
        assert await whole(log, fresh, 5) == b"fresh"


async def test_sweeping_large_bodies_goes_by_bytes(store: Log) -> None:
    """Slices of one piece's size: every slice removes something, and none much more than it may."""
    inbox = await create(store)
    ids = [await adopted(store, inbox.inbox_id, seq, PIECES[:2]) for seq in (1, 2, 3)]
    await append(store, inbox.inbox_id, [entry(4)])
    await drop_before(store, inbox.inbox_id, 4, rows=3, size=3 * 2 * CHUNK_BYTES)
    slices = await sweep_all(store, max_bytes=CHUNK_BYTES)
    assert len(slices) >= 3
    assert sum(one.bytes for one in slices) == 3 * 2 * CHUNK_BYTES
    assert all(one.bytes <= 2 * CHUNK_BYTES for one in slices)
    for body_id in ids:
        await assert_gone(store, body_id, 2 * CHUNK_BYTES)


async def test_a_body_read_while_its_message_is_dropped_is_whole_or_gone(store: Log) -> None:
    inbox = await create(store)
    body_id = await adopted(store, inbox.inbox_id, 1, PIECES)
    await append(store, inbox.inbox_id, [entry(2)])
    await drop_before(store, inbox.inbox_id, 2, rows=1, size=len(WHOLE))
    while True:
        try:
            assert await whole(store, body_id, len(WHOLE)) == WHOLE
        except BodyGone:
            break
        if not (await sweep(store, max_rows=1, max_bytes=1)).more:
            await assert_gone(store, body_id, len(WHOLE))
            break
