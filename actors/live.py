"""What readers see of a running inbox: its tail, and who sleeps on it. The actor feeds it; anybody may look.

All methods are synchronous and run in the event loop. They are called by the actor alone, in the step that applies a
turn; whoever watches adds itself to `watchers` and takes itself out.
"""

from collections.abc import Callable, Sequence

from actors.fanout import Fanout, Ticket
from actors.tail import Tail, TailBudget
from actors.watchers import Watchers
from storage.mail_records import NewDelivery
from storage.records import Head, NewEntry


class Live:
    """One inbox's in-memory half. `version` changes whenever a look may find something else than the last one did.

    `served_high`: how far the inbox's agent was served by looks whose note of it may still be on its way to the store.
    """

    __slots__ = (
        "_fanout",
        "_on_messages",
        "ended",
        "mail_came",
        "served_high",
        "tail",
        "version",
        "watchers",
    )

    def __init__(
        self,
        budget: TailBudget,
        fanout: Fanout,
        on_messages: Callable[[], None] = lambda: None,
        mail_came: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_messages` is called when messages were, or may have been, stored that are at home here; `mail_came`
        after every commit that has added entries, whatever they are.
        """
        self._fanout = fanout
        self._on_messages = on_messages
        self.mail_came = mail_came
        self.tail = Tail(budget)
        self.watchers = Watchers()
        self.ended = False
        self.version = 0
        self.served_high = 0

    def committed(
        self,
        head: Head,
        entries: Sequence[NewEntry],
        erased: Sequence[int],
        tickets: Sequence[Ticket],
        deliveries: Sequence[NewDelivery] = (),
    ) -> None:
        """Take what a turn has committed, without what it has erased, and wake those that it matches, after the senders
        of `tickets`. Deliveries wake as messages do; their content is in the store alone.
        """
        self.version += 1
        if deliveries:
            self.tail.skip(head)
        else:
            self.tail.extend(head, entries)
        for seq in erased:
            self.tail.remove(seq)
        if entries:
            self._on_messages()
        if entries or deliveries:
            self.mail_came()
        if (entries or deliveries) and self.watchers:
            types = {entry.event_type for entry in entries}
            types.update(delivery.event_type for delivery in deliveries)
            matching = self.watchers.matching(types)
            if matching:
                self._fanout.announce(matching, tickets)

    def lost_track(self) -> None:
        """Say that something may be stored that is not known here: everybody looks in the store."""
        self.version += 1
        self.tail.clear()
        self._on_messages()
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
