"""Cancellation and crash fuzz of the inbox actor: no gap, no false acknowledgement, no hung caller.

Senders are cancelled at random points, the store fails, loses answers and makes actors die by a seeded schedule,
actors passivate between two asks. Afterwards the store is the judge: numbers are dense, every acknowledged message is
where its acknowledgement said, once; what was answered "not stored" is not there.
"""

import random
from typing import Any

import pytest
import trio

from actors.ask import InboxStopped
from actors.commands import Append
from actors.turn import Turn
from storage.errors import OutcomeUnknown, StorageFull
from storage.memory import MemoryStore
from storage.protocols import Unit
from storage.records import PageQuery, StoredMessage
from tests.actors.drafts import WINDOW_US, draft
from tests.actors.world import World, running

SENDERS = 12
ROUNDS = 12


class Diary:
    """What the senders were told."""

    def __init__(self) -> None:
        self.acknowledged: dict[bytes, int] = {}
        self.first_of_key: dict[bytes, set[bytes]] = {}
        self.refused: set[bytes] = set()
        self.unknown: set[bytes] = set()


class Trouble:
    """A seeded schedule of faults for the store."""

    def __init__(self, seed: int, store: MemoryStore) -> None:
        self.random = random.Random(seed)
        store.gate = self.gate
        store.fault = self.fault
        store.acknowledge = self.acknowledge

    async def gate(self) -> None:
        for _ in range(self.random.randrange(4)):
            await trio.lowlevel.checkpoint()

    def fault(self, unit: Unit[Any]) -> None:
        if not isinstance(unit, Turn):
            return
        dice = self.random.random()
        if dice < 0.05:
            raise StorageFull("no space")
        if dice < 0.08:
            raise OutcomeUnknown("the commit failed")
        if dice < 0.11:
            raise KeyError("a defect that ends the actor")

    async def acknowledge(self) -> None:
        for _ in range(self.random.randrange(3)):
            await trio.lowlevel.checkpoint()
        if self.random.random() < 0.04:
            raise OutcomeUnknown("the answer was lost")


async def send_some(world: World, inbox_id: int, dice: random.Random, diary: Diary) -> None:
    for _ in range(ROUNDS):
        key = dice.choice([None, None, b"k%d" % dice.randrange(5)])
        message = draft(key=key)
        with trio.CancelScope() as scope:
            if dice.random() < 0.3:
                scope.deadline = trio.current_time() + dice.random() * 0.001
            diary.unknown.add(message.id)
            try:
                outcome = await world.registry.ask(inbox_id, Append(message, WINDOW_US))
            except (StorageFull, InboxStopped):
                diary.unknown.discard(message.id)
                diary.refused.add(message.id)
            except OutcomeUnknown:
                pass
            else:
                diary.unknown.discard(message.id)
                if key is not None:
                    diary.first_of_key.setdefault(key, set()).add(outcome.id)
                if outcome.duplicate:
                    diary.refused.add(message.id)
                    diary.unknown.discard(message.id)
                else:
                    assert outcome.id == message.id
                    diary.acknowledged[message.id] = outcome.seq
        for _ in range(dice.randrange(3)):
            await trio.lowlevel.checkpoint()


async def everything(world: World, inbox_id: int) -> list[StoredMessage]:
    rows: list[StoredMessage] = []
    after = 0
    while True:
        page = await world.service.page(PageQuery(inbox_id, limit=100, after=after))
        rows += page.rows
        if page.exhausted:
            assert page.head.latest_seq == len(rows)
            return rows
        after = page.rows[-1].seq


@pytest.mark.parametrize("seed", range(60))
async def test_no_gap_no_false_acknowledgement_no_hung_caller(seed: int) -> None:
    store = MemoryStore()
    diary = Diary()
    with trio.fail_after(20):
        async with running(store, idle_seconds=0.0005, crashes_allowed=10_000) as world:
            inbox_id = await world.inbox()
            Trouble(seed, store)
            async with trio.open_nursery() as senders:
                for number in range(SENDERS):
                    senders.start_soon(
                        send_some, world, inbox_id, random.Random(seed * 1_000 + number), diary
                    )
            store.gate = store.fault = store.acknowledge = None
            rows = await everything(world, inbox_id)
    by_id = {row.id: row.seq for row in rows}
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert len(by_id) == len(rows)
    for message_id, seq in diary.acknowledged.items():
        assert by_id.get(message_id) == seq
    assert not diary.refused & by_id.keys()
    assert by_id.keys() <= diary.acknowledged.keys() | diary.unknown
    for firsts in diary.first_of_key.values():
        assert len(firsts) == 1
