"""Connections that send a byte now and then: heads that never end, and bodies."""

from collections.abc import Callable
from itertools import repeat

import pytest

from tests.floods.conftest import IMPATIENT, Flooded
from tests.floods.mob import Mob, Said

CONNECTIONS = {"small": 150, "full": 2_000}

EVERY_SECONDS = {"small": 0.2, "full": 1.0}
"""Between two bytes of a connection."""

FULL_TIMEOUT_SECONDS = 10
"""Of heads and of bodies; the default of heads."""

LONGER_SECONDS = {"small": 0.8, "full": 15}
"""How much longer than that the flood lasts, so that the server ends each of the first connections at least."""

HEAD, BODY = "head_timeout_seconds", "body_timeout_seconds"

WIDE = b"X-Wide: " + b"w" * 60 * 1024 + b"\r\n"
"""Most of the room of a head, which is 64 KiB."""


def head(n: int) -> Said:
    """Half of them have nearly as much as they may."""
    begun = b"POST /in/demo HTTP/1.1\r\nHost: test\r\n" + (WIDE if n % 2 else b"")
    return Said(begun + b"X-Slow: ", repeat(b"s"))


def body(n: int) -> Said:
    """Half of them come in chunks of one byte."""
    begun = b"POST /in/demo HTTP/1.1\r\nHost: test\r\n"
    if n % 2:
        return Said(begun + b"Transfer-Encoding: chunked\r\n\r\n", repeat(b"1\r\ns\r\n"))
    return Said(begun + b"Content-Length: 100000\r\n\r\n", repeat(b"s"))


@pytest.mark.parametrize(
    ("says", "timeout", "told"), [(head, HEAD, 0), (body, BODY, 408)], ids=["heads", "bodies"]
)
def test_slow_connections_are_ended_and_hold_up_nobody(
    flooded: Flooded, size: str, says: Callable[[int], Said], timeout: str, told: int
) -> None:
    seconds = FULL_TIMEOUT_SECONDS if size == "full" else IMPATIENT[timeout]
    with flooded(**{timeout: seconds}) as here:
        with Mob(here.port) as mob, here.honest_client_beside():
            mob.dribble(CONNECTIONS[size], says, seconds + LONGER_SECONDS[size], EVERY_SECONDS[size])
        print(f"ended by the server, by the status of their answer: {dict(mob.ends)}")
        assert set(mob.ends) == {told}
        assert mob.ends[told] >= CONNECTIONS[size]
        here.all_is_given_back()
