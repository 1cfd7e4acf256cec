"""The sessions of one agent: which programs speak for it at the moment. No trio, no clock of its own.

Two that are live at once take mail from each other: each plain read hands a message to one of them. A server can only
see that there are two, and say so.
"""

REMEMBERED = 32
"""Sessions of an agent that are kept apart; whoever makes more than that has lost count, too."""

SECOND_US = 1_000_000


class Sessions:
    """When each session of an agent was last heard of, in µs."""

    __slots__ = ("_called",)

    def __init__(self) -> None:
        self._called: dict[str, int] = {}

    def called(self, session: str, now_us: int, ttl_seconds: int) -> bool:
        """Note a call; return whether another session is live: it has called within the agent's time to live."""
        self._called.pop(session, None)
        self._called[session] = now_us
        while len(self._called) > REMEMBERED:
            del self._called[next(iter(self._called))]
        alive_since = now_us - ttl_seconds * SECOND_US
        return any(at >= alive_since for other, at in self._called.items() if other != session)
