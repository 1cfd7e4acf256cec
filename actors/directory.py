"""Which inbox a slug means, with its settings: a bounded memory of what the store says.

It owns no truth. The actor of an inbox puts the new record in right after the commit that changed it, in the same
step that answers the administrator; so a change is in force for every request that starts after its answer.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from actors.doubts import Doubts
from actors.units import Reading
from storage.errors import InboxGone, SecretUnreadable
from storage.protocols import Log, Snapshot
from storage.records import InboxListing, InboxRecord


class Directory:
    """Records of live inboxes by slug, the least lately used forgotten first."""

    def __init__(self, log: Log, known_inboxes: int, doubts: Doubts | None = None) -> None:
        """`doubts`: whose task settles what became of a change; without it, that is left open."""
        self._log = log
        self.doubts = doubts or Doubts(log)
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

    def doubt(self, inbox_id: int) -> None:
        """Settle what became of a change of an inbox, of which nobody knows whether it was stored."""
        self.forget(inbox_id)
        self.doubts.about(("inbox", inbox_id), partial(self._read_again, lambda found: found.inbox(inbox_id)))

    def in_doubt(self, slug: str) -> AbstractContextManager[None]:
        """Return a context for a commit that makes an inbox: it is read when nobody knows whether it was stored."""
        return self.doubts.of(
            ("slug", slug), partial(self._read_again, lambda found: found.inbox_by_slug(slug))
        )

    async def _read_again(self, look: Callable[[Snapshot], InboxListing | None]) -> None:
        listing, changes = None, -1
        while changes != self._changes:
            changes = self._changes
            try:
                listing = await self._log.read(Reading(look))
            except (InboxGone, SecretUnreadable):  # whoever asks for it meets the same
                return
        if listing is not None:
            self.put(listing.record)

    def _remember(self, record: InboxRecord) -> None:
        self._by_slug[record.slug] = record
        self._by_slug.move_to_end(record.slug)
        self._slug_of[record.inbox_id] = record.slug
        while len(self._by_slug) > self._limit:
            _, oldest = self._by_slug.popitem(last=False)
            self._slug_of.pop(oldest.inbox_id, None)
