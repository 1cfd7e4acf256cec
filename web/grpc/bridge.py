"""From a call, which runs on the asyncio loop, into trio and back.

It is what `trio_asyncio.trio_as_aio` does, without the cycle that its future is part of (trio-asyncio 0.16: its
`cancel` is replaced by a function that holds it). Pages of up to a MiB would stay in memory until the cyclic collector
comes by, which here is after a thousand calls.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple, Unpack

import trio

Value = TypeVar("Value")
Given = TypeVarTuple("Given")


class Bridge:
    """Runs functions of trio in a nursery inside the loop's lifetime."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery

    async def run(self, function: Callable[[Unpack[Given]], Awaitable[Value]], *given: *Given) -> Value:
        """Run a function in trio and return what it returns. It must not raise: whoever waits could not be told
        without making a cycle of it, so that would end the nursery.

        To be awaited in asyncio. When that is cancelled, so is the function, which may come to its end later.
        """
        future: asyncio.Future[Value] = asyncio.get_running_loop().create_future()
        scope = trio.CancelScope()
        self._nursery.start_soon(_carry, function, given, scope, future)
        try:
            return await future
        finally:
            scope.cancel()


async def _carry(
    function: Callable[[Unpack[Given]], Awaitable[Value]],
    given: tuple[*Given],
    scope: trio.CancelScope,
    future: asyncio.Future[Value],
) -> None:
    with scope:
        value = await function(*given)
        if not future.done():
            future.set_result(value)
