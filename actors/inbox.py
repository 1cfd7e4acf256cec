"""`InboxActor`: the task that alone has the right to change its inbox.

It owns the order of commands, its copy of the head (refreshed from each turn's result, never guessed), and its own
end. One turn is in flight at most. It does not own: the transaction (the writer), the rules (`actors/rules`), page
reads (the readers). Looks at its state are plain synchronous methods, legal because nothing awaits in between.

Crash policy: a failing *command* is found by running its group one by one and answers its own caller alone. A failing
*actor* answers everyone (the batch in progress: unknown; the rest of the mailbox: stopped) and is started again, from
the store, by the next ask; `actors/registry.py` counts.
"""

from collections.abc import Callable
from functools import partial

import trio

from actors.ask import Envelope, InboxStopped
from actors.commands import Append, Erase
from actors.directory import Directory
from actors.live import Live
from actors.options import ActorOptions
from actors.turn import GROWING, Turn, TurnResult, lane_of
from storage.errors import (
    Fenced,
    InboxGone,
    OutcomeUnknown,
    StorageError,
    StorageFull,
    UnitFailed,
)
from storage.protocols import Log
from storage.records import Head, Retention

TURN_COMMANDS = 64
"""Commands in one turn at most; 32 to 64 rows are where SQLite's cost per row stops falling (study, section 5)."""


class CommandFailed(Exception):
    """A command raised inside its unit; it was undone and no other was touched. A defect, not a refusal."""


class InboxActor:
    """One inbox's task with its mailbox. Made by the registry; `run` is started exactly once."""

    def __init__(
        self,
        inbox_id: int,
        log: Log,
        directory: Directory,
        options: ActorOptions,
        live: Live,
        retire: Callable[["InboxActor"], None],
        on_garbage: Callable[[int], None],
    ) -> None:
        """`live` is what readers see of the inbox; this actor alone feeds it. `retire` takes this actor out of the
        registry, synchronously. `on_garbage` is called after a change that left rows for the sweep, with
        the number of entries that retention has dropped.
        """
        self.inbox_id = inbox_id
        self.live = live
        self.peak_mailbox = 0
        self.used_at = 0.0  # on trio's clock; the registry's, which ends actors that nobody uses
        self._log = log
        self._directory = directory
        self._options = options
        self._retire = retire
        self._on_garbage = on_garbage
        self._head: Head | None = None  # None: cold, the next turn loads it
        self._retention: Retention | None = None
        self._more_to_drop = False
        self._send: trio.MemorySendChannel[Envelope]
        self._receive: trio.MemoryReceiveChannel[Envelope]
        self._send, self._receive = trio.open_memory_channel(options.mailbox_slots)
        self._batch: list[Envelope] = []

    # -- called from other tasks --------------------------------------------------------------------------
    async def post(self, envelope: Envelope) -> None:
        """Put a command into the mailbox; waits while that is full.

        Raises `trio.BrokenResourceError` or `trio.ClosedResourceError` when the actor has ended: not done.
        """
        try:
            self._send.send_nowait(envelope)
        except trio.WouldBlock:
            await self._send.send(envelope)

    def close(self) -> None:
        """Accept nothing more. What is in the mailbox is still done; then the task ends."""
        self._send.close()

    def passivate(self) -> bool:
        """End if nobody needs this actor, in one synchronous step; False when it is in use.

        Parked in its mailbox it has neither a command nor a turn. Who found it a moment ago meets a closed channel and
        asks the registry again.
        """
        if self.live.watchers or not self._receive.statistics().tasks_waiting_receive:
            return False
        self._retire(self)
        self._send.close()
        return True

    @property
    def head(self) -> Head | None:
        """The head as of the last turn; None while the actor is cold."""
        return self._head

    # -- the task ----------------------------------------------------------------------------------------------
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take turns until closed, passivated, or gone.

        Shielded from cancellation as a whole, which is cheaper than turn by turn: the writer always answers, a turn's
        outcome must be applied, and whoever holds the actors closes them.
        """
        with trio.CancelScope(shield=True):
            try:
                task_status.started()
                while await self._next_batch():
                    if not await self._take_turn(self._batch):
                        break
                    self._batch = []
            finally:
                # Trap 10: a closed channel drops its queue silently; whoever waits for a reply must hear first.
                for envelope in self._batch:
                    envelope.answer(OutcomeUnknown("the inbox's actor failed during the turn"))
                if self._batch:
                    self._directory.doubt(self.inbox_id)
                self._batch = []
                self._end(InboxStopped)

    async def _next_batch(self) -> bool:
        """Fill `self._batch` with what waits; empty, there is something to drop. False when the actor is to end."""
        self._batch = []
        try:
            first = self._receive.receive_nowait()
        except trio.WouldBlock:
            if self._more_to_drop:
                return True
            try:
                first = await self._receive.receive()
            except trio.EndOfChannel:
                return False
        except trio.EndOfChannel:
            return False
        self._batch = [first]
        try:
            while len(self._batch) < TURN_COMMANDS:
                self._batch.append(self._receive.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            pass
        self.peak_mailbox = max(self.peak_mailbox, len(self._batch))
        return True

    async def _take_turn(self, batch: list[Envelope]) -> bool:
        """Run one turn and apply it; False when the inbox is gone."""
        commands = tuple(envelope.command for envelope in batch)
        turn = Turn(self.inbox_id, self._head, commands, self._retention, lane_of(commands))
        try:
            result = await self._log.commit(turn)
        except InboxGone:
            _answer_all(batch, InboxGone)
            self._directory.forget(self.inbox_id)
            self.live.deleted()
            return False
        except Fenced:
            _answer_all(batch, InboxStopped)  # known: the unit was undone; the next actor reads the row
            raise
        except UnitFailed as failure:
            return await self._isolate(batch, failure)
        except StorageFull as full:
            return await self._without_growth(batch, full)
        except StorageError as error:
            if isinstance(error, OutcomeUnknown):
                self._head = self._retention = None  # the rows decide, the next turn reads them
                self._directory.doubt(self.inbox_id)
                self.live.lost_track()
                self.live.mail_came()
            self._more_to_drop = False
            _answer_all(batch, partial(type(error), *error.args))
            return True
        return self._apply(batch, result)

    async def _without_growth(self, batch: list[Envelope], full: StorageFull) -> bool:
        """Answer the messages that a full store refused, and take a turn with the rest: what frees space must not stand
        behind what needs it.
        """
        growing = [envelope for envelope in batch if isinstance(envelope.command, GROWING)]
        rest = [envelope for envelope in batch if not isinstance(envelope.command, GROWING)]
        self._more_to_drop = False
        _answer_all(growing or rest, partial(StorageFull, *full.args))
        return await self._take_turn(rest) if growing and rest else True

    async def _isolate(self, batch: list[Envelope], failure: UnitFailed) -> bool:
        """Run the commands of a failed group one by one, so that only the guilty caller hears of it (S18)."""
        self._more_to_drop = False  # if that is what failed, the housekeeper tries again in a minute
        if len(batch) == 1:
            error = CommandFailed("the command failed inside its transaction and was undone")
            error.__cause__ = failure.__cause__
            batch[0].answer(error)
            return True
        for place, envelope in enumerate(batch):
            if not await self._take_turn([envelope]):
                _answer_all(batch[place + 1 :], InboxGone)
                return False
        return True

    def _apply(self, batch: list[Envelope], result: TurnResult) -> bool:
        """Make the committed outcome this actor's state, and tell everyone: one synchronous step.

        Nothing may await between "the commit returned" and the last reply, else a reader could see an answered
        message that its actor does not know yet.
        """
        head = self._head = result.head
        self._retention = result.retention
        self._more_to_drop = result.more
        if result.record is not None:
            self._directory.put(result.record)
        tickets = []
        for envelope, outcome in zip(batch, result.outcomes, strict=True):
            envelope.answer(outcome)
            command = envelope.command
            if isinstance(command, Append) and command.ticket is not None:
                tickets.append(command.ticket)
        if result.dropped:
            self._on_garbage(result.aged)
        if head is not None:
            erased = [envelope.command.seq for envelope in batch if isinstance(envelope.command, Erase)]
            self.live.committed(head, result.entries, erased, tickets, result.deliveries)
            return True
        self._directory.forget(self.inbox_id)
        self.live.deleted()
        return False

    def _end(self, reason: Callable[[], Exception]) -> None:
        """Answer what is left in the mailbox, then close it: in this order, or the queue would be lost silently."""
        self._retire(self)
        self.live.stop()
        while True:
            try:
                self._receive.receive_nowait().answer(reason())
            except (trio.WouldBlock, trio.EndOfChannel):
                break
        self._receive.close()


def _answer_all(batch: list[Envelope], error: Callable[[], Exception]) -> None:
    """Answer each with an exception of its own: one object raised in several tasks would collect their tracebacks."""
    for envelope in batch:
        envelope.answer(error())
