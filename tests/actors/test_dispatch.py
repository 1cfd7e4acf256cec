"""Deliveries reach their recipients, or it is known why not: the table of `actors.dispatch`, line by line."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from actors.commands import Deliver, DeliveryDraft
from actors.dispatch import FIRST_PAUSE_SECONDS, Dispatch
from actors.inbox import InboxActor
from actors.turn import Turn
from actors.units import Reading
from storage.errors import OutcomeUnknown, StorageClosed, StorageDegraded, StorageFull
from storage.mail_records import AgentRecord, NewDelivery
from storage.memory import MemoryStore
from storage.memory_tx import MemoryTx
from storage.protocols import Lane, Unit
from tests.actors.post import delivered, publish
from tests.actors.world import World, running
from tests.virtual import pass_time

AT_ONCE = 200


async def drafts(world: World, count: int) -> list[DeliveryDraft]:
    """Return deliveries of so many messages of an inbox."""
    origin = await world.inbox("ci")
    return [delivered(await publish(world, origin), origin) for _ in range(count)]


async def seqs(world: World, agent: AgentRecord) -> int:
    """Return how many entries an agent's inbox has."""
    return (await world.store.read(Reading(lambda snapshot: snapshot.head(agent.inbox_id)))).live_rows


def only_for(inbox_id: int, error: Exception, times: int) -> Any:
    """Return a fault of the store that meets the first turns of one inbox."""
    left = [times]

    def fault(unit: Unit[Any]) -> None:
        if isinstance(unit, Turn) and unit.inbox_id == inbox_id and left[0]:
            left[0] -= 1
            raise type(error)(*error.args)

    return fault


async def test_everybody_gets_what_is_theirs_in_order_and_it_is_counted() -> None:
    async with running() as world:
        made = await drafts(world, 3)
        agents = [await world.agent(f"agent-{number}") for number in range(AT_ONCE)]
        dispatch = Dispatch(world.store, world.registry)
        await dispatch.deliver({agent.inbox_id: made for agent in agents})
        assert dispatch.delivered == 3 * AT_ONCE
        assert [await seqs(world, agent) for agent in agents] == [3] * AT_ONCE


async def test_a_repeat_delivers_and_counts_nothing() -> None:
    async with running() as world:
        made, agent = await drafts(world, 2), await world.agent()
        dispatch = Dispatch(world.store, world.registry)
        await dispatch.deliver({agent.inbox_id: made})
        await dispatch.deliver({agent.inbox_id: made})
        assert (dispatch.delivered, await seqs(world, agent)) == (2, 2)


@pytest.mark.parametrize("error", [StorageFull("full"), StorageDegraded("away"), OutcomeUnknown("who knows")])
async def test_a_fault_is_waited_out_longer_each_time_and_meanwhile_the_others_get_theirs(
    error: Exception, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryStore()
    async with running(store) as world:
        made, ada, ben = await drafts(world, 1), await world.agent("ada"), await world.agent("ben")
        store.fault = only_for(ada.inbox_id, error, 3)
        began = trio.current_time()
        dispatch = Dispatch(store, world.registry)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dispatch.deliver, {ada.inbox_id: made, ben.inbox_id: made})
            with trio.fail_after(FIRST_PAUSE_SECONDS / 2):
                while not await seqs(world, ben):
                    await pass_time(FIRST_PAUSE_SECONDS / 10)
        assert await seqs(world, ada) == 1
        assert trio.current_time() - began == pytest.approx(FIRST_PAUSE_SECONDS * (1 + 2 + 4))


async def test_a_store_that_is_closed_is_not_waited_for() -> None:
    store = MemoryStore()
    async with running(store) as world:
        made, ada = await drafts(world, 1), await world.agent("ada")
        store.fault = only_for(ada.inbox_id, StorageClosed("closed"), 1)
        with pytest.RaisesGroup(StorageClosed):
            await Dispatch(store, world.registry).deliver({ada.inbox_id: made})


async def test_an_inbox_that_is_gone_is_passed_over() -> None:
    async with running() as world:
        made, ada, ben = await drafts(world, 1), await world.agent("ada"), await world.agent("ben")
        await world.mail.delete_agent("ada")
        dispatch = Dispatch(world.store, world.registry)
        await dispatch.deliver({ada.inbox_id: made, ben.inbox_id: made})
        assert (dispatch.delivered, dispatch.failed) == (1, 0)


async def test_an_inbox_in_quarantine_gets_its_mail_without_its_actor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns: list[Lane] = []

    def note(unit: Unit[Any]) -> None:
        if isinstance(unit, Turn):
            turns.append(unit.lane)

    def crash(*_: Any) -> None:
        raise ZeroDivisionError

    store = MemoryStore()
    async with running(store, crashes_allowed=0) as world:
        made, ada = await drafts(world, 3), await world.agent("ada")
        with monkeypatch.context() as patch:
            patch.setattr(InboxActor, "_apply", crash)
            with pytest.raises(OutcomeUnknown):
                await world.registry.ask(ada.inbox_id, Deliver(tuple(made[:1])))
        assert world.registry.quarantined == 1
        store.fault = note
        dispatch = Dispatch(store, world.registry)
        await dispatch.deliver({ada.inbox_id: made})
        assert turns == [Lane.DELIVERIES]
        assert (dispatch.delivered, await seqs(world, ada)) == (2, 3)
        world.registry.lift(ada.inbox_id)
        await dispatch.deliver({ada.inbox_id: made})
        assert await seqs(world, ada) == 3


async def test_a_draft_that_can_never_be_stored_is_left_out_and_the_others_are_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as world:
        made, ada = await drafts(world, 3), await world.agent("ada")
        poison = made[1].mid
        usual = MemoryTx.deliver

        def deliver(tx: MemoryTx, inbox_id: int, deliveries: Sequence[NewDelivery]) -> None:
            if any(one.mid == poison for one in deliveries):
                raise ValueError("this one")
            usual(tx, inbox_id, deliveries)

        monkeypatch.setattr(MemoryTx, "deliver", deliver)
        dispatch = Dispatch(world.store, world.registry)
        await dispatch.deliver({ada.inbox_id: made})
        assert (dispatch.delivered, dispatch.failed) == (2, 1)
        assert await seqs(world, ada) == 2
