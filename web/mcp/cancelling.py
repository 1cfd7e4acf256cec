"""Calls that may be cancelled by a later message: `notifications/cancelled` (legacy versions).

A modern client that gives up hangs up, and its slot is free at once. A legacy one keeps the call's connection open and
says so in a notification of its own. There are no sessions here, so a call is found by its token and its JSON-RPC id.
Two clients of one token may use the same id; the other one then gets an early empty answer, which is a normal answer
to a wait, and asks again.
"""

from contextlib import AbstractContextManager, nullcontext

from actors.groups import Groups
from actors.watchers import Watcher


class Cancelling:
    """The waits under way, by token and id. All of it is synchronous."""

    def __init__(self) -> None:
        self._waits: Groups[tuple[str, bytes]] = Groups()

    def of(self, token_id: str, id_json: bytes | None, watcher: Watcher) -> AbstractContextManager[None]:
        """Let a wait be cancelled until what is returned is left."""
        return nullcontext() if id_json is None else self._waits.member((token_id, id_json), watcher)

    def cancel(self, token_id: str, id_json: bytes) -> None:
        """End the waits of this token with this id: with what there is, as at a shutdown."""
        for watcher in self._waits.of((token_id, id_json)):
            watcher.end("cancelled")
