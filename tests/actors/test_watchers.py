import functools

import pytest
import trio
import trio.testing

from actors.fanout import AT_ONCE, IN_FLIGHT, PACE_SECONDS, TICKET_SECONDS, Fanout, Ticket
from actors.watchers import Watcher, Watchers


async def test_a_flag_raised_between_looking_and_parking_is_not_lost() -> None:
    watcher = Watcher()
    watcher.rearm()
    watcher.wake()
    with trio.fail_after(5):
        await watcher.park()


async def test_a_parked_watcher_is_woken_and_a_cancelled_one_leaves() -> None:
    woken, left = Watcher(), Watcher()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(woken.park)
            await trio.testing.wait_all_tasks_blocked()
            woken.wake()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(left.park)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    left.wake()  # nobody is there, and nothing breaks


async def test_an_ending_is_final_and_the_first_one_counts() -> None:
    watcher = Watcher()
    watcher.end("deleted")
    watcher.end("shutdown")
    watcher.rearm()
    assert watcher.ended == "deleted"


def test_a_commit_finds_only_the_watchers_of_its_types() -> None:
    watchers = Watchers()
    everything, pushes, both = Watcher(), Watcher(["push"]), Watcher(["push", "ping"])
    for one in (everything, pushes, both):
        watchers.add(one)
    assert watchers.matching(["ping"]) == [everything, both]
    assert watchers.matching(["ping", "push"]) == [everything, both, pushes]
    assert watchers.matching(["other"]) == [everything]
    assert len(watchers) == 3


def test_a_watcher_that_left_leaves_nothing_behind() -> None:
    watchers = Watchers()
    one, other = Watcher(["push", "ping"]), Watcher()
    watchers.add(one)
    watchers.add(other)
    for gone in (one, one, other):
        watchers.discard(gone)
    assert not watchers
    assert watchers.matching(["push"]) == []


async def crowd(
    nursery: trio.Nursery, count: int, woken: list[int], hold: trio.Event | None
) -> list[Watcher]:
    """Park watchers that note that they were woken and close, once `hold` allows it."""

    async def one(number: int, watcher: Watcher) -> None:
        await watcher.park()
        woken.append(number)
        if hold is not None:
            await hold.wait()
        watcher.close()

    watchers = [Watcher() for _ in range(count)]
    for number, watcher in enumerate(watchers):
        nursery.start_soon(functools.partial(one, number, watcher))
    await trio.testing.wait_all_tasks_blocked()
    return watchers


async def test_a_few_are_woken_at_once_without_any_task() -> None:
    woken: list[int] = []
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            Fanout().announce(await crowd(nursery, AT_ONCE, woken, None), [Ticket()])
    assert len(woken) == AT_ONCE


async def test_a_crowd_waits_for_the_senders_answer(mock_clock: trio.testing.MockClock) -> None:
    woken: list[int] = []
    fanout, ticket = Fanout(), Ticket()
    async with trio.open_nursery() as nursery:
        await nursery.start(fanout.run)
        fanout.announce(await crowd(nursery, 20, woken, None), [ticket])
        await trio.testing.wait_all_tasks_blocked()
        assert woken == []
        ticket.close()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(woken) == list(range(20))
        nursery.cancel_scope.cancel()


async def test_a_sender_that_does_not_read_holds_the_crowd_up_for_a_moment_only(
    mock_clock: trio.testing.MockClock,
) -> None:
    woken: list[int] = []
    fanout = Fanout()
    async with trio.open_nursery() as nursery:
        await nursery.start(fanout.run)
        fanout.announce(await crowd(nursery, 20, woken, None), [Ticket()])
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(TICKET_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        assert len(woken) == 20
        nursery.cancel_scope.cancel()


async def test_only_so_many_are_under_way_at_once(mock_clock: trio.testing.MockClock) -> None:
    woken: list[int] = []
    hold = trio.Event()
    fanout = Fanout()
    async with trio.open_nursery() as nursery:
        await nursery.start(fanout.run)
        fanout.announce(await crowd(nursery, 30, woken, hold), [])
        await trio.testing.wait_all_tasks_blocked()
        assert len(woken) == IN_FLIGHT
        hold.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(woken) == 30
        nursery.cancel_scope.cancel()


async def test_watchers_whose_clients_do_not_read_lose_their_places(
    mock_clock: trio.testing.MockClock,
) -> None:
    woken: list[int] = []
    fanout = Fanout()
    async with trio.open_nursery() as nursery:
        await nursery.start(fanout.run)
        fanout.announce(await crowd(nursery, IN_FLIGHT + 3, woken, trio.Event()), [])
        await trio.testing.wait_all_tasks_blocked()
        assert len(woken) == IN_FLIGHT
        mock_clock.jump(PACE_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        assert len(woken) == IN_FLIGHT + 3
        nursery.cancel_scope.cancel()


async def test_clients_of_one_inbox_that_do_not_read_hold_up_no_other_inbox(
    mock_clock: trio.testing.MockClock,
) -> None:
    stuck: list[int] = []
    prompt: list[int] = []
    fanout = Fanout()
    async with trio.open_nursery() as nursery:
        await nursery.start(fanout.run)
        deaf = await crowd(nursery, 64, stuck, trio.Event())
        for _ in range(40):  # as many messages to their inbox
            fanout.announce(deaf, [])
        fanout.announce(await crowd(nursery, 3 * IN_FLIGHT, prompt, None), [])
        for _ in range(64 // IN_FLIGHT):
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(PACE_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        assert (len(stuck), len(prompt)) == (64, 3 * IN_FLIGHT)
        nursery.cancel_scope.cancel()


async def test_places_that_come_free_exactly_when_the_time_is_up_break_nothing(
    mock_clock: trio.testing.MockClock,
) -> None:
    for _ in range(20):  # which of the two is noticed first is the scheduler's choice
        woken: list[int] = []
        hold = trio.Event()
        fanout = Fanout()
        async with trio.open_nursery() as nursery:
            await nursery.start(fanout.run)
            fanout.announce(await crowd(nursery, 3 * IN_FLIGHT, woken, hold), [])
            await trio.testing.wait_all_tasks_blocked()
            hold.set()
            mock_clock.jump(PACE_SECONDS)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(woken) == list(range(3 * IN_FLIGHT))
            nursery.cancel_scope.cancel()


async def test_watchers_that_left_before_their_turn_take_no_place(mock_clock: trio.testing.MockClock) -> None:
    woken: list[int] = []
    fanout, ticket = Fanout(), Ticket()
    async with trio.open_nursery() as nursery:
        await nursery.start(fanout.run)
        gone = [Watcher() for _ in range(3 * IN_FLIGHT)]
        there = await crowd(nursery, 3, woken, None)
        fanout.announce([*gone, *there], [ticket])
        for watcher in gone:
            watcher.close()
        ticket.close()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(woken) == [0, 1, 2]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("running", [True, False])
async def test_a_shutdown_wakes_everybody_now(running: bool, mock_clock: trio.testing.MockClock) -> None:
    woken: list[int] = []
    fanout = Fanout()
    async with trio.open_nursery() as nursery:
        if running:
            await nursery.start(fanout.run)
        first = await crowd(nursery, 30, woken, trio.Event())
        second = await crowd(nursery, 30, woken, trio.Event())
        fanout.announce(first, [])
        fanout.announce(second, [Ticket()])
        await trio.testing.wait_all_tasks_blocked()
        fanout.rush()
        await trio.testing.wait_all_tasks_blocked()
        assert len(woken) == 60
        nursery.cancel_scope.cancel()
