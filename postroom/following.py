"""Following one inbox for as long as anybody wants: an event stream, resumed from its own cursor however it ends.

`Follower` owns the cursor. It moves with what was handed over, never ahead of it, so a broken connection or a server
that starts again costs time and no message: the next stream begins after the last event that was whole. Whoever
iterates has dealt with an item when it asks for the next one.

What a server says for good ends the following: the inbox is gone, the token is revoked or may not read. Everything else
(no answer, busy, too many streams, a proxy's 502) is tried again, later and later, with jitter, so that a thousand
followers of one server do not come back in the same instant.
"""

import json
import random
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import msgspec

from postroom.client import Client, ClientError, Params, Refused, Unreachable, segment
from postroom.sse import Event, EventReader

FIRST_RETRY_SECONDS = 2.0
"""Before the second try, when the server has not said how long (`retry`): an orderly restart takes about as long."""
LONGEST_RETRY_SECONDS = 30.0
"""Between two tries at most: nobody waits longer for a server that is back."""
DOUBLINGS = 10
"""After so many the longest wait is reached from any first one; it keeps the arithmetic small."""

TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses that say nothing for good; 502 and 504 are a proxy's while its server starts again."""


REVOKED = "revoked"
"""Why a stream ends when its token may not read any more; another reason is `inbox_deleted`."""


class Cursor(msgspec.Struct, frozen=True):
    """Everything up to `after` in the life `epoch` has been seen."""

    after: int
    epoch: str


class Message(msgspec.Struct, frozen=True):
    """One message: the server's JSON, without newlines."""

    document: str


class Gap(msgspec.Struct, frozen=True):
    """Messages after `after` and before `first_seq` (None: nobody said where they end) are no longer kept."""

    after: int
    first_seq: int | None


class NewLife(msgspec.Struct, frozen=True):
    """The inbox has begun a new life, in which the following goes on from the beginning."""

    epoch: str


class Lost(msgspec.Struct, frozen=True):
    """There is no stream at present; another try follows in `seconds`."""

    reason: str
    seconds: float


Item = Message | Gap | NewLife | Lost


class Ended(ClientError):
    """There is nothing more to follow. `reason` is the server's: `inbox_deleted` or `revoked`."""

    def __init__(self, reason: str) -> None:
        said = {"inbox_deleted": "The inbox has been deleted.", REVOKED: "The token has been revoked."}
        super().__init__(said.get(reason, f"The server ended the stream ({reason})."))
        self.reason = reason


class Backoff:
    """How long to wait before the next try: twice as long each time, and by chance up to half of it less.

    `first_seconds` may be changed at any time; `jitter` returns a random number from 0 to 1.
    """

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self.first_seconds = FIRST_RETRY_SECONDS
        self._jitter = jitter
        self._tries = 0

    def succeeded(self) -> None:
        """Begin anew after a success."""
        self._tries = 0

    def lost(self, error: Unreachable | Refused) -> Lost:
        """Return what to say and how long to wait, at least as long as the server asks. Raises a refusal that is for
        good.
        """
        asked_seconds = 0.0
        if isinstance(error, Refused):
            if error.status not in TRANSIENT:
                raise error
            asked_seconds = min(float(error.retry_after_seconds or 0), LONGEST_RETRY_SECONDS)
        longest = min(self.first_seconds * 2.0 ** min(self._tries, DOUBLINGS), LONGEST_RETRY_SECONDS)
        self._tries += 1
        return Lost(str(error), max(longest * (0.5 + self._jitter() / 2), asked_seconds))


class Follower:
    """The messages of one inbox after a cursor, for ever. An iterable; iterate it once.

    `cursor` is where it is. `sleep` and `jitter` (a random number from 0 to 1) are for tests.
    """

    def __init__(
        self,
        api: Client,
        slug: str,
        cursor: Cursor,
        *,
        types: tuple[str, ...] = (),
        bodies: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.cursor = cursor
        self._api = api
        self._path = f"/v1/inboxes/{segment(slug)}/stream"
        self._filter: Params = [("types", one) for one in types]
        if bodies:
            self._filter.append(("bodies", "true"))
        self._sleep = sleep
        self._backoff = Backoff(jitter)

    def __iter__(self) -> Iterator[Item]:
        """Give what happens in the inbox. Raises `Ended`, and `Refused` for what no retry can change."""
        while True:
            try:
                if (yield from self._stream()):
                    continue
                lost = self._backoff.lost(Unreachable("The stream ended."))
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and error.code == "epoch_changed":
                    epoch = error.details.get("epoch")
                    if epoch and epoch != self.cursor.epoch:
                        yield self._begin_life(str(epoch))
                        continue
                lost = self._backoff.lost(error)
            yield lost
            self._sleep(lost.seconds)

    def _stream(self) -> Generator[Item, None, bool]:
        """Give what one stream brings, until it ends; return whether the next one may be asked for at once."""
        params: Params = [("after", self.cursor.after), ("epoch", self.cursor.epoch), *self._filter]
        with self._api.events(self._path, params) as (reader, events):
            for event in events:
                self._backoff.succeeded()
                yield from self._items(event, reader)
                if event.name == "epoch_changed":
                    return True
        return False

    def _items(self, event: Event, reader: EventReader) -> Iterator[Item]:
        if reader.retry_seconds is not None:
            self._backoff.first_seconds = reader.retry_seconds
        match event.name:
            case "message" if event.data:
                # A newline of JSON stands between two tokens, never inside a string.
                yield Message(event.data.replace("\n", " "))
            case "gap":
                told = _document(event)
                yield Gap(int(told["after"]), int(told["first_seq"]))
            case "epoch_changed":
                yield self._begin_life(str(_document(event)["epoch"]))
                return
            case "bye":
                reason = str(_document(event)["reason"])
                if reason != "shutdown":
                    raise Ended(reason)
                raise Unreachable("The server is shutting down.")
        self._move(event.id)

    def _move(self, event_id: str) -> None:
        """Take an event's id, `{epoch}:{seq}`, as the new cursor."""
        epoch, colon, seq = event_id.rpartition(":")
        if colon and epoch and seq.isascii() and seq.isdecimal():
            self.cursor = Cursor(int(seq), epoch)

    def _begin_life(self, epoch: str) -> NewLife:
        self.cursor = Cursor(0, epoch)
        return NewLife(epoch)


def _document(event: Event) -> Any:
    try:
        return json.loads(event.data)
    except ValueError as error:
        raise Unreachable("The server sent an event that cannot be read.") from error


def cursor_now(api: Client, slug: str) -> Cursor:
    """Return the cursor of this moment: what comes after it is new. Raises as `Client.call`."""
    page = api.json("GET", f"/v1/inboxes/{segment(slug)}/messages", params=[("limit", 1)])
    return Cursor(page["latest_seq"], page["epoch"])
