"""Ways to break the server on purpose, each a context manager: what the simulation is good for is what it finds of
them.

Each does its damage now and then, counted and not by chance, so that a seed still plays the same run twice.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any
from unittest.mock import patch

import msgspec
import trio

import actors.turn
import web.ingest
from actors import pulling, serving
from actors.ask import Reply
from actors.directory import Directory
from actors.dispatch import Dispatch
from actors.doubts import Doubts
from actors.fanout import Fanout
from actors.feed import Feed
from actors.housekeeping import Housekeeper
from actors.inbox import InboxActor
from actors.live import Live
from actors.router import Router
from actors.rules import append, retention
from actors.tail import Tail
from actors.watchers import Watcher
from storage import memory_tx
from storage.errors import OutcomeUnknown
from storage.memory_tx import MemoryTx
from web import render
from web.auth import Principal
from web.limits import BodiesInFlight
from web.slots import Slots

Broken = Callable[[], AbstractContextManager[Any]]


def _every(n: int) -> Callable[[], bool]:
    """Return what is true at every n-th call."""
    calls = 0

    def due() -> bool:
        nonlocal calls
        calls += 1
        return calls % n == 0

    return due


@contextmanager
def duplicates_consume_numbers() -> Iterator[None]:
    """A delivery that was seen before moves the inbox's head on."""
    decide = append.decide

    def wrong(*args: Any, **kwargs: Any) -> Any:
        plan = decide(*args, **kwargs)
        again = sum(getattr(outcome, "duplicate", False) for outcome in plan.outcomes)
        if not plan.entries or not again:
            return plan
        head = msgspec.structs.replace(plan.head, latest_seq=plan.head.latest_seq + again)
        return msgspec.structs.replace(plan, head=head)

    with patch.object(actors.turn.append, "decide", wrong):
        yield


@contextmanager
def delivery_ids_are_forgotten() -> Iterator[None]:
    """Now and then, the store does not remember what it has seen."""
    seen, due = MemoryTx.seen, _every(5)
    with patch.object(MemoryTx, "seen", lambda *args: {} if due() else seen(*args)):
        yield


@contextmanager
def unknown_is_answered_as_done() -> Iterator[None]:
    """A sender is told that its message is durable when nobody knows."""
    real = web.ingest.append_draft

    async def wrong(service: Any, inbox: Any, draft: Any, *args: Any) -> Any:
        try:
            return await real(service, inbox, draft, *args)
        except OutcomeUnknown:
            return append.Appended(draft.id, 1, False)

    with patch.object(web.ingest, "append_draft", wrong):
        yield


@contextmanager
def some_are_not_woken() -> Iterator[None]:
    """One of those who wait is left out, now and then."""
    announce, due = Fanout.announce, _every(3)

    def wrong(self: Fanout, watchers: Any, *args: Any) -> None:
        announce(self, watchers[1:] if due() else watchers, *args)

    with patch.object(Fanout, "announce", wrong):
        yield


@contextmanager
def nobody_is_woken_after_an_unknown_outcome() -> Iterator[None]:
    """The actor goes on from what it knows, as if a commit of which nobody knows had not been."""
    with patch.object(Live, "lost_track", lambda self: None):
        yield


@contextmanager
def slots_are_kept() -> Iterator[None]:
    """A slot is not given back, now and then."""
    free, due = Slots._free, _every(6)
    with patch.object(Slots, "_free", lambda *args: None if due() else free(*args)):
        yield


@contextmanager
def watchers_are_kept() -> Iterator[None]:
    """Who has waited stays on the list of those who do, now and then."""
    leave, due = Feed.__exit__, _every(6)
    with patch.object(Feed, "__exit__", lambda *args: None if due() else leave(*args)):
        yield


@contextmanager
def bytes_in_flight_are_kept() -> Iterator[None]:
    """Bytes of a body stay counted, now and then."""
    share, due = BodiesInFlight.share, _every(4)

    def wrong(self: BodiesInFlight) -> Any:
        one = share(self)
        if due():
            self.small += 1
        return one

    with patch.object(BodiesInFlight, "share", wrong):
        yield


@contextmanager
def epochs_repeat() -> Iterator[None]:
    """An inbox that is made again has the epoch of the one before."""
    with patch.object(memory_tx.secrets, "token_hex", lambda size: "00" * size):
        yield


@contextmanager
def retention_takes_one_too_many() -> Iterator[None]:
    """When something is let go of, the entry after it goes as well."""
    plan = retention.plan

    def wrong(head: Any, oldest: Any, kept: Any, now_us: int) -> Any:
        drop = plan(head, oldest, kept, now_us)
        if not 0 < drop.rows < len(oldest) - 1:
            return drop
        after = msgspec.structs.replace(
            drop.head, first_seq=oldest[drop.rows + 1].seq, live_rows=drop.head.live_rows - 1
        )
        return msgspec.structs.replace(drop, head=after, rows=drop.rows + 1)

    with patch.object(retention, "plan", wrong):
        yield


@contextmanager
def no_gap_is_told() -> Iterator[None]:
    """A page says that nothing is missing, whatever was dropped."""
    real = render.forward_page
    with patch.object(
        render,
        "forward_page",
        lambda *args, **kwargs: real(*args, **kwargs).replace(b'"gap":true', b'"gap":false'),
    ):
        yield


@contextmanager
def the_tail_skips() -> Iterator[None]:
    """What is read from memory leaves one message out, now and then."""
    look, due = Tail.look, _every(4)

    def wrong(self: Tail, *args: Any) -> Any:
        page, entries = look(self, *args)
        if len(entries) < 2 or not due():
            return page, entries
        return msgspec.structs.replace(page, rows=page.rows[1:]), entries[1:]

    with patch.object(Tail, "look", wrong):
        yield


@contextmanager
def a_drain_hides_some() -> Iterator[None]:
    """Every seventh message of an agent's inbox is looked at and not shown."""
    shown = pulling.shown
    with patch.object(pulling, "shown", lambda row, *args: row.seq % 7 != 0 and shown(row, *args)):
        yield


@contextmanager
def marks_do_not_last() -> Iterator[None]:
    """What was handed out is not marked, now and then, so that it is handed out again."""
    mark, due = serving.mark_served, _every(3)

    def wrong(tx: Any, inbox_id: int, command: Any, now_us: int) -> Any:
        return tuple(command.seqs) if due() else mark(tx, inbox_id, command, now_us)

    with patch.object(serving, "mark_served", wrong):
        yield


@contextmanager
def deliveries_are_tried_once() -> Iterator[None]:
    """The router gives up what the store could not take at the first try."""

    async def wrong(self: Dispatch, outbox: Any) -> None:
        await self._ask_all(iter(list(outbox.items())), lambda parcel, error: None)

    with patch.object(Dispatch, "deliver", wrong):
        yield


@contextmanager
def the_cursor_is_stored_too_early() -> Iterator[None]:
    """The router writes down how far it is before it has delivered."""
    finish = Router._finish

    async def wrong(self: Router, portion: Any, through: int) -> None:
        self._cursor = through
        with suppress(Exception):  # whatever it is, the right way follows
            await self._store_cursor()
        await finish(self, portion, through)

    with patch.object(Router, "_finish", wrong):
        yield


@contextmanager
def replies_get_lost() -> Iterator[None]:
    """An actor's reply does not reach who has asked, now and then."""
    put, due = Reply.put, _every(40)
    with patch.object(Reply, "put", lambda *args: None if due() else put(*args)):
        yield


@contextmanager
def a_full_disk_makes_actors_fail() -> Iterator[None]:
    """An actor meets a refusal of the store by failing."""
    with patch.object(InboxActor, "_without_growth", _failing):
        yield


@contextmanager
def who_sleeps_is_not_told_of_its_scope() -> Iterator[None]:
    """A wait or stream that is open goes on with the scope that its token had when it was opened."""
    with patch.object(Watcher, "rescope", lambda self: None):
        yield


@contextmanager
def unknown_changes_are_left_open() -> Iterator[None]:
    """What is in memory after a change whose outcome is unknown stays what it was."""
    with (
        patch.object(Doubts, "about", lambda *args: None),
        patch.object(Directory, "forget", lambda *args: None),
    ):
        yield


@contextmanager
def old_messages_stay() -> Iterator[None]:
    """Nobody looks for inboxes whose messages have come of age."""
    with patch.object(Housekeeper, "call_due", _nothing):
        yield


@contextmanager
def a_scope_is_forgotten_now_and_then() -> Iterator[None]:
    """A token that has a scope reads everything, at some calls."""
    real, due = Principal.may_read, _every(20)
    with patch.object(Principal, "may_read", lambda self, slug: due() or real(self, slug)):
        yield


async def _failing(*args: object) -> bool:
    await trio.lowlevel.checkpoint()
    raise RuntimeError("the disk is full")


async def _nothing(*args: object) -> int:
    await trio.lowlevel.checkpoint()
    return 0


BREAKAGES: Mapping[str, tuple[Broken, int, str]] = {
    "duplicates consume numbers": (duplicates_consume_numbers, 13, "have a hole"),
    "delivery ids are forgotten": (delivery_ids_are_forgotten, 0, " is "),
    "unknown is answered as done": (unknown_is_answered_as_done, 4, "before its message was durable"),
    "some are not woken": (some_are_not_woken, 1, "only after"),
    "nobody is woken after an unknown outcome": (
        nobody_is_woken_after_an_unknown_outcome,
        718,
        "it is there",
    ),
    "slots are kept": (slots_are_kept, 0, "slots"),
    "watchers are kept": (watchers_are_kept, 0, "watchers"),
    "bytes in flight are kept": (bytes_in_flight_are_kept, 0, "bytes of bodies"),
    "epochs repeat": (epochs_repeat, 0, "was used before"),
    "retention takes one too many": (retention_takes_one_too_many, 17, "for no reason"),
    "no gap is told": (no_gap_is_told, 8, "nobody was told of a gap"),
    "the tail skips": (the_tail_skips, 2, "it is there"),
    "a drain hides some": (a_drain_hides_some, 8, "was not shown"),
    "marks do not last": (marks_do_not_last, 0, "again"),
    "deliveries are tried once": (deliveries_are_tried_once, 2, "never came"),
    "the cursor is stored too early": (the_cursor_is_stored_too_early, 20, "never came"),
    "replies get lost": (replies_get_lost, 2, ""),
    "who sleeps is not told of its scope": (
        who_sleeps_is_not_told_of_its_scope,
        0,
        "came when it was closed",
    ),
    "a scope is forgotten now and then": (a_scope_is_forgotten_now_and_then, 0, "when it was closed"),
    "unknown changes are left open": (unknown_changes_are_left_open, 3703, "in memory"),
    "old messages stay": (old_messages_stay, 3, "is its age"),
    "a full disk makes actors fail": (a_full_disk_makes_actors_fail, 4, "inbox actor failed"),
}
"""By name: what breaks, the first seed from 0 on that has shown it, and words of what it finds."""
