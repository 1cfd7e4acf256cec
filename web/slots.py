"""Slots: how many waits and streams may be open at once, overall and on one inbox (surface, section 5).

The numbers are owned here and changed by synchronous steps alone. A slot is freed by unwinding: the request's own
`with`, or the last byte of its answer, whatever ends it. Nothing relies on hearing that a client has left, because a
stray byte after a request can hide that (field notes, trap 14).
"""

from collections.abc import Collection
from types import TracebackType
from typing import Literal, Self

import msgspec
import trio

from web.errors import ApiError

RETRY_SECONDS = 2
"""`Retry-After` when every slot is taken: waits come to their end all the time."""


class Holder(msgspec.Struct, frozen=True, gc=False):
    """Who holds a slot, for an administrator who asks who is waiting. `since`: on trio's clock."""

    what: Literal["wait", "pull", "stream"]
    token_id: str
    slugs: tuple[str, ...]
    since: float


class Slots:
    """The open waits and streams. `taken` counts them all, `refused` those that found no slot since the start."""

    def __init__(self, overall: int, per_inbox: int) -> None:
        self._by_inbox: dict[int, int] = {}
        self._holders: dict[Slot, Holder] = {}
        self.resize(overall, per_inbox)
        self.taken = 0
        self.refused = 0

    def resize(self, overall: int, per_inbox: int) -> None:
        """Set how many there may be; those that are open already stay."""
        self._overall = overall
        self._per_inbox = per_inbox

    def on(self, inbox_id: int) -> int:
        """Return how many are open on an inbox."""
        return self._by_inbox.get(inbox_id, 0)

    @property
    def holders(self) -> Collection[Holder]:
        """Who has something open, the longest one first."""
        return self._holders.values()

    def take(self, inbox_ids: Collection[int], holder: Holder | None = None) -> "Slot":
        """Take one slot overall and one on each of these inboxes: all of them or none.

        Raises `ApiError` `too_many_waits`.
        """
        if self.taken >= self._overall:
            raise self._too_many("on this server")
        if any(self.on(inbox_id) >= self._per_inbox for inbox_id in inbox_ids):
            raise self._too_many("on this inbox")
        self.taken += 1
        for inbox_id in inbox_ids:
            self._by_inbox[inbox_id] = self.on(inbox_id) + 1
        slot = Slot(self, inbox_ids)
        if holder is not None:
            self._holders[slot] = holder
        return slot

    def _too_many(self, where: str) -> ApiError:
        self.refused += 1
        message = f"Too many waits are in progress {where}; try again shortly."
        return ApiError("too_many_waits", message, retry_after=RETRY_SECONDS)

    def _free(self, slot: "Slot", inbox_ids: Collection[int]) -> None:
        self.taken -= 1
        self._holders.pop(slot, None)
        for inbox_id in inbox_ids:
            left = self._by_inbox[inbox_id] - 1
            if left:
                self._by_inbox[inbox_id] = left
            else:
                del self._by_inbox[inbox_id]


def holder(what: Literal["wait", "pull", "stream"], token_id: str, slugs: tuple[str, ...]) -> Holder:
    """Return who holds a slot from now on."""
    return Holder(what, token_id, slugs, trio.current_time())


class Slot:
    """What one wait or stream holds. A context manager: leaving it gives the slot back, once."""

    __slots__ = ("_inbox_ids", "_slots")

    def __init__(self, slots: Slots, inbox_ids: Collection[int]) -> None:
        self._slots: Slots | None = slots
        self._inbox_ids = inbox_ids

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        slots, self._slots = self._slots, None
        if slots is not None:
            slots._free(self, self._inbox_ids)
