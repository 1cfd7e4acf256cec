"""Nothing is lost between looking and sleeping: commits at every possible point of a wait's start."""

import math
from typing import Any

import pytest
import trio
import trio.testing

from actors.commands import DeleteInbox, Erase, Purge
from actors.feed import Feed, next_page
from actors.units import Reading
from actors.watchers import Watcher
from storage.errors import InboxGone, OutcomeUnknown
from storage.memory import MemoryStore
from storage.protocols import Look, Unit
from storage.records import Head, PageQuery
from tests.actors.drafts import append, draft
from tests.actors.world import World, running

FAR = 1_000_000.0


def no_check(head: Head) -> None:
    """Accept any head."""


async def wait(
    world: World, inbox_id: int, after: int, *, types: tuple[str, ...] = (), seconds: float = FAR
) -> tuple[list[int], int]:
    """Wait as a request does; return the seqs and the head's latest_seq."""
    watcher = Watcher(types)
    with Feed(world.registry, world.store, inbox_id, watcher) as feed:
        page, _ = await next_page(feed, PageQuery(inbox_id, 20, after=after, types=types), seconds, no_check)
        return [row.seq for row in page.rows], page.head.latest_seq


class StepStore(MemoryStore):
    """A store whose reads and commits take as many steps of the scheduler as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.read_steps = 0
        self.commit_steps = 0
        self.acknowledge = self._after_commit
        self.gate = self._before_commit

    async def _before_commit(self) -> None:
        for _ in range(self.commit_steps):
            await trio.lowlevel.checkpoint()

    async def _after_commit(self) -> None:
        for _ in range(self.commit_steps):
            await trio.lowlevel.checkpoint()

    async def read(self, look: Look[Any]) -> Any:
        before, after = divmod(self.read_steps, 2)
        for _ in range(before):
            await trio.lowlevel.checkpoint()
        result = await super().read(look)
        for _ in range(before + after):
            await trio.lowlevel.checkpoint()
        return result


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("read_steps", [0, 1, 3, 6])
@pytest.mark.parametrize("commit_steps", [0, 2])
async def test_a_commit_at_any_point_of_a_waits_start_is_never_missed(
    warm: bool, read_steps: int, commit_steps: int
) -> None:
    for moment in range(25):
        store = StepStore()
        async with running(store) as world:
            inbox = await world.inbox()
            if warm:
                await world.registry.ask(inbox, append())
            after = 1 if warm else 0
            store.read_steps, store.commit_steps = read_steps, commit_steps
            found: list[int] = []

            async def waiting(
                world: World = world, inbox: int = inbox, after: int = after, found: list[int] = found
            ) -> None:
                found.extend((await wait(world, inbox, after))[0])

            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(waiting)
                    for _ in range(moment):
                        await trio.lowlevel.checkpoint()
                    await world.registry.ask(inbox, append())
            assert found == [after + 1], moment


async def test_a_wait_with_something_to_read_returns_at_once() -> None:
    async with running() as world:
        inbox = await world.inbox()
        for _ in range(3):
            await world.registry.ask(inbox, append())
        assert await wait(world, inbox, 1) == ([2, 3], 3)
        assert await wait(world, inbox, 0) == ([1, 2, 3], 3)


async def test_only_a_message_of_a_wanted_type_wakes_and_the_cursor_passes_the_others(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with running() as world:
        inbox = await world.inbox()
        answers: list[tuple[list[int], int]] = []

        async def waiting() -> None:
            answers.append(await wait(world, inbox, 0, types=("push",), seconds=30))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting)
            await trio.testing.wait_all_tasks_blocked()
            await world.service.append((await world.service.find("demo")), draft(event_type="ping"))  # type: ignore[arg-type]  # it is there
            await trio.testing.wait_all_tasks_blocked()
            assert answers == []
            mock_clock.jump(30)
        assert answers == [([], 1)]


async def test_a_wait_holds_its_actor_awake_and_nothing_else(mock_clock: trio.testing.MockClock) -> None:
    async with running(idle_seconds=1.0) as world, trio.open_nursery() as nursery:
        inbox = await world.inbox()
        nursery.start_soon(wait, world, inbox, 0)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(5):
            mock_clock.jump(1)
            await trio.testing.wait_all_tasks_blocked()
        assert world.registry.running == 1
        nursery.cancel_scope.cancel()
    assert world.registry.running == 0


async def test_an_actor_that_dies_takes_no_wait_with_it() -> None:
    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        found: list[int] = []

        async def waiting() -> None:
            found.extend((await wait(world, inbox, 0))[0])

        def die(unit: Unit[Any]) -> None:
            store.fault = None
            raise KeyError("a defect")

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waiting)
                await trio.testing.wait_all_tasks_blocked()
                store.fault = die
                with pytest.raises(OutcomeUnknown):
                    await world.registry.ask(inbox, append())
                await trio.testing.wait_all_tasks_blocked()
                assert found == []
                await world.registry.ask(inbox, append())
        assert found == [1]


async def test_a_commit_whose_answer_was_lost_still_reaches_the_waiters() -> None:
    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        found: list[int] = []

        async def waiting() -> None:
            found.extend((await wait(world, inbox, 0))[0])

        async def lose() -> None:
            store.acknowledge = None
            raise OutcomeUnknown("lost")

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waiting)
                await trio.testing.wait_all_tasks_blocked()
                store.acknowledge = lose
                with pytest.raises(OutcomeUnknown):
                    await world.registry.ask(inbox, append())
        assert found == [1]


async def test_a_deleted_inbox_ends_its_waits() -> None:
    async with running() as world:
        inbox = await world.inbox()
        watcher = Watcher()
        with trio.fail_after(5), Feed(world.registry, world.store, inbox, watcher) as feed:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(next_page, feed, PageQuery(inbox, 20, after=0), FAR, no_check)
                await trio.testing.wait_all_tasks_blocked()
                await world.registry.ask(inbox, DeleteInbox())
        assert watcher.ended == "deleted"
        with pytest.raises(InboxGone):
            await wait(world, inbox, 0)


async def test_a_shutdown_answers_waits_with_what_there_is() -> None:
    async with running() as world:
        inbox = await world.inbox()
        answers: list[tuple[list[int], int]] = []

        async def waiting() -> None:
            answers.append(await wait(world, inbox, 0))

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(waiting)
                await trio.testing.wait_all_tasks_blocked()
                world.registry.end_watchers()
        assert answers == [([], 0)] * 20


async def test_a_gap_on_an_empty_inbox_is_told_at_once() -> None:
    async with running() as world:
        inbox = await world.inbox()
        for _ in range(5):
            await world.registry.ask(inbox, append())
        await world.registry.ask(inbox, Purge())
        with trio.fail_after(5):
            assert await wait(world, inbox, 2) == ([], 5)


async def test_a_wait_that_is_up_to_date_reads_nothing_from_the_store() -> None:
    reads: list[Any] = []

    class Counting(MemoryStore):
        async def read(self, look: Look[Any]) -> Any:
            reads.append(look)
            return await super().read(look)

    async with running(Counting()) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        reads.clear()
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait, world, inbox, 1)
                await trio.testing.wait_all_tasks_blocked()
                await world.registry.ask(inbox, append())
        assert reads == []


async def test_a_timeout_of_zero_looks_once(mock_clock: trio.testing.MockClock) -> None:
    async with running() as world:
        inbox = await world.inbox()
        assert await wait(world, inbox, 0, seconds=0) == ([], 0)
        assert await wait(world, inbox, 0, seconds=-math.inf) == ([], 0)


async def test_a_cursor_that_a_check_refuses_raises_from_the_wait() -> None:
    def refuse(head: Head) -> None:
        raise ValueError(head.epoch)

    async with running() as world:
        inbox = await world.inbox()
        with Feed(world.registry, world.store, inbox, Watcher()) as feed, pytest.raises(ValueError):
            await next_page(feed, PageQuery(inbox, 20, after=9), FAR, refuse)
        assert not world.registry.live(inbox).watchers


async def test_a_page_near_the_head_is_answered_from_memory_as_the_store_would() -> None:
    reads: list[Any] = []

    class Counting(MemoryStore):
        async def read(self, look: Look[Any]) -> Any:
            reads.append(look)
            return await super().read(look)

    async with running(Counting()) as world:
        inbox = await world.inbox()
        for n in range(10):
            await world.registry.ask(inbox, append(b"%d" % n))
        await world.registry.ask(inbox, Erase(3))
        queries = [
            PageQuery(inbox, limit, after=after, types=types, body_limit=1_000)
            for after in range(3, 11)
            for limit in (1, 4, 20)
            for types in ((), ("",), ("push",))
        ]
        queries += [
            PageQuery(inbox, limit, before=before, types=types, body_limit=1_000)
            for before, limit in ((None, 1), (None, 6), (8, 3))
            for types in ((), ("",))
        ]
        stored = [
            await world.store.read(Reading(lambda snapshot, query=query: snapshot.page(query)))
            for query in queries
        ]
        reads.clear()
        for query, page in zip(queries, stored, strict=True):
            assert (await world.service.page(query))[0] == page
        assert reads == []
        for query in (
            PageQuery(inbox, 5, after=0),  # older than the tail, since a message was erased
            PageQuery(inbox, 7),  # and so are its last ones
            PageQuery(inbox, 5, after=5, verified=1),
            PageQuery(inbox, 5, after=5, since_us=0),
            PageQuery(inbox, 5, after=5, until_us=9),
        ):
            await world.service.page(query)
        assert len(reads) == 5


async def test_a_reader_that_saw_a_commit_before_its_actor_did_is_not_told_that_it_is_ahead() -> None:
    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        entered, leave = trio.Event(), trio.Event()

        async def hold_the_answer() -> None:
            entered.set()
            await leave.wait()

        heads: list[int] = []

        def check(head: Head) -> None:
            heads.append(head.latest_seq)
            assert head.latest_seq >= 2, "the caller has seen 2 already"

        found: list[int] = []

        async def waiting() -> None:
            with Feed(world.registry, store, inbox, Watcher()) as feed:
                page, _ = await next_page(feed, PageQuery(inbox, 20, after=2), FAR, check)
                found.extend(row.seq for row in page.rows)

        store.acknowledge = hold_the_answer
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(world.registry.ask, inbox, append())
                await entered.wait()
                stored = await store.read(
                    Reading(lambda snapshot: snapshot.page(PageQuery(inbox, 20, after=1)))
                )
                assert [row.seq for row in stored.rows] == [2]
                page, _ = await world.service.page(PageQuery(inbox, 20, after=2))
                assert page.head.latest_seq == 2
                nursery.start_soon(waiting)
                await trio.testing.wait_all_tasks_blocked()
                store.acknowledge = None
                leave.set()
                await trio.testing.wait_all_tasks_blocked()
                assert found == []
                await world.registry.ask(inbox, append())
        assert found == [3]
        assert heads


async def test_an_erased_message_is_served_to_no_waiter_also_when_it_came_in_the_same_turn() -> None:
    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        entered, leave = trio.Event(), trio.Event()

        async def hold_the_first() -> None:
            store.gate = None
            entered.set()
            await leave.wait()

        store.gate = hold_the_first
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(world.registry.ask, inbox, append())
                await entered.wait()
                nursery.start_soon(world.registry.ask, inbox, append())
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(world.registry.ask, inbox, Erase(3))
                await trio.testing.wait_all_tasks_blocked()
                leave.set()
        for after in (0, 1, 2):
            assert (await wait(world, inbox, after, seconds=0))[0] == [seq for seq in (1, 2) if seq > after]
        await world.registry.ask(inbox, Erase(2))
        assert (await wait(world, inbox, 1, seconds=0)) == ([], 3)
