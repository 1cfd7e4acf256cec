"""The registry finds, starts, restarts and closes the actors; it is their supervisor, too.

It owns the map from inbox to actor and the crash counts. Starting an actor needs no read: a cold actor's first turn
loads its head. An actor that ends is forgotten in the same synchronous step, so nobody is given a dead one; even a bug
here would only meet the compare-and-set in the store (`Fenced`).

Actors never ask actors: only the web façade and the router ask. So there are no cycles and no deadlocks.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from itertools import islice
from typing import Any

import structlog
import trio

from actors.ask import Envelope, InboxQuarantined, InboxStopped
from actors.commands import Command
from actors.directory import Directory
from actors.fanout import Fanout
from actors.inbox import InboxActor
from actors.live import Live
from actors.options import ActorOptions
from actors.rules.restarts import RestartBudget
from actors.tail import TailBudget
from storage.errors import Fenced
from storage.protocols import Log

ASK_ATTEMPTS = 3
"""An actor may passivate between being found and being asked, or crash before it takes the command: ask the next
one. Three ends in a row without one turn are no coincidence any more."""

ENDED_AT_ONCE = 256
"""Actors looked at in one step of the loop, when it is about ending those that nobody uses."""

SHORTEST_IDLE_SECONDS = 0.001
"""Between two looks for actors that nobody uses, however short the time is that they may stay."""

log = structlog.get_logger("postroom.actors")


class Registry:
    """All actors of this process. `run` holds their nursery; `ask` is the only way to them."""

    def __init__(self, store: Log, directory: Directory, options: ActorOptions) -> None:
        self._store = store
        self._directory = directory
        self._options = options
        self._actors: OrderedDict[int, InboxActor] = OrderedDict()  # the least lately used first
        self._first_started = trio.Event()  # set when there are actors again
        self._crashes: dict[int, RestartBudget] = {}
        self._quarantined: set[int] = set()
        self._nursery: trio.Nursery | None = None
        self._context = Context()
        self._closing = trio.Event()
        self._ended = trio.Event()  # set whenever an actor has ended
        self.tails = TailBudget(options.tail_bytes, options.tail_body_bytes)
        self.fanout = Fanout()
        self.watching_ended = False
        self.on_garbage: Callable[[], None] = lambda: None
        self.on_messages: Callable[[], None] = lambda: None
        self.on_mail: Callable[[int], None] = lambda inbox_id: None
        self.restarts = 0
        self.aged = 0  # entries that retention has dropped
        self.peak_mailbox = 0

    @property
    def running(self) -> int:
        """How many actors run at present."""
        return len(self._actors)

    @property
    def quarantined(self) -> int:
        """How many inboxes are in quarantine."""
        return len(self._quarantined)

    @property
    def mailbox_peak(self) -> int:
        """The most commands that any actor has taken in one turn since the start."""
        return max(self.peak_mailbox, *(actor.peak_mailbox for actor in self._actors.values()), 0)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the actors until `close`; returns when each has finished its last turn."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._context = copy_context()
            await nursery.start(self.fanout.run)
            nursery.start_soon(self._passivate)
            task_status.started()
            try:
                await self._closing.wait()
            finally:  # also when a shared service has failed: whoever waits is told, and no actor is started any more
                self._closing.set()
                self.end_watchers()
                for actor in list(self._actors.values()):
                    actor.close()
            while self._actors:
                await self._ended.wait()
                self._ended = trio.Event()
            nursery.cancel_scope.cancel()
        log.debug("actors stopped", peak_mailbox=self.peak_mailbox, restarts=self.restarts)

    def close(self) -> None:
        """Accept no more asks; what is in the mailboxes is still done."""
        self._closing.set()

    async def ask(self, inbox_id: int, command: Command) -> Any:
        """Have a command carried out by its inbox's actor and return the outcome, or raise it.

        Raises `InboxStopped` (not done: closing, or three actors in a row ended), `InboxQuarantined` (not done),
        `OutcomeUnknown`, `InboxGone`, `Refusal`, `CommandFailed`, and what the store raises.
        """
        for _ in range(ASK_ATTEMPTS):
            actor = self._find_or_start(inbox_id)
            envelope = Envelope(command)
            try:
                await actor.post(envelope)
                return await envelope.reply.get()
            except (InboxStopped, trio.BrokenResourceError, trio.ClosedResourceError):
                continue
        raise InboxStopped("the inbox could not take the command; nothing was changed")

    async def tell(self, inbox_id: int, command: Command) -> None:
        """Give a command to its inbox's actor; what becomes of it is not heard. Commands of one task keep their order.

        Raises `InboxStopped` and `InboxQuarantined`: not done.
        """
        for _ in range(ASK_ATTEMPTS):
            actor = self._find_or_start(inbox_id)
            try:
                await actor.post(Envelope(command))
                return
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                continue
        raise InboxStopped("the inbox could not take the command; nothing was changed")

    def live(self, inbox_id: int) -> Live:
        """Return what readers see of an inbox, starting its actor if need be. Synchronous.

        Whoever adds a watcher to it in the same step keeps the actor awake. Raises as `ask` for an actor that cannot
        be started.
        """
        return self._find_or_start(inbox_id).live

    def running_live(self, inbox_id: int) -> Live | None:
        """Return what readers see of an inbox whose actor runs; starts none. Synchronous."""
        actor = self._actors.get(inbox_id)
        return None if actor is None else actor.live

    def end_watchers(self) -> None:
        """End every wait and stream because the server is stopping; none is paced any more.

        `watching_ended` tells those that attach themselves from now on.
        """
        self.watching_ended = True
        self.fanout.rush()
        for actor in self._actors.values():
            for watcher in actor.live.watchers.everyone():
                watcher.end("shutdown")

    def keep_bodies(self, limit_bytes: int) -> None:
        """Change up to what size the tails keep bodies. What they hold was kept by another limit, so it is let go."""
        self.tails.body_limit = limit_bytes
        for actor in self._actors.values():
            actor.live.lost_track()

    def lift(self, inbox_id: int) -> None:
        """End a quarantine: the next ask starts the actor again."""
        self._quarantined.discard(inbox_id)
        self._crashes.pop(inbox_id, None)

    def _find_or_start(self, inbox_id: int) -> InboxActor:
        if self._nursery is None or self._closing.is_set():
            raise InboxStopped("the server is shutting down; nothing was changed")
        if inbox_id in self._quarantined:
            raise InboxQuarantined(
                "this inbox keeps failing and waits for its administrator; nothing was changed"
            )
        actor = self._actors.get(inbox_id)
        if actor is None:
            actor = InboxActor(
                inbox_id,
                self._store,
                self._directory,
                self._options,
                Live(self.tails, self.fanout, self._messages, partial(self._mail, inbox_id)),
                self._forget,
                self._garbage,
            )
            self._actors[inbox_id] = actor
            self._first_started.set()
            # Not in the context of the request that happens to start it: it lives on, and serves others.
            self._context.copy().run(self._nursery.start_soon, self._supervise, actor)
        self._use(actor)
        return actor

    def _use(self, actor: InboxActor) -> None:
        """Note that an actor is in use: it stays for as long again."""
        actor.used_at = trio.current_time()
        self._actors.move_to_end(actor.inbox_id)

    async def _passivate(self) -> None:
        """End the actors that nobody has used for long enough.

        One task for all of them: a deadline in each actor cost a tenth of what a message to one of ten thousand inboxes
        costs, for a heap of ten thousand deadlines that hardly ever come.
        """
        while True:
            if not self._actors:
                self._first_started = trio.Event()
                await self._first_started.wait()
            long_ago = trio.current_time() - self._options.idle_seconds
            for actor in list(islice(self._actors.values(), ENDED_AT_ONCE)):
                if actor.used_at > long_ago:
                    break
                if not actor.passivate():
                    self._use(actor)
            first = next(iter(self._actors.values()), None)
            if first is not None:
                again = trio.current_time() + SHORTEST_IDLE_SECONDS
                await trio.sleep_until(max(first.used_at + self._options.idle_seconds, again))

    def _forget(self, actor: InboxActor) -> None:
        if self._actors.get(actor.inbox_id) is actor:
            del self._actors[actor.inbox_id]

    def _garbage(self, aged: int) -> None:
        self.aged += aged
        self.on_garbage()

    def _messages(self) -> None:
        self.on_messages()

    def _mail(self, inbox_id: int) -> None:
        self.on_mail(inbox_id)

    async def _supervise(self, actor: InboxActor) -> None:
        """Run an actor to its end, whatever that is. An inbox that keeps failing ends alone, not with the others."""
        try:
            await actor.run()
        except Fenced:
            # The head that the actor believed in was not the stored one. The unit did not commit; the next actor
            # reads the row. It counts as a crash: it means a bug, and a repeated one must be seen.
            self._note_crash(actor.inbox_id)
            log.error("inbox actor was fenced off", inbox_id=actor.inbox_id)
        except Exception:
            self._note_crash(actor.inbox_id)
            log.exception("inbox actor failed", inbox_id=actor.inbox_id)
        finally:
            self.peak_mailbox = max(self.peak_mailbox, actor.peak_mailbox)
            self._forget(actor)
            self._ended.set()

    def _note_crash(self, inbox_id: int) -> None:
        self.restarts += 1
        budget = self._crashes.setdefault(
            inbox_id, RestartBudget(self._options.crashes_allowed, self._options.crash_window_seconds)
        )
        if not budget.spend(trio.current_time()):
            self._quarantined.add(inbox_id)
            log.error("inbox is in quarantine", inbox_id=inbox_id)
