"""The queue in front of a handler: order, the brake on who puts, and nothing lost when who receives is cancelled."""

import trio
import trio.testing
from hypercorn.typing import HTTPRequestEvent

from web.upstream.receiving import Arrivals

LIMIT = 3


def piece(number: int) -> HTTPRequestEvent:
    return {"type": "http.request", "body": b"%d" % number, "more_body": True}


async def test_messages_come_in_order_and_nobody_gives_way_for_them() -> None:
    arrivals = Arrivals(LIMIT)
    with trio.testing.assert_no_checkpoints():
        for number in range(LIMIT):
            await arrivals.put(piece(number))
    assert [await arrivals.receive() for _ in range(LIMIT)] == [piece(number) for number in range(LIMIT)]


async def test_who_puts_too_much_waits_until_it_is_taken(autojump_clock: trio.testing.MockClock) -> None:
    arrivals = Arrivals(LIMIT)
    put: list[int] = []

    async def sender() -> None:
        for number in range(2 * LIMIT):
            await arrivals.put(piece(number))
            put.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender)
        await trio.testing.wait_all_tasks_blocked()
        assert len(put) == LIMIT
        for taken in range(2 * LIMIT):
            assert await arrivals.receive() == piece(taken)
            await trio.testing.wait_all_tasks_blocked()
    assert len(put) == 2 * LIMIT


async def test_nothing_is_lost_when_who_receives_is_cancelled() -> None:
    arrivals = Arrivals(LIMIT)
    got: list[object] = []

    async def receiver() -> None:
        while True:
            got.append(await arrivals.receive())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receiver)
        await trio.testing.wait_all_tasks_blocked()
        await arrivals.put(piece(1))  # wakes the receiver, which is cancelled before it runs
        nursery.cancel_scope.cancel()
    await arrivals.put(piece(2))
    with trio.CancelScope() as scope:
        scope.cancel()
        got.append(await arrivals.receive())
    with trio.move_on_after(0):
        while True:
            got.append(await arrivals.receive())
    with trio.fail_after(1):
        while len(got) < 2:
            got.append(await arrivals.receive())
    assert got == [piece(1), piece(2)]
