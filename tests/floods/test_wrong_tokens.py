"""A storm of wrong tokens: as many as the server answers."""

import secrets
import time
from collections import Counter

from tests.bench.client import Line, take_turns
from tests.bench.reading import Reader
from tests.floods.conftest import Flooded
from tests.floods.mob import gently

CONNECTIONS = {"small": 50, "full": 500}
"""Kept open, each with one request under way."""

SECONDS = {"small": 1.5, "full": 15.0}
AT_ONCE = 2
"""Requests of each connection between two looks at the clock."""

ANSWERED = 30
"""Wrong tokens of one address in a minute that are answered 401; the others 429."""


class Refused(Line):
    """A connection on which everything is refused. Its answers are their statuses."""

    __slots__ = ()

    @staticmethod
    def whole(received: bytes) -> bytes | None:
        """Return the status of an answer, None while it is not whole."""
        head, ends, body = received.partition(b"\r\n\r\n")
        if not ends:
            return None
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        return received[9:12] if len(body) >= length else None


def storm(port: int, connections: int, seconds: float) -> Counter[bytes]:
    """Read with one made-up token after another; return how often each status was answered."""
    answers: Counter[bytes] = Counter()
    lines = [Refused(port) for _ in gently(port, connections)]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        tokens = [f"prm_agent_{secrets.token_urlsafe(32)}" for _ in range(AT_ONCE * connections)]
        answers.update(
            take_turns(lines, [Reader(port, "honest", token).page(limit=1) for token in tokens])[1]
        )
    for line in lines:
        line.socket.close()
    return answers


def test_a_storm_of_wrong_tokens_is_turned_away_and_holds_up_nobody(flooded: Flooded, size: str) -> None:
    with flooded() as here:
        with here.honest_client_beside():
            answers = storm(here.port, CONNECTIONS[size], SECONDS[size])
        print(f"{sum(answers.values()) / SECONDS[size]:.0f} a second, by status: {dict(answers)}")
        assert answers.keys() == {b"401", b"429"}
        assert answers[b"401"] <= ANSWERED * (SECONDS[size] / 60 + 1)
        here.all_is_given_back()
