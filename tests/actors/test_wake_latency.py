"""How long sleeping watchers take to run after a commit is counted once for each of them, and for nobody else."""

import trio
import trio.testing

from actors.fanout import AT_ONCE, Fanout, Ticket
from actors.watchers import Watcher


async def sleep_once(watcher: Watcher) -> None:
    watcher.rearm()
    await watcher.park()
    watcher.close()


async def sleeping(nursery: trio.Nursery, count: int) -> list[Watcher]:
    """Return watchers that sleep."""
    watchers = [Watcher() for _ in range(count)]
    for watcher in watchers:
        nursery.start_soon(sleep_once, watcher)
    await trio.testing.wait_all_tasks_blocked()
    return watchers


async def test_each_sleeping_watcher_is_counted_in_a_crowd_as_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    for count in (1, AT_ONCE, 3 * AT_ONCE):
        fanout = Fanout()
        async with trio.open_nursery() as nursery:
            await nursery.start(fanout.run)
            async with trio.open_nursery() as watching:
                fanout.announce(await sleeping(watching, count), [Ticket()])
            nursery.cancel_scope.cancel()
        assert fanout.latency.count == count
        assert 0 < fanout.latency.total < 60


async def test_whoever_is_awake_or_is_woken_for_another_reason_is_not_counted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    fanout = Fanout()
    busy = Watcher()
    fanout.announce([busy], [])
    await busy.park()
    async with trio.open_nursery() as nursery:
        ended, beating = await sleeping(nursery, 2)
        ended.end("shutdown")
        beating.wake()
    assert fanout.latency.count == 0


async def test_one_that_is_cancelled_in_its_sleep_is_not_counted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    fanout = Fanout()
    async with trio.open_nursery() as nursery:
        watchers = await sleeping(nursery, 1)
        nursery.cancel_scope.cancel()
    fanout.announce(watchers, [])
    await watchers[0].park()
    assert fanout.latency.count == 0
