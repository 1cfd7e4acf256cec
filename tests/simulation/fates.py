"""What happens to the machine: restarts, crashes, the weather of its disk, a clock that is set; its administrator."""

from tests.simulation.people import Person
from tests.simulation.schedule import chance_of
from tests.simulation.senders import HOOKS, PLAIN, SECRET
from tests.simulation.world import Machine
from tests.virtual import pass_time

SPELL_SECONDS = 4.0
DOWN_SECONDS = 2.0
STEP_US = 5_000_000
"""How far the clock is set on or back at most, at a time."""

MADE = {
    HOOKS: {"slug": HOOKS, "verifier": "github", "secret": SECRET.decode()},
    PLAIN: {"slug": PLAIN, "verifier_options": {"event_type": ["header:x-github-event"]}},
}
"""What the inboxes are made of."""

DONE = (200, 201, 204)


async def restarts(machine: Machine) -> None:
    """End and start the server now and then, in order or not."""
    chance, shape = chance_of(machine.seed, "restarts"), machine.shape
    while shape.restart_every and not machine.over.is_set():
        await pass_time(chance.expovariate(1 / shape.restart_every))
        if machine.over.is_set():
            return
        if chance.random() < shape.crash:
            await (machine.crash() if chance.random() < 0.8 else machine.stop_halfway())
        else:
            await machine.stop()
        await pass_time(chance.uniform(0, DOWN_SECONDS))
        if chance.random() < shape.crash / 4:
            await machine.start_halfway()
        await machine.start()


async def weather(machine: Machine) -> None:
    """Let the disk have troubles, one after the other."""
    chance, shape = chance_of(machine.seed, "weather"), machine.shape
    while shape.spells and not machine.over.is_set():
        await pass_time(chance.expovariate(1 / shape.spell_every))
        machine.disk.spell = chance.choice(shape.spells)
        machine.ledger.note(f"disk: {machine.disk.spell}")
        await pass_time(chance.uniform(0.2, SPELL_SECONDS))
        machine.disk.note_trouble()
        machine.disk.spell = ""
        machine.ledger.note("disk: well again")
    machine.disk.spell = ""


async def clock(machine: Machine) -> None:
    """Set the machine's clock on and back."""
    chance = chance_of(machine.seed, "clock")
    while machine.shape.clock_steps and not machine.over.is_set():
        await pass_time(chance.expovariate(0.5))
        machine.day.set_by_us += chance.randint(-STEP_US, STEP_US)
        machine.ledger.note(f"clock: set by {machine.day.set_by_us} µs")


class Admin(Person):
    """Changes inboxes: what they keep, what is in them, and whether they are there at all."""

    async def act(self) -> None:
        """Change something."""
        slug = self.chance.choice((HOOKS, PLAIN))
        shape = self.machine.shape
        hows = [self._rename, self._list]
        if shape.limits:
            hows += [self._limit, self._limit, self._purge]
        if shape.ages:
            hows += [self._age, self._age]
        if shape.erasing:
            hows += [self._erase, self._erase]
        if shape.deleting:
            hows += [self._delete]
        await self.chance.choice(hows)(slug)

    async def finish(self) -> None:
        """Leave everything in its place."""
        self.hangs_up = 0.0
        await self._restore(HOOKS)
        await self._restore(PLAIN)

    async def _change(self, method: str, target: str, body: object = None, *also: int) -> int:
        """Ask for a change, and return the status of the answer; 0 without one."""
        reply = await self.ask(method, target, body)
        if reply is None:
            return 0
        if reply.status not in (*DONE, *also, 503, 507) and not (
            reply.status == 404 and self.machine.shape.deleting
        ):
            self.find(f"{method} {target} was refused: {reply.status} {reply.body.decode()}")
        return reply.status

    async def _rename(self, slug: str) -> None:
        await self._change("PATCH", f"/v1/inboxes/{slug}", {"name": f"name {self.chance.randint(0, 99)}"})

    async def _list(self, slug: str) -> None:
        await self._change("GET", "/v1/inboxes")
        await self._change("GET", f"/v1/inboxes/{slug}/readers")

    async def _limit(self, slug: str) -> None:
        most = self.chance.choice((self.machine.shape.limits, 1_000))
        await self._change("PATCH", f"/v1/inboxes/{slug}", {"retention": {"max_messages": most}})

    async def _age(self, slug: str) -> None:
        seconds = self.chance.choice((self.machine.shape.ages, None))
        await self._change("PATCH", f"/v1/inboxes/{slug}", {"retention": {"max_age_seconds": seconds}})

    async def _purge(self, slug: str) -> None:
        await self._change("POST", f"/v1/inboxes/{slug}:purge")

    async def _erase(self, slug: str) -> None:
        life = self.machine.ledger.now_living(slug)
        kept = [] if life is None else life.kept()
        if kept:
            seq = self.chance.choice(kept)[0]
            await self._change("DELETE", f"/v1/inboxes/{slug}/messages/{seq}", None, 404)

    async def _delete(self, slug: str) -> None:
        await self._change("DELETE", f"/v1/inboxes/{slug}")
        await pass_time(self.chance.uniform(0, 0.5))
        await self._restore(slug)

    async def _restore(self, slug: str) -> None:
        """Make an inbox that is not there, however long it takes."""
        while self.machine.ledger.now_living(slug) is None:
            await self._change("POST", "/v1/inboxes", MADE[slug], 409)
            await pass_time(0.3)
