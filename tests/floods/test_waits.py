"""Waits: one token holds as many as there may be on each of its inboxes, and has them answered again and again."""

from contextlib import closing

from tests.bench.crowd import Crowd
from tests.bench.reading import Reader
from tests.floods.conftest import Flooded

INBOXES = {"small": 2, "full": 15}
"""The full number leaves 64 places of all that there are (MAX_STREAMS) to others."""

WAITS_OF_AN_INBOX = 64
WAIT_SECONDS = 60
MESSAGES = {"small": 5, "full": 10}
"""On each inbox. Each is an answer to all who wait there; when all have been answered, they ask again."""

PAUSE_SECONDS = 0.1
"""After each message."""


def test_a_token_that_holds_every_wait_of_its_inboxes_holds_up_nobody(flooded: Flooded, size: str) -> None:
    with flooded() as here, closing(Crowd()) as crowd:
        slugs = [here.api.inbox() for _ in range(INBOXES[size])]
        token = here.api.agent(slugs)
        readers = [Reader(here.port, slug, token) for slug in slugs]
        held = [reader for reader in readers for _ in range(WAITS_OF_AN_INBOX)]

        def waits(after: int) -> list[bytes]:
            return [reader.wait(after=after, timeout_seconds=WAIT_SECONDS) for reader in held]

        with here.honest_client_beside():
            crowd.hold(here.port, waits(0))
            for slug in slugs:
                refused = here.api.call("GET", f"/inboxes/{slug}/wait?after=0")
                assert refused.status_code == 429, "there is no place for one more"
            for seq in range(1, MESSAGES[size] + 1):
                for slug in slugs:
                    assert here.api.send(slug) == seq
                    crowd.collect(seconds=PAUSE_SECONDS)
                crowd.collect()
                crowd.again(waits(seq))
        assert crowd.held().refused == 0, crowd.held().example
        assert crowd.heard == len(held) * MESSAGES[size]
        crowd.close()
        here.all_is_given_back()
