"""The accept loop on virtual time: what is logged of a shortage, how often, and that it goes on afterwards."""

import errno
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from web.upstream.accepting import PAUSE_SECONDS, TOLD_SECONDS, accept_connections

MINUTES = 3


class Listener:
    """Accepts as it is told: an error for each that it is given, then one connection, then none."""

    def __init__(self, errors: Iterator[OSError]) -> None:
        self._errors = errors
        self.accepted = 0

    async def accept(self) -> Any:
        await trio.lowlevel.checkpoint()
        for error in self._errors:
            raise error
        if self.accepted:
            await trio.sleep_forever()
        self.accepted += 1
        return trio.testing.memory_stream_pair()[0]


async def run(errors: Iterator[OSError]) -> tuple[list[Any], int]:
    """Accept until a connection is handled; return what was logged, and how often room was asked for."""
    asked = 0

    def make_room() -> bool:
        nonlocal asked
        asked += 1
        return False

    handled = trio.Event()

    async def handler(stream: Any) -> None:
        handled.set()

    with capture_logs() as logged:
        async with trio.open_nursery() as nursery:
            listener: Any = Listener(errors)
            await nursery.start(accept_connections, listener, handler, nursery, make_room)
            await handled.wait()
            nursery.cancel_scope.cancel()
    return list(logged), asked


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS])
async def test_a_shortage_is_told_once_a_minute_and_then_newcomers_are_served(
    autojump_clock: trio.testing.MockClock, number: int
) -> None:
    tries = int(MINUTES * TOLD_SECONDS / PAUSE_SECONDS)
    logged, asked = await run(OSError(number, "no room") for _ in range(tries))
    assert MINUTES <= len(logged) <= MINUTES + 1
    assert asked == tries
    assert {(line["event"], line["log_level"]) for line in logged} == {
        ("no room for another connection; newcomers wait", "error")
    }
    assert not any("exc_info" in line for line in logged)


async def test_a_listener_that_fails_is_not_taken_for_a_shortage() -> None:
    with pytest.raises(ExceptionGroup) as failed:
        await run(iter([OSError(errno.EBADF, "closed")]))
    assert failed.group_contains(OSError)
