"""Draining an agent's inbox for as long as there is something and a budget allows: the client rule, kept for you.

The server owns the cursor (`POST /v1/inbox:pull`), and a client may acknowledge a seq when it has handled every item up
to it, no matter in which order. `Handled` is that rule. A page is shown best first and a budget may end in its middle,
so what was handled above the first unhandled item is remembered by `delivery_seq` *and* `diff_id`, and not handed over
again.

An acknowledgement is only ever computed from a page that was just read: after a break of the connection, or when
handling has taken a while, the page is read again first. A server that was restored from a backup meanwhile counts the
same seqs again for other messages; those are new to us, they are handed over, and nothing unread is acknowledged. For
the same reason nothing depends on an acknowledgement that may or may not have arrived. Promised is at least once.
"""

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from postroom.client import Client, ClientError, Refused, Unreachable
from postroom.deliveries import Item, Page
from postroom.following import Backoff, Lost

BYTES_PER_TOKEN = 3
"""Of UTF-8, to be on the safe side: English prose has about four, code, JSON and ids nearer to three."""

FRESH_SECONDS = 1.0
"""For how long a page may be acknowledged without another look: no server is stopped, restored and started within."""

PATIENCE_SECONDS = 60.0
"""How long a server may be away: restarts and upgrades take seconds."""

Handler = Callable[[Item], Any]
"""What is called with each item. What it returns does not matter; what it raises ends the draining."""


class Budget(msgspec.Struct, frozen=True):
    """How much one draining may hand over, in bytes of the items as sent, or in estimated tokens; both: the smaller."""

    max_bytes: int | None = None
    max_tokens: int | None = None

    @property
    def size(self) -> float:
        """The limit in bytes, infinite when there is none."""
        tokens = math.inf if self.max_tokens is None else self.max_tokens * BYTES_PER_TOKEN
        return min(math.inf if self.max_bytes is None else self.max_bytes, tokens)


UNLIMITED = Budget()


class Drained(msgspec.Struct, frozen=True):
    """What a draining has done: how many items and bytes were handed over, and whether something was left for lack of
    budget.
    """

    items: int
    size: int
    left: bool


class Handled:
    """What has been handled and cannot be acknowledged yet, as pairs of `delivery_seq` and `diff_id`."""

    def __init__(self, pairs: Iterable[tuple[int, str]] = ()) -> None:
        self._ids = dict(pairs)

    def __contains__(self, item: Item) -> bool:
        return self._ids.get(item.delivery_seq) == item.diff.diff_id

    def add(self, item: Item) -> None:
        """Note that an item has been handled."""
        self._ids[item.delivery_seq] = item.diff.diff_id

    def forget(self, cursor: int) -> None:
        """Forget what the server's cursor has passed."""
        self._ids = {seq: diff_id for seq, diff_id in self._ids.items() if seq > cursor}

    def any_up_to(self, seq: int) -> bool:
        """Whether something up to a seq has been handled and is not acknowledged."""
        return any(one <= seq for one in self._ids)

    def pairs(self) -> list[tuple[int, str]]:
        """Return everything, in the order of seqs."""
        return sorted(self._ids.items())

    def ack(self, page: Page) -> int | None:
        """Return how far a page may be acknowledged: the largest seq all of whose items are handled, or `window_high`
        when the whole page is. None when that is not above its cursor.
        """
        left = min((item.delivery_seq for item in page.items if item not in self), default=None)
        ack = page.window_high if left is None else left - 1
        return ack if ack > page.cursor else None


class Drainer:
    """The drained side of one inbox, for a program that drains it again and again.

    `limit`: rows that one page looks at, the server's cap unless given. `patience_seconds`: for how long a server that
    is away is tried again, 0 not at all, None for ever; each time `on_lost` is told. `handled` is what an earlier one
    has left. `sleep`, `jitter` and `clock` are for tests.
    """

    def __init__(
        self,
        api: Client,
        *,
        limit: int | None = None,
        handled: Handled | None = None,
        patience_seconds: float | None = PATIENCE_SECONDS,
        on_lost: Callable[[Lost], object] = lambda lost: None,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.handled = Handled() if handled is None else handled
        self._api = api
        self._limit = limit
        self._patience_seconds = math.inf if patience_seconds is None else patience_seconds
        self._on_lost = on_lost
        self._sleep = sleep
        self._backoff = Backoff(jitter)
        self._clock = clock
        self._page: Page | None = None
        self._looked_at = -math.inf

    def drain(self, handler: Handler, budget: Budget = UNLIMITED, *, wait_seconds: int = 0) -> Drained:
        """Hand over what is there, best first of each page, and acknowledge it; return when there is no more, or when
        the next item is over the budget. The first item is handed over whatever its size.

        `wait_seconds` (at most 60): how long to sleep when there is nothing at first. What the handler raises comes
        through, after one try to acknowledge what it has handled. Raises `Unreachable` when patience has an end, and
        `Refused` for what no retry can change.
        """
        count, size = 0, 0
        self._page = None  # what is there now
        if wait_seconds:
            self._pull(wait_seconds=wait_seconds)
        while fresh := self.look():
            for item in fresh:
                if count and size + item.size > budget.size:
                    self._acknowledge()
                    return Drained(count, size, True)
                self._hand_over(handler, item)
                count += 1
                size += item.size
        return Drained(count, size, False)

    def look(self) -> list[Item]:
        """Acknowledge all that may be, and return the items of the page after it that are not handled yet, best first.

        There are none only when nothing is left that this token may see. Raises as `drain`.
        """
        page = self._current()
        while (ack := self.handled.ack(page)) is not None:
            fresh = self._fresh(page)
            if fresh and not self.handled.any_up_to(ack):
                return fresh  # rows that nobody may see are no reason for a call; they go with the next
            before = page.cursor
            page, sent = self._pull(ack)
            if sent and page.cursor <= before:
                break  # another inbox by now, or another server; what is in the page is known or new by its ids
        return self._fresh(page)

    @property
    def has_more(self) -> bool:
        """Whether rows follow the page that `look` has returned."""
        return self._page is not None and self._page.has_more

    def _fresh(self, page: Page) -> list[Item]:
        return [item for item in page.items if item not in self.handled]

    def _hand_over(self, handler: Handler, item: Item) -> None:
        try:
            handler(item)
        except Exception:
            patience, self._patience_seconds = self._patience_seconds, 0.0
            try:
                with contextlib.suppress(ClientError):  # the handler's own error matters more
                    self._acknowledge()
            finally:
                self._patience_seconds = patience
            raise
        self.handled.add(item)

    def _acknowledge(self) -> None:
        """Acknowledge all that may be, without another page."""
        while (ack := self.handled.ack(self._current())) is not None:
            _, sent = self._pull(ack, limit=1)
            self._page = None  # its window is one row: not what is best of all
            if sent:
                return

    def _current(self) -> Page:
        """Return the page that was read last if it may still be acknowledged, else another one."""
        if self._page is not None and self._clock() - self._looked_at <= FRESH_SECONDS:
            return self._page
        page, _ = self._pull()
        return page

    def _pull(
        self, ack: int | None = None, *, limit: int | None = None, wait_seconds: int | None = None
    ) -> tuple[Page, bool]:
        """Return a page, and whether the acknowledgement has gone with the call that brought it."""
        lost_at: float | None = None
        while True:
            try:
                page = self._api.pull(ack=ack, limit=limit or self._limit, wait_seconds=wait_seconds)
                break
            except (Unreachable, Refused) as error:
                now = self._clock()
                lost_at = now if lost_at is None else lost_at
                lost = self._backoff.lost(error)
                if now - lost_at + lost.seconds > self._patience_seconds:
                    raise
                self._on_lost(lost)
                self._sleep(lost.seconds)
                ack = wait_seconds = None
        self._backoff.succeeded()
        self._page, self._looked_at = page, self._clock()
        self.handled.forget(page.cursor)
        return page, ack is not None


def drain(
    api: Client, handler: Handler, budget: Budget = UNLIMITED, *, wait_seconds: int = 0, **how: Any
) -> Drained:
    """Drain the inbox of the agent whose token `api` has, once; as `Drainer.drain`. `how`: options of `Drainer`.

    An item that was handled above one that did not fit is handed over again by the next call: a program that drains
    repeatedly keeps a `Drainer`.
    """
    return Drainer(api, **how).drain(handler, budget, wait_seconds=wait_seconds)
