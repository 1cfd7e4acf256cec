"""Readers whose token is narrowed and widened while they read: nobody reads what is closed to them.

The `Door` is what the administrator knows of that token's scope: while a change is under way, or its answer was lost,
both the old and the new one may be in force.
"""

from typing import Any

import trio

from tests.simulation.fates import DONE
from tests.simulation.people import Person
from tests.simulation.readers import Pager, Streamer, Waiter
from tests.simulation.senders import HOOKS, PLAIN
from tests.simulation.world import Machine

BOTH = (HOOKS, PLAIN)
SCOPES = ((HOOKS,), (PLAIN,), BOTH)


class Door:
    """What a token certainly reads, and what it certainly does not. Times on the virtual clock."""

    def __init__(self, token_id: str) -> None:
        self.token_id = token_id
        self._may = frozenset(BOTH)
        self._open_since = dict.fromkeys(BOTH, trio.current_time())
        self._closed_since: dict[str, float] = {}

    def changing(self, scope: tuple[str, ...]) -> None:
        """Note that a change was asked for: from now on it may be in force."""
        self._may |= frozenset(scope)
        for slug in BOTH:
            if slug not in scope:
                self._open_since.pop(slug, None)
            else:
                self._closed_since.pop(slug, None)

    def changed(self, scope: tuple[str, ...]) -> None:
        """Note that a change was answered: it is in force, and nothing else."""
        self._may = frozenset(scope)
        for slug in BOTH:
            since = self._open_since if slug in scope else self._closed_since
            since.setdefault(slug, trio.current_time())

    def closed_since(self, slug: str) -> float | None:
        """Return since when an inbox is certainly closed, None while it may be open."""
        return None if slug in self._may else self._closed_since.get(slug)

    def was_open(self, slug: str, since: float) -> bool:
        """Whether an inbox was certainly open all the time since then."""
        return self._open_since.get(slug, trio.current_time() + 1) <= since


class Doorkeeper(Person):
    """Changes the scope of the visitors' token."""

    def __init__(self, machine: Machine, name: str, token: str, door: Door) -> None:
        super().__init__(machine, name, token)
        self._door = door

    async def act(self) -> None:
        """Open or close something."""
        await self._set(self.chance.choice(SCOPES))

    async def finish(self) -> None:
        """Open both, for everybody to see what is left."""
        self.hangs_up = 0.0
        while not await self._set(BOTH):
            pass

    async def _set(self, scope: tuple[str, ...]) -> bool:
        self._door.changing(scope)
        target = f"/v1/tokens/{self._door.token_id}"
        reply = await self.ask("PATCH", target, {"inboxes": list(scope)})
        if reply is None or reply.status not in DONE:
            if reply is not None and reply.status not in (503, 507):
                self.find(f"the scope was not changed: {reply.status} {reply.body.decode()}")
            return False
        self._door.changed(scope)
        return True


class _Visiting(Pager):
    """What both readers of pages see to: `door` is set by whoever makes them."""

    door: Door

    async def _took(
        self, slug: str, asked: dict[str, Any], told: tuple[str, Any] | None
    ) -> list[tuple[int, bytes]] | None:
        rows = await super()._took(slug, asked, told)
        if rows is not None:
            closed = self.door.closed_since(slug)
            if closed is not None and closed < self.asked_at:
                self.find(f"asked for {slug} when it was closed, and was answered")
        return rows

    def _refused(self, slug: str, epoch: str | None, code: str, text: str) -> None:
        if code == "not_found" and not self.door.was_open(slug, self.asked_at):
            return
        super()._refused(slug, epoch, code, text)


class Visitor(_Visiting):
    """Reads pages."""


class WaitingVisitor(_Visiting, Waiter):
    """Waits. A page is authorised when it is asked for; a wait, whenever it looks."""

    async def _took(
        self, slug: str, asked: dict[str, Any], told: tuple[str, Any] | None
    ) -> list[tuple[int, bytes]] | None:
        rows = await super()._took(slug, asked, told)
        if told is not None and rows:
            check(self, self.door, slug, told[1]["epoch"], [seq for seq, _ in rows])
        return rows


class VisitingStreamer(Streamer):
    """Streams."""

    door: Door

    def _refused(self, status: int, body: bytes) -> None:
        if status == 404 and not all(self.door.was_open(slug, self.asked_at) for slug in self._slugs):
            self._start_over()
            return
        super()._refused(status, body)

    def _message(self, told: Any, since: float) -> None:
        check(self, self.door, told["inbox"], told["epoch"], [int(told["seq"])])
        super()._message(told, since)


def check(who: Person, door: Door, slug: str, epoch: str, seqs: list[int]) -> None:
    """Find out whether somebody was shown what came after the inbox had been closed."""
    closed = door.closed_since(slug)
    life = who.machine.ledger.lives.get(epoch)
    if closed is None or life is None:
        return
    for seq in seqs:
        entry = life.entries.get(seq)
        if entry is not None and entry.since > closed:
            who.find(f"was shown {slug} {seq}, which came when it was closed")
