"""How many frames a connection may send that bring no call to its end: what stops a client that only makes work.

A frame costs its sender nothing and us some ten microseconds; one that opens a call and takes it back at once (the
rapid reset) a hundred. h2 bounds the memory that they take, and the pieces of a head (CONTINUATION), but not how many
there are, so one stranger without a token could keep the loop busy. Here each frame is owed for: calls that are
answered, data that is taken, and time pay. Whoever owes too much is told ENHANCE_YOUR_CALM, and the connection ends in
the middle of what it has sent.
"""

from typing import Any

import trio
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import Event
from h2.exceptions import ProtocolError
from hyperframe.frame import Frame

MAX_OWED = 512
"""Frames. A client that opens all its calls at once, and settles what was agreed, sends about a hundred."""

PAID_BY_PROGRESS = 32
"""Frames that a call which is answered pays for, or 64 KiB of an answer that are taken: a call takes three to send, and
who receives makes room twice for each 16 KiB, and measures the line."""

PAID_PER_SECOND = 64
"""Calls that are given up by their clients, and pings: some twenty calls a second without an answer."""


class TooManyFrames(ProtocolError):
    """The client sends frames that lead nowhere."""

    error_code = ErrorCodes.ENHANCE_YOUR_CALM


class OwingConnection(H2Connection):
    """h2's connection, which counts what it is sent. `owed`: frames that nothing has paid for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.owed = 0.0
        self._paid_at = trio.current_time()

    def pay(self, frames: float = PAID_BY_PROGRESS) -> None:
        """Take from what is owed. Nobody saves up."""
        self.owed = max(0.0, self.owed - frames)

    def receive_data(self, data: Any) -> list[Event]:
        """As h2's. Raises `TooManyFrames`."""
        now = trio.current_time()
        self.pay((now - self._paid_at) * PAID_PER_SECOND)
        self._paid_at = now
        return super().receive_data(data)

    def _receive_frame(self, frame: Frame) -> list[Event]:
        self.owed += 1
        if self.owed > MAX_OWED:
            raise TooManyFrames("too many frames that lead nowhere")
        return super()._receive_frame(frame)
