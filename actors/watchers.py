"""Who sleeps on an inbox, and how they are woken.

A `Watcher` is one wait or stream: it parks its own task and is woken by flag, never by value; what there is to read it
looks up itself. It may watch several inboxes at once. The flag is the whole protocol against lost wake-ups:

    watcher.rearm()            # from here on every matching commit raises the flag
    page = look or read        # nothing there
    await watcher.park()       # returns at once when the flag was raised in between

`Watchers` is one inbox's set, kept by event type, so that a commit touches only those that it matches. All of it is
synchronous and owned by the event loop; nothing here knows about time, slots or HTTP.
"""

import time
from collections.abc import Callable, Iterable
from typing import Literal

import trio

from storage.histogram import Histogram

Ending = Literal["deleted", "revoked", "shutdown", "cancelled"]
"""Why there is nothing more to wait for: the inbox, the caller's token, the server, or the caller itself."""


class News:
    """Something that was announced to sleeping watchers. `heard` counts how long it took until one of them ran."""

    __slots__ = ("_announced_at", "_latency")

    def __init__(self, latency: Histogram) -> None:
        """`latency` is in seconds."""
        self._announced_at = time.perf_counter()
        self._latency = latency

    def heard(self) -> None:
        """Say that a watcher which slept is awake."""
        self._latency.add(time.perf_counter() - self._announced_at)


class Watcher:
    """One wait or stream.

    `types`: the event types that it wants, None for all. `ended` is set once and stays. A wake-up counts as dealt with
    when the watcher parks again or is closed; whoever paces wake-ups is told so.
    """

    __slots__ = ("_closed", "_flag", "_news", "_release", "_task", "ended", "rescoped", "types")

    def __init__(self, types: Iterable[str] = ()) -> None:
        self.types: frozenset[str] | None = frozenset(types) or None
        self.ended: Ending | None = None
        self.rescoped = False
        self._closed = False
        self._flag = False
        self._task: trio.lowlevel.Task | None = None
        self._release: Callable[[], None] | None = None
        self._news: News | None = None

    @property
    def parked(self) -> bool:
        """Whether it sleeps. One that does not is still busy with an earlier wake-up, and will look again by itself."""
        return self._task is not None

    def rearm(self) -> None:
        """Lower the flag. Call it before looking, never after."""
        self._flag = False

    def wake(self, release: Callable[[], None] | None = None, news: News | None = None) -> None:
        """Raise the flag. `release` is called once, when this wake-up has been dealt with; `news` hears of it when it
        has ended a sleep.
        """
        if release is not None:
            self._settle()
            self._release = release
            if self._closed:
                self._settle()
        self._flag = True
        if self._task is not None:
            task, self._task = self._task, None
            self._news = news
            trio.lowlevel.reschedule(task)

    def end(self, ending: Ending) -> None:
        """Wake for the last time. The first ending counts."""
        if self.ended is None:
            self.ended = ending
        self.wake()

    def rescope(self) -> None:
        """Wake because the caller's token has changed: it must look whether it may still read."""
        self.rescoped = True
        self.wake()

    async def park(self) -> None:
        """Sleep until the flag is raised; at once when it is. Cancellable, and cheap: no object is made."""
        if self._flag:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        self._settle()
        self._task = trio.lowlevel.current_task()

        def leave(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)
        news, self._news = self._news, None
        if news is not None:
            news.heard()

    def close(self) -> None:
        """Say that this watcher has dealt with everything and will not park again."""
        self._closed = True
        self._settle()

    def _settle(self) -> None:
        if self._release is not None:
            release, self._release = self._release, None
            release()


class Watchers:
    """The watchers of one inbox, by event type. Registration is a synchronous step; so is leaving."""

    __slots__ = ("_by_type", "_of_all")

    def __init__(self) -> None:
        # Dictionaries as ordered sets: who came first is woken first, and leaving is O(1).
        self._by_type: dict[str, dict[Watcher, None]] = {}
        self._of_all: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self._of_all) + len(self._distinct())

    def __bool__(self) -> bool:
        return bool(self._of_all or self._by_type)

    def add(self, watcher: Watcher) -> None:
        """Register a watcher."""
        if watcher.types is None:
            self._of_all[watcher] = None
            return
        for event_type in watcher.types:
            self._by_type.setdefault(event_type, {})[watcher] = None

    def discard(self, watcher: Watcher) -> None:
        """Take a watcher out, whether or not it is in."""
        if watcher.types is None:
            self._of_all.pop(watcher, None)
            return
        for event_type in watcher.types:
            of_type = self._by_type.get(event_type)
            if of_type is not None:
                of_type.pop(watcher, None)
                if not of_type:
                    del self._by_type[event_type]

    def matching(self, event_types: Iterable[str]) -> list[Watcher]:
        """Return who wants at least one of these types, each once."""
        if not self._by_type:
            return list(self._of_all)
        found = dict(self._of_all)
        for event_type in event_types:
            found.update(self._by_type.get(event_type, {}))
        return list(found)

    def everyone(self) -> list[Watcher]:
        """Return all of them, each once."""
        return [*self._of_all, *self._distinct()]

    def _distinct(self) -> dict[Watcher, None]:
        return {watcher: None for of_type in self._by_type.values() for watcher in of_type}
