"""The indexer: what it finds out by itself and by being told, in what order it works, and what it survives."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio.testing

from actors import indexing
from actors.commands import ChangeInbox
from actors.indexing import IndexSlice, MergeIndex, read_slice
from actors.rules.searching.asking import read
from actors.units import Reading
from storage.errors import OutcomeUnknown, StorageDegraded
from storage.memory import MemoryStore
from storage.protocols import Log, Unit
from storage.records import InboxRecord, InboxSettings, NewInbox
from storage.search_records import Indexable, SearchQuery
from tests.actors.drafts import draft
from tests.actors.routing import commons, hook, place, publish, reader
from tests.actors.world import World, running
from tests.contract.conftest import opens
from tests.virtual import pass_time

SOON_SECONDS = 1.0
"""Of virtual time, in which the indexer has long done what there is to do."""


async def searched(world: World, slug: str = "demo", **settings: Any) -> int:
    settings.setdefault("search", True)
    made = await world.service.create_inbox(NewInbox(slug, "webhook", "", InboxSettings(**settings)))
    return made.record.inbox_id


async def switch(world: World, inbox_id: int, *, on: bool) -> None:
    def change(record: InboxRecord) -> tuple[str, InboxSettings]:
        return record.name, msgspec.structs.replace(record.settings, search=on)

    await world.service.change_inbox(inbox_id, ChangeInbox(change))


async def send(world: World, inbox_id: int, text: str) -> int:
    """Append a message, as ingest does; return its seq."""
    listing = await world.store.read(Reading(lambda snapshot: snapshot.inbox(inbox_id)))
    said = draft(msgspec.json.encode(text))
    return (await world.service.append(listing.record, said)).seq


async def found(store: Log, inbox_id: int, question: str) -> list[int]:
    """Return what a question finds, newest first."""
    asked = read(question)
    query = SearchQuery(inbox_id, asked.wanted, asked.unwanted, limit=1_000)
    page = await store.read(Reading(lambda snapshot: snapshot.search(query)))
    assert page.resume is None
    return [row.seq for row in page.rows]


async def test_a_message_is_found_a_moment_after_it_was_stored(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running(indexing=True) as world:
        inbox_id = await searched(world)
        for n in range(3):
            await send(world, inbox_id, f"hello n{n}")
        assert await found(world.store, inbox_id, "hello") == []
        await pass_time(2 * indexing.GATHER_SECONDS)
        assert await found(world.store, inbox_id, "hello") == [3, 2, 1]
        assert await found(world.store, inbox_id, "n1") == [2]
        assert world.indexer.indexed == 3


async def test_messages_that_come_together_share_a_unit(autojump_clock: trio.testing.MockClock) -> None:
    units: list[Unit[Any]] = []
    async with running(MemoryStore(fault=units.append), indexing=True) as world:
        inbox_id = await searched(world)
        await pass_time(SOON_SECONDS)
        units.clear()
        for n in range(10):
            await send(world, inbox_id, f"n{n}")
        await pass_time(SOON_SECONDS)
        slices = [unit for unit in units if isinstance(unit, IndexSlice)]
        assert [[row.seq for row in unit.rows] for unit in slices] == [list(range(1, 11))]


async def test_an_inbox_without_search_is_not_looked_at(autojump_clock: trio.testing.MockClock) -> None:
    units: list[Unit[Any]] = []
    async with running(MemoryStore(fault=units.append), indexing=True) as world:
        inbox_id = await world.inbox()
        await pass_time(SOON_SECONDS)
        units.clear()
        await send(world, inbox_id, "hello")
        await pass_time(SOON_SECONDS)
        assert [type(unit).__name__ for unit in units] == ["Turn"]
        assert world.indexer.behind == 0


async def test_switching_it_on_indexes_what_is_there_slice_by_slice_and_off_forgets_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    units: list[Unit[Any]] = []
    async with running(MemoryStore(fault=units.append), indexing=True) as world:
        inbox_id = await searched(world, search=False)
        for n in range(100):
            await send(world, inbox_id, f"old n{n}")
        units.clear()
        await switch(world, inbox_id, on=True)
        await pass_time(SOON_SECONDS)
        assert len(await found(world.store, inbox_id, "old")) == 100
        sizes = [len(unit.rows) for unit in units if isinstance(unit, IndexSlice)]
        assert sizes == [32, 32, 32, 4]
        await switch(world, inbox_id, on=False)
        await send(world, inbox_id, "between")
        await pass_time(SOON_SECONDS)
        page = await world.service.search(SearchQuery(inbox_id, read("old").wanted))
        assert (page.rows, page.indexed_seq) == ([], None)
        await switch(world, inbox_id, on=True)
        await pass_time(SOON_SECONDS)
        assert len(await found(world.store, inbox_id, "old")) == 100
        assert await found(world.store, inbox_id, "between") == [101]


async def test_switching_it_off_calls_for_the_sweep(autojump_clock: trio.testing.MockClock) -> None:
    async with running(indexing=True) as world:
        called: list[bool] = []
        world.registry.on_garbage = lambda: called.append(True)
        inbox_id = await searched(world)
        await switch(world, inbox_id, on=True)
        assert called == []
        await switch(world, inbox_id, on=False)
        assert called == [True]
        await switch(world, inbox_id, on=False)
        assert called == [True]


async def test_inboxes_take_turns(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    units: list[Unit[Any]] = []
    store = MemoryStore(fault=units.append)
    async with running(store) as world:
        ids = [await searched(world, slug) for slug in ("much", "more", "little")]
        for inbox_id, count in zip(ids, (70, 70, 3), strict=True):
            for n in range(count):
                await send(world, inbox_id, f"n{n}")
    units.clear()
    async with running(store, indexing=True):
        await pass_time(SOON_SECONDS)
    order = [ids.index(unit.inbox_id) for unit in units if isinstance(unit, IndexSlice)]
    assert order == [0, 1, 2, 0, 1, 0, 1]


async def test_what_the_server_did_not_come_to_is_indexed_after_the_next_start(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    async with running(store) as world:
        inbox_id = await searched(world)
        await send(world, inbox_id, "before")
    async with running(store, indexing=True) as world:
        await pass_time(SOON_SECONDS)
        assert await found(store, inbox_id, "before") == [1]
        await send(world, inbox_id, "after")
        await pass_time(SOON_SECONDS)
        assert await found(store, inbox_id, "after") == [2]


async def test_what_nobody_told_of_is_found_within_a_minute(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running(indexing=True) as world:
        inbox_id = await searched(world)
        await pass_time(SOON_SECONDS)
        world.registry.on_mail = lambda inbox_id: None
        await send(world, inbox_id, "unheard")
        await pass_time(SOON_SECONDS)
        assert await found(world.store, inbox_id, "unheard") == []
        await pass_time(indexing.ROUND_SECONDS)
        assert await found(world.store, inbox_id, "unheard") == [1]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_it_is_the_same_over_either_store(kind: str, tmp_path: Path) -> None:
    async with opens(kind, tmp_path)() as store, running(store, indexing=True) as world:
        inbox_id = await searched(world)
        for n in range(50):
            await send(world, inbox_id, f"hello n{n}")
        await settled(store)
        assert len(await found(store, inbox_id, "hello")) == 50
        assert await found(store, inbox_id, "n7") == [8]
        await world.service.erase(inbox_id, 8)
        assert await found(store, inbox_id, "n7") == []
        await world.service.purge(inbox_id)
        assert await found(store, inbox_id, "hello") == []


async def settled(store: Log) -> None:
    """Wait until every index has come to the end of its inbox."""
    with trio.fail_after(20):
        while True:
            states = await store.read(Reading(lambda snapshot: snapshot.indexes()))
            if all(state.indexed_seq == state.latest_seq for state in states):
                return
            await pass_time(0.02)


async def test_what_is_published_and_what_is_delivered_is_found_where_it_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running(indexing=True, routing=True) as world:
        await commons(world)
        ci = await world.inbox("ci")
        agent = await reader(world, "ana")
        await place(world, agent, "all", inboxes=("ci",))
        for inbox_id in (agent.inbox_id, ci):
            await switch(world, inbox_id, on=True)
        await hook(world, ci, "a build has failed")
        await publish(world, await reader(world, "bob"), "dinner at eight", to_agents=("ana",))
        await pass_time(SOON_SECONDS)
        assert await found(world.store, ci, "build") == [1]
        assert await found(world.store, ci, "dinner") == []
        assert len(await found(world.store, agent.inbox_id, "build")) == 1
        assert len(await found(world.store, agent.inbox_id, "dinner")) == 1


# -- what goes wrong -------------------------------------------------------------------------------------


async def test_a_message_that_cannot_be_taken_apart_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    def broken(one: Indexable) -> list[str]:
        if one.seq == 2:
            raise RecursionError("a defect")
        return ["fine"]

    monkeypatch.setattr(indexing, "read_slice", partial(read_slice, take_apart=broken))
    async with running(indexing=True) as world:
        inbox_id = await searched(world)
        for n in range(3):
            await send(world, inbox_id, f"n{n}")
        await pass_time(SOON_SECONDS)
        assert await found(world.store, inbox_id, "fine") == [3, 1]
        assert (world.indexer.indexed, world.indexer.failed) == (3, 1)


async def test_an_index_that_cannot_be_written_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    def run(unit: IndexSlice, tx: Any) -> bool:
        if unit.inbox_id == broken[0]:
            raise RuntimeError("a defect")
        return bool(tx.index(unit.inbox_id, unit.after, unit.rows, unit.through))

    broken: list[int] = []
    monkeypatch.setattr(IndexSlice, "run", run)
    async with running(indexing=True) as world:
        bad, good = await searched(world, "bad"), await searched(world, "good")
        broken.append(bad)
        for inbox_id in (bad, good):
            await send(world, inbox_id, "word")
        await pass_time(SOON_SECONDS)
        assert await found(world.store, bad, "word") == []
        assert await found(world.store, good, "word") == [1]
        broken[0] = 0
        await pass_time(indexing.ROUND_SECONDS)
        assert await found(world.store, bad, "word") == [1]


@pytest.mark.parametrize("kind", [StorageDegraded, OutcomeUnknown])
@pytest.mark.parametrize("of", [IndexSlice, MergeIndex])
async def test_a_fault_of_the_store_is_waited_out(
    of: type, kind: Callable[[str], Exception], autojump_clock: trio.testing.MockClock
) -> None:
    failures = 5

    def fault(unit: Unit[Any]) -> None:
        nonlocal failures
        if isinstance(unit, of) and failures:
            failures -= 1
            raise kind("a fault")

    async with running(MemoryStore(fault=fault), indexing=True) as world:
        inbox_id = await searched(world)
        await send(world, inbox_id, "word")
        await pass_time(5 * indexing.LONGEST_PAUSE_SECONDS)
        assert failures == 0
        assert await found(world.store, inbox_id, "word") == [1]


async def test_it_ends_with_the_store(autojump_clock: trio.testing.MockClock) -> None:
    store = MemoryStore()
    async with running(store) as world, trio.open_nursery() as nursery:
        await nursery.start(world.indexer.run)
        await pass_time(SOON_SECONDS)
        store.close()
        await pass_time(2 * indexing.ROUND_SECONDS)
        assert not nursery.child_tasks
        store.reopen()


async def test_the_turn_that_stores_a_message_knows_nothing_of_the_index() -> None:
    units: list[Unit[Any]] = []
    async with running(MemoryStore(fault=units.append)) as world:
        inbox_id = await searched(world)
        units.clear()
        await send(world, inbox_id, "hello")
        assert [type(unit).__name__ for unit in units] == ["Turn"]
