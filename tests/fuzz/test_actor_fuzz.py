"""Cancellation and crash fuzz of the inbox actor: no gap, no false acknowledgement, no hung caller.

Senders are cancelled at random points, the store fails, loses answers and makes actors die by a seeded schedule,
actors passivate between two asks. Afterwards the store is the judge: numbers are dense, every acknowledged message is
where its acknowledgement said, once; what was answered "not stored" is not there.
"""

import contextlib
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
import structlog
import trio

from actors.ask import InboxStopped
from actors.commands import Append, ChangeInbox, Erase, Purge, Refusal, Retain
from actors.turn import Turn
from storage.errors import OutcomeUnknown, StorageFull
from storage.memory import MemoryStore
from storage.protocols import Unit
from storage.records import InboxRecord, InboxSettings, PageQuery, Retention, StoredMessage
from tests.actors.drafts import WINDOW_US, draft
from tests.actors.world import World, running

SENDERS = 12
ROUNDS = 12


@pytest.fixture(autouse=True)
def captured_logs() -> Iterator[None]:
    """Keep the crashes' tracebacks out of the output: rendering them would take most of the time."""
    with structlog.testing.capture_logs():
        yield


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
        dice = self.random.random()
        if dice < 0.04:
            raise OutcomeUnknown("the answer was lost")
        if dice < 0.07:
            raise KeyError("a defect that ends the actor after its turn was committed")


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
        page, _ = await world.service.page(PageQuery(inbox_id, limit=100, after=after))
        rows += page.rows
        if page.exhausted:
            assert page.head.latest_seq == len(rows)
            return rows
        after = page.rows[-1].seq


async def meddle(world: World, inbox_id: int, dice: random.Random, erased: set[int]) -> None:
    """Purge, erase, change and retain at random, as administrators and the housekeeper do."""
    for _ in range(ROUNDS // 2):
        seq = dice.randrange(1, 60)
        command = dice.choice(
            [Purge(), Erase(seq), Retain(), ChangeInbox(partial(keep, dice.choice([None, 5, 20])))]
        )
        if isinstance(command, Erase):
            erased.add(seq)  # whether or not it is told so: an unknown outcome may have done it
        with trio.CancelScope() as scope:
            if dice.random() < 0.3:
                scope.deadline = trio.current_time() + dice.random() * 0.001
            with contextlib.suppress(StorageFull, InboxStopped, OutcomeUnknown, Refusal):
                await world.registry.ask(inbox_id, command)
        for _ in range(dice.randrange(4)):
            await trio.lowlevel.checkpoint()


def keep(limit: int | None, record: InboxRecord) -> tuple[str, InboxSettings]:
    retention = Retention(max_messages=limit)
    return record.name, msgspec.structs.replace(record.settings, retention=retention)


@pytest.mark.parametrize("seed", range(1_000, 1_200))
async def test_among_purges_erasures_changes_and_restarts_nothing_is_numbered_twice_or_lost(
    seed: int,
) -> None:
    """As below, with everybody else who changes an inbox, and an orderly end and a new start in the middle."""
    store = MemoryStore()
    diary = Diary()
    erased: set[int] = set()
    inbox_id = 0
    with trio.fail_after(20):
        for start in range(2):
            async with running(store, idle_seconds=0.0005, crashes_allowed=10_000) as world:
                inbox_id = inbox_id or await world.inbox()
                Trouble(seed + start, store)
                async with trio.open_nursery() as nursery:
                    for number in range(SENDERS):
                        dice = random.Random(seed * 1_000 + start * 100 + number)
                        nursery.start_soon(send_some, world, inbox_id, dice, diary)
                    for number in range(3):
                        dice = random.Random(seed * 1_000 + start * 100 + 50 + number)
                        nursery.start_soon(meddle, world, inbox_id, dice, erased)
                    if start == 0:  # the end comes while they are at it
                        for _ in range(random.Random(seed).randrange(50, 400)):
                            await trio.lowlevel.checkpoint()
                        world.registry.close()
                store.gate = store.fault = store.acknowledge = None
        async with running(store) as world:
            page, _ = await world.service.page(PageQuery(inbox_id, limit=100, before=None))
            head, rows = page.head, page.rows
    by_id = {row.id: row.seq for row in rows}
    assert len(by_id) == len(rows) == head.live_rows
    assert [row.seq for row in rows] == sorted((row.seq for row in rows), reverse=True)
    for message_id, seq in diary.acknowledged.items():
        assert seq <= head.latest_seq
        gone = seq < head.first_seq or seq in erased
        assert by_id.get(message_id) == seq or (gone and message_id not in by_id)
    assert len(set(diary.acknowledged.values())) == len(diary.acknowledged)
    assert set(range(head.first_seq, head.latest_seq + 1)) - {row.seq for row in rows} <= erased
    assert not diary.refused & by_id.keys()
    assert head.live_rows + head.dropped_rows == head.latest_seq


@pytest.mark.parametrize("seed", range(300))
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
