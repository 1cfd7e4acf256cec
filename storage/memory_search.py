"""Search in the in-memory store: `storage.search_protocols` as parts of `MemoryTx` and `MemorySnapshot`.

An index is a dictionary of word lists, looked through from its newest entry on. It is what the other store's index is
compared with, so it knows no blocks, no segments and no time.
"""

from collections.abc import Sequence

from storage.memory_journal import Journal
from storage.memory_state import MemoryEntry, MemoryInbox, MemoryIndex, MemoryMessage, MemoryState
from storage.search_records import (
    Indexable,
    IndexRow,
    IndexState,
    Phrase,
    SearchPage,
    SearchQuery,
    Unindexed,
)


class MemorySearchChanges(Journal):
    """What a unit changes."""

    _state: MemoryState

    def index(self, inbox_id: int, after: int, rows: Sequence[IndexRow], through: int) -> bool:
        """Put entries into an index. False when there is none, or its cursor is elsewhere."""
        inbox = self._state.alive(inbox_id)
        index = None if inbox is None else inbox.index
        if inbox is None or index is None or index.indexed_seq != after:
            return False
        for row in rows:
            if inbox.visible(row.seq) is not None:
                self._insert(index.words, row.seq, row.words.split())
        self._set(index, "indexed_seq", through)
        return True

    def merge_index(self) -> bool:
        """There is nothing to merge."""
        return False

    def _switch(self, inbox: MemoryInbox, on: bool) -> None:
        """Begin an inbox's index, or drop it."""
        if on != (inbox.index is not None):
            self._set(inbox, "index", MemoryIndex() if on else None)

    def _unindex(self, inbox: MemoryInbox, seq: int) -> None:
        """Remove an entry that leaves its inbox."""
        if inbox.index is not None and seq in inbox.index.words:
            self._remove(inbox.index.words, seq)


class MemorySearchReads:
    """What a look reads."""

    _state: MemoryState

    def indexes(self) -> list[IndexState]:
        """Return how far each index has come."""
        return [
            IndexState(inbox_id, inbox.index.indexed_seq, inbox.head.latest_seq)
            for inbox_id, inbox in self._state.inboxes.items()
            if inbox.alive and inbox.index is not None
        ]

    def unindexed(self, inbox_id: int, limit: int, body_limit: int, byte_budget: int) -> Unindexed | None:
        """Return what an index is to be given next."""
        inbox = self._state.alive(inbox_id)
        if inbox is None or inbox.index is None:
            return None
        after, latest = inbox.index.indexed_seq, inbox.head.latest_seq
        rows: list[Indexable] = []
        for seq in range(after + 1, latest + 1):
            entry = inbox.visible(seq)
            if entry is None:
                continue
            rows.append(self._indexable(entry, body_limit))
            byte_budget -= len(entry.event_type) + len(rows[-1].said) + len(rows[-1].body or b"")
            if byte_budget < 0 or len(rows) == limit:
                return Unindexed(after, rows, seq, seq < latest)
        return Unindexed(after, rows, max(after, latest), False)

    def _indexable(self, entry: MemoryEntry, body_limit: int) -> Indexable:
        message = entry.message
        body = self._beginning(message, body_limit)
        return Indexable(entry.seq, entry.event_type, message.said, message.body_kind, body)

    def _beginning(self, message: MemoryMessage, limit: int) -> bytes | None:
        if message.body_id is not None:
            return self._state.bodies[message.body_id].pieces[0][:limit]
        return None if message.body is None else message.body[:limit]

    def search(self, query: SearchQuery) -> SearchPage:
        """Return the newest entries that a query is about. Raises `InboxGone`."""
        inbox = self._state.live(query.inbox_id)
        head, index = inbox.head, inbox.index
        if index is None:
            return SearchPage(head, [], None, None)
        newest = head.latest_seq if query.before is None else min(query.before - 1, head.latest_seq)
        matching = [
            entry
            for seq in range(newest, head.first_seq - 1, -1)
            if (entry := inbox.visible(seq)) is not None and _matches(index.words.get(seq), query)
        ]
        rows = []
        budget = query.byte_budget
        for entry in matching[: query.limit]:
            rows.append(entry.shown(0))
            budget -= len(entry.message.facts) + len(entry.message.said)
            if budget < 0:
                break
        resume = rows[-1].seq if len(rows) < len(matching) else None
        return SearchPage(head, rows, resume, index.indexed_seq)


def _matches(words: list[str] | None, query: SearchQuery) -> bool:
    if words is None:
        return False
    return all(_holds(words, phrase) for phrase in query.wanted) and not any(
        _holds(words, phrase) for phrase in query.unwanted
    )


def _holds(words: list[str], phrase: Phrase) -> bool:
    length = len(phrase.words)
    return any(
        _fits(tuple(words[start : start + length]), phrase) for start in range(len(words) - length + 1)
    )


def _fits(words: tuple[str, ...], phrase: Phrase) -> bool:
    if phrase.prefix:
        return words[:-1] == phrase.words[:-1] and words[-1].startswith(phrase.words[-1])
    return words == phrase.words
