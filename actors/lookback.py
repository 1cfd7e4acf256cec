"""Looking back over the log for one beacon: which of the newest messages it would have heard.

Bounded by age, by messages, and by bytes of text; exact over what it looked at. One look back at a time, so that agents
who place beacons together take turns, and it gives way after each message, so that nobody else waits for it.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import trio

from actors.rules.letters import Letter, letter_of
from actors.rules.matching.texts import TEXT_LIMIT
from actors.units import Reading
from storage.mail_records import Content, LogSlice, Routable
from storage.protocols import Log, Snapshot

DAYS = 7
DAYS_US = DAYS * 86_400 * 1_000_000

SLICE_MESSAGES = 256
"""Messages that are looked at with one read."""

MOST_MESSAGES = 20_480
"""Messages whose place in the log is looked at, whoever may read them: 80 reads without content."""

MOST_READ = 2_000
"""Messages whose text is read: in 100 ms when they are short."""

MOST_BYTES = 4 * 1024 * 1024
"""Text that is read: in about 200 ms."""

READ_BYTES = 1024 * 1024
"""Text that is read at once, and so held in memory."""


class Bounds(msgspec.Struct, frozen=True):
    """How far a look back goes at most."""

    messages: int = MOST_MESSAGES
    read: int = MOST_READ
    size: int = MOST_BYTES
    age_us: int = DAYS_US


USUAL = Bounds()


class LookBack:
    """Walks over the log, newest first. `clock` gives µs since the epoch."""

    def __init__(self, log: Log, clock: Callable[[], int], bounds: Bounds = USUAL) -> None:
        self._log = log
        self._clock = clock
        self._bounds = bounds
        self._turn = trio.Lock()

    async def newest(self) -> int:
        """Return the mid of the newest message."""
        return await self._log.read(Reading(lambda snapshot: snapshot.last_mid()))

    async def walk(
        self,
        newest: int,
        after: int,
        wanted: Callable[[Routable], bool],
        visit: Callable[[Letter], None],
    ) -> None:
        """Visit wanted messages from `newest` down to behind `after` (both mids), the newest first.

        Raises as `Log.read`.
        """
        async with self._turn:
            await self._walk(newest, after, wanted, visit)

    async def _walk(
        self, newest: int, after: int, wanted: Callable[[Routable], bool], visit: Callable[[Letter], None]
    ) -> None:
        bounds = self._bounds
        oldest = self._clock() - bounds.age_us
        looked_at, reads, size = 0, bounds.read, bounds.size
        before, more = newest + 1, True
        while more and before > after + 1 and looked_at < bounds.messages:
            most = min(SLICE_MESSAGES, bounds.messages - looked_at)
            found = await self._slice(before, most)
            looked_at += most
            before, more = found.through, found.more
            rows = [row for row in found.rows if row.mid > after and row.received_at >= oldest]
            more = more and len(rows) == len(found.rows)  # what comes next is older still
            chosen = [row for row in rows if wanted(row)][:reads]
            reads -= len(chosen)
            while chosen and size > 0:
                contents = await self._contents([row.mid for row in chosen], min(size, READ_BYTES))
                for row in chosen:
                    content = contents.get(row.mid)
                    if content is None:
                        continue
                    size -= len(content.body or b"")
                    visit(letter_of(row, content))
                    await trio.lowlevel.checkpoint()
                chosen = _unread(chosen, contents)
            if reads <= 0 or size <= 0:
                return

    async def _slice(self, before: int, limit: int) -> LogSlice:
        return await self._log.read(
            Reading(lambda snapshot: snapshot.routable_before(before, limit), slow=True)
        )

    async def _contents(self, mids: list[int], budget: int) -> dict[int, Content]:
        found = await self._log.read(Reading(partial(_read, mids=mids, budget=budget), slow=True))
        return {content.mid: content for content in found}


def _read(snapshot: Snapshot, mids: list[int], budget: int) -> list[Content]:
    """Return the newest of these messages (newest first), as many as the budget allows."""
    found: list[Content] = []
    for mid in mids:
        for content in snapshot.contents([mid], TEXT_LIMIT, budget):
            found.append(content)
            budget -= len(content.facts) + len(content.said) + len(content.body or b"")
        if budget < 0:
            break
    return found


def _unread(rows: list[Routable], contents: dict[int, Content]) -> list[Routable]:
    """Return the rows behind the last one that was read; none when nothing was there to read."""
    for place in range(len(rows) - 1, -1, -1):
        if rows[place].mid in contents:
            return rows[place + 1 :]
    return []
