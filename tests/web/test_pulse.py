"""The ticker: who is due is woken at the nearest tick, a crowd of them a few at a time, everybody else not at all."""

import trio
import trio.testing

from web.pulse import AT_ONCE, NEVER, Pulse


class Sleeper:
    """Notes when it was woken."""

    def __init__(self, wake_at: float) -> None:
        self.wake_at = wake_at
        self.woken_at: list[float] = []

    def wake(self) -> None:
        self.woken_at.append(trio.current_time())
        self.wake_at = NEVER


async def test_who_is_due_is_woken_at_the_nearest_tick(autojump_clock: trio.testing.MockClock) -> None:
    pulse = Pulse()
    began = trio.current_time()
    sleepers = [Sleeper(began + seconds) for seconds in (14.6, 15.0, 15.4, 15.6, NEVER)]
    gone = Sleeper(began + 3)
    for sleeper in (*sleepers, gone):
        pulse.add(sleeper)
    pulse.discard(gone)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.run)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(30):
            autojump_clock.jump(1)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [[at - began for at in sleeper.woken_at] for sleeper in sleepers] == [[15], [15], [15], [16], []]
    assert gone.woken_at == []


async def test_a_crowd_is_woken_a_few_at_a_time(mock_clock: trio.testing.MockClock) -> None:
    pulse = Pulse()
    sleepers = [Sleeper(1.0) for _ in range(3 * AT_ONCE)]
    for sleeper in sleepers:
        pulse.add(sleeper)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.run)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(1)
        for count in (1, 2, 3):
            await trio.testing.wait_all_tasks_blocked()
            assert sum(len(sleeper.woken_at) for sleeper in sleepers) == count * AT_ONCE
            mock_clock.jump(0.01)
        nursery.cancel_scope.cancel()


async def test_one_that_woke_by_itself_meanwhile_is_left_alone(mock_clock: trio.testing.MockClock) -> None:
    pulse = Pulse()
    sleepers = [Sleeper(1.0) for _ in range(AT_ONCE + 1)]
    for sleeper in sleepers:
        pulse.add(sleeper)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.run)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(1)
        await trio.testing.wait_all_tasks_blocked()
        sleepers[-1].wake_at = NEVER
        mock_clock.jump(0.01)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert sleepers[-1].woken_at == []
