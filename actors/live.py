"""What readers see of a running inbox: its tail, and who sleeps on it. The actor feeds it; anybody may look.

All methods are synchronous and run in the event loop. They are called by the actor alone, in the step that applies a
turn; whoever watches adds itself to `watchers` and takes itself out.
"""

from collections.abc import Sequence

from actors.fanout import Fanout, Ticket
from actors.tail import Tail, TailBudget
from actors.watchers import Watchers
from storage.records import Head, NewEntry


class Live:
    """One inbox's in-memory half. `version` changes whenever a look may find something else than the last one did."""

    __slots__ = ("_fanout", "ended", "tail", "version", "watchers")

    def __init__(self, budget: TailBudget, fanout: Fanout) -> None:
        self._fanout = fanout
        self.tail = Tail(budget)
        self.watchers = Watchers()
        self.ended = False
        self.version = 0

    def committed(
        self, head: Head, entries: Sequence[NewEntry], erased: Sequence[int], tickets: Sequence[Ticket]
    ) -> None:
        """Take what a turn has committed, without what it has erased, and wake those that it matches, after the senders
        of `tickets`.
        """
        self.version += 1
        self.tail.extend(head, entries)
        for seq in erased:
            self.tail.remove(seq)
        if entries and self.watchers:
            matching = self.watchers.matching({entry.event_type for entry in entries})
            if matching:
                self._fanout.announce(matching, tickets)

    def lost_track(self) -> None:
        """Say that something may be stored that is not known here: everybody looks in the store."""
        self.version += 1
        self.tail.clear()
        for watcher in self.watchers.everyone():
            watcher.wake()

    def deleted(self) -> None:
        """End everybody: the inbox is gone."""
        for watcher in self.watchers.everyone():
            watcher.end("deleted")

    def stop(self) -> None:
        """Say that the actor has ended: whoever still watches attaches to the next one."""
        self.ended = True
        self.lost_track()
