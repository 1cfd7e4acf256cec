"""One event stream: what it has told, what it tells next, and why it ends (surface, section 5, "SSE").

A `Stream` is pulled at its reader's pace: the next piece is made when the last one has been taken, from the actors'
tails or, when it is behind, from a page of the store. It buffers nothing, so a slow reader costs no memory, and one
that stops reading is disconnected from outside (`web.upstream.connections`) and resumes by its cursor.

It is a plain iterator, not a generator: there is no task, no channel and no scope of its own to unwind (trap 12).
"""

from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Self

import msgspec
import trio

from actors.ask import InboxQuarantined, InboxStopped
from actors.feed import Feed
from actors.tail import TailEntry
from actors.watchers import Ending, Watcher
from storage.errors import InboxGone, StorageError
from storage.records import Head, Page, PageQuery, StoredMessage
from web import render, sse
from web.decoding import MAX_SEQ
from web.errors import ApiError
from web.held import Held
from web.pulse import NEVER, Pulse, is_due
from web.watching import Access

HEARTBEAT_SECONDS = 15.0
"""After so much silence a comment is sent, so that proxies and clients see that the stream is alive."""

PIECE_MESSAGES = 64
PIECE_BYTES = 64 * 1024
"""What is written at once, about: what a slow reader must take in one go (`SEND_PIECE_BYTES`)."""

REASONS: dict[Ending, str] = {"deleted": "inbox_deleted", "revoked": "revoked", "shutdown": "shutdown"}

NOTHING_UNTOLD: Mapping[str, sse.Place] = MappingProxyType({})


class Place:
    """Where a stream is in one inbox. `after`: everything up to there has been looked at."""

    __slots__ = ("_due", "after", "epoch", "feed", "first_seq", "slug")

    def __init__(self, slug: str, feed: Feed) -> None:
        self.slug = slug
        self.feed = feed
        self.epoch = ""
        self.after = 0
        self.first_seq = 1
        self._due = False

    async def look(self) -> Head:
        """Return the inbox's head, and listen to it from here on. Raises as `Feed.read`."""
        page, _ = await self.feed.read(PageQuery(self.feed.inbox_id, 1, after=MAX_SEQ))
        return page.head

    def begin(self, head: Head, after: int | None) -> None:
        """Start after a cursor, None for now."""
        self.epoch = head.epoch
        self.first_seq = head.first_seq
        self.after = head.latest_seq if after is None else after
        self._due = after is not None

    @property
    def due(self) -> bool:
        """Whether reading may find something."""
        return self._due or self.feed.changed

    async def read(self, types: tuple[str, ...], body_limit: int) -> tuple[Page, list[TailEntry]]:
        """Return what comes next. Raises as `Feed.read`."""
        self._due = False
        query = PageQuery(
            inbox_id=self.feed.inbox_id,
            limit=PIECE_MESSAGES,
            after=self.after,
            types=types,
            body_limit=body_limit,
            byte_budget=PIECE_BYTES,
        )
        return await self.feed.read(query)

    def message(self, row: StoredMessage, *, bodies: bool, inline_limit: int) -> bytes:
        """Return one message of it as JSON."""
        return render.message(self.slug, self.epoch, row, bodies=bodies, inline_limit=inline_limit)

    def again(self) -> None:
        """Read the same once more: what came was not told."""
        self._due = True

    def passed(self, page: Page, last: int | None) -> None:
        """Take note that the page was told up to the seq `last`, None for all of it."""
        self._due = last is not None
        self.after = page.head.latest_seq if last is None else last


class Stream:
    """The pieces of one stream: an asynchronous iterator, and a context manager that closes it.

    `several`: its ids are vectors, also if it has one inbox alone. `close` may be called more than once.
    """

    __slots__ = (
        "_access",
        "_bodies",
        "_held",
        "_inline_limit",
        "_opening",
        "_over",
        "_places",
        "_pulse",
        "_several",
        "_told_id",
        "_turn",
        "_types",
        "_watcher",
        "wake_at",
    )

    def __init__(
        self,
        places: tuple[Place, ...],
        watcher: Watcher,
        access: Access,
        held: Held,
        pulse: Pulse,
        *,
        several: bool,
        types: tuple[str, ...],
        bodies: bool,
        inline_limit: int,
    ) -> None:
        """`held` is what is let go of at the end: slot, feeds, the token's ear."""
        self._places = places
        self._watcher = watcher
        self._access = access
        self._held = held
        self._pulse = pulse
        self.wake_at = NEVER
        self._several = several
        self._types = types
        self._bodies = bodies
        self._inline_limit = inline_limit
        self._opening: bytes | None = None
        self._over = False
        self._told_id = ""
        self._turn = 0
        pulse.add(self)

    def open(self) -> None:
        """Begin with the time to reconnect after, and with the cursor: who breaks off before the first event, too,
        resumes from here.
        """
        self._opening = sse.OPENING + self._id() + sse.END

    def open_with_new_lives(self, changed: Mapping[Place, sse.Place]) -> None:
        """Say that the reader's cursor belongs to another life, and that it is at the new one's beginning; then
        close. A client that reconnects by itself begins the new life.

        `changed`: where the reader was in the life before, by place. An id moves only the inboxes told so far: who
        breaks off between two of them is told of the second one again.
        """
        said = [sse.OPENING + sse.END]
        untold = {place.slug: before for place, before in changed.items()}
        for place in changed:
            del untold[place.slug]
            data = msgspec.json.encode({"inbox": place.slug, "epoch": place.epoch})
            said += [self._id(untold), sse.event("epoch_changed", data)]
        self._opening = b"".join(said)
        self._over = True

    def close(self) -> None:
        """Let go of everything."""
        self._over = True
        self._pulse.discard(self)
        self._held.close()

    def wake(self) -> None:
        """Wake the stream from its sleep, for a heartbeat or because its token has expired."""
        self._watcher.wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece, sleeping until there is one."""
        if self._opening is not None:
            opening, self._opening = self._opening, None
            return opening
        if self._over:
            raise StopAsyncIteration
        quiet_until = trio.current_time() + HEARTBEAT_SECONDS
        while True:
            self._watcher.rearm()
            ending = self._ending()
            if ending is not None:
                return await self._bye(ending)
            try:
                piece = await self._look_around()
            except InboxGone:
                return await self._bye("deleted")
            if piece is None:
                continue
            if piece:
                return piece
            if is_due(quiet_until):
                return self._heartbeat()
            self.wake_at = min(quiet_until, self._access.ends_at)
            await self._watcher.park()
            self.wake_at = NEVER

    def _ending(self) -> Ending | None:
        if self._watcher.ended is not None:
            return self._watcher.ended
        try:
            self._access.check()
        except ApiError:
            return "revoked"
        return None

    async def _look_around(self) -> bytes | None:
        """Return what one of the inboxes has to tell; empty when there is nothing in any of them, None when the reader
        may not be told any more without being asked again what it may read.
        """
        for _ in self._places:
            place = self._places[self._turn]
            # Each in its turn, so that a busy inbox does not keep the others from being told.
            self._turn = (self._turn + 1) % len(self._places)
            while place.due:
                page, entries = await place.read(self._types, self._inline_limit if self._bodies else 0)
                if self._access.is_stale:
                    place.again()
                    return None
                piece = self._tell(place, page, entries)
                if piece:
                    return piece
        return b""

    def _tell(self, place: Place, page: Page, entries: list[TailEntry]) -> bytes:
        head = page.head
        said: list[bytes] = []
        # What was dropped before the stream began is not missing to a reader that asked for what there is (after: 0).
        if place.after < head.first_seq - 1 and (place.after > 0 or head.first_seq > place.first_seq):
            told = {"inbox": place.slug, "after": place.after, "first_seq": head.first_seq}
            place.after = head.first_seq - 1
            said += [self._id(), sse.event("gap", msgspec.json.encode(told))]
        size = 0
        last: int | None = None
        for n, row in enumerate(page.rows):
            if size >= PIECE_BYTES and entries:
                last = page.rows[n - 1].seq
                break
            part = self._message(place, row, entries[n] if entries else None)
            place.after = row.seq
            said += [self._id(), part]
            size += len(part)
        if last is None and not page.exhausted:
            last = page.rows[-1].seq
        place.passed(page, last)
        return b"".join(said)

    def _message(self, place: Place, row: StoredMessage, entry: TailEntry | None) -> bytes:
        if entry is not None and self._bodies in entry.fragments:
            return entry.fragments[self._bodies]
        text = place.message(row, bodies=self._bodies, inline_limit=self._inline_limit)
        part = sse.event("message", text)
        if entry is not None:
            entry.keep(self._bodies, part)
        return part

    def _heartbeat(self) -> bytes:
        """Return a comment, with the cursor when filters have moved it since it was told."""
        told = self._told_id
        line = self._id()
        return sse.COMMENT + (line if self._told_id != told else b"") + sse.END

    async def _bye(self, ending: Ending) -> bytes:
        self._over = True
        told = {"reason": REASONS[ending]}
        if self._several and ending == "deleted" and (gone := await self._gone()) is not None:
            told["inbox"] = gone
        return self._id() + sse.event("bye", msgspec.json.encode(told))

    async def _gone(self) -> str | None:
        """Return which inbox was deleted; None when the store cannot say any more."""
        for place in self._places:
            try:
                await place.look()
            except InboxGone:
                return place.slug
            except (StorageError, InboxStopped, InboxQuarantined):
                continue
        return None

    def _id(self, untold: Mapping[str, sse.Place] = NOTHING_UNTOLD) -> bytes:
        """Return the line that tells the reader where it is now; in the inboxes `untold`, where it still is."""
        if self._several:
            places = {place.slug: (place.epoch, place.after) for place in self._places}
            self._told_id = sse.vector_id({**places, **untold})
        else:
            [place] = self._places
            self._told_id = sse.single_id(place.epoch, place.after)
        return sse.id_line(self._told_id)
