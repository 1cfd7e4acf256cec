"""What the server has promised to those who send and read, held against the ledger: at every answer, and at the end."""

from collections.abc import Sequence

import trio

from storage.memory_state import MemoryState
from tests.simulation.ledger import Ledger, Life

WAKE_SECONDS = 4.0
SLOW_WAKE_SECONDS = 9.0
"""So long after it became durable, a message may reach somebody who waits for it: the commit's answer, and two looks,
each of them late; the second with a disk that is slow as well.
"""

LOOK_SECONDS = 65.0
"""So often at least, the housekeeper looks for inboxes whose oldest message has come of age."""


class Promises:
    """The promises of one server over all of its lives."""

    def __init__(self, ledger: Ledger, *, slow: bool) -> None:
        """`slow`: the disk may become so."""
        self._ledger = ledger
        self._wake_seconds = SLOW_WAKE_SECONDS if slow else WAKE_SECONDS
        self.answering_since = 0.0  # who calls while the server starts waits for that
        self._once: dict[tuple[str, str], bytes] = {}
        self.acknowledged: dict[bytes, str] = {}
        self.mailed: dict[str, dict[bytes, str]] = {}

    # -- senders --------------------------------------------------------------------------------------------
    def taken(self, who: str, slug: str, one: bytes, seq: int) -> None:
        """Somebody was answered 200 with this id and number."""
        home = self._ledger.homes.get(one)
        if home is None:
            self._ledger.find(f"{who} was answered {seq} before its message was durable")
        elif (home[0].slug, home[1]) != (slug, seq):
            self._ledger.find(f"{who} was answered {slug} {seq}, and it is {home[0].slug} {home[1]}")
        self.acknowledged[one] = who

    def once(self, who: str, scope: str, key: str, one: bytes) -> None:
        """A request with a delivery id or an idempotency key was answered with a message. In one life of an inbox, a
        key means one message.
        """
        home = self._ledger.homes.get(one)
        if home is None:
            self._ledger.find(f"{who}: {key} was answered before its message was durable")
            return
        scope = scope or home[0].epoch
        first = self._once.setdefault((scope, key), one)
        if first != one:
            self._ledger.find(f"{who}: {key} is {first.hex()} and {one.hex()}")

    def sent_to(self, recipient: str, one: bytes, life: str) -> None:
        """An agent, in that life of its inbox, was told to get a message, by an answer to its sender."""
        self.mailed.setdefault(recipient, {})[one] = life

    # -- readers --------------------------------------------------------------------------------------------
    def read(
        self,
        who: str,
        slug: str,
        epoch: str,
        after: int,
        rows: Sequence[tuple[int, bytes]],
        upto: int,
        *,
        gap: bool,
        types: Sequence[str] = (),
    ) -> None:
        """Somebody has read forward from a cursor and was told that this is all up to `upto`."""
        life = self._life(who, slug, epoch)
        if life is None:
            return
        for (seq, one), before in zip(rows, (after, *(seq for seq, _ in rows)), strict=False):
            entry = life.entries.get(seq)
            if seq <= before:
                self._ledger.find(f"{who} was served {slug} {seq} after {before}")
            elif entry is None or entry.id != one:
                self._ledger.find(f"{who} was served {slug} {seq}, which is not durable, or another message")
            elif types and entry.event_type not in types:
                self._ledger.find(f"{who} was served {slug} {seq} of another type")
        begins = rows[0][0] if rows else upto + 1
        for seq in sorted(set(range(after + 1, upto + 1)) - {seq for seq, _ in rows}):
            why = self._why_missing(life, seq, types, told=(gap or after == 0) and seq < begins)
            if why:
                self._ledger.find(f"{who} was not served {slug} {seq} after {after}: {why}")

    def _life(self, who: str, slug: str, epoch: str) -> Life | None:
        life = self._ledger.lives.get(epoch)
        if life is None or life.slug != slug:
            self._ledger.find(f"{who} was told of an epoch that {slug} never had")
            return None
        return life

    def _why_missing(self, life: Life, seq: int, types: Sequence[str], *, told: bool) -> str:
        """Return what is wrong with a message's not having been served, `""` when it is explained."""
        entry = life.entries.get(seq)
        if entry is None:
            return "there is no such message"
        if (types and entry.event_type not in types) or seq in life.erased:
            return ""
        if seq >= life.head.first_seq:
            return "it is there"
        return "" if told else "it was dropped, and nobody was told of a gap"

    def woken(self, who: str, slug: str, epoch: str, seq: int, since: float) -> None:
        """Somebody who has waited since then has got a message just now."""
        life = self._ledger.lives.get(epoch)
        entry = None if life is None else life.entries.get(seq)
        if entry is None:
            return  # told by `read`
        late = trio.current_time() - max(entry.since, since, self.answering_since)
        if late > self._wake_seconds:
            self._ledger.find(f"{who} heard of {slug} {seq} only after {late:.1f} s")

    # -- the end --------------------------------------------------------------------------------------------
    def nothing_old(self, state: MemoryState) -> None:
        """Inboxes that forget with time have forgotten what is older than that, a look of the housekeeper ago."""
        for life in self._ledger.present:
            inbox = state.inboxes[life.inbox_id]
            seconds = inbox.record.settings.retention.max_age_seconds
            kept = life.kept()
            if seconds is None or not kept:
                continue
            age = self._ledger.now() - life.entries[kept[0][0]].at
            if age > (seconds + LOOK_SECONDS) * 1_000_000:
                self._ledger.find(
                    f"{life.slug} keeps {kept[0][0]}, {age / 1e6:.1f} s old, and {seconds} s is its age"
                )

    def all_routed(self, state: MemoryState, beacons: dict[str, str]) -> None:
        """Everything that somebody was to get is in its inbox, once. `beacons`: whose beacon takes all of an inbox."""
        for life in self._ledger.present:
            ids = [entry.id for entry in life.entries.values()]
            if len(ids) != len(set(ids)):
                self._ledger.find(f"{life.slug} has got a message twice")
        for agent, slug in beacons.items():
            mail = self._ledger.now_living(f"agent.{agent}")
            inbox = self._ledger.now_living(slug)
            if mail is None or inbox is None:
                continue
            got = {entry.id for entry in mail.entries.values()}
            missing = [
                seq for seq, entry in inbox.entries.items() if entry.id not in got and seq not in inbox.erased
            ]
            if missing:
                self._ledger.find(f"{slug} {missing} never came to {agent}, whose beacon takes them")
        for agent, sent in self.mailed.items():
            mail = self._ledger.now_living(f"agent.{agent}")
            got = set() if mail is None else {entry.id for entry in mail.entries.values()}
            for one, epoch in sent.items():
                if mail is not None and mail.epoch == epoch and one not in got:
                    self._ledger.find(f"{one.hex()} was sent to {agent} and never came")
        late = [receipt for of in state.receipts.values() for receipt in of.values() if receipt.seq is None]
        if late:
            self._ledger.find(f"{len(late)} messages are still on their way when all is quiet")
