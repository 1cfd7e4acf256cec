"""Connections that are opened and dropped: before, within and after a request."""

from itertools import cycle

from tests.floods.conftest import Flooded
from tests.floods.mob import dial

CONNECTIONS = {"small": 500, "full": 10_000}

LAST_WORDS = (
    b"",
    b"POST /in/demo HTTP/1.1\r\nHost:",
    b"POST /in/demo HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\nhalf",
    b"POST /in/demo HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nwhole",
    b"GET /in/demo HTTP/1.1\r\nHost: test\r\n\r\n" * 3,
)
"""What is said before the end, in turn."""


def test_connections_that_are_dropped_hold_up_nobody(flooded: Flooded, size: str) -> None:
    with flooded() as here:
        with here.honest_client_beside():
            for _, words in zip(range(CONNECTIONS[size]), cycle(LAST_WORDS), strict=False):
                with dial(here.port) as sock:
                    sock.sendall(words)
        here.all_is_given_back()
