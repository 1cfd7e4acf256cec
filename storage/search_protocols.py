"""What the actors may ask of a store about search: parts of `Tx` and `Snapshot` (`storage.protocols`).

An inbox has an index for as long as its setting `search` is on: `create_inbox` and `change_inbox` begin and drop it, so
nobody can forget to. What leaves the inbox leaves the index: an erased entry in the same unit, what retention, a purge
or a deletion has dropped, and a dropped index as a whole, slice by slice with `sweep`. What comes is put there later by
a reader of its own (`actors.indexing`), never in the unit that appends it.
"""

from collections.abc import Sequence
from typing import Protocol

from storage.search_records import IndexRow, IndexState, SearchPage, SearchQuery, Unindexed


class SearchChanges(Protocol):
    """The index inside a unit."""

    def index(self, inbox_id: int, after: int, rows: Sequence[IndexRow], through: int) -> bool:
        """Put entries into the index of an inbox and move its cursor from `after` to `through`. Entries that are gone
        by now are left out. False, and nothing is changed, when there is no index, or its cursor is not at `after`.
        """

    def merge_index(self) -> bool:
        """Tidy the index a little, so that it stays quick and gives back what removed rows took; True when there is
        more to tidy.
        """


class SearchReads(Protocol):
    """The index at one moment."""

    def indexes(self) -> list[IndexState]:
        """Return how far the index of each inbox that has one has come, in the order of their ids."""

    def unindexed(self, inbox_id: int, limit: int, body_limit: int, byte_budget: int) -> Unindexed | None:
        """Return the first entries that an index does not have, at most `limit`; the one whose text passes
        `byte_budget` is the last. Bodies are cut after `body_limit` bytes (at most 256 KiB). None when the inbox has no
        index.
        """

    def search(self, query: SearchQuery) -> SearchPage:
        """Return the newest entries that a query is about, in a bounded time. Raises `InboxGone`."""
