"""What the state machines share: the thread in which the server of a run lives."""

from collections.abc import Iterator

import pytest
import structlog

from tests.fuzz.loop import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    """A thread with a loop of trio's. What the server logs there is not printed."""
    with structlog.testing.capture_logs():
        thread = LoopThread()
        yield thread
        thread.close()
