"""Reading an inbox as it grows: at once while there is something, asleep while there is not.

A `Feed` is one inbox as one watcher reads it. It attaches the watcher to the inbox's actor *before* it looks anywhere,
so every commit that its look does not see raises the watcher's flag: nothing is lost between looking and sleeping, and
there is no hold-back queue (study, S8). Where the tail covers the cursor, looking costs no read; else it is one page.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec
import trio

from actors.live import Live
from actors.registry import Registry
from actors.tail import TailEntry
from actors.units import Reading
from actors.watchers import Watcher
from storage.protocols import Log
from storage.records import Head, Page, PageQuery


class Feed:
    """A context manager: inside it the watcher is attached, and the actor stays awake."""

    __slots__ = ("_live", "_registry", "_store", "_version", "inbox_id", "watcher")

    def __init__(self, registry: Registry, store: Log, inbox_id: int, watcher: Watcher) -> None:
        self._registry = registry
        self._store = store
        self._live: Live | None = None
        self._version = -1
        self.inbox_id = inbox_id
        self.watcher = watcher

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.watchers.discard(self.watcher)

    @property
    def changed(self) -> bool:
        """Whether reading may find something that was not there when the last read began."""
        return self._live is None or self._live.ended or self._live.version != self._version

    def attach(self) -> None:
        """Attach the watcher, for those who look elsewhere than `read` does: every matching commit wakes it from here
        on. Raises `InboxQuarantined`, `InboxStopped`.
        """
        self._version = self._attached().version

    async def read(self, query: PageQuery) -> tuple[Page, list[TailEntry]]:
        """Return what lies after `query.after` at this moment, with the entries of the tail if they came from there.

        Raises `InboxGone`, `ReadersBusy`, `InboxQuarantined`, `InboxStopped`.
        """
        live = self._attached()
        self._version = live.version
        if query.after is not None and live.tail.covers(query.after):
            return live.tail.look(query.after, self.watcher.types, query.limit)
        page = await self._store.read(Reading(lambda snapshot: snapshot.page(query)))
        return page, []

    def _attached(self) -> Live:
        live = self._live
        if live is None or live.ended:
            live = self._live = self._registry.live(self.inbox_id)
            live.watchers.add(self.watcher)
            if self._registry.watching_ended:
                self.watcher.end("shutdown")
        return live


async def next_page(
    feed: Feed, query: PageQuery, seconds: float, check: Callable[[Head], None]
) -> tuple[Page, list[TailEntry]]:
    """Return, as `Feed.read` does, the first page after `query.after` that has something in it, or an empty one after
    `seconds`.

    Whatever was looked at counts as read: the page's head says how far that is. A gap is something: it is told at once.
    `check` is called with the head of every look and may raise. Ends early, with what there is, when the watcher is
    ended or its token has changed.
    """
    watcher, after = feed.watcher, query.after or 0
    deadline = trio.current_time() + seconds
    while True:
        watcher.rearm()
        page, entries = await feed.read(query)
        check(page.head)
        gap = 0 < after < page.head.first_seq - 1
        if page.rows or gap or watcher.ended or trio.current_time() >= deadline:
            return page, entries
        query = msgspec.structs.replace(query, after=page.head.latest_seq)
        with trio.move_on_at(deadline):
            await watcher.park()
        if watcher.ended or watcher.rescoped:
            return page, entries
