"""The router: the one durable reader of the log of all messages, which decides who else should hear of each.

It owns the cursor: everything up to it has been delivered to whom it concerns. One task reads the log behind the cursor
in order, slice by slice, matches what stands there against the beacons, adds those whom a message was sent to and who
do not have it yet, and has every recipient's own actor store what it gets. Then the cursor moves, in memory at once, in
the store a little later, together with what the beacons brought: so after a crash the same messages are routed again
with the same outcome, and what is delivered already is skipped. Nobody waits for it; it waits for nobody but the store.

What happens when it fails: a fault of the store is waited out (`actors.dispatch`). Anything else is a defect of the
one service that everybody's mail depends on, and ends the process.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import TypeVar

import msgspec
import structlog
import trio

from actors.agents import AgentBook
from actors.ahead import PENDING_PAGE, Ahead, read_ahead, read_contents, read_pending
from actors.beacon_units import Routed
from actors.dispatch import Dispatch, Patience, passes
from actors.in_force import InForce
from actors.options import ActorOptions
from actors.portions import Portion
from actors.registry import Registry
from actors.rules.allowance import admitted
from actors.rules.delivery import by_beacons, drafted
from actors.rules.letters import Letter, kind_of, letter_of
from actors.rules.matching.beacons import Key
from actors.tokens import TokenBook
from actors.units import Reading
from storage.errors import OutcomeUnknown, StorageError
from storage.protocols import Log, Look

PORTION = 16_384
"""Deliveries that are made before the cursor moves, and those of one message more: 10 MiB of memory. The more, the more
of them go to the same recipient with one ask.
"""

GATHER_SECONDS = 0.01
"""After it was woken, the router waits for what else comes: it then reads the log a hundred times a second at most. And
what it does about a message is done while its sender may be sending others, so that how long these take says nothing
about who hears of the first.
"""

STORE_SECONDS = 1.0
"""How far the stored cursor may lag: a commit a second while messages come, that much to route again after a crash."""

FIRST_STORE_SECONDS = 0.05
"""How far it may lag after a start; then twice as far each time, up to `STORE_SECONDS`. So also a short life stores
about half of what it has routed: a server that is killed again and again must not begin at the same place for ever.
"""

ROUND_SECONDS = 60.0
"""Without being woken, look once a minute: something may be stored whose outcome nobody was told."""

COUNTED_AT_ONCE = 1_024
"""Beacons whose counts are stored in one unit, in about 5 ms of the writer's time."""

T = TypeVar("T")

log = structlog.get_logger("postroom.router")


class RouterFigures(msgspec.Struct, frozen=True):
    """What the router has done since the start. `lag`: messages that it knows of and has not routed yet. `overflow`:
    matches that a limit kept back. `failed`: deliveries that could not be stored and were left out.
    """

    lag: int
    routed: int
    delivered: int
    overflow: int
    failed: int


class Router:
    """The router. `run` is its task; `nudge` says that there may be something new."""

    def __init__(
        self,
        store: Log,
        registry: Registry,
        agents: AgentBook,
        tokens: TokenBook,
        beacons: InForce,
        options: ActorOptions,
    ) -> None:
        self._store = store
        self._agents = agents
        self._tokens = tokens
        self._beacons = beacons
        self._options = options
        self._dispatch = Dispatch(store, registry)
        self._woken = trio.Event()
        self._cursor = 0
        self._stored = 0
        self._last = 0
        self._started_at = 0
        self._overflow = 0
        self._counted: dict[tuple[Key, int], tuple[int, int]] = {}
        self._store_at = inf
        self._store_after = min(FIRST_STORE_SECONDS, STORE_SECONDS)
        self._round_at = 0.0

    def nudge(self) -> None:
        """Say that messages may have come. Synchronous, from any task, and cheap."""
        self._woken.set()

    @property
    def routed_mid(self) -> int:
        """The mid up to which everything has been delivered to whom it concerns."""
        return self._cursor

    @property
    def figures(self) -> RouterFigures:
        """What the router has done."""
        return RouterFigures(
            lag=max(0, self._last - self._cursor),
            routed=self._cursor - self._started_at,
            delivered=self._dispatch.delivered,
            overflow=self._overflow,
            failed=self._dispatch.failed,
        )

    # -- the task --------------------------------------------------------------------------------------------
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Route until cancelled. Raises what is no fault of the store's, or none that passes."""
        self._cursor = await self._read(Reading(lambda snapshot: snapshot.routed_mid()))
        self._stored = self._last = self._started_at = self._cursor
        self._round_at = trio.current_time() + ROUND_SECONDS
        task_status.started()
        try:
            await self._deliver_left_behind()
            while True:
                await self._work()
                with trio.move_on_at(self._next_at()):
                    await self._woken.wait()
                    await trio.sleep(GATHER_SECONDS)
        finally:
            await self._store_at_the_end()

    async def _work(self) -> None:
        """Route all that there is, and do what is due."""
        self._woken = trio.Event()
        expired: Sequence[Key] = ()
        if trio.current_time() >= self._round_at:
            self._round_at = trio.current_time() + ROUND_SECONDS
            expired = self._beacons.expired()
        while await self._route():
            await self._store_if_due()
        await self._store_if_due()
        if expired:  # and everything was routed that came before they did
            await self._patiently(lambda: self._beacons.drop_expired(expired))

    def _next_at(self) -> float:
        return min(self._store_at, self._round_at)

    async def _route(self) -> bool:
        """Route what the next slice of the log holds; return whether there is more behind it."""
        ahead = await self._look_ahead()
        self._last = ahead.last
        if ahead.through > self._cursor:
            await self._route_slice(ahead)
        return ahead.through < ahead.last

    async def _look_ahead(self) -> Ahead:
        """Read what stands behind the cursor. Without beacons nothing can match, and no message is looked at."""
        matching = len(self._beacons.index) > 0
        while True:
            ahead = await self._read(Reading(partial(read_ahead, after=self._cursor, matching=matching)))
            await self._patiently(self._beacons.settled)
            if matching or not len(self._beacons.index):
                return ahead
            matching = True  # the first beacon was placed meanwhile

    async def _route_slice(self, ahead: Ahead) -> None:
        index = self._beacons.index
        rows = {row.mid: row for row in ahead.rows if index.covers(row.slug, row.event_type, kind_of(row))}
        mids = sorted(rows)
        addressed = deque(ahead.pending)
        portion = self._portion()
        while mids:
            contents = await self._read(Reading(partial(read_contents, mids=mids)))
            for content in contents:
                portion.address(addressed, content.mid)
                self._match(portion, letter_of(rows[content.mid], content))
                if portion.size >= PORTION:
                    await self._finish(portion, content.mid)
                    await self._store_if_due()
                    portion = self._portion()
                await trio.lowlevel.checkpoint()
            mids = [mid for mid in mids if mid > contents[-1].mid] if contents else []
        portion.address(addressed, ahead.through)
        await self._finish(portion, ahead.through)

    def _match(self, portion: Portion, letter: Letter) -> None:
        """Add to a portion what the beacons make of a message."""
        row = letter.row
        matches = [
            match
            for match in self._beacons.index.match(letter.input)
            if match.agent_id != letter.sender and portion.may_hear(match.agent_id, row)
        ]
        recipients = self._options.route_recipients
        for heard in admitted(matches, row.received_at, portion.tally, recipients):
            portion.deliver_to(heard.agent_id, drafted(row, by_beacons(heard)))

    async def _finish(self, portion: Portion, through: int) -> None:
        """Deliver a portion, and move the cursor in the step that follows."""
        await self._dispatch.deliver(portion.outbox)
        self._overflow += portion.tally.overflow
        for key, day, delivered, overflow in portion.tally.added():
            before = self._counted.get((key, day), (0, 0))
            self._counted[key, day] = (before[0] + delivered, before[1] + overflow)
        self._cursor = through
        self._store_at = min(self._store_at, trio.current_time() + self._store_after)

    async def _deliver_left_behind(self) -> None:
        """Deliver what was sent to somebody and stands behind the cursor: a restored copy begins with its whole log
        routed, whatever was under way when it was made.
        """
        place = (0, 0)
        while True:
            look = Reading(partial(read_pending, place=place, through=self._cursor))
            page = await self._read(look)
            portion = self._portion()
            portion.address(deque(page), self._cursor)
            await self._dispatch.deliver(portion.outbox)
            if len(page) < PENDING_PAGE:
                return
            place = (page[-1].mid, page[-1].inbox_id)

    # -- storing the cursor ------------------------------------------------------------------------------------
    async def _store_if_due(self) -> None:
        if trio.current_time() < self._store_at:
            return
        try:
            await self._store_cursor()
        except StorageError as error:
            if not passes(error):
                raise
            self._store_at = trio.current_time() + STORE_SECONDS

    async def _store_at_the_end(self) -> None:
        """Store the cursor for the next start, if that can be done now."""
        try:
            await self._store_cursor()
        except StorageError as error:
            log.info("the next start routes a little again", error=type(error).__name__)

    async def _store_cursor(self) -> None:
        """Write down how far the log was routed, and what the beacons brought until there. Raises as `Log.commit`.

        The cursor goes first: counts that a crash then takes away let a beacon bring a little more in that day, and
        counts stored without it would be counted twice.
        """
        cursor = self._cursor
        while self._counted or cursor != self._stored:
            counted = tuple(islice(self._counted.items(), COUNTED_AT_ONCE))
            unit = Routed(cursor, tuple((key, day, *more) for (key, day), more in counted))
            # Shielded: what is stored must not be stored again with the next cursor.
            with trio.CancelScope(shield=True):
                try:
                    await self._store.commit(unit)
                except OutcomeUnknown:
                    self._took(counted)
                    raise
                self._took(counted)
                self._stored = cursor
        self._store_at = inf
        self._store_after = min(2 * self._store_after, STORE_SECONDS)

    def _took(self, counted: Iterable[tuple[tuple[Key, int], tuple[int, int]]]) -> None:
        """Take off what was handed to the store."""
        for key, _ in counted:
            del self._counted[key]

    # -- asking the store ----------------------------------------------------------------------------------------
    async def _read(self, look: Look[T]) -> T:
        return await self._patiently(lambda: self._store.read(look))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return what `ask` returns, trying again as long as the store cannot do it just now."""
        patience = Patience()
        while True:
            try:
                return await ask()
            except StorageError as error:
                if not passes(error):
                    raise
                reason = error
            await patience.wait(reason)

    def _portion(self) -> Portion:
        return Portion(self._agents, self._tokens, self._beacons.tally())
