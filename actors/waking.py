"""Waking: agents that are not there are called when mail waits for them, at a place that they have named.

One task owns the wakes of all agents, and calls (`actors/rules/wakes.py` says when). Who makes the request, and to
where it may go, is given from outside. Wakes are in memory alone: after a start every agent with unread mail is called
once. What is unread is counted right before the call; an agent that has nothing, that has left, or that has no place
any more is not called.

After three failures in a row a place is not called any more, which its agent finds in its inbox; its next check-in
begins anew. What fails is one agent's business; a fault of the store is tried again.
"""

import heapq
import math
import secrets
from collections.abc import Awaitable, Callable

import msgspec
import structlog
import trio

from actors.agents import AgentBook
from actors.ask import InboxQuarantined, InboxStopped
from actors.commands import Refusal
from actors.inbox import CommandFailed
from actors.roster import Roster
from actors.rules import wakes
from actors.rules.presence import State
from actors.rules.wakes import FAILURES_ALLOWED, QUIET, RETRY_SECONDS, Wake
from storage.errors import InboxGone, StorageError
from storage.mail_records import AgentRecord
from storage.mesh_records import WakeTarget
from storage.secret import SecretBytes

CALLS_AT_ONCE = 64
"""Calls that may be under way together."""

TOKEN_BYTES = 16
"""Of a wake's token: it proves nothing but that its bearer was called."""

log = structlog.get_logger("postroom.waking")


class WakeCall(msgspec.Struct, frozen=True):
    """One request that is to wake an agent. `secret` signs it, None: unsigned.

    Its body is `{"event": "inbox.unread", "agent_id", "unread", "wake_token"}`.
    """

    agent_id: str
    url: str
    secret: SecretBytes | None
    unread: int
    wake_token: str


Post = Callable[[WakeCall], Awaitable[bool]]
"""Makes the request; returns whether it was answered with success in time."""

CheckUrl = Callable[[str], None]
"""Raises `Refusal("invalid_argument", …, "wake.url")` for a URL that no wake may go to."""

Unread = Callable[[AgentRecord], Awaitable[int]]
"""Counts what is unread of an agent's mail."""

Tell = Callable[[AgentRecord, WakeTarget], Awaitable[None]]
"""Tells an agent that it is not called any more."""


def no_wakes(url: str) -> None:
    """Refuse every place: a server that has no way of calling."""
    raise Refusal("invalid_argument", "There are no wake-ups on this server.", "wake.url")


async def calls_nobody(call: WakeCall) -> bool:
    """Call nobody."""
    return False


class WakeFigures:
    """Calls since the start: those that were answered with success in time, and the others; `given_up`: places that
    are not called any more.
    """

    def __init__(self) -> None:
        self.reached = 0
        self.failed = 0
        self.given_up = 0


class Wakes:
    """The wakes of all agents. `run` is their task; all else is synchronous, from any task."""

    def __init__(
        self,
        agents: AgentBook,
        roster: Roster,
        unread: Unread,
        tell: Tell,
        clock: Callable[[], int],
        *,
        post: Post = calls_nobody,
        check: CheckUrl = no_wakes,
    ) -> None:
        """`clock` gives µs since the epoch, for what is written down."""
        self._agents = agents
        self._roster = roster
        self._unread = unread
        self._tell = tell
        self._clock = clock
        self._post = post
        self.check = check
        self.figures = WakeFigures()
        self._wakes: dict[int, Wake] = {}
        self._times: list[tuple[float, int]] = []  # a heap: when to look at which agent's wake
        self._calling: set[int] = set()
        self._changed = trio.Event()
        self._places = trio.CapacityLimiter(CALLS_AT_ONCE)
        agents.when_gone(self.left)

    # -- what happens -------------------------------------------------------------------------------------
    def mail_came(self, inbox_id: int) -> None:
        """Say that something came into an inbox. Cheap for all that are nobody's, or of agents that are not called."""
        agent = self._agents.of_inbox(inbox_id)
        if agent is not None and self.calls(agent):
            self._put(inbox_id, wakes.mail_came(self._of(inbox_id), trio.current_time()))

    def spend(self, agent: AgentRecord, token: str) -> None:
        """Note that an agent has come with a token. Call it before it reads: what came until then counts as told."""
        self._put(agent.inbox_id, wakes.came(self._of(agent.inbox_id), token))

    def left(self, agent: AgentRecord) -> None:
        """Note that an agent has left, or is deleted: nothing is due any more."""
        self._put(agent.inbox_id, QUIET)

    def calls(self, agent: AgentRecord) -> bool:
        """Whether an agent is called when mail comes."""
        target = self._roster.target(agent)
        return target is not None and target.off_at is None

    def _of(self, inbox_id: int) -> Wake:
        return self._wakes.get(inbox_id, QUIET)

    def _put(self, inbox_id: int, wake: Wake) -> None:
        before = self._of(inbox_id)
        if wake == QUIET:
            self._wakes.pop(inbox_id, None)
        else:
            self._wakes[inbox_id] = wake
        at = wake.next_at
        if at is not None and at != before.next_at:
            if not self._times or at < self._times[0][0]:
                self._changed.set()
            heapq.heappush(self._times, (at, inbox_id))

    # -- the task -----------------------------------------------------------------------------------------
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Call agents until cancelled."""
        for agent in self._agents.all():
            self.mail_came(agent.inbox_id)
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                self._changed = trio.Event()
                self._start_due(nursery)
                with trio.move_on_at(self._times[0][0] if self._times else math.inf):
                    await self._changed.wait()

    def _start_due(self, nursery: trio.Nursery) -> None:
        now = trio.current_time()
        while self._times and self._times[0][0] <= now:
            _, inbox_id = heapq.heappop(self._times)
            wake = wakes.expired(self._of(inbox_id), now)
            if wake.due_at is None or wake.due_at > now:
                self._put(inbox_id, wake)
            elif inbox_id in self._calling:  # the last one has not come to its end
                self._put(inbox_id, Wake(due_at=now + wakes.DEBOUNCE_SECONDS))
            else:
                self._put(inbox_id, QUIET)
                self._calling.add(inbox_id)
                nursery.start_soon(self._look, inbox_id)

    async def _look(self, inbox_id: int) -> None:
        """Call an agent if there is something to call it for."""
        try:
            async with self._places:
                agent = self._agents.of_inbox(inbox_id)
                if agent is not None:
                    await self._call(agent)
        except (StorageError, InboxStopped, InboxQuarantined, CommandFailed) as error:
            log.warning("waking waits for the store", error=type(error).__name__)
            if self._of(inbox_id) == QUIET:
                self._put(inbox_id, Wake(due_at=trio.current_time() + RETRY_SECONDS[0]))
        except InboxGone:
            self._put(inbox_id, QUIET)
        finally:
            self._calling.discard(inbox_id)

    async def _call(self, agent: AgentRecord) -> None:
        unread = await self._unread(agent)
        target = self._roster.target(agent)
        if (
            not unread
            or target is None
            or target.off_at is not None
            or self._roster.state(agent) is State.GONE
        ):
            return
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._put(agent.inbox_id, wakes.called(self._of(agent.inbox_id), token, trio.current_time()))
        call = WakeCall(agent.agent_id, target.url, target.secret, unread, token)
        reached = await self._reaches(call)
        if (
            reached or self._of(agent.inbox_id).token != token
        ):  # or it has come while we waited for the answer
            if target.failures:
                await self._roster.change_target(agent, target, msgspec.structs.replace(target, failures=0))
            return
        await self._failed(agent, target, token)

    async def _reaches(self, call: WakeCall) -> bool:
        try:
            reached = await self._post(call)
        except Exception as error:  # a defect there must not end the server
            log.error("a wake could not be sent", agent_id=call.agent_id, error=type(error).__name__)
            reached = False
        if reached:
            self.figures.reached += 1
        else:
            self.figures.failed += 1
        return reached

    async def _failed(self, agent: AgentRecord, target: WakeTarget, token: str) -> None:
        failures = target.failures + 1
        off = failures >= FAILURES_ALLOWED
        self._put(
            agent.inbox_id,
            QUIET if off else wakes.failed(self._of(agent.inbox_id), token, failures, trio.current_time()),
        )
        counted = msgspec.structs.replace(target, failures=failures, off_at=self._clock() if off else None)
        if await self._roster.change_target(agent, target, counted) and off:
            self.figures.given_up += 1
            log.warning("an agent is not called any more", agent_id=agent.agent_id)
            await self._tell(agent, counted)
