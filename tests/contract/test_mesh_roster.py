"""Machines live as long as their inboxes; presence and wake targets as long as their agents."""

from collections.abc import Callable
from typing import Any

import pytest

from storage.errors import InboxGone, UnitFailed
from storage.mesh_records import MachineRecord
from storage.protocols import Log, Tx
from tests.contract.builders import START_US, Do, create, delete, sweep_all
from tests.contract.conftest import OpenLog
from tests.contract.mail import agent, make_agent, see
from tests.contract.mesh import machine, make_machine, plain, presence, wake


async def machines(log: Log) -> list[MachineRecord]:
    found: list[MachineRecord] = await see(log, lambda snapshot: snapshot.machines())
    return found


async def targets(log: Log) -> list[tuple[Any, ...]]:
    return [plain(one) for one in await see(log, lambda snapshot: snapshot.wake_targets())]


async def on(log: Log, name: str) -> list[tuple[str, int | None]]:
    found = await log.commit(Do(lambda tx: tx.machine_agents(name)))
    assert all(one.machine == name for one, _ in found)
    return [(one.agent_id, gone_at) for one, gone_at in found]


# -- machines -----------------------------------------------------------------------------------------------
async def test_a_machine_is_found_as_it_was_created_also_after_a_restart(open_log: OpenLog) -> None:
    async with open_log() as log:
        now, made = await log.commit(Do(lambda tx: (tx.now(), make_machine(tx, "m2"))))
        other = await machine(log, "m1")
        assert made == MachineRecord("m2", made.inbox_id, now)
    async with open_log() as log:
        assert await machines(log) == [other, made]


async def test_a_machine_and_its_inbox_are_made_both_or_neither(store: Log) -> None:
    made = await machine(store, "m")
    with pytest.raises(InboxGone):
        await store.commit(Do(lambda tx: tx.create_machine("n", 4_711)))
    inbox = await create(store, "machine.n", "machine")
    for name, inbox_id in (("m", inbox.inbox_id), ("n", made.inbox_id)):
        with pytest.raises(UnitFailed):
            await store.commit(Do(lambda tx, name=name, inbox_id=inbox_id: tx.create_machine(name, inbox_id)))
    assert await machines(store) == [made]


async def test_a_machine_goes_with_its_inbox_and_its_name_is_free_again(store: Log) -> None:
    gone, stays = await machine(store, "a"), await machine(store, "b")
    await delete(store, gone.inbox_id)
    assert await machines(store) == [stays]
    await sweep_all(store)
    again = await machine(store, "a")
    assert [one.inbox_id for one in await machines(store)] == [again.inbox_id, stays.inbox_id]
    assert again.inbox_id != gone.inbox_id


async def test_the_agents_of_a_machine_are_known_with_their_farewells_within_the_unit(store: Log) -> None:
    for agent_id, name in (("z", "m"), ("a", "m"), ("b", "n"), ("c", None)):
        await agent(store, agent_id, name)
    await store.commit(Do(lambda tx: tx.put_presence(presence("z", gone_at=7))))
    assert await on(store, "m") == [("a", None), ("z", 7)]
    assert await on(store, "n") == [("b", None)]
    assert await on(store, "nobody's") == []

    def leave_and_ask(tx: Tx) -> list[tuple[str, int | None]]:
        make_agent(tx, "d", "m")
        tx.put_presence(presence("a", gone_at=8))
        tx.put_presence(presence("z"))
        return [(one.agent_id, gone_at) for one, gone_at in tx.machine_agents("m")]

    assert await store.commit(Do(leave_and_ask)) == [("a", 8), ("d", None), ("z", None)]


# -- presence -----------------------------------------------------------------------------------------------
async def test_a_presence_is_kept_as_it_was_put_also_after_a_restart(open_log: OpenLog) -> None:
    first, second = presence("b", gone_at=5), presence("a", card=b"{}", ttl_seconds=30)
    async with open_log() as log:
        await agent(log, "a")
        await agent(log, "b")
        await log.commit(Do(lambda tx: tx.put_presence(presence("b", card=b'{"role":"old"}'))))
        for one in (first, second):
            await log.commit(Do(lambda tx, one=one: tx.put_presence(one)))
    async with open_log() as log:
        assert await see(log, lambda snapshot: snapshot.presences()) == [second, first]


async def test_activity_moves_forward_alone_and_takes_no_farewell_back(store: Log) -> None:
    for agent_id in ("a", "b"):
        await agent(store, agent_id)
    left = presence("a", last_activity_at=100, gone_at=120)
    await store.commit(Do(lambda tx: tx.put_presence(left)))
    seen_by_others = presence("a", card=b"{}", last_activity_at=150, ttl_seconds=9)
    first = presence("b", last_activity_at=50)
    absent = presence("nobody", last_activity_at=50)
    await store.commit(Do(lambda tx: tx.touch_presences([seen_by_others, absent, first])))
    late = presence("a", last_activity_at=140)
    await store.commit(Do(lambda tx: tx.touch_presences([late, presence("b", last_activity_at=49)])))
    assert await see(store, lambda snapshot: snapshot.presences()) == [
        presence("a", last_activity_at=150, gone_at=120),
        first,
    ]


# -- wake targets -------------------------------------------------------------------------------------------
async def test_a_wake_target_is_kept_as_it_was_put_also_after_a_restart(open_log: OpenLog) -> None:
    signed, unsigned = wake("b", b"\x00secret", failures=2, off_at=START_US), wake("a", None)
    async with open_log() as log:
        await agent(log, "a")
        await agent(log, "b")
        for one in (wake("b", b"older"), signed, unsigned):
            await log.commit(Do(lambda tx, one=one: tx.put_wake_target(one)))
    async with open_log() as log:
        assert await targets(log) == [plain(unsigned), plain(signed)]
        assert await log.commit(Do(lambda tx: tx.drop_wake_target("b"))) is True
        assert await log.commit(Do(lambda tx: tx.drop_wake_target("b"))) is False
        assert await log.commit(Do(lambda tx: tx.drop_wake_target("nobody"))) is False
        assert await targets(log) == [plain(unsigned)]


async def test_both_go_with_their_agent_and_a_new_one_of_that_name_begins_without(store: Log) -> None:
    gone = await agent(store, "a")
    await agent(store, "b")
    for agent_id in ("a", "b"):
        await store.commit(Do(lambda tx, of=agent_id: tx.put_presence(presence(of))))
        await store.commit(Do(lambda tx, of=agent_id: tx.put_wake_target(wake(of))))
    await delete(store, gone.inbox_id)
    await agent(store, "a")
    assert await see(store, lambda snapshot: snapshot.presences()) == [presence("b")]
    assert await targets(store) == [plain(wake("b"))]


@pytest.mark.parametrize(
    "step",
    [
        lambda tx: tx.put_presence(presence("nobody")),
        lambda tx: tx.put_wake_target(wake("nobody")),
    ],
)
async def test_who_is_not_there_gets_neither(store: Log, step: Callable[[Tx], None]) -> None:
    with pytest.raises(InboxGone):
        await store.commit(Do(step))


async def test_what_a_failed_unit_did_is_taken_back(store: Log) -> None:
    made = await agent(store, "a", "m")
    await store.commit(Do(lambda tx: tx.put_presence(presence("a"))))
    await store.commit(Do(lambda tx: tx.put_wake_target(wake("a"))))

    def everything(tx: Tx) -> None:
        make_machine(tx, "m")
        tx.put_presence(presence("a", gone_at=1))
        tx.touch_presences([presence("a", last_activity_at=2 * START_US)])
        tx.drop_wake_target("a")
        tx.delete_inbox(made.inbox_id)
        raise RuntimeError

    with pytest.raises(UnitFailed):
        await store.commit(Do(everything))
    assert await machines(store) == []
    assert await see(store, lambda snapshot: snapshot.presences()) == [presence("a")]
    assert await targets(store) == [plain(wake("a"))]
