"""Readers of streams that stop reading."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle

from tests.bench.reading import Reader
from tests.floods.conftest import Flooded
from tests.floods.mob import dial, gently
from tests.floods.scene import Scene

READERS = {"small": 128, "full": 1_000}
READERS_OF_AN_INBOX = 64
"""As many as there may be."""

RECEIVE_BUFFER_BYTES = 4_096

MESSAGE = b'{"text": "%b"}' % (b"x" * 15_000)
"""Nearly as large as bodies in streams may be (16 KiB)."""

MOST_MESSAGES = 1_000
"""By then the buffers of the kernel are full, however large they are, and the readers must have been cut off."""


@contextmanager
def stalled(here: Scene, count: int, slugs: list[str]) -> Iterator[None]:
    """Open streams, evenly over the inboxes, that nobody reads."""
    token = here.api.agent(slugs)
    with ExitStack() as held:
        for _, slug in zip(gently(here.port, count), cycle(slugs), strict=False):
            sock = held.enter_context(dial(here.port, receive_buffer=RECEIVE_BUFFER_BYTES))
            sock.sendall(Reader(here.port, slug, token).stream())
        here.books.until(lambda holding: holding.streams == count)
        yield


def test_stalled_readers_of_streams_are_cut_off_and_hold_up_nobody(flooded: Flooded, size: str) -> None:
    count = READERS[size]
    with flooded() as here:
        slugs = [here.api.inbox() for _ in range(-(-count // READERS_OF_AN_INBOX))]
        with here.honest_client_beside(), stalled(here, count, slugs):
            sent = 0
            while (left := here.books.holding().streams) > 0:
                assert sent < MOST_MESSAGES, f"{left} of {count} readers were not cut off"
                for slug in slugs:
                    here.api.send(slug, MESSAGE)
                sent += 1
            print(f"{count} readers were cut off after {sent} messages on each of {len(slugs)} inboxes")
        here.all_is_given_back()
