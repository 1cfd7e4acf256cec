"""Which inbox a slug means, with its settings: a bounded memory of what the store says.

It owns no truth. The actor of an inbox puts the new record in right after the commit that changed it, in the same
step that answers the administrator; so a change is in force for every request that starts after its answer.
"""

from collections import OrderedDict
from collections.abc import Callable

from actors.units import Reading
from storage.protocols import Log
from storage.records import InboxRecord


class Directory:
    """Records of live inboxes by slug, the least lately used forgotten first."""

    def __init__(self, log: Log, known_inboxes: int) -> None:
        self._log = log
        self._limit = known_inboxes
        self._by_slug: OrderedDict[str, InboxRecord] = OrderedDict()
        self._slug_of: dict[int, str] = {}
        # Counts changes, so that a read that was under way during one is answered but not remembered.
        self._changes = 0
        self.on_put: Callable[[InboxRecord], None] = lambda record: None
        """Is called in the same step with every record that was just committed."""

    async def find(self, slug: str) -> InboxRecord | None:
        """Return the live inbox of this slug, or None."""
        record = self._by_slug.get(slug)
        if record is not None:
            self._by_slug.move_to_end(slug)
            return record
        changes = self._changes
        listing = await self._log.read(Reading(lambda snapshot: snapshot.inbox_by_slug(slug)))
        if listing is None:
            return None
        if changes == self._changes:
            self._remember(listing.record)
        return listing.record

    def put(self, record: InboxRecord) -> None:
        """Take a record that was just committed."""
        self._changes += 1
        self._remember(record)
        self.on_put(record)

    def forget(self, inbox_id: int) -> None:
        """Drop an inbox that is gone (or asleep); the next find asks the store."""
        self._changes += 1
        slug = self._slug_of.pop(inbox_id, None)
        if slug is not None:
            record = self._by_slug.get(slug)
            # The slug may belong to a newer inbox already.
            if record is not None and record.inbox_id == inbox_id:
                del self._by_slug[slug]

    def _remember(self, record: InboxRecord) -> None:
        self._by_slug[record.slug] = record
        self._by_slug.move_to_end(record.slug)
        self._slug_of[record.inbox_id] = record.slug
        while len(self._by_slug) > self._limit:
            _, oldest = self._by_slug.popitem(last=False)
            self._slug_of.pop(oldest.inbox_id, None)
