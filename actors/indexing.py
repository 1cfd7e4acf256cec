"""The indexer: one more durable reader of what is stored, which puts the words of messages into the search indexes.

It is in nobody's way: the unit that appends a message knows nothing of it, and what it writes goes through the lane of
housekeeping, in slices of a few milliseconds. So a message is found a moment after it was stored, later when the server
is busy, and a search says how far it could look.

*Each index has a cursor of its own*, a seq of its inbox, and not all of them one in the log of messages. For an index
begins when search is switched on for its inbox, at the oldest message that is kept, and is then behind alone: one
cursor could only wait for it, or leave it behind. A private inbox has deliveries, which have no place of their own in
the log. And an inbox without search costs nothing, since nobody looks at its messages.

One message, walked through: the turn that stores it commits, and in the step that follows the inbox's actor says that
something came (`mail_came`). If the inbox has an index, the indexer is woken, waits a little for company, and reads the
entries behind the index's cursor on a reader's thread, where their words are taken from them as well. A unit then puts
them into the index and moves the cursor, both or neither, if the cursor is still where it was read; what was erased
meanwhile is left out. After a crash anywhere the next start finds the cursor behind the inbox and goes on from there.
What leaves the inbox is taken out of the index by whoever removes it (`storage.search_index`).

A fault of the store is waited out. What cannot be taken apart, which is a defect, is indexed without words and counted:
search never ends the process, nor keeps anybody from their mail.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import structlog
import trio

from actors.rules.searching.texts import TEXT_LIMIT, words_of
from actors.units import Reading
from storage.errors import StorageClosed, StorageError, UnitFailed
from storage.protocols import Lane, Log, Snapshot, Tx
from storage.records import InboxRecord
from storage.search_records import Indexable, IndexRow

SLICE_ROWS = 32
"""Entries that are indexed with one unit: of 1 KiB each, in about 3 ms of the writer's time."""

MERGES_AT_ONCE = 8
"""After a slice: several times what it has added, so that segments do not grow in number."""

SLICE_BYTES = 32_768
"""Text after which a slice ends. One body may have twice as much: its unit takes 10 ms, and no other is with it."""

GATHER_SECONDS = 0.1
"""After it was woken, the indexer waits for what else comes: a unit for each message would cost a commit each."""

ROUND_SECONDS = 60.0
"""Without being woken, look once a minute: something may be stored whose outcome nobody was told."""

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""Between tries when the store cannot take it: nobody waits for an index, and a damaged one must not keep the writer
busy."""

log = structlog.get_logger("postroom.indexer")


class IndexSlice(msgspec.Struct, frozen=True):
    """Put a slice of entries into an inbox's index, as `SearchChanges.index` says."""

    inbox_id: int
    after: int
    rows: list[IndexRow]
    through: int
    lane: Lane = Lane.HOUSEKEEPING
    grows: bool = True

    @property
    def cost(self) -> int:
        """About what it writes: half of the text."""
        return sum(len(row.words) for row in self.rows)

    def run(self, tx: Tx) -> bool:
        """Put them there; False when the cursor was moved meanwhile."""
        return tx.index(self.inbox_id, self.after, self.rows, self.through)


class MergeIndex(msgspec.Struct, frozen=True):
    """Tidy the index a little. It writes before it frees, so a full store does without."""

    lane: Lane = Lane.HOUSEKEEPING
    cost: int = 65_536
    grows: bool = True

    def run(self, tx: Tx) -> bool:
        """Tidy; True when there is more."""
        return tx.merge_index()


class Slice(msgspec.Struct, frozen=True):
    """What the next unit for an index is made of, `Unindexed` with words. `failed`: entries that have none by a
    defect.
    """

    after: int
    rows: list[IndexRow]
    through: int
    more: bool
    failed: int


def read_slice(
    snapshot: Snapshot, inbox_id: int, take_apart: Callable[[Indexable], list[str]] = words_of
) -> Slice | None:
    """Return what comes next in an index, None when the inbox has none (any more). A look."""
    found = snapshot.unindexed(inbox_id, SLICE_ROWS, TEXT_LIMIT, SLICE_BYTES)
    if found is None:
        return None
    rows: list[IndexRow] = []
    failed = 0
    for one in found.rows:
        try:
            rows.append(IndexRow(one.seq, " ".join(take_apart(one))))
        except Exception:  # crash policy: one message must not stop the index of its inbox for ever
            rows.append(IndexRow(one.seq, ""))
            failed += 1
    return Slice(found.after, rows, found.through, found.more, failed)


class Indexer:
    """The indexer. `run` is its task; `mail_came` and `changed` tell it what it has to look at.

    `indexed` counts entries since the start, `failed` those among them that have no words by a defect.
    """

    def __init__(self, store: Log) -> None:
        self._store = store
        self._searched: set[int] = set()
        self._behind: dict[int, None] = {}  # a set that remembers its order: inboxes take turns
        self._woken = trio.Event()
        # Counts changes of settings, so that a look which was under way during one does not undo it.
        self._changes = 0
        self.indexed = 0
        self.failed = 0

    # -- called from other tasks ----------------------------------------------------------------------------
    def mail_came(self, inbox_id: int) -> None:
        """Say that an inbox has, or may have, new entries. Synchronous, and cheap for an inbox without search."""
        if inbox_id in self._searched:
            self._behind[inbox_id] = None
            self._woken.set()

    def changed(self, record: InboxRecord) -> None:
        """Take the settings of an inbox that were just committed. Synchronous."""
        self._changes += 1
        if record.settings.search:
            self._searched.add(record.inbox_id)
            self.mail_came(record.inbox_id)
        else:
            self._searched.discard(record.inbox_id)

    @property
    def behind(self) -> int:
        """How many inboxes have entries that are not indexed yet, as far as is known."""
        return len(self._behind)

    # -- the task --------------------------------------------------------------------------------------------
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Index until cancelled, or until the store is closed."""
        task_status.started()
        pause = 0.0
        round_at = trio.current_time()
        while True:
            try:
                if trio.current_time() >= round_at:
                    await self._look_around()
                    round_at = trio.current_time() + ROUND_SECONDS
                await self._catch_up()
                pause = 0.0
            except StorageClosed:
                return
            except StorageError as error:
                if not pause:
                    log.warning("indexing waits for the store", error=type(error).__name__)
                pause = min(max(2 * pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
                await trio.sleep(pause)
                continue
            with trio.move_on_at(round_at):
                await self._woken.wait()
                await trio.sleep(GATHER_SECONDS)

    async def _look_around(self) -> None:
        """Find out which inboxes have an index, and which of these are behind; tidy what removed rows have left."""
        changes = self._changes
        states = await self._store.read(Reading(lambda snapshot: snapshot.indexes(), slow=True))
        if changes == self._changes:
            self._searched.clear()
        self._searched.update(state.inbox_id for state in states)
        for state in states:
            if state.indexed_seq < state.latest_seq:
                self._behind[state.inbox_id] = None
        while await self._store.commit(MergeIndex()):
            await self._catch_up()  # all of it may be rewritten, and who searches wants what is new

    async def _catch_up(self) -> None:
        """Index slice by slice until no inbox is behind; they take turns."""
        self._woken = trio.Event()
        while self._behind:
            inbox_id = next(iter(self._behind))
            del self._behind[inbox_id]  # before it is read: who comes now is not in what is read
            try:
                more = await self._index_slice(inbox_id)
            except UnitFailed as error:  # a defect, which the next round meets again; the others go on
                log.error(
                    "an inbox cannot be indexed", inbox_id=inbox_id, error=type(error.__cause__).__name__
                )
                continue
            except StorageError:
                self._behind[inbox_id] = None
                raise
            if more:
                self._behind[inbox_id] = None

    async def _index_slice(self, inbox_id: int) -> bool:
        """Index what comes next in an inbox; return whether there is more."""
        found = await self._store.read(Reading(partial(read_slice, inbox_id=inbox_id), slow=True))
        if found is None or found.through == found.after:
            return False
        if not await self._store.commit(IndexSlice(inbox_id, found.after, found.rows, found.through)):
            return True
        self.indexed += len(found.rows)
        if found.failed:
            self.failed += found.failed
            log.error("messages could not be taken apart", inbox_id=inbox_id, messages=found.failed)
        for _ in range(MERGES_AT_ONCE):
            if not await self._store.commit(MergeIndex()):
                break
        return found.more
