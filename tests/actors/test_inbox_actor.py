import functools
from typing import Any

import pytest
import trio
import trio.testing

from actors.ask import Envelope, InboxQuarantined, InboxStopped
from actors.commands import Append, ChangeInbox, DeleteInbox, Erase, Purge, Refusal
from actors.inbox import CommandFailed
from actors.turn import Turn
from storage.errors import InboxGone, OutcomeUnknown, StorageFull
from storage.memory import MemoryStore
from storage.protocols import Unit
from storage.records import InboxRecord, InboxSettings, PageQuery
from tests.actors.drafts import append
from tests.actors.world import World, running


async def seqs(world: World, inbox_id: int) -> list[int]:
    page, _ = await world.service.page(PageQuery(inbox_id, limit=100, after=0))
    return [row.seq for row in page.rows]


async def ask_many(world: World, inbox_id: int, commands: list[Any]) -> list[Any]:
    """Ask all at once and return outcomes or exceptions in order."""
    outcomes: list[Any] = [None] * len(commands)

    async def one(place: int) -> None:
        try:
            outcomes[place] = await world.registry.ask(inbox_id, commands[place])
        except Exception as error:
            outcomes[place] = error

    async with trio.open_nursery() as nursery:
        for place in range(len(commands)):
            nursery.start_soon(one, place)
    return outcomes


def explode(record: InboxRecord) -> tuple[str, InboxSettings]:
    raise ZeroDivisionError


async def test_what_queued_while_a_commit_ran_is_one_turn() -> None:
    turns: list[int] = []

    def note(unit: Unit[Any]) -> None:
        if isinstance(unit, Turn):
            turns.append(len(unit.commands))

    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        store.fault = note
        entered, leave = trio.Event(), trio.Event()

        async def hold_the_first() -> None:
            store.gate = None
            entered.set()
            await leave.wait()

        store.gate = hold_the_first
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.registry.ask, inbox, append())
            await entered.wait()
            for _ in range(20):
                nursery.start_soon(world.registry.ask, inbox, append())
            await trio.testing.wait_all_tasks_blocked()
            leave.set()
        assert turns == [1, 20]
        assert await seqs(world, inbox) == list(range(1, 23))


async def test_a_failing_command_answers_its_own_caller_alone() -> None:
    async with running() as world:
        inbox = await world.inbox()
        outcomes = await ask_many(world, inbox, [append(), ChangeInbox(explode), append(), append()])
        failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        assert [type(error) for error in failed] == [CommandFailed]
        assert isinstance(failed[0].__cause__, ZeroDivisionError)
        assert await seqs(world, inbox) == [1, 2, 3]
        assert world.registry.restarts == 0


async def test_a_refused_command_changes_nothing_and_disturbs_nobody() -> None:
    async with running() as world:
        inbox = await world.inbox()
        outcomes = await ask_many(world, inbox, [append(), Erase(99), append()])
        assert sum(isinstance(outcome, Refusal) for outcome in outcomes) == 1
        assert await seqs(world, inbox) == [1, 2]


async def test_a_deleted_inbox_answers_gone_to_everyone_behind_the_deletion() -> None:
    async with running() as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        await world.registry.ask(inbox, DeleteInbox())
        with pytest.raises(InboxGone):
            await world.registry.ask(inbox, append())
        assert await world.service.find("demo") is None


async def test_an_append_that_resolved_the_slug_before_never_reaches_the_new_life() -> None:
    async with running() as world:
        old = await world.inbox()
        await world.registry.ask(old, DeleteInbox())
        new = await world.inbox()
        with pytest.raises(InboxGone):
            await world.registry.ask(old, append())
        assert await seqs(world, new) == []


async def test_a_full_store_answers_not_stored_and_the_actor_goes_on() -> None:
    def full(unit: Unit[Any]) -> None:
        if unit.grows:
            raise StorageFull("the disk is full")

    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        store.fault = full
        with pytest.raises(StorageFull):
            await world.registry.ask(inbox, append())
        assert await world.registry.ask(inbox, Purge()) == 1  # what frees space goes on
        store.fault = None
        assert (await world.registry.ask(inbox, append())).seq == 2


async def test_what_frees_space_does_not_stand_behind_what_needs_it() -> None:
    def full(unit: Unit[Any]) -> None:
        if unit.grows:
            raise StorageFull("the disk is full")

    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        store.fault = full
        outcomes = await ask_many(world, inbox, [append(), Purge(), append()])
        assert [type(outcome) for outcome in outcomes] == [StorageFull, int, StorageFull]
        assert outcomes[1] == 1
        assert await seqs(world, inbox) == []


async def test_after_an_unknown_outcome_the_stored_row_decides() -> None:
    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())

        async def lose_the_answer() -> None:
            store.acknowledge = None
            raise OutcomeUnknown("the answer was lost")

        store.acknowledge = lose_the_answer
        with pytest.raises(OutcomeUnknown):
            await world.registry.ask(inbox, append())
        assert (await world.registry.ask(inbox, append())).seq == 3
        assert await seqs(world, inbox) == [1, 2, 3]


async def test_a_change_of_settings_is_in_force_for_the_next_request() -> None:
    async with running() as world:
        inbox = await world.inbox()
        before = await world.service.find("demo")
        await world.registry.ask(inbox, ChangeInbox(lambda record: ("New name", record.settings)))
        after = await world.service.find("demo")
        assert before is not None
        assert after is not None
        assert (before.name, after.name) == ("", "New name")


async def test_a_quiet_actor_ends_and_the_next_ask_starts_it_again(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with running(idle_seconds=30.0) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        assert world.registry.running == 1
        mock_clock.jump(31)
        await trio.testing.wait_all_tasks_blocked()
        assert world.registry.running == 0
        assert (await world.registry.ask(inbox, append())).seq == 2


async def test_no_ask_is_lost_between_passivation_and_the_next_start(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with running(idle_seconds=1.0) as world:
        inbox = await world.inbox()
        for number in range(1, 51):
            assert (await world.registry.ask(inbox, append())).seq == number
            mock_clock.jump(1.0)  # exactly when the actor gives up
            if number % 2:
                await trio.lowlevel.checkpoint()


async def test_an_actor_that_was_just_given_a_command_does_not_end_before_it_has_seen_it() -> None:
    async with running() as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        await trio.testing.wait_all_tasks_blocked()
        actor = world.registry._actors[inbox]
        envelope = Envelope(append())
        await actor.post(envelope)  # handed to the parked task, which has not run yet: the mailbox is empty
        assert not actor.passivate()
        assert (await envelope.reply.get()).seq == 2  # type: ignore[attr-defined]  # an Appended
        await trio.testing.wait_all_tasks_blocked()
        assert actor.passivate()
        assert world.registry.running == 0
        assert (await world.registry.ask(inbox, append())).seq == 3
        assert world.registry.restarts == 0


async def test_an_actor_that_is_used_stays_while_another_ends(mock_clock: trio.testing.MockClock) -> None:
    async with running(idle_seconds=10.0) as world:
        busy, quiet = await world.inbox("busy"), await world.inbox("quiet")
        for inbox in (busy, quiet):
            await world.registry.ask(inbox, append())
        for _ in range(3):
            mock_clock.jump(6)
            await world.registry.ask(busy, append())
            await trio.testing.wait_all_tasks_blocked()
        assert set(world.registry._actors) == {busy}


async def test_an_actor_that_dies_answers_everyone_and_the_next_one_reads_the_row() -> None:
    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()

        def die(unit: Unit[Any]) -> None:
            store.fault = None
            raise KeyError("not one of the store's own errors")

        store.fault = die
        outcomes = await ask_many(world, inbox, [append() for _ in range(100)])
        unknown = [outcome for outcome in outcomes if isinstance(outcome, OutcomeUnknown)]
        stored = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
        assert len(unknown) + len(stored) == 100
        assert unknown, "the batch in progress is answered with unknown"
        assert stored, "the rest is taken by the next actor"
        assert await seqs(world, inbox) == list(range(1, len(stored) + 1))
        assert world.registry.restarts == 1


async def test_an_inbox_that_keeps_failing_is_quarantined_alone_until_lifted() -> None:
    store = MemoryStore()
    async with running(store, crashes_allowed=2) as world:
        poor, healthy = await world.inbox("poor"), await world.inbox("healthy")

        def die(unit: Unit[Any]) -> None:
            if isinstance(unit, Turn) and unit.inbox_id == poor:
                raise KeyError("again")

        store.fault = die
        for _ in range(3):
            with pytest.raises(OutcomeUnknown):
                await world.registry.ask(poor, append())
        with pytest.raises(InboxQuarantined):
            await world.registry.ask(poor, append())
        assert world.registry.quarantined == 1
        assert (await world.registry.ask(healthy, append())).seq == 1
        store.fault = None
        world.registry.lift(poor)
        assert (await world.registry.ask(poor, append())).seq == 1
        assert world.registry.quarantined == 0


async def test_an_actor_that_believes_in_a_wrong_head_is_fenced_off_and_nothing_is_numbered_twice() -> None:
    async with running() as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        # Somebody else moves the head behind the actor's back: what a second actor of the same inbox would do.
        await world.store.commit(Turn(inbox, None, (append(),)))
        assert (await world.registry.ask(inbox, append())).seq == 3  # the second actor, after one restart
        assert await seqs(world, inbox) == [1, 2, 3]
        assert world.registry.restarts == 1


async def test_a_closed_registry_finishes_what_is_queued_and_refuses_the_rest() -> None:
    store = MemoryStore()
    finished: list[int] = []

    async def send(world: World, inbox: int) -> None:
        finished.append((await world.registry.ask(inbox, append())).seq)

    async with trio.open_nursery() as senders:
        async with running(store) as world:
            inbox = await world.inbox()
            for _ in range(30):
                senders.start_soon(functools.partial(send, world, inbox))
            await trio.testing.wait_all_tasks_blocked()
            world.registry.close()
        with pytest.raises(InboxStopped):
            await world.registry.ask(inbox, append())
    assert sorted(finished) == list(range(1, 31))


async def test_a_cancelled_caller_does_not_hurt_its_actor() -> None:
    store = MemoryStore()
    async with running(store) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        entered, leave = trio.Event(), trio.Event()

        async def hold() -> None:
            entered.set()
            await leave.wait()

        store.gate = hold
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.registry.ask, inbox, Append(append().draft))
            await entered.wait()
            nursery.cancel_scope.cancel()
        store.gate = None
        leave.set()
        assert (
            await world.registry.ask(inbox, append())
        ).seq == 3  # the cancelled one was committed: unknown
