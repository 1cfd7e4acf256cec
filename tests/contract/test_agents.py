"""Agents live as long as their inboxes; beacons, and answers to requests that are made once."""

import pytest

from storage.errors import InboxGone, SlugTaken, UnitFailed
from storage.mail_records import AgentRecord, BeaconRecord, ReaderRecord, Sent
from storage.protocols import Log, Tx
from tests.contract.builders import START_US, Do, create, delete, sweep_all
from tests.contract.conftest import OpenLog
from tests.contract.mail import agent, beacon, make_agent, see

DAY = 20_000


async def beacons(log: Log, agent_id: str | None = None) -> list[BeaconRecord]:
    return await see(log, lambda snapshot: snapshot.beacons(agent_id))


# -- agents -------------------------------------------------------------------------------------------------
async def test_an_agent_is_found_as_it_was_created_also_after_a_restart(open_log: OpenLog) -> None:
    async with open_log() as log:
        now, made = await log.commit(Do(lambda tx: (tx.now(), make_agent(tx, "a", "laptop"))))
        other = await agent(log, "b")
        assert made == AgentRecord("a", made.inbox_id, "laptop", now)
        assert await log.commit(Do(lambda tx: (tx.agent("a"), tx.agent("b"), tx.agent("c")))) == (
            made,
            other,
            None,
        )
    async with open_log() as log:
        assert await see(log, lambda snapshot: snapshot.agents()) == [made, other]
        assert await see(log, lambda snapshot: snapshot.agent("b")) == other


async def test_an_agent_and_its_inbox_are_made_both_or_neither(store: Log) -> None:
    await agent(store, "a")
    with pytest.raises(SlugTaken):
        await agent(store, "a")
    with pytest.raises(InboxGone):
        await store.commit(Do(lambda tx: tx.create_agent("b", 4_711)))
    inbox = await create(store, "agent.c", "agent")
    with pytest.raises(UnitFailed):
        await store.commit(Do(lambda tx: tx.create_agent("a", inbox.inbox_id)))
    assert [one.agent_id for one in await see(store, lambda snapshot: snapshot.agents())] == ["a"]


async def test_an_agent_goes_with_its_inbox_and_takes_its_beacons_and_readers_along(store: Log) -> None:
    gone, stays = await agent(store, "a"), await agent(store, "b")
    for one in (gone, stays):
        await store.commit(Do(lambda tx, one=one: tx.put_beacon(beacon(one.agent_id))))
        await store.commit(Do(lambda tx, one=one: tx.put_reader(one.inbox_id, "self", ReaderRecord())))
    await delete(store, gone.inbox_id)
    assert await see(store, lambda snapshot: snapshot.agents()) == [stays]
    assert [one.agent_id for one in await beacons(store)] == ["b"]
    assert await see(store, lambda snapshot: snapshot.reader(gone.inbox_id, "self")) is None
    assert await see(store, lambda snapshot: snapshot.reader(stays.inbox_id, "self")) == ReaderRecord()
    with pytest.raises(InboxGone):
        await store.commit(Do(lambda tx: tx.put_beacon(beacon("a"))))
    with pytest.raises(InboxGone):
        await store.commit(Do(lambda tx: tx.put_reader(gone.inbox_id, "self", ReaderRecord())))
    again = await agent(store, "a")
    assert again.inbox_id > stays.inbox_id
    assert await beacons(store, "a") == []
    assert await see(store, lambda snapshot: snapshot.reader(again.inbox_id, "self")) is None


async def test_a_deletion_that_is_undone_takes_nothing_along(store: Log) -> None:
    made = await agent(store)
    await store.commit(Do(lambda tx: tx.put_beacon(beacon("a"))))
    await store.commit(Do(lambda tx: tx.put_reader(made.inbox_id, "self", ReaderRecord(start_seq=3))))

    def half(tx: Tx) -> None:
        tx.delete_inbox(made.inbox_id)
        assert (tx.agent("a"), tx.beacons("a")) == (None, [])
        raise RuntimeError

    with pytest.raises(UnitFailed):
        await store.commit(Do(half))
    assert await see(store, lambda snapshot: snapshot.agents()) == [made]
    assert await beacons(store, "a") == [beacon("a")]
    assert await see(store, lambda snapshot: snapshot.reader(made.inbox_id, "self")) == ReaderRecord(
        start_seq=3
    )


# -- beacons ------------------------------------------------------------------------------------------------
async def test_beacons_are_placed_replaced_and_removed_by_name(store: Log) -> None:
    for agent_id in ("b", "a"):
        await agent(store, agent_id)
        for name in ("two", "one"):
            await store.commit(Do(lambda tx, a=agent_id, n=name: tx.put_beacon(beacon(a, n))))
    assert [(one.agent_id, one.name) for one in await beacons(store)] == [
        ("a", "one"),
        ("a", "two"),
        ("b", "one"),
        ("b", "two"),
    ]
    full = BeaconRecord("a", "one", b"{}", 9, START_US + 1, START_US + 2, DAY, 4, 5)
    await store.commit(Do(lambda tx: tx.put_beacon(full)))
    assert await beacons(store, "a") == [full, beacon("a", "two")]
    assert await store.commit(Do(lambda tx: tx.beacons("a"))) == [full, beacon("a", "two")]
    assert await store.commit(Do(lambda tx: tx.drop_beacon("a", "one"))) is True
    assert await store.commit(Do(lambda tx: tx.drop_beacon("a", "one"))) is False
    assert await beacons(store, "a") == [beacon("a", "two")]
    assert len(await beacons(store, "b")) == 2


async def test_a_beacons_counts_begin_anew_each_day_and_never_go_back_to_an_earlier_one(store: Log) -> None:
    await agent(store)
    await store.commit(Do(lambda tx: tx.put_beacon(beacon("a"))))

    async def count(day: int, delivered: int, overflow: int) -> tuple[int, int, int]:
        await store.commit(Do(lambda tx: tx.count_beacon("a", "b", day, delivered, overflow)))
        (one,) = await beacons(store, "a")
        assert one.spec == beacon("a").spec
        return one.day, one.delivered, one.overflow

    assert await count(DAY, 2, 0) == (DAY, 2, 0)
    assert await count(DAY, 3, 1) == (DAY, 5, 1)
    assert await count(DAY + 1, 1, 0) == (DAY + 1, 1, 0)
    assert await count(DAY, 1, 1) == (DAY + 1, 2, 1)
    await store.commit(Do(lambda tx: tx.count_beacon("a", "absent", DAY, 1, 1)))
    assert len(await beacons(store)) == 1


# -- once ---------------------------------------------------------------------------------------------------
async def test_an_answer_is_remembered_by_sender_and_key_until_it_is_old(store: Log) -> None:
    one, two = Sent(b"hash", b"answer", START_US), Sent(b"hash2", b"answer2", START_US + 10)
    await store.commit(Do(lambda tx: tx.remember_sent(1, b"k", one)))
    await store.commit(Do(lambda tx: tx.remember_sent(2, b"k", two)))

    async def sent(sender: int, key: bytes) -> Sent | None:
        return await store.commit(Do(lambda tx: tx.sent(sender, key)))

    assert [await sent(1, b"k"), await sent(2, b"k"), await sent(1, b"l")] == [one, two, None]
    await store.commit(Do(lambda tx: tx.remember_sent(1, b"l", two)))
    assert await store.commit(Do(lambda tx: tx.forget_seen(START_US, 10))) == 0
    assert await store.commit(Do(lambda tx: tx.forget_seen(START_US + 10, 10))) == 1
    assert [await sent(1, b"k"), await sent(2, b"k"), await sent(1, b"l")] == [None, two, two]
    assert await store.commit(Do(lambda tx: tx.forget_seen(START_US + 11, 1))) == 1
    await store.commit(Do(lambda tx: tx.remember_sent(1, b"k", one)))
    await store.commit(Do(lambda tx: tx.remember_sent(1, b"k", two)))
    assert await sent(1, b"k") == two


async def test_what_an_agent_has_sent_is_forgotten_with_it(store: Log) -> None:
    gone, stays = await agent(store, "a"), await agent(store, "b")
    for one in (gone, stays):
        for n in range(5):
            answered = Sent(b"h", b"a", START_US)
            await store.commit(
                Do(lambda tx, one=one, n=n, a=answered: tx.remember_sent(one.inbox_id, bytes([n]), a))
            )
    await delete(store, gone.inbox_id)
    await sweep_all(store, max_rows=2)
    found = await store.commit(
        Do(lambda tx: [tx.sent(id, bytes([n])) for id in (gone.inbox_id, stays.inbox_id) for n in range(5)])
    )
    assert [one is None for one in found] == [True] * 5 + [False] * 5
