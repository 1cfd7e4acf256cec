"""Asking an actor: a command goes into its mailbox, and exactly one of three things becomes of it.

- a **reply**: the command's outcome, or the exception that is its outcome;
- **stopped** (`InboxStopped`): the actor ended before it took the command into a turn. Known: not done.
- **unknown** (`storage.errors.OutcomeUnknown`): the actor or the store failed while the turn was under way.

A caller that is cancelled while it waits for the reply learns nothing: the command may be done (trap 21 of the
field notes). That is the contract; delivery ids make trying again safe. The actor never waits for a caller.
"""

from typing import Generic, TypeVar

import outcome
import trio

from actors.commands import Command

T = TypeVar("T")


class InboxStopped(Exception):
    """The inbox's actor ended before it took the command. Known: not done, trying again is safe."""


class InboxQuarantined(Exception):
    """The inbox's actor failed too often and is not restarted until an administrator says so. Not done."""


class Reply(Generic[T]):
    """A one-shot channel: one `put`, at most one waiting `get`, neither ever blocks the other side.

    It is a bare parking place instead of a memory channel of size one, because an ask is on the path of every
    message: two channels cost 28 µs, a channel and this 17 (study, section 5).
    """

    __slots__ = ("_outcome", "_task")

    def __init__(self) -> None:
        self._outcome: outcome.Outcome[T] | None = None
        self._task: trio.lowlevel.Task | None = None

    def put(self, result: outcome.Outcome[T]) -> None:
        """Give the result. The first one counts; a caller that has left is no error (trap 11)."""
        if self._outcome is not None:
            return
        self._outcome = result
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)

    async def get(self) -> T:
        """Wait for the result and return it, or raise the exception that it is."""
        if self._outcome is None:
            self._task = trio.lowlevel.current_task()

            def leave(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
                self._task = None
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(leave)
        assert self._outcome is not None  # noqa: S101 - rescheduled by put alone # nosec B101
        return self._outcome.unwrap()


class Envelope:
    """A command in a mailbox, with the place where its outcome goes."""

    __slots__ = ("command", "reply")

    def __init__(self, command: Command) -> None:
        self.command = command
        self.reply: Reply[object] = Reply()

    def answer(self, value: object) -> None:
        """Reply with a value, or with an exception that becomes the caller's."""
        if isinstance(value, Exception):
            self.reply.put(outcome.Error(value))
        else:
            self.reply.put(outcome.Value(value))
