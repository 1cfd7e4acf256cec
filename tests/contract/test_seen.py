"""Dedupe keys: remembered by inbox, replaced, forgotten by age."""

from storage.protocols import Log
from storage.records import Seen
from tests.contract.builders import START_US, Do, create, message_id


def seen(n: int) -> Seen:
    return Seen(n, message_id(), START_US + n)


async def remember(log: Log, inbox_id: int, keys: list[tuple[bytes, Seen]]) -> None:
    await log.commit(Do(lambda tx: tx.remember(inbox_id, keys)))


async def remembered(log: Log, inbox_id: int, keys: list[bytes]) -> dict[bytes, Seen]:
    return await log.commit(Do(lambda tx: tx.seen(inbox_id, keys)))


async def forget(log: Log, before_us: int, max_rows: int) -> int:
    return await log.commit(Do(lambda tx: tx.forget_seen(before_us, max_rows), grows=False))


async def test_only_the_keys_that_were_asked_for_and_are_known_come_back(store: Log) -> None:
    inbox = await create(store)
    known = {bytes([n]) * 16: seen(n) for n in range(5)}
    await remember(store, inbox.inbox_id, list(known.items()))
    wanted = [bytes([n]) * 16 for n in (0, 3, 9)]
    assert await remembered(store, inbox.inbox_id, wanted) == {key: known[key] for key in wanted[:2]}
    assert await remembered(store, inbox.inbox_id, []) == {}
    assert await remembered(store, inbox.inbox_id, [wanted[0], wanted[0]]) == {wanted[0]: known[wanted[0]]}


async def test_many_keys_are_remembered_and_looked_up_at_once(store: Log) -> None:
    inbox = await create(store)
    known = {n.to_bytes(16, "big"): seen(n) for n in range(100)}
    await remember(store, inbox.inbox_id, list(known.items()))
    assert await remembered(store, inbox.inbox_id, list(known)) == known


async def test_a_key_is_replaced(store: Log) -> None:
    inbox = await create(store)
    await remember(store, inbox.inbox_id, [(b"key", seen(1))])
    later = seen(2)
    await remember(store, inbox.inbox_id, [(b"key", later)])
    assert await remembered(store, inbox.inbox_id, [b"key"]) == {b"key": later}


async def test_keys_belong_to_one_inbox(store: Log) -> None:
    one = await create(store, "one")
    two = await create(store, "two")
    await remember(store, one.inbox_id, [(b"key", seen(1))])
    assert await remembered(store, two.inbox_id, [b"key"]) == {}


async def test_old_keys_are_forgotten_a_slice_at_a_time(store: Log) -> None:
    one = await create(store, "one")
    two = await create(store, "two")
    keys = [bytes([n]) for n in range(8)]
    await remember(store, one.inbox_id, [(keys[n], seen(n)) for n in (0, 2, 4, 6)])
    await remember(store, two.inbox_id, [(keys[n], seen(n)) for n in (1, 3, 5, 7)])
    before = START_US + 5  # seen at this very moment is not before it
    assert await forget(store, before, 3) == 3
    assert await forget(store, before, 3) == 2
    assert await forget(store, before, 3) == 0
    assert set(await remembered(store, one.inbox_id, keys)) == {keys[6]}
    assert set(await remembered(store, two.inbox_id, keys)) == {keys[5], keys[7]}


async def test_a_forgotten_key_may_be_remembered_again(store: Log) -> None:
    inbox = await create(store)
    await remember(store, inbox.inbox_id, [(b"key", seen(1))])
    await forget(store, START_US + 100, 10)
    again = seen(2)
    await remember(store, inbox.inbox_id, [(b"key", again)])
    assert await remembered(store, inbox.inbox_id, [b"key"]) == {b"key": again}
