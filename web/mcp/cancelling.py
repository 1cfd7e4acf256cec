"""Calls that may be cancelled by a later message: `notifications/cancelled` (legacy versions).

A modern client that gives up hangs up, and its slot is free at once. A legacy one keeps the call's connection open and
says so in a notification of its own. There are no sessions here, so a call is found by its token and its JSON-RPC id.
Two clients of one token may use the same id; the other one then gets an early empty answer, which is a normal answer
to a wait, and asks again.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from actors.watchers import Watcher


class Cancelling:
    """The waits under way, by token and id. All of it is synchronous."""

    def __init__(self) -> None:
        self._waits: dict[tuple[str, bytes], set[Watcher]] = {}

    @contextmanager
    def of(self, token_id: str, id_json: bytes | None, watcher: Watcher) -> Iterator[None]:
        """Let a wait be cancelled for as long as it lasts."""
        if id_json is None:
            yield
            return
        key = (token_id, id_json)
        watchers = self._waits.setdefault(key, set())
        watchers.add(watcher)
        try:
            yield
        finally:
            watchers.discard(watcher)
            if not watchers and self._waits.get(key) is watchers:
                del self._waits[key]

    def cancel(self, token_id: str, id_json: bytes) -> None:
        """End the waits of this token with this id: with what there is, as at a shutdown."""
        for watcher in list(self._waits.get((token_id, id_json), ())):
            watcher.end("cancelled")
